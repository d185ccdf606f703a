//! The token file: `token,user,uid,"group1,group2"`, a token a line.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{LineNote, Read, csv, text};

/// Who somebody is: what a TokenReview answers with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The user's name.
    pub username: String,
    /// What tells two users of one name apart.
    pub uid: String,
    /// The groups, without those that the API server adds by itself (`system:authenticated`).
    pub groups: Vec<String>,
}

/// One line of a token file. Its token is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenEntry {
    /// The line it begins on, from 1.
    pub line: usize,
    /// The bearer token.
    pub token: String,
    /// Whose it is.
    pub identity: Identity,
}

impl std::fmt::Debug for TokenEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenEntry")
            .field("line", &self.line)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// Reads a token file, as the API server's `--token-auth-file` does, but for this: a token that stands there twice is refused (there
/// the last one wins silently), and so is a line without a user's name.
///
/// A line whose token is empty is skipped with a warning, as there: `,nobody,none` alone is how a file says that it has no tokens.
///
/// # Errors
/// The first line that cannot be read, and why.
pub fn parse_tokens(bytes: &[u8]) -> Result<Read<Vec<TokenEntry>>, LineNote> {
    let mut warnings = Vec::new();
    let mut entries = Vec::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for record in csv::records(text(bytes)?)? {
        let line = record.line;
        let found = record.fields.len();
        let mut fields = record.fields.into_iter();
        let (Some(token), Some(username), Some(uid)) = (fields.next(), fields.next(), fields.next()) else {
            let text = format!("needs token, user, uid and perhaps groups, and has {found} of them");
            return Err(LineNote::new(line, text));
        };
        if token.is_empty() {
            warnings.push(LineNote::new(line, "has no token: skipped"));
            continue;
        }
        if username.is_empty() {
            return Err(LineNote::new(line, "has no user's name"));
        }
        if let Some(first) = seen.insert(token.clone(), line) {
            return Err(LineNote::new(line, format!("has the token of line {first}: a token is one user's")));
        }
        // RFC 6750, 2.1: what a bearer token may be made of.
        if !token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=:".contains(&byte)) {
            warnings.push(LineNote::new(
                line,
                "the token holds characters that no Authorization header may hold",
            ));
        }
        let groups: Vec<String> = fields
            .next()
            .iter()
            .flat_map(|groups| groups.split(','))
            .filter(|g| !g.is_empty())
            .map(str::to_owned)
            .collect();
        if groups.iter().chain([&username]).any(|name| name.trim() != name) {
            warnings.push(LineNote::new(line, "a name begins or ends with a space, which is part of it"));
        }
        if fields.next().is_some() {
            warnings.push(LineNote::new(
                line,
                "has more than four fields: several groups go into one, in quotes",
            ));
        }
        entries.push(TokenEntry { line, token, identity: Identity { username, uid, groups } });
    }
    Ok(Read { value: entries, warnings })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_one_quoted_field() {
        let text =
            "t1,alice,1,\"system:masters,ops\"\nt2,bob,2\nt3,carol,3,dev\nt4,dan,4,\"\"\n,nobody,none\n";
        let read = parse_tokens(text.as_bytes()).unwrap();
        let seen: Vec<_> = read
            .value
            .iter()
            .map(|e| (e.line, e.token.as_str(), e.identity.username.as_str(), e.identity.groups.join(" ")))
            .collect();
        let expected = [
            (1, "t1", "alice", "system:masters ops".to_owned()),
            (2, "t2", "bob", String::new()),
            (3, "t3", "carol", "dev".to_owned()),
            (4, "t4", "dan", String::new()),
        ];
        assert_eq!(seen, expected);
        assert_eq!(read.warnings, [LineNote::new(5, "has no token: skipped")]);
        assert!(parse_tokens(b",nobody,none").unwrap().value.is_empty());
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_line() {
        let cases: [(&[u8], usize, &str); 9] = [
            (b"", 1, "empty"),
            (b" \n\n", 1, "empty"),
            (b"a,b,c\nd,e", 2, "has 2 of them"),
            (b"a,b,c\n# a comment", 2, "has 1 of them"),
            (b"a,b,c\n\nd,e,f\na,g,h", 4, "of line 1"),
            (b"a,b,c\nd,,f", 2, "no user"),
            (b"a,b,c\nd,\0\0\0", 2, "NUL"),
            (b"a,b,c\nd,\xff,f", 2, "UTF-8"),
            (b"a,b,c\nd,e,f,\"g", 2, "not closed"),
        ];
        for (bytes, line, says) in cases {
            let error = parse_tokens(bytes).unwrap_err();
            assert!(error.line == line && error.text.contains(says), "{bytes:?}: {error}");
        }
    }

    #[test]
    fn nothing_said_of_a_file_repeats_a_token() {
        let read = parse_tokens(b"s\xc3\xa9cret,alice, 1,a ,b\nfine,bob,2\n").unwrap();
        assert_eq!(read.warnings.iter().map(|w| w.line).collect::<Vec<_>>(), [1, 1, 1]);
        let said = format!("{read:?}");
        assert!(!said.contains("cret") && !said.contains("fine"), "{said}");
        let error = parse_tokens(b"secret,bob,2\nsecret,alice,1\n").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
