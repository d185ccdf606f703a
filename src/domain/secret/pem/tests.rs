use crate::domain::secret::check;

const CA: &str = include_str!("../../../../tests/data/ca.pem");

fn problem(key: &str, text: &str) -> String {
    let checked = check(key, text.as_bytes());
    assert_eq!(checked.problems.len(), 1, "{text}: {checked:?}");
    checked.problems[0].to_string()
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = data_encoding::BASE64.encode(der);
    let lines = text.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap());
    let lines: Vec<&str> = lines.collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// Of ring's three kinds of keys, in PKCS #8.
fn keys() -> Vec<Vec<u8>> {
    let kinds = [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519];
    kinds.map(|kind| rcgen::KeyPair::generate_for(kind).unwrap().serialize_der()).to_vec()
}

fn certificate(year: i32) -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["a.example.org".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(year, 1, 2);
    params.self_signed(&key).unwrap().pem()
}

#[test]
fn the_first_certificate_to_expire_counts() {
    let chain =
        format!("subject: x\n{}junk\r\n{}{CA}", certificate(2033), certificate(2031).replace('\n', "\r\n"));
    for name in ["a.pem", "a.crt", "b/A.CER"] {
        let checked = check(name, chain.as_bytes());
        assert_eq!(checked.expires.unwrap().to_string(), "2031-01-02T00:00:00Z");
        assert!(checked.is_good() && checked.warnings.is_empty());
    }
    let der = data_encoding::BASE64
        .decode(CA.lines().filter(|line| !line.starts_with('-')).collect::<String>().as_bytes())
        .unwrap();
    assert_eq!(check("a.cer", &der).expires.unwrap().to_string(), "2126-11-07T15:06:09Z");
    assert!(!check("a.cer", &der[..der.len() - 1]).is_good());
}

#[test]
fn private_keys_are_told_from_what_is_none() {
    for der in keys() {
        let good = check("a.key", pem("PRIVATE KEY", &der).as_bytes());
        assert!(good.is_good() && good.expires.is_none(), "{good:?}");
        let cut = problem("a.key", &pem("PRIVATE KEY", &der[..der.len() - 1]));
        assert_eq!(cut, "line 1: begins a private key that is none, or not all of it");
        problem("a.key", &pem("RSA PRIVATE KEY", &der));
        problem("a.key", &pem("PRIVATE KEY", &[der.clone(), vec![0]].concat()));
        problem("a.key", &pem("EC PRIVATE KEY", b"\x30\x00"));
        problem("a.key", &pem("OPENSSH PRIVATE KEY", &der));
    }
    let integers = |count: usize| [&[0x30, 3 * count as u8], [2, 1, 1].repeat(count).as_slice()].concat();
    assert!(check("a.key", pem("RSA PRIVATE KEY", &integers(9)).as_bytes()).is_good());
    assert!(check("a.key", pem("DSA PRIVATE KEY", &integers(6)).as_bytes()).is_good());
    problem("a.key", &pem("RSA PRIVATE KEY", &integers(8)));
    let sec1 = b"\x30\x06\x02\x01\x01\x04\x01\x07";
    assert!(check("a.key", pem("EC PRIVATE KEY", sec1).as_bytes()).is_good());
    let sealed = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----";
    assert!(check("a.key", sealed.as_bytes()).is_good());
    let ssh = pem("OPENSSH PRIVATE KEY", b"openssh-key-v1\0rest");
    assert!(check("id.key", ssh.as_bytes()).is_good());
    // Random bytes are a key too, and nobody can say whether they are the right ones.
    let raw = check("a.key", &[7; 32]);
    assert!(raw.is_good() && raw.warnings.len() == 1);
}

#[test]
fn broken_blocks_are_named_with_their_line() {
    let cut = CA.replace("-----END CERTIFICATE-----", "");
    let cases = [
        (cut.as_str(), "line 1: begins a block that is not ended"),
        ("-----END CERTIFICATE-----\n", "line 1: ends a block that was not begun"),
        ("\n-----BEGIN CERTIFICATE----\n", "line 2: does not end with five dashes"),
        ("-----BEGIN A-----\n-----END B-----\n", "line 2: does not end the block that line 1 began"),
        (
            "-----BEGIN A-----\nAAAA\n-----BEGIN A-----\nx",
            "line 3: begins a block inside the one that line 1 began",
        ),
        ("-----BEGIN A-----\n-----END A-----\n", "line 1: begins a block with nothing in it"),
        (
            "-----BEGIN A-----\nS3cr*t\n-----END A-----\n",
            "line 1: begins a block that is no base64, or not all of it",
        ),
        (
            "-----BEGIN A-----\nAAAA\n-----END A-----\n",
            "line 1: begins a block that is none, or not all of it",
        ),
        (
            "x\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "line 2: begins a certificate that is none, or not all of it",
        ),
        ("no block at all\n", "line 1: holds no PEM block (-----BEGIN …-----)"),
    ];
    for (text, says) in cases {
        assert_eq!(problem("a.pem", text), says);
    }
    assert_eq!(problem("a.key", CA), "line 1: holds no private key, as its name says");
    let key = pem("PRIVATE KEY", &keys()[0]);
    assert_eq!(problem("a.crt", &key), "line 1: holds no certificate, as its name says");
    assert!(check("both.pem", format!("{key}{CA}").as_bytes()).is_good());
}
