//! The bucket's back end against a real AWS server.

use bytes::Bytes;
use hostwright::backend::s3::{Content, Which};
use hostwright::domain::aws::AwsErrorKind;
use hostwright::domain::bucket::{Condition, Encryption, KeyMark, PublicAccess, Told, Versioning};
use hostwright::domain::secret::Checksum;

use crate::cloud::{Cloud, permit};

fn bytes(text: &str) -> (Content, Checksum) {
    (Content::Bytes(Bytes::copy_from_slice(text.as_bytes())), Checksum::of(text.as_bytes()))
}

#[tokio::test]
async fn a_write_depends_on_what_was_seen() {
    let cloud = Cloud::new().await;
    let (bucket, permit) = (cloud.backend(), permit());
    let put = async |text: &str, condition: Condition| {
        let (content, sum) = bytes(text);
        bucket.put(&permit, "common/a", content, sum, "olga@console", &condition).await
    };
    let first = put("one", Condition::IsNot).await.unwrap();
    assert!(first.version.is_some());
    assert_eq!(put("two", Condition::IsNot).await.unwrap_err().kind, AwsErrorKind::Conflict);
    let second = put("two", Condition::Is(first.etag.clone())).await.unwrap();
    assert_eq!(
        put("three", Condition::Is(first.etag.clone())).await.unwrap_err().kind,
        AwsErrorKind::Conflict
    );
    assert_eq!(cloud.text("common/a").await, "two");
    // The answer to this very write was lost, and it is tried again.
    assert_eq!(put("two", Condition::Is(first.etag.clone())).await.unwrap(), second);

    let facts = bucket.head("common/a").await.unwrap().unwrap();
    assert_eq!((facts.etag.as_str(), facts.size), (second.etag.as_str(), 3));
    assert_eq!(facts.encryption.mark(&cloud.key), KeyMark::Right, "{:?}", facts.encryption);
    assert_eq!(facts.sha256.as_deref(), Some(Checksum::of(b"two").to_string().as_str()));
    assert_eq!(facts.by.as_deref(), Some("olga@console"));

    let removed = bucket.remove(&permit, "common/a", &first.etag).await;
    assert_eq!(removed.unwrap_err().kind, AwsErrorKind::Conflict);
    bucket.remove(&permit, "common/a", &second.etag).await.unwrap();
    assert_eq!(bucket.head("common/a").await.unwrap(), None);
}

#[tokio::test]
async fn a_listing_has_every_page_and_every_key() {
    let cloud = Cloud::new().await;
    let odd = "common/a b+c%2B&=?#é\u{1f}\"'<>.txt";
    let keys: Vec<String> = (0..1_203).map(|n| format!("compute/{n:04}")).chain([odd.to_owned()]).collect();
    let puts = keys.iter().map(|key| cloud.put(key, "x"));
    futures_util::future::join_all(puts).await;
    let bucket = cloud.backend();
    let mut listed: Vec<String> = bucket.list_all("").await.unwrap().into_iter().map(|o| o.key).collect();
    listed.sort();
    let mut expected = keys.clone();
    expected.sort();
    assert_eq!(listed, expected);
    let part = bucket.list_all("compute/00").await.unwrap();
    assert_eq!(part.len(), 100);
    let download = bucket.get(odd, &Which::Newest).await.unwrap().unwrap();
    assert_eq!(download.all(10).await.unwrap(), b"x");
    // (This server does not encode the keys of versions, and a control character is no XML.)
    let counts = bucket.version_counts("compute/").await.unwrap();
    assert_eq!((counts.len(), counts["compute/1202"]), (1_203, 1));
}

#[tokio::test]
async fn old_versions_are_kept_and_read() {
    let cloud = Cloud::new().await;
    let (bucket, permit) = (cloud.backend(), permit());
    for text in ["one", "two", "three"] {
        cloud.put("secure/pki/ca.pem", text).await;
    }
    cloud.put("secure/pki/ca.pem.old", "other").await;
    let newest = bucket.head("secure/pki/ca.pem").await.unwrap().unwrap();
    bucket.remove(&permit, "secure/pki/ca.pem", &newest.etag).await.unwrap();
    let versions = bucket.versions("secure/pki/ca.pem").await.unwrap();
    let latest: Vec<(bool, bool)> = versions.iter().map(|v| (v.latest, v.content.is_some())).collect();
    assert_eq!(latest, [(true, false), (false, true), (false, true), (false, true)]);
    let mut texts = Vec::new();
    for version in versions.iter().filter(|v| v.content.is_some()) {
        let download = bucket.get("secure/pki/ca.pem", &Which::Version(version.id.clone())).await.unwrap();
        texts.push(String::from_utf8(download.unwrap().all(100).await.unwrap()).unwrap());
    }
    texts.sort();
    assert_eq!(texts, ["one", "three", "two"]);
    assert_eq!(bucket.version_counts("secure/").await.unwrap()["secure/pki/ca.pem"], 3);
    assert!(bucket.get("secure/pki/ca.pem", &Which::Newest).await.unwrap().is_none());
}

#[tokio::test]
async fn the_buckets_own_settings_are_told() {
    let cloud = Cloud::new().await;
    cloud.put("common/a", "x").await;
    let settings = cloud.backend().settings().await.unwrap();
    assert_eq!(settings.public_access, Told::Known(PublicAccess::Blocked));
    assert_eq!(settings.versioning, Told::Known(Versioning::Enabled));
    assert_eq!(settings.warnings(&cloud.key), [None, None, None], "{settings:?}");
    cloud.create(&format!("{}-bare", cloud.bucket)).await;
    let bare =
        hostwright::backend::s3::Bucket::new(&cloud.sdk, true, &format!("{}-bare", cloud.bucket), &cloud.key);
    let settings = bare.settings().await.unwrap();
    assert_eq!(settings.public_access, Told::Known(PublicAccess::Open));
    // (What this server answers for it is not what S3 does.)
    assert_ne!(settings.versioning, Told::Known(Versioning::Enabled));
    assert!(
        matches!(settings.encryption, Told::Known(Encryption::None | Encryption::Bucket)),
        "{settings:?}"
    );
    assert!(settings.warnings(&cloud.key).iter().all(Option::is_some));
    let nowhere = hostwright::backend::s3::Bucket::new(&cloud.sdk, true, "there-is-none", &cloud.key);
    let error = nowhere.list_all("").await.unwrap_err();
    assert_eq!(error.kind, AwsErrorKind::NoBucket);
    let error = nowhere.get("common/a", &Which::Newest).await.unwrap_err();
    assert!(
        error.to_string().contains("there is no such bucket"),
        "a missing bucket is no missing object: {error}"
    );
    assert!(error.to_string().contains("there is no such bucket"), "{error}");
}

#[tokio::test]
async fn content_that_is_not_what_was_looked_at_does_not_get_in() {
    let cloud = Cloud::new().await;
    let bucket = cloud.backend();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), vec![7; 3 * 1024 * 1024]).unwrap();
    let sum = Checksum::of(&vec![7; 3 * 1024 * 1024]);
    let content = || Content::File(file.reopen().unwrap(), 3 * 1024 * 1024);
    let permit = permit();
    bucket.put(&permit, "compute/large", content(), sum, "olga", &Condition::IsNot).await.unwrap();
    let mut download = bucket.get("compute/large", &Which::Newest).await.unwrap().unwrap();
    let mut size = 0;
    while let Some(piece) = download.next().await.unwrap() {
        size += piece.len();
    }
    assert_eq!(size, 3 * 1024 * 1024);
    let closed = hostwright::backend::s3::Bucket::new(
        &crate::cloud::sdk("http://127.0.0.1:1", "a").await,
        true,
        "b",
        "k",
    );
    assert_eq!(closed.head("x").await.unwrap_err().kind, AwsErrorKind::Unreachable);
}
