use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Mutex;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::domain::aws::{AwsError, AwsErrorKind};
use crate::domain::bucket::Object;
use crate::domain::manifest::{NodeStatus, Prefix};
use crate::domain::secret::{Checksum, relative};

fn permit() -> Permit {
    crate::config::load_with(&crate::config::Sources::default(), &crate::config::Variables::default())
        .unwrap()
        .permit()
        .unwrap()
}

/// A bucket in memory, that breaks where it is told to.
#[derive(Debug, Default)]
struct Bucket {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Every page from this one on is an error.
    breaks: Mutex<Option<usize>>,
    /// The object whose content ends early, and the one that is longer than it was listed.
    short: Mutex<Option<String>>,
    long: Mutex<Option<String>>,
    opened: Mutex<Vec<String>>,
    told: Mutex<Vec<Vec<u8>>>,
    deaf: Mutex<bool>,
}

fn broken() -> AwsError {
    AwsError::new(AwsErrorKind::Unreachable, "list the bucket", "it broke off")
}

fn etag(bytes: &[u8]) -> String {
    format!("\"{}\"", Checksum::of(bytes))
}

impl Store for &Bucket {
    type Pages = (String, usize);
    type Body = std::vec::IntoIter<Result<Bytes, AwsError>>;

    fn name(&self) -> &str {
        "b"
    }

    fn list(&self, prefix: &str) -> Self::Pages {
        (prefix.to_owned(), 0)
    }

    async fn page(&self, (prefix, at): &mut Self::Pages) -> Result<Option<Vec<Object>>, AwsError> {
        if self.breaks.lock().unwrap().is_some_and(|breaks| *at >= breaks) {
            return Err(broken());
        }
        let objects = self.objects.lock().unwrap();
        let object = |(key, bytes): (&String, &Vec<u8>)| Object {
            key: key.clone(),
            etag: etag(bytes),
            size: bytes.len() as u64,
            modified: None,
        };
        let all = objects.iter().filter(|(key, _)| key.starts_with(prefix.as_str()));
        let page: Vec<Object> = all.skip(*at * 2).take(2).map(object).collect();
        *at += 1;
        Ok(Some(page).filter(|page| !page.is_empty()))
    }

    async fn open(&self, object: &Object) -> Result<Option<Opened<Self::Body>>, AwsError> {
        self.opened.lock().unwrap().push(object.key.clone());
        let Some(bytes) = self.objects.lock().unwrap().get(&object.key).cloned() else { return Ok(None) };
        if etag(&bytes) != object.etag {
            return Ok(None);
        }
        let mut pieces: Vec<_> = bytes.chunks(3).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        if self.short.lock().unwrap().as_ref() == Some(&object.key) {
            *pieces.last_mut().unwrap() = Err(broken());
        }
        if self.long.lock().unwrap().as_ref() == Some(&object.key) {
            pieces.push(Ok(Bytes::from_static(b"more")));
        }
        Ok(Some(Opened { version_id: Some("v1".to_owned()), body: pieces.into_iter() }))
    }

    async fn piece(&self, body: &mut Self::Body) -> Result<Option<Bytes>, AwsError> {
        body.next().transpose()
    }

    async fn tell(&self, key: &str, bytes: Vec<u8>) -> Result<(), AwsError> {
        assert_eq!(key, "status/sync/node-1.json");
        if *self.deaf.lock().unwrap() {
            return Err(AwsError::new(AwsErrorKind::Forbidden, "write", "we may not"));
        }
        self.told.lock().unwrap().push(bytes);
        Ok(())
    }
}

impl Bucket {
    fn put(&self, key: &str, text: &str) {
        self.objects.lock().unwrap().insert(key.to_owned(), text.as_bytes().to_vec());
    }

    fn remove(&self, key: &str) {
        self.objects.lock().unwrap().remove(key);
    }

    fn opened(&self) -> Vec<String> {
        let mut opened = std::mem::take(&mut *self.opened.lock().unwrap());
        opened.sort();
        opened
    }

    fn told(&self) -> Vec<NodeStatus> {
        let node = NodeName::parse("node-1").unwrap();
        let told = std::mem::take(&mut *self.told.lock().unwrap());
        told.iter().map(|bytes| NodeStatus::parse(&node, bytes).unwrap()).collect()
    }
}

/// A folder of a test's own.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join("to").join(below)
    }

    fn read(&self, below: &str) -> Option<String> {
        std::fs::read_to_string(self.path(below)).ok()
    }

    fn options(&self, command: Option<&[&str]>) -> SyncOptions {
        let command = command.map(|argv| OwnCommand {
            argv: argv.iter().map(OsString::from).collect(),
            limit: Duration::from_secs(60),
            variables: Vec::new(),
            folder: self.0.path().to_owned(),
        });
        SyncOptions {
            scope: Scope::new(vec![Prefix::parse("m").unwrap(), Prefix::parse("n").unwrap()], false).unwrap(),
            node: NodeName::parse("node-1").unwrap(),
            tells: true,
            heartbeat: Duration::from_secs(300),
            command,
        }
    }

    async fn open<'b>(&self, bucket: &'b Bucket, command: Option<&[&str]>) -> Syncer<&'b Bucket> {
        Syncer::open(bucket, permit(), &self.path(""), self.options(command)).await.unwrap()
    }
}

async fn round(syncer: &mut Syncer<&Bucket>) -> Round {
    syncer.round(&CancellationToken::new()).await.unwrap()
}

fn written(round: &Round) -> Vec<(&str, Why)> {
    round.written.iter().map(|(path, why)| (path.as_str(), *why)).collect()
}

#[tokio::test]
async fn it_takes_follows_and_puts_back_and_reads_nothing_while_nothing_changes() {
    let (bucket, place) = (Bucket::default(), Place::new());
    bucket.put("m/a", "one");
    bucket.put("m/b/c", "two, longer");
    bucket.put("n/x", "");
    bucket.put("other/x", "not asked for");
    let mut syncer = place.open(&bucket, None).await;
    let first = round(&mut syncer).await;
    assert_eq!(written(&first), [("m/a", Why::New), ("m/b/c", Why::New), ("n/x", Why::New)]);
    assert_eq!((place.read("m/b/c").as_deref(), place.read("other/x")), (Some("two, longer"), None));
    let mode = |path: &str| std::fs::metadata(place.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("m/a"), mode("m")), (0o600, 0o700));

    bucket.opened();
    let idle = round(&mut syncer).await;
    assert!(idle.is_well() && !idle.changed() && idle.kept == 3, "{idle:?}");
    assert_eq!(bucket.opened(), [""; 0]);
    assert_eq!(syncer.counters().borrow().pages, 2 * 2, "a page of each folder");

    // The same after a restart: files are read, objects are not.
    drop(syncer);
    let mut syncer = place.open(&bucket, None).await;
    assert!(!round(&mut syncer).await.changed() && bucket.opened().is_empty());

    std::fs::write(place.path("m/a"), "two").unwrap();
    std::fs::remove_file(place.path("n/x")).unwrap();
    std::fs::set_permissions(place.path("m/b/c"), std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::write(place.path("m/mine"), "nobody's business").unwrap();
    bucket.put("m/d", "new");
    let mended = round(&mut syncer).await;
    assert_eq!(written(&mended), [("m/a", Why::Altered), ("m/d", Why::New), ("n/x", Why::Missing)]);
    assert_eq!((place.read("m/a").as_deref(), mode("m/b/c")), (Some("one"), 0o600));

    bucket.remove("m/b/c");
    bucket.remove("m/a");
    bucket.put("m/a/now", "a folder");
    let gone = round(&mut syncer).await;
    let removed: Vec<&str> = gone.removed.iter().map(RelativePath::as_str).collect();
    assert_eq!((removed, gone.problems.len()), (vec!["m/a", "m/b/c"], 0));
    assert_eq!(place.read("m/a/now").as_deref(), Some("a folder"));
    assert!(!place.path("m/b").exists(), "an empty folder stayed");
    assert_eq!(
        place.read("m/mine").as_deref(),
        Some("nobody's business"),
        "it was never taken from the bucket"
    );
    let counters = syncer.counters().borrow().clone();
    assert_eq!((counters.rounds, counters.downloads, counters.put_back, counters.removals), (3, 4, 2, 2));
    assert!(counters.synced.is_some() && counters.failed_rounds == 0);
}

#[tokio::test]
async fn a_listing_that_broke_off_removes_nothing() {
    let (bucket, place) = (Bucket::default(), Place::new());
    for key in ["m/a", "m/b", "m/c", "n/x"] {
        bucket.put(key, key);
    }
    let mut syncer = place.open(&bucket, None).await;
    round(&mut syncer).await;
    bucket.remove("m/c");
    bucket.remove("n/x");
    bucket.put("m/a", "changed");
    *bucket.breaks.lock().unwrap() = Some(1);
    let half = round(&mut syncer).await;
    assert_eq!(written(&half), [("m/a", Why::Changed)]);
    let removed: Vec<&str> = half.removed.iter().map(RelativePath::as_str).collect();
    assert_eq!(removed, ["n/x"], "its folder was listed to the end");
    assert!(!half.is_well() && half.problems[0].text.contains("broke off"), "{half:?}");
    *bucket.breaks.lock().unwrap() = Some(0);
    assert!(round(&mut syncer).await.removed.is_empty());
    assert_eq!(place.read("m/c").as_deref(), Some("m/c"));
    *bucket.breaks.lock().unwrap() = None;
    assert_eq!((round(&mut syncer).await.removed.len(), place.read("m/c")), (1, None));
}

#[tokio::test]
async fn what_does_not_come_whole_is_not_taken_and_hinders_nothing_else() {
    let (bucket, place) = (Bucket::default(), Place::new());
    for key in ["m/a", "m/b", "m/c"] {
        bucket.put(key, "first one");
    }
    let mut syncer = place.open(&bucket, None).await;
    round(&mut syncer).await;
    for key in ["m/a", "m/b", "m/c", "m/../out", "m/d"] {
        bucket.put(key, "second");
    }
    *bucket.short.lock().unwrap() = Some("m/a".into());
    *bucket.long.lock().unwrap() = Some("m/b".into());
    std::fs::create_dir(place.path("m/d")).unwrap();
    let some = round(&mut syncer).await;
    assert_eq!(written(&some), [("m/c", Why::Changed)]);
    let mut keys: Vec<&str> = some.problems.iter().filter_map(|problem| problem.key.as_deref()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["m/a", "m/b", "m/d"], "{:?}", some.problems);
    assert_eq!(
        (place.read("m/a").as_deref(), place.read("m/b").as_deref()),
        (Some("first one"), Some("first one"))
    );
    assert_eq!(some.left[0].key, "m/../out");
    let left = std::fs::read_dir(place.path("m")).unwrap().count();
    assert_eq!(left, 4, "something half written stayed");
    std::fs::remove_dir(place.path("m/d")).unwrap();
    (*bucket.short.lock().unwrap(), *bucket.long.lock().unwrap()) = (None, None);
    assert_eq!(round(&mut syncer).await.written.len(), 3);
}

#[tokio::test]
async fn one_that_is_told_to_end_remembers_what_it_did() {
    let (bucket, place) = (Bucket::default(), Place::new());
    bucket.put("m/a", "one");
    let mut syncer = place.open(&bucket, None).await;
    let stop = CancellationToken::new();
    stop.cancel();
    let stopped = syncer.round(&stop).await.unwrap();
    assert!(stopped.stopped && !stopped.is_well() && bucket.told().is_empty());
    drop(syncer);

    // What a kill leaves between the writing of a file and of what is remembered: it is known to be ours.
    let mut memory = Memory::new("b");
    memory.remember(relative("m/a").unwrap(), crate::domain::manifest::Taken::pending("m/a"));
    memory.remember(relative("m/gone").unwrap(), crate::domain::manifest::Taken::pending("m/gone"));
    let own = place.path(".hostwright");
    std::fs::write(own.join(MEMORY), memory.to_json().unwrap()).unwrap();
    std::fs::create_dir(place.path("m")).unwrap();
    std::fs::write(place.path("m/gone"), "whole").unwrap();
    std::fs::write(place.path("m/.hostwright-0123456789abcdef01234567"), "hal").unwrap();
    let mut syncer = place.open(&bucket, None).await;
    let after = round(&mut syncer).await;
    assert_eq!((after.written.len(), after.removed.len()), (1, 1));
    assert_eq!(std::fs::read_dir(place.path("m")).unwrap().count(), 1);

    // What cannot be read is forgotten: nothing is removed because of it.
    drop(syncer);
    std::fs::write(own.join(MEMORY), "{").unwrap();
    bucket.remove("m/a");
    bucket.put("m/b", "two");
    let mut syncer = place.open(&bucket, None).await;
    let after = round(&mut syncer).await;
    assert_eq!((after.written.len(), after.removed.len()), (1, 0));
}

#[tokio::test]
async fn a_folder_is_one_buckets_and_one_process_s() {
    let (bucket, place) = (Bucket::default(), Place::new());
    let mut syncer = place.open(&bucket, None).await;
    round(&mut syncer).await;
    let second = Syncer::open(&bucket, permit(), &place.path(""), place.options(None)).await;
    assert_eq!(second.unwrap_err().exit_code(), 4);
    drop(syncer);
    let memory = Memory::new("another").to_json().unwrap();
    std::fs::write(place.path(".hostwright").join(MEMORY), memory).unwrap();
    let foreign = Syncer::open(&bucket, permit(), &place.path(""), place.options(None)).await;
    assert_eq!(foreign.unwrap_err().exit_code(), 2);
}

#[tokio::test]
async fn the_command_runs_after_a_change_and_again_until_it_succeeds() {
    let (bucket, place) = (Bucket::default(), Place::new());
    let script = "echo ran >>log; test -e ok";
    let argv: &[&str] = &["sh", "-c", script];
    let ran = || std::fs::read_to_string(place.0.path().join("log")).unwrap_or_default().lines().count();
    let mut syncer = place.open(&bucket, Some(argv)).await;
    round(&mut syncer).await;
    assert_eq!(ran(), 0);
    bucket.put("m/a", "one");
    let failed = round(&mut syncer).await;
    assert_eq!((ran(), failed.problems.len()), (1, 1));
    assert!(failed.problems[0].text.contains("sh failed: exit status: 1"), "{:?}", failed.problems);
    // Also when it was ended meanwhile.
    drop(syncer);
    let mut syncer = place.open(&bucket, Some(argv)).await;
    round(&mut syncer).await;
    assert_eq!(ran(), 2);
    std::fs::write(place.0.path().join("ok"), "").unwrap();
    assert!(round(&mut syncer).await.is_well());
    round(&mut syncer).await;
    assert_eq!(ran(), 3);
    // The same content under another ETag is no change: here, because what is remembered is another one.
    bucket.put("m/b", "two");
    std::fs::write(place.path("m/b"), "two").unwrap();
    assert!(!round(&mut syncer).await.changed());
    assert_eq!(ran(), 3);
    bucket.remove("m/b");
    round(&mut syncer).await;
    assert_eq!((ran(), place.read("m/b")), (4, None));
}

#[tokio::test]
async fn the_node_says_what_it_has_when_that_changes() {
    let (bucket, place) = (Bucket::default(), Place::new());
    bucket.put("m/a", "one");
    let mut syncer = place.open(&bucket, None).await;
    round(&mut syncer).await;
    let told = bucket.told();
    let [status] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((status.files[0].key.as_str(), status.files[0].version_id.as_deref()), ("m/a", Some("v1")));
    assert_eq!((status.files[0].sha256, status.prefixes.len()), (Checksum::of(b"one"), 2));
    assert!(status.synced.is_some() && status.problems.is_empty());
    round(&mut syncer).await;
    assert!(bucket.told().is_empty(), "nothing changed");
    bucket.put("m//x", "no file");
    round(&mut syncer).await;
    let told = bucket.told();
    assert_eq!((told.len(), told[0].problems[0].key.as_deref()), (1, Some("m//x")));
    // That it cannot be said hinders nothing, and is not tried in each round.
    *bucket.deaf.lock().unwrap() = true;
    bucket.put("m/b", "two");
    assert!(round(&mut syncer).await.is_well());
    *bucket.deaf.lock().unwrap() = false;
    round(&mut syncer).await;
    assert!(bucket.told().is_empty());
}
