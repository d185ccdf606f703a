//! Looking: the bucket's listing, the folder and what is remembered, put together by key.

use std::collections::{BTreeMap, HashMap};

use futures_util::{StreamExt as _, stream};
use jiff::Timestamp;

use super::{AT_ONCE, Secrets, blocking};
use crate::backend::folder::{Folder, Found, Stamp, Stat};
use crate::domain::bucket::{self, BucketSettings, KeyMark, Object, Told};
use crate::domain::manifest::STATUS_PREFIX;
use crate::domain::secret::{
    BucketFacts, CHECK_LIMIT, Encryption, FileState, Format, Index, Listed, LocalFact, RelativePath,
    RemoteFact, SecretListing, SecretRow, Setting, Skip, check, compare, plan, shown,
};
use crate::ops::OpError;

/// How closely it is looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// What a listing and the folder say.
    Listing,
    /// Every object's encryption, the number of versions, and the bucket's settings too.
    Details,
}

/// What was looked at before, and need not be looked at again while it is the same.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Files by their state: what they are, and when the first certificate in them expires.
    files: HashMap<RelativePath, (Stamp, LocalFact, Option<Timestamp>)>,
    /// Objects by key and ETag: how they are encrypted.
    objects: HashMap<String, (String, bucket::Encryption)>,
}

/// A secret with all that is known of it.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) path: RelativePath,
    pub(super) local: Option<Local>,
    pub(super) object: Option<Object>,
    pub(super) state: FileState,
}

/// A file of the folder.
#[derive(Debug, Clone)]
pub(super) struct Local {
    pub(super) fact: LocalFact,
    pub(super) stamp: Stamp,
    modified: i64,
    expires: Option<Timestamp>,
}

/// Everything, or the part that was asked for.
pub(super) struct Survey {
    pub(super) entries: Vec<Entry>,
    /// Objects that can be no files.
    pub(super) skipped: Vec<Skip>,
    /// What else is in the folder.
    odd: Vec<(String, String)>,
}

impl Listed for Object {
    fn key(&self) -> &str {
        &self.key
    }

    fn size(&self) -> u64 {
        self.size
    }
}

impl Secrets {
    /// What is in the bucket and in the folder.
    ///
    /// # Errors
    /// When the bucket or the folder cannot be read. A listing that broke off is no answer.
    pub async fn look(&self, depth: Depth) -> Result<SecretListing, OpError> {
        let (folder, index) = self.read_folder().await?;
        let survey = self.survey("", |_| true, folder, &index).await?;
        let (encryption, versions, settings, key) = match depth {
            Depth::Listing => (HashMap::new(), None, None, String::new()),
            Depth::Details => Box::pin(self.details(&survey)).await?,
        };
        let mut rows: Vec<SecretRow> = survey
            .entries
            .iter()
            .map(|entry| {
                let used = encryption.get(&entry.key);
                row(entry, used, &key, versions.as_ref())
            })
            .collect();
        let named = survey.skipped.iter().filter(|skip| !skip.reason.is_quiet());
        rows.extend(named.map(|skip| left_out(&skip.key, skip.reason.to_string(), FileState::OnlyThere)));
        rows.extend(survey.odd.iter().map(|(path, why)| left_out(path, why.clone(), FileState::OnlyHere)));
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(SecretListing { facts: self.facts(settings.as_ref(), &key), rows, incomplete: None })
    }

    fn facts(&self, settings: Option<&BucketSettings>, key: &str) -> BucketFacts {
        let unread = || Setting::Unknown("not asked for".to_owned());
        let known = settings.map(|settings| settings_of(settings, key));
        let [public_access, versioning, encryption] = known.unwrap_or_else(|| [unread(), unread(), unread()]);
        BucketFacts {
            bucket: self.inner.bucket.name().to_owned(),
            folder: self.inner.folder.display().to_string(),
            public_access,
            versioning,
            encryption,
        }
    }

    /// The secrets whose keys start so and that are wanted.
    pub(super) async fn survey(
        &self,
        prefix: &str,
        wanted: impl Fn(&str) -> bool,
        folder: Option<Folder>,
        index: &Index,
    ) -> Result<Survey, OpError> {
        // What the nodes say of themselves is no secret, and nobody's to fetch.
        let wanted = |key: &str| wanted(key) && !key.starts_with(STATUS_PREFIX);
        let listing = async { self.inner.bucket.list_all(prefix).await.map_err(OpError::from) };
        let walk = async {
            let Some(folder) = folder.clone() else { return Ok(Vec::new()) };
            blocking(move || {
                let mut found = Vec::new();
                folder.walk(|one| found.push(one))?;
                Ok(found)
            })
            .await
        };
        let (objects, found) = futures_util::try_join!(listing, walk)?;
        let mut files = Vec::new();
        let mut odd = Vec::new();
        for one in found {
            match one {
                Found::File { path, stat } if path.as_str().starts_with(prefix) && wanted(path.as_str()) => {
                    files.push((path, stat));
                }
                Found::File { .. } => {}
                Found::Odd { path, what } => odd.push((path, format!("it is {what}"))),
                Found::Unnamable { path, reason } => odd.push((
                    path,
                    reason.map_or_else(|| "its name is not UTF-8".to_owned(), |reason| reason.to_string()),
                )),
            }
        }
        let mut locals = self.locals(folder, files).await?;
        let plan = plan(objects);
        let mut entries = Vec::new();
        for (path, object) in plan.files {
            if wanted(&object.key) {
                let local = locals.remove(&path);
                entries.push(entry(object.key.clone(), path, index, local, Some(object)));
            }
        }
        for (path, local) in locals {
            entries.push(entry(path.as_str().to_owned(), path, index, Some(local), None));
        }
        let skipped = plan.skipped.into_iter().filter(|skip| wanted(&skip.key)).collect();
        entries.retain(|entry| entry.state != FileState::Nowhere);
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Survey { entries, skipped, odd })
    }

    /// What the files are. Those that are as they were looked at are not read again.
    async fn locals(
        &self,
        folder: Option<Folder>,
        files: Vec<(RelativePath, Stat)>,
    ) -> Result<BTreeMap<RelativePath, Local>, OpError> {
        let Some(folder) = folder else { return Ok(BTreeMap::new()) };
        let mut looked = self.inner.looked.lock().await;
        let mut known = std::mem::take(&mut looked.files);
        let (locals, known) = blocking(move || {
            let mut locals = BTreeMap::new();
            for (path, stat) in files {
                let read = match known.remove(&path) {
                    Some(read) if read.0 == stat.stamp => Some(read),
                    _ => read(&folder, &path)?,
                };
                if let Some((stamp, fact, expires)) = read {
                    locals.insert(path, Local { fact, stamp, modified: stat.modified, expires });
                }
            }
            Ok((locals, known))
        })
        .await?;
        looked.files = known;
        let again =
            locals.iter().map(|(path, local)| (path.clone(), (local.stamp, local.fact, local.expires)));
        looked.files.extend(again);
        Ok(locals)
    }

    /// How every object is encrypted, how many versions each has, the bucket's settings, and the environment's key.
    #[allow(clippy::type_complexity, reason = "four answers to one question, used once")]
    async fn details(
        &self,
        survey: &Survey,
    ) -> Result<
        (
            HashMap<String, bucket::Encryption>,
            Option<BTreeMap<String, usize>>,
            Option<BucketSettings>,
            String,
        ),
        OpError,
    > {
        let counts = async {
            match self.inner.bucket.version_counts("").await {
                Ok(counts) => Some(counts),
                Err(error) => {
                    tracing::debug!(%error, "versions are not counted");
                    None
                }
            }
        };
        let settings = async { self.inner.bucket.settings().await.map_err(OpError::from) };
        let (encryption, counts, settings, key) =
            tokio::join!(self.encryption(survey), counts, settings, self.key());
        Ok((encryption?, counts, Some(settings?), key.to_owned()))
    }

    async fn encryption(&self, survey: &Survey) -> Result<HashMap<String, bucket::Encryption>, OpError> {
        let mut looked = self.inner.looked.lock().await;
        let known = std::mem::take(&mut looked.objects);
        let objects = survey.entries.iter().filter_map(|entry| entry.object.as_ref());
        let heads = objects.map(|object| {
            let known = known.get(&object.key).filter(|(etag, _)| *etag == object.etag);
            async move {
                if let Some((_, encryption)) = known {
                    return Some((object.key.clone(), (object.etag.clone(), encryption.clone())));
                }
                match self.inner.bucket.head(&object.key).await {
                    Ok(facts) => {
                        facts.map(|facts| (object.key.clone(), (object.etag.clone(), facts.encryption)))
                    }
                    Err(error) => {
                        tracing::debug!(%error, "its encryption is not known");
                        None
                    }
                }
            }
        });
        let heads: Vec<_> = heads.collect();
        let read: Vec<_> = stream::iter(heads).buffer_unordered(AT_ONCE).collect().await;
        looked.objects = read.into_iter().flatten().collect();
        Ok(looked.objects.iter().map(|(key, (_, encryption))| (key.clone(), encryption.clone())).collect())
    }
}

fn read(
    folder: &Folder,
    path: &RelativePath,
) -> Result<Option<(Stamp, LocalFact, Option<Timestamp>)>, OpError> {
    let Some((fact, stamp)) = folder.hash(path)? else { return Ok(None) };
    let expires = if Format::of(path.as_str()) == Format::Pem && fact.size <= CHECK_LIMIT as u64 {
        folder.read(path, CHECK_LIMIT as u64)?.and_then(|bytes| check(path.as_str(), &bytes).expires)
    } else {
        None
    };
    Ok(Some((stamp, fact, expires)))
}

fn entry(
    key: String,
    path: RelativePath,
    index: &Index,
    local: Option<Local>,
    object: Option<Object>,
) -> Entry {
    let remote = object.as_ref().map(|object| RemoteFact {
        etag: object.etag.clone(),
        version_id: None,
        size: object.size,
    });
    let state = compare(index.get(&key), local.as_ref().map(|local| &local.fact), remote.as_ref());
    Entry { key, path, local, object, state }
}

fn row(
    entry: &Entry,
    used: Option<&bucket::Encryption>,
    key: &str,
    versions: Option<&BTreeMap<String, usize>>,
) -> SecretRow {
    let local = entry.local.as_ref();
    let object = entry.object.as_ref();
    let size = object.map(|object| object.size).or(local.map(|local| local.fact.size));
    let here = local.and_then(|local| Timestamp::from_second(local.modified).ok());
    SecretRow {
        key: entry.key.clone(),
        state: entry.state,
        size: size.unwrap_or(0),
        modified: object.and_then(|object| object.modified).or(here),
        etag: object.map(|object| object.etag.clone()),
        encryption: match (object, used) {
            (None, _) => Encryption::Nothing,
            (Some(_), None) => Encryption::NotRead,
            (Some(_), Some(used)) => encryption_of(used, key),
        },
        versions: versions.and_then(|counts| counts.get(&entry.key).copied()),
        expires: local.and_then(|local| local.expires),
        problem: None,
    }
}

fn encryption_of(used: &bucket::Encryption, key: &str) -> Encryption {
    match (used.mark(key), used) {
        (KeyMark::Right, _) => Encryption::Ours,
        (_, bucket::Encryption::Kms(other)) => Encryption::OtherKey(other.clone()),
        (_, bucket::Encryption::None) => Encryption::NotKms(None),
        (_, other) => Encryption::NotKms(Some(other.words())),
    }
}

fn left_out(key: &str, problem: String, state: FileState) -> SecretRow {
    SecretRow {
        key: key.to_owned(),
        state,
        size: 0,
        modified: None,
        etag: None,
        encryption: Encryption::NotRead,
        versions: None,
        expires: None,
        problem: Some(problem),
    }
}

fn settings_of(settings: &BucketSettings, key: &str) -> [Setting; 3] {
    let one = |good: &str, warning: Option<String>, known: bool| match (warning, known) {
        (None, _) => Setting::Good(good.to_owned()),
        (Some(text), true) => Setting::Bad(text),
        (Some(text), false) => Setting::Unknown(text),
    };
    let [public, versions, encryption] = settings.warnings(key);
    let encrypted = match &settings.encryption {
        Told::Known(encryption) => encryption.words(),
        Told::Unknown(_) => String::new(),
    };
    [
        one("blocked", public, matches!(settings.public_access, Told::Known(_))),
        one("enabled", versions, matches!(settings.versioning, Told::Known(_))),
        one(&encrypted, encryption, matches!(settings.encryption, Told::Known(_))),
    ]
}

/// The longest text that all keys begin with.
pub(super) fn common_prefix<'a>(mut keys: impl Iterator<Item = &'a str>) -> String {
    let Some(first) = keys.next() else { return String::new() };
    let mut prefix = first.to_owned();
    for key in keys {
        while !key.starts_with(&prefix) {
            prefix.pop();
        }
    }
    prefix
}

/// A key that is told in an error.
pub(super) fn name(key: &str) -> String {
    shown(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keys_have_in_common() {
        let prefix = |keys: &[&str]| common_prefix(keys.iter().copied());
        assert_eq!(prefix(&["common/a", "common/b/c"]), "common/");
        assert_eq!(prefix(&["é1", "è2"]), "", "a part of a letter is none");
        assert_eq!((prefix(&["x"]), prefix(&[])), ("x".to_owned(), String::new()));
    }
}
