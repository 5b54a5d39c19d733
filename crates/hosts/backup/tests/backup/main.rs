//! Backups of keyspaces of real servers: three nodes on threads of this process.

mod stores;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use quorate::{Database, Durability, Error as ClientError, Isolation, Keyspace, KeyspaceOptions, Options};
use quorate_backup::Error;
use quorate_backup::archive::{Archive, Object, Pending, Writing, open};
use quorate_backup::cipher::Cipher;
use quorate_backup::create::{CreateOptions, Taken, create};
use quorate_backup::listing::choose;
use quorate_backup::manifest::Manifest;
use quorate_backup::restore::{RestoreOptions, abandon, restore};
use quorate_backup::rows::Rows;
use quorate_backup::transfer::{Imported, export, import};
use quorate_backup::verify::verify;
use quorate_runtime::ports::free_listeners;
use quorate_server::{Config, Initialise, Server, Sockets};

const PATIENCE: Duration = Duration::from_secs(120);

/// Three nodes in three sites.
struct Cluster {
    folder: tempfile::TempDir,
    addresses: Vec<String>,
    _servers: Vec<Server>,
}

impl Cluster {
    fn start() -> Cluster {
        let listeners = free_listeners(3).unwrap();
        let addresses: Vec<String> =
            listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
        let folder = tempfile::tempdir().unwrap();
        let config = |node: usize| {
            let directory = folder.path().join(format!("node-{node}"));
            let mut text = format!(
                "node = {node}\ndata_directory = {directory:?}\nsites = [\"a\", \"b\", \"c\"]\n[cluster]\nname = \"test\"\nid = 99\n"
            );
            for (site, address) in ["a", "b", "c"].iter().zip(&addresses) {
                text.push_str(&format!("[[nodes]]\nsite = \"{site}\"\naddress = \"{address}\"\n"));
            }
            Config::parse(&text).unwrap()
        };
        let start = |(node, listener)| {
            let sockets = Sockets { node: Some(listener), http: None };
            Server::start_with(config(node), Initialise::New, sockets).unwrap()
        };
        let servers = listeners.into_iter().enumerate().map(start).collect();
        Cluster { folder, addresses, _servers: servers }
    }

    async fn connect(&self) -> Database {
        let options = Options { deadline: Duration::from_secs(60), ..Options::default() };
        quorate::connect_with(self.addresses.as_slice(), options).await.unwrap()
    }

    /// A folder for backups, and the archive in it.
    async fn archive(&self) -> (PathBuf, Arc<dyn Archive>) {
        let folder = self.folder.path().join("backups");
        let opened = open(folder.to_str().unwrap(), PATIENCE).await.unwrap();
        (folder, opened.archive)
    }
}

async fn new_keyspace(db: &Database, isolation: Isolation) -> Keyspace {
    let shards = if isolation.stands_in_sites() { 1 } else { 3 };
    let options =
        KeyspaceOptions { shards, durability: Durability::Memory, ..KeyspaceOptions::new(isolation) };
    db.create_keyspace(isolation.name(), options).await.unwrap()
}

fn options(cipher: Option<Cipher>) -> CreateOptions {
    CreateOptions { cipher, patience: PATIENCE, bytes_per_second: None, incremental: false, stop: None }
}

fn restoring(name: &str, cipher: Option<Cipher>) -> RestoreOptions {
    RestoreOptions { name: Some(name.to_owned()), cipher, patience: PATIENCE, unchecked: false }
}

async fn rows(db: &Database, name: &str) -> BTreeSet<String> {
    let cut = db.cut(name, PATIENCE).await.unwrap();
    let mut written = Vec::new();
    export(&cut, Rows::Json, b"", &mut written, |_| {}).await.unwrap();
    String::from_utf8(written).unwrap().lines().map(str::to_owned).collect()
}

async fn imported(keyspace: &Keyspace, rows: Rows, text: &str, skip: u64) -> Imported {
    let mut bytes = text.as_bytes();
    import(keyspace, rows, &mut bytes, skip, |_| {}).await
}

async fn names(db: &Database) -> Vec<String> {
    db.list().await.unwrap().into_iter().map(|definition| definition.name).collect()
}

/// Moves money between two accounts until it is to stop, so their sum is always the same.
async fn moves_money(keyspace: Keyspace, stop: Arc<AtomicBool>) -> u32 {
    let mut moved = 0;
    while !stop.load(Ordering::Relaxed) {
        let ended = keyspace
            .transact(async |txn| {
                let number = |value: Option<quorate::Value>| -> Result<i64, ClientError> {
                    match value {
                        Some(value) => Ok(String::from_utf8(value.to_vec()).unwrap().parse().unwrap()),
                        // It was read at one replica, which may not have heard of it yet: such a transaction does not commit.
                        None if keyspace.isolation() == Isolation::Strict => Err(ClientError::Conflict),
                        None => panic!("an account is gone: {}", keyspace.isolation()),
                    }
                };
                let (ada, bob) = (number(txn.get("ada").await?)?, number(txn.get("bob").await?)?);
                txn.put("ada", (ada - 1).to_string())?;
                txn.put("bob", (bob + 1).to_string())
            })
            .await;
        match ended {
            Ok(()) => moved += 1,
            Err(ClientError::Conflict | ClientError::Overloaded { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    moved
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keyspace_of_any_isolation_is_restored_as_it_was_at_one_instant_of_the_traffic() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let (_, archive) = cluster.archive().await;
    let key = Cipher::new([3; 32]);
    for isolation in Isolation::ALL {
        let keyspace = new_keyspace(&db, isolation).await;
        let lines: String =
            (0..300).map(|number| format!("{{\"key\":\"key{number}\",\"value\":\"{number}\"}}\n")).collect();
        let lines = format!(
            "{lines}{{\"key_base64\":\"/w==\",\"value_base64\":\"AP4=\"}}\n{{\"key\":\"ada\",\"value\":\"500\"}}\n{{\"key\":\"bob\",\"value\":\"500\"}}\n"
        );
        let Imported { written, lines, stopped } = imported(&keyspace, Rows::Json, &lines, 0).await;
        assert!(stopped.is_none(), "{isolation}: {stopped:?}");
        assert_eq!((written.entries, lines), (303, 303), "{isolation}");
        if isolation == Isolation::ParallelSnapshot {
            let text =
                "{\"set\":\"s\",\"element\":\"e\",\"count\":5}\n{\"counter\":\"c\",\"value\":3000000000}\n";
            assert!(imported(&keyspace, Rows::Json, text, 0).await.stopped.is_none());
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mover = tokio::spawn(moves_money(keyspace.clone(), Arc::clone(&stop)));
        let full = create(&db, keyspace.name(), &archive, &options(Some(key.clone())), |_| {}).await.unwrap();
        // The second one leans on the first, and is the one that is restored.
        let incremental = CreateOptions { incremental: true, ..options(Some(key.clone())) };
        let Taken { folder: backup, manifest, notes } =
            create(&db, keyspace.name(), &archive, &incremental, |_| {}).await.unwrap();
        stop.store(true, Ordering::Relaxed);
        assert!(mover.await.unwrap() > 0, "{isolation}");
        assert_eq!(notes, Vec::<String>::new(), "{isolation}");
        let leaned: Vec<&str> = manifest.leans_on.iter().map(|leaned| leaned.folder.as_str()).collect();
        assert_eq!(leaned, [full.folder.as_str()], "{isolation}");
        verify(&archive, &backup, &manifest, Some(&key), |_| {}).await.unwrap();
        // Later writes are not in it.
        keyspace.put("key1", "later").await.unwrap();
        keyspace.put("new", "1").await.unwrap();

        let name = format!("old-{isolation}");
        let restored =
            restore(&db, &archive, &backup, &manifest, &restoring(&name, Some(key.clone())), |_| {})
                .await
                .unwrap();
        assert_eq!((restored.name(), restored.isolation()), (name.as_str(), isolation));
        assert_ne!(restored.definition().id, keyspace.definition().id, "it is a new one");
        let number = async |key: &str| -> i64 {
            let value = restored.get(key).await.unwrap().unwrap();
            String::from_utf8(value.to_vec()).unwrap().parse().unwrap()
        };
        assert_eq!(number("ada").await + number("bob").await, 1_000, "{isolation}");
        assert_eq!(number("key1").await, 1, "{isolation}");
        assert_eq!(restored.get(b"\xff").await.unwrap().as_deref(), Some(&b"\0\xfe"[..]));
        assert_eq!(restored.get("new").await.unwrap(), None);
        if isolation == Isolation::ParallelSnapshot {
            let txn = restored.begin().await.unwrap();
            assert_eq!(txn.set_count("s", "e").await.unwrap(), 5);
            assert_eq!(txn.counter_get("c").await.unwrap(), 3_000_000_000);
        }
        let again =
            restore(&db, &archive, &backup, &manifest, &restoring(&name, Some(key.clone())), |_| {}).await;
        assert!(again.unwrap_err().to_string().contains("--as"), "the name is taken");
    }
    assert!(names(&db).await.iter().all(|name| !name.ends_with(".restoring")));
}

/// Changes a file of a backup, tries, and puts it back.
fn with(path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> Box<dyn FnOnce()> {
    let whole = std::fs::read(path).unwrap();
    let mut changed = whole.clone();
    change(&mut changed);
    std::fs::write(path, changed).unwrap();
    let path = path.to_owned();
    Box::new(move || std::fs::write(path, whole).unwrap())
}

#[tokio::test]
async fn values_that_expire_are_restored_with_their_expiries() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let options_of =
        KeyspaceOptions { expiring: true, shards: 2, ..KeyspaceOptions::new(Isolation::Snapshot) };
    let sessions = db.create_keyspace("sessions", options_of).await.unwrap();
    let hour = Duration::from_secs(3600);
    sessions.put_for("lives", "1", hour).await.unwrap();
    sessions.put("stays", "2").await.unwrap();
    let expiry = sessions.get_with_expiry("lives").await.unwrap().unwrap().expires_at;
    assert!(expiry.is_some());
    let (_, archive) = cluster.archive().await;
    let Taken { folder, manifest, .. } =
        create(&db, "sessions", &archive, &options(None), |_| {}).await.unwrap();
    assert!(manifest.keyspace.expiring);
    let again = restore(&db, &archive, &folder, &manifest, &restoring("again", None), |_| {}).await.unwrap();
    assert!(again.definition().expiring);
    assert_eq!(again.get_with_expiry("lives").await.unwrap().unwrap().expires_at, expiry);
    let stays = again.get_with_expiry("stays").await.unwrap().unwrap();
    assert_eq!((&stays.value[..], stays.expires_at), (&b"2"[..], None));
    // Rows have the values alone.
    let exported = rows(&db, "sessions").await;
    assert_eq!(exported.len(), 2);
    assert!(exported.iter().all(|row| row.contains("\"1\"") || row.contains("\"2\"")), "{exported:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_is_not_as_it_was_written_leaves_no_keyspace_behind() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let keyspace = new_keyspace(&db, Isolation::Serializable).await;
    for number in 0..20 {
        keyspace.put(format!("key{number}"), "x").await.unwrap();
    }
    let (folder, archive) = cluster.archive().await;
    let Taken { folder: backup, manifest, .. } =
        create(&db, keyspace.name(), &archive, &options(None), |_| {}).await.unwrap();
    assert_eq!((manifest.entries, manifest.files.len()), (20, 3));
    let refused = async |manifest: &Manifest, reason: &str| {
        let verified = verify(&archive, &backup, manifest, None, |_| {}).await.unwrap_err();
        let restored =
            restore(&db, &archive, &backup, manifest, &restoring("again", None), |_| {}).await.unwrap_err();
        assert!(verified.to_string().contains(reason), "{verified}");
        assert!(restored.to_string().contains(reason), "{restored}");
        assert_eq!(names(&db).await, ["serializable"]);
    };
    let path = folder.join(&backup).join(&manifest.files[1].name);
    let put_back = with(&path, |bytes| bytes[90] ^= 1);
    refused(&manifest, "does not fit").await;
    put_back();
    let put_back = with(&path, |bytes| bytes.truncate(70));
    refused(&manifest, "and the manifest says").await;
    put_back();
    // A segment of another backup of the same keyspace.
    let other = create(&db, keyspace.name(), &archive, &options(None), |_| {}).await.unwrap();
    let foreign = std::fs::read(folder.join(&other.folder).join(&manifest.files[1].name)).unwrap();
    let mut longer = manifest.clone();
    longer.files[1].bytes = foreign.len() as u64;
    let put_back = with(&path, |bytes| *bytes = foreign);
    refused(&longer, "it belongs to another backup").await;
    put_back();
    let mut fewer = manifest.clone();
    fewer.files[1].entries += 1;
    refused(&fewer, "not the one that the manifest means").await;
    let restored =
        restore(&db, &archive, &backup, &manifest, &restoring("again", None), |_| {}).await.unwrap();
    assert_eq!(restored.scan("", "", 100).await.unwrap().entries.len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stopped_halfway_leaves_nothing_and_says_how_it_is_begun_again() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let keyspace = new_keyspace(&db, Isolation::Serializable).await;
    for number in 0..50 {
        keyspace.put(format!("key{number}"), vec![b'x'; 10_000]).await.unwrap();
    }
    let (folder, archive) = cluster.archive().await;
    let slow = CreateOptions { bytes_per_second: Some(1_000), ..options(None) };
    let taken =
        tokio::time::timeout(Duration::from_secs(1), create(&db, keyspace.name(), &archive, &slow, |_| {}));
    taken.await.unwrap_err();
    // A mark alone is left of a backup that nobody waits for any more, once its writers have seen that.
    let left = || {
        let mut names: Vec<String> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let deadline = std::time::Instant::now() + PATIENCE;
    while left() != ["unfinished"] && std::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(left(), ["unfinished"], "nothing else is left of it");
    let (stopper, stop) = tokio::sync::watch::channel(false);
    let stopped = CreateOptions { stop: Some(stop), ..slow };
    let (taken, ()) = tokio::join!(create(&db, keyspace.name(), &archive, &stopped, |_| {}), async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        stopper.send_replace(true);
    });
    let error = taken.unwrap_err();
    assert!(error.to_string().contains("interrupted"), "{error}");

    let Taken { folder: backup, manifest, .. } =
        create(&db, keyspace.name(), &archive, &options(None), |_| {}).await.unwrap();
    assert_eq!(manifest.entries, 50);
    let loading =
        KeyspaceOptions { durability: Durability::Memory, ..KeyspaceOptions::new(Isolation::Serializable) };
    db.create_keyspace("again.restoring", loading).await.unwrap();
    let again = restoring("again", None);
    let error = restore(&db, &archive, &backup, &manifest, &again, |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("keyspace drop again.restoring"), "{error}");
    abandon(&db, &manifest, &again).await.unwrap();
    restore(&db, &archive, &backup, &manifest, &again, |_| {}).await.unwrap();

    let rows_before = rows(&db, "again").await;
    let more = "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"a\",\"value\":\"2\"}\nbroken\n{\"key\":\"b\",\"value\":\"3\"}\n";
    let target = db.keyspace("again").await.unwrap();
    let Imported { lines, stopped, .. } = imported(&target, Rows::Json, more, 0).await;
    assert!(matches!(stopped, Some(Error::Row { line: 3, .. })), "{stopped:?}");
    assert_eq!(lines, 2);
    assert!(imported(&target, Rows::Json, more, 3).await.stopped.is_none());
    let rows_after = rows(&db, "again").await;
    let added: Vec<&String> = rows_after.difference(&rows_before).collect();
    assert_eq!(added, [r#"{"key":"a","value":"2"}"#, r#"{"key":"b","value":"3"}"#], "the later row counts");
}

/// An archive that cannot be reached any more after so many reads.
#[derive(Debug)]
struct Vanishing {
    inner: Arc<dyn Archive>,
    reads: AtomicI64,
}

impl Archive for Vanishing {
    fn location(&self) -> String {
        self.inner.location()
    }

    fn prepare(&self) -> Pending<'_, ()> {
        self.inner.prepare()
    }

    fn folders(&self) -> Pending<'_, Vec<String>> {
        self.inner.folders()
    }

    fn list<'a>(&'a self, folder: &'a str) -> Pending<'a, Vec<Object>> {
        self.inner.list(folder)
    }

    fn read<'a>(&'a self, name: &'a str, from: u64, bytes: u64) -> Pending<'a, Option<bytes::Bytes>> {
        if self.reads.fetch_sub(1, Ordering::Relaxed) > 0 {
            return self.inner.read(name, from, bytes);
        }
        let (object, reason) = (name.to_owned(), "the store cannot be reached".to_owned());
        Box::pin(async { Err(Error::Archive { doing: "read", object, reason }) })
    }

    fn write<'a>(&'a self, name: &'a str) -> Pending<'a, Box<dyn Writing>> {
        self.inner.write(name)
    }

    fn delete<'a>(&'a self, name: &'a str) -> Pending<'a, ()> {
        self.inner.delete(name)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_vanishes_while_a_backup_is_restored_is_told_and_leaves_no_keyspace() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let keyspace = new_keyspace(&db, Isolation::Serializable).await;
    for number in 0..20 {
        keyspace.put(format!("key{number}"), "x").await.unwrap();
    }
    let (_, archive) = cluster.archive().await;
    let Taken { folder: backup, manifest, .. } =
        create(&db, keyspace.name(), &archive, &options(None), |_| {}).await.unwrap();
    for reads in 0..=3 {
        let inner = Arc::clone(&archive);
        let vanishing: Arc<dyn Archive> = Arc::new(Vanishing { inner, reads: AtomicI64::new(reads) });
        let verified = verify(&vanishing, &backup, &manifest, None, |_| {}).await;
        let inner = Arc::clone(&archive);
        let vanishing: Arc<dyn Archive> = Arc::new(Vanishing { inner, reads: AtomicI64::new(reads) });
        let restored = restore(&db, &vanishing, &backup, &manifest, &restoring("again", None), |_| {}).await;
        match reads {
            3 => {
                verified.unwrap();
                assert_eq!(restored.unwrap().scan("", "", 100).await.unwrap().entries.len(), 20);
            }
            _ => {
                for error in [verified.unwrap_err(), restored.unwrap_err()] {
                    assert!(error.to_string().contains("the store cannot be reached"), "{reads}: {error}");
                }
                assert_eq!(names(&db).await, ["serializable"], "{reads}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_of_format_1_are_verified_restored_and_leaned_on_by_none() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let key = Cipher::new([0x0f; 32]);
    for (name, key) in [("plain", None), ("sealed", Some(key))] {
        let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format-1").join(name);
        let opened = open(old.to_str().unwrap(), PATIENCE).await.unwrap();
        let (folder, manifest) = choose(&opened, Some("accounts"), None).await.unwrap();
        assert_eq!((manifest.quorate_backup, manifest.entries), (1, 21));
        verify(&opened.archive, &folder, &manifest, key.as_ref(), |_| {}).await.unwrap();
        let restoring = restoring(name, key.clone());
        let restored = restore(&db, &opened.archive, &folder, &manifest, &restoring, |_| {}).await.unwrap();
        assert_eq!(restored.get("key7").await.unwrap().as_deref(), Some(&b"value7"[..]));
        assert_eq!(restored.get("last").await.unwrap().as_deref(), Some(&b"1"[..]));
    }
}
