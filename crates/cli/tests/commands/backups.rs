//! Backups, restorations, exports and imports, by commands against server processes.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use quorate_cluster::free_addresses;

use crate::servers::Servers;
use crate::{Run, quorate, run};

const ISOLATIONS: [&str; 4] = ["strict", "serializable", "snapshot", "parallel-snapshot"];

fn shell(servers: &Servers, statements: &str) -> String {
    let run = servers.shell(statements);
    assert_eq!(run.code, 0, "{statements}: {}", run.err);
    run.out
}

fn create(servers: &Servers, name: &str, isolation: &str) {
    let shards = if isolation == "parallel-snapshot" { "" } else { " --shards 2" };
    shell(servers, &format!("keyspace create {name} --isolation {isolation}{shards}"));
}

/// The rows of a keyspace, in order. A `strict` keyspace, whose instant takes a quarter of a minute, is scanned in place of exported.
fn contents(servers: &Servers, name: &str) -> BTreeSet<String> {
    if !name.ends_with("strict") {
        return rows(servers, name);
    }
    let scanned = servers.run(&["shell", "-k", name, "-e", "scan", "--json"]);
    assert_eq!(scanned.code, 0, "{}", scanned.err);
    scanned.json()["values"].as_array().unwrap().iter().map(serde_json::Value::to_string).collect()
}

/// The rows of a keyspace, in order.
fn rows(servers: &Servers, name: &str) -> BTreeSet<String> {
    let run = servers.run(&["export", name]);
    assert_eq!(run.code, 0, "{}", run.err);
    run.out.lines().map(str::to_owned).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A file of a backup whose name begins so.
fn file(folder: &Path, begins: &str) -> PathBuf {
    let mut names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_wanted = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(begins);
    names.find(is_wanted).unwrap_or_else(|| panic!("{begins} in {}", folder.display()))
}

#[test]
fn keyspaces_of_all_isolations_are_backed_up_verified_and_restored() {
    let directory = tempfile::tempdir().unwrap();
    let servers = Servers::start(directory.path(), &["a", "b", "c"]);
    let (backups, key) = (directory.path().join("backups"), directory.path().join("key"));
    fs::write(&key, "0f".repeat(32)).unwrap();
    for isolation in ISOLATIONS {
        create(&servers, isolation, isolation);
        let many: String = (0..40).map(|number| format!("; put key{number} value{number}")).collect();
        shell(&servers, &format!("use {isolation}{many}; delete key7"));
    }
    let rows_of_binary = directory.path().join("binary.jsonl");
    fs::write(&rows_of_binary, "{\"key_base64\":\"/w==\",\"value_base64\":\"AP4=\"}\n").unwrap();
    let imported = servers.run(&["import", "strict", text(&rows_of_binary)]);
    assert_eq!(imported.code, 0, "{}", imported.err);
    let counted = directory.path().join("counted.jsonl");
    fs::write(&counted, "{\"set\":\"s\",\"element\":\"e\",\"count\":5}\n{\"counter\":\"c\",\"value\":7}\n")
        .unwrap();
    let imported = servers.run(&["import", "parallel-snapshot", text(&counted)]);
    assert_eq!(imported.code, 0, "{}", imported.err);

    let taken =
        servers.run(&["backup", "create", "--to", text(&backups), "--key-file", text(&key), "--json"]);
    assert_eq!(taken.code, 0, "{}", taken.err);
    let taken = taken.json();
    let taken = taken["backups"].as_array().unwrap();
    assert_eq!(taken.len(), 4, "{taken:?}");
    let before: Vec<BTreeSet<String>> = ISOLATIONS.map(|isolation| contents(&servers, isolation)).into();
    assert_eq!(before.iter().map(BTreeSet::len).collect::<Vec<_>>(), [40, 39, 39, 41]);
    for isolation in ISOLATIONS {
        shell(&servers, &format!("use {isolation}; put key1 later; put new 1; delete key2"));
    }

    let verified = run(&["backup", "verify", text(&backups), "--key-file", text(&key), "--json"]);
    assert_eq!((verified.code, &verified.json()["ok"]), (0, &true.into()), "{}", verified.out);
    let keyless = run(&["backup", "verify", text(&backups)]);
    assert!(keyless.code == 2 && keyless.err.contains("--key-file"), "{}", keyless.err);
    let listed = run(&["backup", "list", text(&backups)]);
    assert!(listed.code == 0 && listed.out.matches("encrypted").count() == 4, "{}", listed.out);

    for (isolation, before) in ISOLATIONS.into_iter().zip(before) {
        let from = ["restore", "--from", text(&backups), "--keyspace", isolation, "--key-file", text(&key)];
        let exists = servers.run(&from);
        assert!(exists.code == 1 && exists.err.contains("--as"), "{}", exists.err);
        let restored = servers.run(&[&from[..], &["--as", &format!("old-{isolation}")]].concat());
        assert_eq!(restored.code, 0, "{isolation}: {}", restored.err);
        assert!(restored.out.contains("compared with the backup"), "{}", restored.out);
        assert_eq!(contents(&servers, &format!("old-{isolation}")), before, "{isolation}");
        assert!(contents(&servers, isolation).iter().any(|row| row.contains("later")), "{isolation} goes on");
    }
    let keyspaces = servers.run(&["keyspace", "list", "--json"]).out;
    assert!(!keyspaces.contains(".restoring"), "{keyspaces}");
    let shown = servers.run(&["keyspace", "show", "old-serializable", "--json"]).json();
    assert_eq!((shown["shards"].as_array().unwrap().len(), &shown["isolation"]), (2, &"serializable".into()));
}

#[test]
fn a_backup_that_is_damaged_foreign_or_newer_is_refused_and_leaves_no_keyspace() {
    let directory = tempfile::tempdir().unwrap();
    let servers = Servers::start(directory.path(), &["a", "b", "c"]);
    let backups = directory.path().join("backups");
    create(&servers, "accounts", "serializable");
    shell(&servers, "use accounts; put a 1; put b 2; put c 3");
    let taken = |name: &str| {
        let taken = servers.run(&["backup", "create", "--to", text(&backups), "--keyspace", name, "--json"]);
        assert_eq!(taken.code, 0, "{}", taken.err);
        PathBuf::from(taken.json()["backups"][0]["folder"].as_str().unwrap())
    };
    let (folder, other) = (taken("accounts"), taken("accounts"));
    let (segment, manifest) = (file(&folder, "shard-"), folder.join("manifest.json"));
    let (whole, whole_manifest) = (fs::read(&segment).unwrap(), fs::read_to_string(&manifest).unwrap());
    let refused = |reason: &str| {
        let verified = run(&["backup", "verify", text(&folder)]);
        assert!(
            verified.code == 1 && verified.out.contains(reason),
            "{reason}: {}{}",
            verified.out,
            verified.err
        );
        let restored = servers.run(&["restore", "--from", text(&folder), "--as", "again"]);
        assert!(restored.code == 1 && restored.err.contains(reason), "{reason}: {}", restored.err);
        let keyspaces = servers.run(&["keyspace", "list", "--json"]).json();
        assert_eq!(keyspaces["keyspaces"].as_array().unwrap().len(), 1, "{keyspaces}");
    };
    fs::write(&segment, &whole[..whole.len() - 1]).unwrap();
    refused("and the manifest says");
    fs::remove_file(&segment).unwrap();
    refused("it is missing");
    let mut turned = whole.clone();
    turned[80] ^= 1;
    fs::write(&segment, turned).unwrap();
    refused("does not fit");
    let foreign = fs::read(other.join(segment.file_name().unwrap())).unwrap();
    fs::write(&segment, foreign).unwrap();
    refused("belongs to another backup");
    fs::write(&segment, &whole).unwrap();
    fs::write(&manifest, &whole_manifest[..whole_manifest.len() / 2]).unwrap();
    refused("ends early");
    fs::write(&manifest, whole_manifest.replace("\"quorate_backup\": 2", "\"quorate_backup\": 3")).unwrap();
    refused("use a version of quorate that is at least as new");
    fs::remove_file(&manifest).unwrap();
    let interrupted = servers.run(&["restore", "--from", text(&folder), "--as", "again"]);
    assert!(
        interrupted.code == 2 && interrupted.err.contains("no backup that is whole"),
        "{}",
        interrupted.err
    );
    let listed = run(&["backup", "list", text(&backups)]);
    assert!(listed.code == 1 && listed.out.contains("not finished"), "{}", listed.out);
    fs::write(&manifest, &whole_manifest).unwrap();
    let restored = servers.run(&["restore", "--from", text(&folder), "--as", "again", "--json"]);
    assert_eq!((restored.code, &restored.json()["restored_as"]), (0, &"again".into()), "{}", restored.err);
    let nowhere = servers.run(&["backup", "create", "--to", "s3://"]);
    assert!(nowhere.code == 2 && nowhere.err.contains("name a bucket"), "{}", nowhere.err);
}

#[test]
fn rows_are_exported_and_imported_and_an_import_that_stops_goes_on_behind_its_last_line() {
    let directory = tempfile::tempdir().unwrap();
    let servers = Servers::start(directory.path(), &["a", "b", "c"]);
    create(&servers, "accounts", "serializable");
    create(&servers, "copies", "serializable");
    let csv = directory.path().join("accounts.csv");
    let lines: String = (0..2_500).map(|number| format!("key{number:04},\"value, {number}\"\n")).collect();
    fs::write(&csv, format!("key,value\n{lines}broken\nlast,1\n")).unwrap();
    let stopped = servers.run(&["import", "accounts", text(&csv), "--json"]);
    assert!(stopped.code == 1 && stopped.err.contains("line 2502: it has 1 fields"), "{}", stopped.err);
    assert_eq!((&stopped.json()["lines"], &stopped.json()["entries"]), (&2_501.into(), &2_500.into()));
    let fixed = fs::read_to_string(&csv).unwrap().replace("broken\n", "fixed,0\n");
    fs::write(&csv, fixed).unwrap();
    let went_on = servers.run(&["import", "accounts", text(&csv), "--skip-lines", "2501", "--json"]);
    assert_eq!((went_on.code, &went_on.json()["entries"]), (0, &2.into()), "{}", went_on.err);

    let out = directory.path().join("out.csv");
    let exported = servers.run(&["export", "accounts", text(&out), "--json"]);
    assert_eq!((exported.code, &exported.json()["entries"]), (0, &2_502.into()), "{}", exported.err);
    let imported = servers.run(&["import", "copies", text(&out)]);
    assert_eq!(imported.code, 0, "{}", imported.err);
    assert_eq!(rows(&servers, "copies"), rows(&servers, "accounts"));
    let some = servers.run(&["export", "copies", "--prefix", "key000", "--format", "csv"]);
    assert_eq!(some.out.lines().count(), 11, "{}", some.out);
    let wrong = servers.run(&["export", "copies", "--json"]);
    assert!(wrong.code == 2 && wrong.err.contains("name a file"), "{}", wrong.err);
    let nothing = servers.run(&["import", "copies", "nothing.csv"]);
    assert!(nothing.code == 1 && nothing.err.contains("cannot open nothing.csv"), "{}", nothing.err);
}

/// A server that speaks like S3, in a process of its own.
struct Store {
    process: Child,
    endpoint: String,
}

impl Store {
    /// Starts a store with an empty bucket; none if it is not installed, which must not be where `QUORATE_CLIENTS` names the folder.
    fn start() -> Option<Store> {
        let named = std::env::var_os("QUORATE_CLIENTS").map(PathBuf::from);
        let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/clients");
        let program = named.clone().unwrap_or_else(usual).join("bin/gofakes3");
        assert!(named.is_none() || program.exists(), "there is no {}", program.display());
        if !program.exists() {
            return None;
        }
        let address = free_addresses(1).unwrap().remove(0);
        let process = Command::new(program)
            .args(["-backend", "memory", "-initialbucket", "bucket", "-quiet", "-host", &address])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let store = Store { process, endpoint: format!("http://{address}") };
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(&address).is_err() {
            assert!(Instant::now() < deadline, "the store does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(store)
    }

    /// Runs a command that finds the store by its environment, as the tools of Amazon do.
    fn run(&self, words: &[&str]) -> Run {
        let mut command = quorate();
        command.args(words).env("AWS_ENDPOINT_URL", &self.endpoint);
        command.env("AWS_ACCESS_KEY_ID", "somebody").env("AWS_SECRET_ACCESS_KEY", SECRET);
        let run: Run = command.output().unwrap().into();
        assert!(!run.out.contains(SECRET) && !run.err.contains(SECRET), "{words:?}: {}{}", run.out, run.err);
        run
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // It is gone already if the test has killed it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const SECRET: &str = "a-secret-that-nobody-sees";

#[test]
fn backups_in_an_object_store_are_incremental_verified_restored_and_deleted() {
    let Some(mut store) = Store::start() else {
        eprintln!("object stores are not tried: gofakes3 is not installed");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let servers = Servers::start(directory.path(), &["a", "b", "c"]);
    let key = directory.path().join("key");
    fs::write(&key, "0f".repeat(32)).unwrap();
    create(&servers, "accounts", "strict");
    let values = |from: usize, to: usize, word: &str| {
        let lines = (from..to).map(|number| format!("key{number:05},{}{number}\n", word.repeat(30)));
        let csv = directory.path().join("rows.csv");
        fs::write(&csv, format!("key,value\n{}", lines.collect::<String>())).unwrap();
        let imported = servers.run(&["import", "accounts", text(&csv)]);
        assert_eq!(imported.code, 0, "{}", imported.err);
    };
    values(0, 5_000, "first");
    let connect = servers.addresses();
    let cluster =
        |words: &[&str]| store.run(&[words, &["--key-file", text(&key), "--connect", &connect]].concat());
    let to = ["backup", "create", "--to", "s3://bucket/backups", "--incremental", "--json"];
    let taken = |notes: &str| {
        let taken = cluster(&to);
        assert!(taken.code == 0 && taken.err.contains(notes), "{}", taken.err);
        taken.json()["backups"][0].clone()
    };
    let full = taken("it is a full one");
    let before = rows(&servers, "accounts");
    values(1_000, 1_050, "second");
    let leaning = taken("");
    let after = rows(&servers, "accounts");
    let number = |backup: &serde_json::Value, field: &str| backup[field].as_u64().unwrap();
    let (whole, own) = (number(&full, "stored_bytes"), number(&leaning, "stored_bytes"));
    assert!(own > 0 && own < whole / 5, "{own} of {whole}");
    let folder = |backup: &serde_json::Value| backup["folder"].as_str().unwrap().to_owned();
    assert_eq!(leaning["leans_on"][0]["folder"], full["folder"]);
    assert!(folder(&full).starts_with("s3://bucket/backups/accounts-"), "{full}");

    let verified = store.run(&["backup", "verify", "s3://bucket/backups", "--key-file", text(&key)]);
    assert!(verified.code == 0 && verified.out.matches("as it was written").count() == 2, "{}", verified.out);
    let listed = store.run(&["backup", "list", "s3://bucket/backups"]);
    let name = folder(&full).rsplit_once('/').unwrap().1.to_owned();
    assert!(listed.code == 0 && listed.out.matches(&name).count() == 2, "{}", listed.out);
    let refused = store.run(&["backup", "delete", &folder(&full)]);
    let leans = folder(&leaning).rsplit_once('/').unwrap().1.to_owned();
    assert!(refused.code == 1 && refused.err.contains(&leans), "{}", refused.err);

    let restored = cluster(&["restore", "--from", "s3://bucket/backups", "--as", "newest"]);
    assert!(restored.code == 0 && restored.out.contains("compared with the backup"), "{}", restored.err);
    assert_eq!(rows(&servers, "newest"), after);
    let restored = cluster(&["restore", "--from", &folder(&full), "--as", "oldest"]);
    assert_eq!(restored.code, 0, "{}", restored.err);
    assert_eq!(rows(&servers, "oldest"), before);

    let unknown = cluster(&["backup", "create", "--to", "s3://nowhere/backups", "--keyspace", "accounts"]);
    assert!(unknown.code == 1 && unknown.err.contains("there is no such bucket"), "{}", unknown.err);
    let deleted = store.run(&["backup", "delete", &folder(&full), &folder(&leaning), "--json"]);
    assert_eq!(deleted.code, 0, "{}", deleted.err);
    assert_eq!(deleted.json()["deleted"].as_array().unwrap().len(), 2);
    let listed = store.run(&["backup", "list", "s3://bucket/backups", "--json"]);
    assert_eq!(listed.json()["backups"].as_array().unwrap().len(), 0, "{}", listed.out);

    // A store that is gone is told after the patience, and leaves no keyspace.
    store.process.kill().unwrap();
    store.process.wait().unwrap();
    let gone = store.run(&["backup", "list", "s3://bucket/backups", "--patience", "1"]);
    assert!(gone.code == 1 && gone.err.contains("cannot be reached"), "{}", gone.err);
}
