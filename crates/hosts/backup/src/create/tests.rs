//! Backups of entries that no cluster holds: incremental, interrupted, and in archives that fail.

use std::collections::BTreeMap;
use std::path::Path;

use quorate_core::{Key, Value};

use super::*;
use crate::archive::faulty::Faulty;
use crate::archive::{Directory, Opened};
use crate::delete::delete;
use crate::listing::{Found, State, choose, list, manifest_of};
use crate::manifest::tests::manifest as some_manifest;
use crate::verify::{Segments, verify};

/// A shard that gives its entries a few at a time, and then perhaps fails, or gives nothing more and does not end.
pub(crate) struct Given {
    pages: std::collections::VecDeque<Vec<CutEntry>>,
    then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    End,
    Lose,
    Hang,
}

impl Pages for Given {
    async fn next(&mut self) -> quorate::Result<Option<Vec<CutEntry>>> {
        match (self.pages.pop_front(), self.then) {
            (Some(page), _) => Ok(Some(page)),
            (None, Then::End) => Ok(None),
            (None, Then::Lose) => {
                Err(quorate::Error::CutLost { name: "accounts".to_owned(), reason: "it is lost".to_owned() })
            }
            (None, Then::Hang) => std::future::pending().await,
        }
    }
}

/// The entries of shards.
pub(crate) type Shards = BTreeMap<u32, Vec<CutEntry>>;

/// Two shards of so many keys each, in ascending order, with values that do not compress.
pub(crate) fn shards(keys: u64) -> Shards {
    let entries = |shard: u64| (0..keys).map(|key| value(shard * 1_000_000 + key, 0)).collect();
    BTreeMap::from([(1, entries(1)), (2, entries(2))])
}

/// A key with the value that it has the so-manyth time.
pub(crate) fn value(key: u64, time: u64) -> CutEntry {
    let mut random = quorate_core::Random::new(key << 20 | time);
    let bytes: Vec<u8> = (0..100).map(|_| random.below(256) as u8).collect();
    CutEntry::Value { key: Key::from(format!("key{key:09}").as_str()), value: Value::from(bytes) }
}

fn reading(shards: &Shards, then: Then) -> Vec<(u32, Given)> {
    let pages = |entries: &Vec<CutEntry>| entries.chunks(50).map(<[CutEntry]>::to_vec).collect();
    shards.iter().map(|(shard, entries)| (*shard, Given { pages: pages(entries), then })).collect()
}

pub(crate) fn options(incremental: bool) -> CreateOptions {
    CreateOptions { cipher: None, patience: Duration::ZERO, bytes_per_second: None, incremental, stop: None }
}

async fn begin(archive: &Arc<dyn Archive>, options: &CreateOptions) -> Result<Run> {
    let mut run = Run::begin(archive, "accounts", options.cipher.clone(), options.incremental).await?;
    run.segment_bytes = 16 * 1024;
    Ok(run)
}

/// Takes a backup of these shards, at an instant.
pub(crate) async fn taken(
    archive: &Arc<dyn Archive>,
    shards: &Shards,
    instant: u64,
    options: &CreateOptions,
) -> Result<Taken> {
    taken_then(archive, shards, instant, options, Then::End).await
}

async fn taken_then(
    archive: &Arc<dyn Archive>,
    shards: &Shards,
    instant: u64,
    options: &CreateOptions,
    then: Then,
) -> Result<Taken> {
    let mut run = begin(archive, options).await?;
    let finished = match write_shards(&mut run, reading(shards, then), options, &mut |_| {}).await {
        Ok(written) => run.finish(some_manifest().keyspace, instant, written).await,
        Err(error) => Err(error),
    };
    match finished {
        Ok(manifest) => Ok(Taken { folder: run.folder, manifest, notes: run.notes }),
        Err(error) => Err(run.give_up(error).await),
    }
}

/// All entries that a backup gives when it is restored.
pub(crate) async fn held(
    archive: &Arc<dyn Archive>,
    folder: &str,
    cipher: Option<&Cipher>,
) -> Result<Vec<CutEntry>> {
    let manifest = manifest_of(&**archive, folder).await?;
    verify(archive, folder, &manifest, cipher, |_| {}).await?;
    let cipher = manifest.cipher(cipher)?.cloned();
    let segments = Segments::new(archive, folder, &manifest);
    tokio::task::spawn_blocking(move || {
        let mut all = Vec::new();
        for file in &manifest.files {
            segments.read(file, cipher.as_ref(), |entries| {
                all.extend(entries);
                Ok(())
            })?;
        }
        all.sort();
        Ok(all)
    })
    .await
    .unwrap()
}

pub(crate) fn all_of(shards: &Shards) -> Vec<CutEntry> {
    let mut all: Vec<CutEntry> = shards.values().flatten().cloned().collect();
    all.sort();
    all
}

pub(crate) fn directory(folder: &Path) -> (Directory, Arc<dyn Archive>) {
    let directory = Directory::new(folder.join("backups"));
    (directory.clone(), Arc::new(directory))
}

/// The backups of an archive that are whole, and those that are not finished.
pub(crate) async fn states(archive: &Arc<dyn Archive>) -> (Vec<String>, Vec<String>) {
    let (mut whole, mut unfinished) = (Vec::new(), Vec::new());
    for Found { folder, state, .. } in list(archive).await.unwrap() {
        match state {
            State::Whole(_) => whole.push(folder),
            State::Unfinished { .. } => unfinished.push(folder),
            State::Damaged(reason) => panic!("{folder}: {reason}"),
        }
    }
    (whole, unfinished)
}

#[tokio::test]
async fn an_incremental_backup_writes_chunks_with_changes_and_holds_everything() {
    let folder = tempfile::tempdir().unwrap();
    let (_, archive) = directory(folder.path());
    for cipher in [None, Some(Cipher::new([5; 32]))] {
        let options = |incremental| CreateOptions { cipher: cipher.clone(), ..options(incremental) };
        let mut given = shards(5_000);
        let full = taken(&archive, &given, 10, &options(true)).await.unwrap();
        assert!(full.notes[0].contains("it is a full one"), "{:?}", full.notes);
        let whole = full.manifest.own_bytes();
        assert!(full.manifest.leans_on.is_empty() && full.manifest.files.len() > 10);

        let same = taken(&archive, &given, 20, &options(true)).await.unwrap();
        assert_eq!((same.manifest.own_bytes(), same.manifest.entries), (0, 10_000));
        assert_eq!(same.manifest.leans_on.len(), 1);
        assert_eq!(held(&archive, &same.folder, cipher.as_ref()).await.unwrap(), all_of(&given));

        // A stretch of one shard, a new key, and one that is deleted.
        for key in 1_000..1_050_usize {
            given.get_mut(&1).unwrap()[key] = value(1_000_000 + key as u64, 1);
        }
        given.get_mut(&2).unwrap().remove(77);
        given.get_mut(&2).unwrap().push(value(9_000_000, 0));
        let stretch = taken(&archive, &given, 30, &options(true)).await.unwrap();
        let own = stretch.manifest.own_bytes();
        assert!(own > 0 && own < whole / 15, "{own} of {whole}");
        assert_eq!(held(&archive, &stretch.folder, cipher.as_ref()).await.unwrap(), all_of(&given));

        // Every hundredth key.
        for (at, entry) in given.get_mut(&1).unwrap().iter_mut().enumerate().filter(|(at, _)| at % 100 == 7) {
            *entry = value(1_000_000 + at as u64, 2);
        }
        let scattered = taken(&archive, &given, 40, &options(true)).await.unwrap();
        let leaned: Vec<&str> =
            scattered.manifest.leans_on.iter().map(|leaned| leaned.folder.as_str()).collect();
        assert!(
            leaned.contains(&full.folder.as_str()) && leaned.contains(&stretch.folder.as_str()),
            "{leaned:?}"
        );
        assert_eq!(held(&archive, &scattered.folder, cipher.as_ref()).await.unwrap(), all_of(&given));

        let again = taken(&archive, &given, 50, &options(false)).await.unwrap();
        assert!(again.manifest.leans_on.is_empty());
        assert_eq!(held(&archive, &again.folder, cipher.as_ref()).await.unwrap(), all_of(&given));
    }
}

#[tokio::test]
async fn a_chunk_that_shards_have_in_common_counts_for_each_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let (_, archive) = directory(folder.path());
    let procedure =
        CutEntry::Procedure { name: "p".to_owned(), version: 1, code: Value::from_static(b"code") };
    let given: Shards = BTreeMap::from([(1, vec![procedure.clone()]), (2, vec![procedure]), (3, Vec::new())]);
    for instant in [10, 20] {
        let one = taken(&archive, &given, instant, &options(true)).await.unwrap();
        assert_eq!((one.manifest.entries, one.manifest.files.len()), (2, 2));
        assert_eq!(held(&archive, &one.folder, None).await.unwrap(), all_of(&given));
    }
}

#[tokio::test]
async fn a_backup_under_another_key_uses_nothing_and_cannot_be_read_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let (_, archive) = directory(folder.path());
    let given = shards(300);
    let with = |key: u8| CreateOptions { cipher: Some(Cipher::new([key; 32])), ..options(true) };
    let first = taken(&archive, &given, 10, &with(1)).await.unwrap();
    for other in [options(true), with(2)] {
        let second = taken(&archive, &given, 20, &other).await.unwrap();
        assert!(second.manifest.leans_on.is_empty() && second.notes.len() == 1, "{second:?}");
    }
    assert!(matches!(held(&archive, &first.folder, None).await, Err(Error::KeyNeeded)));
    assert!(matches!(held(&archive, &first.folder, Some(&Cipher::new([2; 32]))).await, Err(Error::WrongKey)));
}

#[tokio::test]
async fn a_segment_that_is_missing_or_damaged_is_found_by_backups_that_lean_on_it_and_not_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let (_, archive) = directory(folder.path());
    let given = shards(1_000);
    let full = taken(&archive, &given, 10, &options(false)).await.unwrap();
    let leaning = taken(&archive, &given, 20, &options(true)).await.unwrap();
    let path = |name: &str| folder.path().join("backups").join(&full.folder).join(name);
    let [first, second, third] = [0, 1, 2].map(|at: usize| full.manifest.files[at].name.clone());
    let reason = async || held(&archive, &leaning.folder, None).await.unwrap_err().to_string();

    let whole = std::fs::read(path(&first)).unwrap();
    std::fs::remove_file(path(&first)).unwrap();
    assert!(reason().await.contains(&format!("{}/{first} is damaged: it is missing", full.folder)));
    std::fs::write(path(&first), &whole[..whole.len() - 1]).unwrap();
    assert!(reason().await.contains("and the manifest says"));
    // Another segment of the same backup, and of the same length.
    let other = std::fs::read(path(&second)).unwrap();
    let mut foreign = other.clone();
    foreign.resize(whole.len(), 0);
    std::fs::write(path(&first), &foreign).unwrap();
    assert!(reason().await.contains("in the place of segment 0"), "{}", reason().await);

    // The next one writes what it cannot use: a segment that is missing, one that is no segment, one whose end is damaged.
    std::fs::remove_file(path(&first)).unwrap();
    let mut no_segment = other.clone();
    no_segment[0] ^= 1;
    std::fs::write(path(&second), &no_segment).unwrap();
    let mut no_end = std::fs::read(path(&third)).unwrap();
    let length = no_end.len();
    no_end[length - 30] ^= 1;
    std::fs::write(path(&third), &no_end).unwrap();
    let next = taken(&archive, &given, 30, &options(true)).await.unwrap();
    assert_eq!(next.notes.len(), 2, "{:?}", next.notes);
    assert!(next.manifest.own_bytes() > 2 * 16 * 1024);
    assert_eq!(held(&archive, &next.folder, None).await.unwrap(), all_of(&given));
}

#[tokio::test]
async fn a_backup_that_is_stopped_or_loses_its_instant_is_none_and_the_next_one_uses_its_segments() {
    for then in [Then::Lose, Then::Hang] {
        let folder = tempfile::tempdir().unwrap();
        let (_, archive) = directory(folder.path());
        let mut given = shards(1_000);
        let (stopper, stop) = watch::channel(false);
        if then == Then::Hang {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(500)).await;
                stopper.send_replace(true);
            });
        }
        let stopping = CreateOptions { stop: (then == Then::Hang).then_some(stop), ..options(false) };
        let error = taken_then(&archive, &given, 10, &stopping, then).await.unwrap_err();
        let Error::Unfinished { folder: left, files, bytes, source } = error else { panic!("{error}") };
        assert!(files >= 4 && bytes > 100_000, "{files} files, {bytes} bytes");
        assert_eq!(matches!(*source, Error::Interrupted), then == Then::Hang, "{source}");
        assert_eq!(states(&archive).await, (vec![], vec![left.clone()]));
        let refused = manifest_of(&*archive, &left).await.unwrap_err().to_string();
        assert!(refused.contains("was interrupted"), "{refused}");

        // It is of a later instant, at which something else holds.
        given.get_mut(&1).unwrap()[3] = value(7, 7);
        let next = taken(&archive, &given, 20, &options(false)).await.unwrap();
        let reused = next.manifest.bytes_of(&left);
        assert!(reused > bytes * 8 / 10, "{reused} of {bytes}");
        assert!(next.manifest.own_bytes() < bytes / 5, "{}", next.manifest.own_bytes());
        assert_eq!(held(&archive, &next.folder, None).await.unwrap(), all_of(&given));
    }
}

#[tokio::test]
async fn a_further_instant_uses_the_segments_of_the_one_that_was_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (_, archive) = directory(folder.path());
    let given = shards(1_000);
    let mut run = begin(&archive, &options(false)).await.unwrap();
    let lost = write_shards(&mut run, reading(&given, Then::Lose), &options(false), &mut |_| {}).await;
    assert!(matches!(lost, Err(Error::Cluster(_))), "{lost:?}");
    let (files, before) = run.written;
    let written =
        write_shards(&mut run, reading(&given, Then::End), &options(false), &mut |_| {}).await.unwrap();
    let manifest = run.finish(some_manifest().keyspace, 20, written).await.unwrap();
    assert!(manifest.leans_on.is_empty());
    assert_eq!(held(&archive, &run.folder, None).await.unwrap(), all_of(&given));
    assert_eq!(states(&archive).await, (vec![run.folder.clone()], vec![]));
    let whole = taken(&archive, &given, 30, &options(false)).await.unwrap().manifest.own_bytes();
    let all: u64 = archive.list(&run.folder).await.unwrap().iter().map(|object| object.bytes).sum();
    assert!(files >= 4 && all < whole * 12 / 10, "{before} of {whole} were there, and {all} are");
}

#[tokio::test]
async fn a_writer_that_nobody_feeds_any_more_leaves_nothing_of_its_segment() {
    let folder = tempfile::tempdir().unwrap();
    let (_, archive) = directory(folder.path());
    let run = begin(&archive, &options(false)).await.unwrap();
    let (around, place) = run.writer_of(1);
    let (sender, receiver) = mpsc::channel(4);
    sender.send(Page::Entries(shards(100)[&1].clone())).await.unwrap();
    drop(sender);
    let written = tokio::task::spawn_blocking(move || write_shard(around, place, receiver)).await.unwrap();
    assert!(matches!(written.failure, Some(Error::Interrupted)) && written.segments.is_empty());
    assert_eq!(archive.list(&run.folder).await.unwrap(), []);
}

/// Takes an incremental backup in an archive whose calls fail, beside one that is whole, and looks what is left.
async fn with_faults(first: u64, is_gone_for_good: bool, cipher: Option<Cipher>) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let (directory, archive) = directory(folder.path());
    let options = |incremental| CreateOptions { cipher: cipher.clone(), ..options(incremental) };
    let mut given = shards(400);
    let base = taken(&archive, &given, 10, &options(false)).await.unwrap();
    for (shard, entries) in &mut given {
        for (at, entry) in entries.iter_mut().enumerate().filter(|(at, _)| at % 3 == 0) {
            *entry = value(u64::from(*shard) * 1_000_000 + at as u64, 1);
        }
    }
    let last = if is_gone_for_good { u64::MAX } else { first + 1 };
    let faulty = Arc::new(Faulty::new(&directory, first..last));
    let failing: Arc<dyn Archive> = Arc::clone(&faulty) as _;
    let outcome = taken(&failing, &given, 20, &options(true)).await;
    let (whole, unfinished) = states(&archive).await;
    let what = format!("fault {first}, for good: {is_gone_for_good}: {outcome:?}");
    match &outcome {
        Ok(taken) => {
            assert!(
                whole == [base.folder.clone(), taken.folder.clone()]
                    || whole == [taken.folder.clone(), base.folder.clone()],
                "{what}"
            );
            assert_eq!(
                held(&archive, &taken.folder, cipher.as_ref()).await.unwrap(),
                all_of(&given),
                "{what}"
            );
        }
        Err(error) => {
            assert!(error.to_string().contains("this is fault"), "{what}");
            assert_eq!(whole, std::slice::from_ref(&base.folder), "{what}");
        }
    }
    assert_eq!(held(&archive, &base.folder, cipher.as_ref()).await.unwrap(), all_of(&shards(400)), "{what}");
    // The next one has all of it, and says what it uses of what was left.
    let next = taken(&archive, &given, 30, &options(true)).await.unwrap();
    assert_eq!(held(&archive, &next.folder, cipher.as_ref()).await.unwrap(), all_of(&given), "{what}");
    if let Err(Error::Unfinished { folder, bytes, .. }) = &outcome {
        assert!(unfinished.contains(folder), "{what}");
        assert!(
            next.manifest.bytes_of(folder) > bytes / 2,
            "{what}: {bytes} {}",
            next.manifest.bytes_of(folder)
        );
    }
    // Nothing stays that cannot be deleted.
    let all = list(&archive).await.unwrap().into_iter().map(|found| found.folder).collect();
    delete(&archive, &all).await.unwrap();
    assert_eq!(archive.folders().await.unwrap(), Vec::<String>::new(), "{what}");
    // A mark that could not be deleted is the one call that may fail beside a success.
    outcome.is_ok() && faulty.calls() <= first
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_at_any_call_leaves_nothing_half_done_and_the_next_backup_uses_the_rest() {
    for is_gone_for_good in [false, true] {
        let mut first = 0;
        while !with_faults(first, is_gone_for_good, None).await {
            first += 1;
            assert!(first < 1_000, "it never ends");
        }
        assert!(first > 30, "there are calls for all that is done: {first}");
    }
    for first in [3, 9, 15, 22, 31] {
        with_faults(first, true, Some(Cipher::new([5; 32]))).await;
    }
}

#[tokio::test]
async fn a_folder_that_is_deleted_while_a_backup_is_taken_is_no_backup() {
    let folder = tempfile::tempdir().unwrap();
    let (_, archive) = directory(folder.path());
    let given = shards(300);
    let mut run = begin(&archive, &options(false)).await.unwrap();
    let written =
        write_shards(&mut run, reading(&given, Then::End), &options(false), &mut |_| {}).await.unwrap();
    for object in archive.list(&run.folder).await.unwrap() {
        archive.delete(&name_in(&run.folder, &object.name)).await.unwrap();
    }
    let error = run.finish(some_manifest().keyspace, 20, written).await.unwrap_err().to_string();
    assert!(error.contains("it is missing"), "{error}");
    assert!(choose(&Opened { archive, folder: None }, None, None).await.is_err());
}

#[test]
fn the_bytes_of_an_entry_are_those_that_a_segment_counts() {
    let key = |text: &str| Key::from(text);
    let entries = [
        CutEntry::Value { key: key("a"), value: Value::from_static(b"12") },
        CutEntry::Count { set: key("s"), element: key("e"), count: 3 },
        CutEntry::Counter { counter: key("c"), value: 1 },
        CutEntry::Procedure { name: "p".to_owned(), version: 1, code: Value::from_static(b"x") },
    ];
    for entry in &entries {
        let mut content = crate::segment::Content::default();
        content.add(entry);
        assert_eq!(content.bytes, bytes_of(entry), "{entry:?}");
    }
}

/// A value of so many hexadecimal digits: half of its bits are random.
fn digits(key: u64, time: u64, length: usize) -> CutEntry {
    let mut random = quorate_core::Random::new(key << 20 | time);
    let digits: Vec<u8> = (0..length).map(|_| b"0123456789abcdef"[random.below(16) as usize]).collect();
    CutEntry::Value { key: Key::from(format!("user{key:09}").as_str()), value: Value::from(digits) }
}

/// Prints the table of `docs/backup.md`.
#[tokio::test]
#[ignore = "it measures, and is looked at"]
async fn how_much_an_incremental_backup_writes() {
    println!("value   keys     full bytes   same   1% in a stretch   1% scattered   0.1% scattered");
    for (length, keys) in [(40, 1_000_000), (400, 200_000), (4_000, 20_000)] {
        let folder = tempfile::tempdir().unwrap();
        let (_, archive) = directory(folder.path());
        let given = |time: u64, is_changed: &dyn Fn(u64) -> bool| -> Shards {
            let entry = |key| digits(key, if is_changed(key) { time } else { 0 }, length);
            BTreeMap::from([(1, (0..keys).map(entry).collect())])
        };
        let mut shares = Vec::new();
        let changes: [&dyn Fn(u64) -> bool; 4] = [
            &|_| false,
            &|key| key * 100 / keys == 42,
            &|key| quorate_core::Random::new(key).below(100) == 0,
            &|key| quorate_core::Random::new(key).below(1_000) == 0,
        ];
        let written = async |given: Shards, instant, incremental| {
            let options = options(incremental);
            let mut run = Run::begin(&archive, "accounts", None, incremental).await.unwrap();
            let written = write_shards(&mut run, reading(&given, Then::End), &options, &mut |_| {}).await;
            let manifest = run.finish(some_manifest().keyspace, instant, written.unwrap()).await.unwrap();
            let text = archive.read(&name_in(&run.folder, MANIFEST), 0, u64::MAX / 2).await.unwrap().unwrap();
            (run.folder, manifest.own_bytes() + text.len() as u64)
        };
        let (_, full) = written(given(0, &|_| false), 10, false).await;
        for change in changes {
            let (folder, bytes) = written(given(1, change), 20, true).await;
            shares.push(format!("{:.1}%", bytes as f64 * 100.0 / full as f64));
            delete(&archive, &std::collections::BTreeSet::from([folder])).await.unwrap();
        }
        println!("{length:>5} {keys:>9} {full:>12} {}", shares.join("   "));
    }
}
