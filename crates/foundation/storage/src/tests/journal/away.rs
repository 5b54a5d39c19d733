//! Logs that are away when the journal is opened, and may come back.

use super::failing::without_room;
use super::*;

/// A node that has ended with a record in the journal only, and the incarnation of its first log.
fn node_with_a_record() -> (Node, u64) {
    let node = Node::new();
    let (mut journal, mut logs) = (node.create(), node.create_logs());
    assert_eq!(commit(&mut journal, &mut logs, b"one").together.len(), 2);
    assert!(logs.iter().all(|log| log.durable() == log.end()));
    let incarnation = logs[0].incarnation();
    drop((journal, logs));
    [1, 2].into_iter().for_each(|shard| node.lose(shard, 1));
    (node, incarnation)
}

/// The files beside the journal that keep writes.
fn kept_files(node: &Node) -> Vec<PathBuf> {
    let files = fs::read_dir(node.journal()).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "kept")).collect()
}

#[test]
fn a_log_that_is_brought_back_has_what_it_had_acknowledged() {
    let (node, incarnation) = node_with_a_record();
    let aside = node.directory.0.join("aside");
    fs::rename(node.log_of(1), &aside).unwrap();
    for _ in 0..3 {
        let (mut journal, replayed) = node.open().unwrap();
        assert_eq!(replayed.kept, 1);
        let refused = journal.release(Node::identity(1).replica, incarnation).unwrap_err();
        assert!(refused.to_string().contains("--rejoin"), "{refused}");
        assert!(journal.release(Node::identity(2).replica, 7).is_ok(), "another replica goes on");
        assert_eq!(kept_files(&node).len(), 1, "once is enough");
    }
    assert_eq!(node.records(2).unwrap(), ["one"]);
    fs::rename(&aside, node.log_of(1)).unwrap();
    let (mut journal, replayed) = node.open().unwrap();
    assert_eq!(replayed, Replayed { writes: 1, let_go: 0, kept: 0 });
    assert!(journal.release(Node::identity(1).replica, incarnation).is_ok());
    drop(journal);
    assert_eq!(node.records(1).unwrap(), ["one"]);
    assert_eq!((node.replayed(), kept_files(&node).len()), (Replayed::default(), 0));
}

#[test]
fn another_log_in_the_place_of_one_that_is_away_is_served_and_ends_the_waiting() {
    let (node, incarnation) = node_with_a_record();
    fs::remove_dir_all(node.log_of(1)).unwrap();
    let (mut journal, _) = node.open().unwrap();
    let other = Log::create(&node.log_of(1), Node::identity(1), LogOptions::default()).unwrap();
    let replica = Node::identity(1).replica;
    assert!(journal.release(replica, incarnation).is_err());
    assert!(journal.release(replica, other.incarnation()).is_ok());
    drop((journal, other));
    assert_eq!(node.replayed(), Replayed { writes: 0, let_go: 1, kept: 0 });
    assert_eq!(node.records(1).unwrap(), [""; 0]);
    assert_eq!((node.replayed(), kept_files(&node).len()), (Replayed::default(), 0));
}

#[test]
fn what_belonged_to_a_replica_that_was_given_up_is_let_go() {
    let (node, _) = node_with_a_record();
    fs::remove_dir_all(node.log_of(1)).unwrap();
    assert_eq!(node.replayed().kept, 1);
    node.given_up.set(Some(Node::identity(1).replica));
    assert_eq!(node.replayed(), Replayed { writes: 0, let_go: 1, kept: 0 });
    assert_eq!((node.replayed(), kept_files(&node).len()), (Replayed::default(), 0));
}

/// Any error of the operating system but one for a file that is not there: here that of a directory stands for that of a disk.
#[test]
fn one_log_that_cannot_be_read_keeps_no_other_away() {
    let (node, _) = node_with_a_record();
    let segment = node.log_of(1).join("0000000001.log");
    fs::rename(&segment, segment.with_extension("aside")).unwrap();
    fs::create_dir(&segment).unwrap();
    assert_eq!(node.replayed(), Replayed { writes: 1, let_go: 0, kept: 1 });
    assert_eq!(node.records(2).unwrap(), ["one"]);
    fs::remove_dir(&segment).unwrap();
    fs::rename(segment.with_extension("aside"), &segment).unwrap();
    assert_eq!(node.replayed(), Replayed { writes: 1, let_go: 0, kept: 0 });
    assert_eq!(node.records(1).unwrap(), ["one"]);
}

/// The other process writes to it.
#[test]
fn a_log_that_another_process_uses_is_not_written_to() {
    let (node, incarnation) = node_with_a_record();
    let (log, _) = Log::open(&node.log_of(1), Node::identity(1), LogOptions::default()).unwrap();
    let (mut journal, replayed) = node.open().unwrap();
    assert_eq!(replayed, Replayed { writes: 1, let_go: 0, kept: 1 });
    assert!(journal.release(Node::identity(1).replica, incarnation).is_err());
    drop(log);
}

/// Logs that go over from one segment to the next in one turn, by one record of the journal.
fn node_over_two_segments() -> Node {
    let node = Node::new();
    let options = JournalOptions {
        log: LogOptions { segment_bytes_first: 1 << 20, segment_bytes_max: 1 << 20 },
        ..JOURNAL
    };
    let mut journal = Journal::create_in(&LogFiles::at(&node.journal()), CLUSTER, options, 5).unwrap();
    let mut logs = node.create_logs();
    let mut both = Vec::new();
    for log in &mut logs {
        log.append(&[7; 60_000]);
        log.sync().unwrap();
        log.append(b"one");
        log.append(&[8; 6_000]);
        both.push(log.write_later().unwrap().unwrap());
    }
    assert_eq!(journal.commit(both).together.len(), 2);
    assert!(logs.iter().all(|log| log.durable() == log.end() && log.durable().segment() == 2));
    node
}

#[test]
fn a_segment_that_is_put_back_has_what_was_acknowledged() {
    for number in [1, 2] {
        let node = node_over_two_segments();
        let segment = node.log_of(1).join(format!("000000000{number}.log"));
        fs::rename(&segment, segment.with_extension("aside")).unwrap();
        assert_eq!(node.replayed().kept, 2, "both are kept");
        fs::rename(segment.with_extension("aside"), &segment).unwrap();
        assert_eq!(node.replayed().writes, 2);
        assert_eq!(node.records(1).unwrap().len(), 3, "segment {number}");
    }
}

#[test]
fn segments_that_a_log_has_given_up_are_not_missed() {
    let node = node_over_two_segments();
    let copy = files(&node.journal());
    let known = node.journal.get();
    assert_eq!(node.replayed().writes, 4);
    let (mut log, _) = Log::open(&node.log_of(1), Node::identity(1), LogOptions::default()).unwrap();
    log.truncate(log.durable()).unwrap().run().unwrap();
    drop(log);
    assert_eq!(files(&node.log_of(1)).len(), 1);
    // As if that they are settled had not been noted.
    for (name, bytes) in copy {
        fs::write(node.journal().join(name), bytes).unwrap();
    }
    node.journal.set(known);
    assert_eq!(node.replayed(), Replayed { writes: 3, let_go: 1, kept: 0 });
    assert_eq!(node.records(1).unwrap().len(), 1);
}

#[test]
fn what_a_file_keeps_and_has_decayed_is_missed() {
    let (node, incarnation) = node_with_a_record();
    let aside = node.directory.0.join("aside");
    fs::rename(node.log_of(1), &aside).unwrap();
    node.replayed();
    let file = kept_files(&node).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    bytes[40] ^= 1;
    fs::write(&file, bytes).unwrap();
    fs::rename(&aside, node.log_of(1)).unwrap();
    let (mut journal, _) = node.open().unwrap();
    assert!(journal.release(Node::identity(1).replica, incarnation).is_err());
    assert_eq!(kept_files(&node), [file]);
}

#[test]
fn a_file_that_keeps_writes_is_missed_until_it_is_brought_back() {
    let (node, incarnation) = node_with_a_record();
    let replica = Node::identity(1).replica;
    let (aside, kept) = (node.directory.0.join("aside"), node.directory.0.join("kept"));
    fs::rename(node.log_of(1), &aside).unwrap();
    assert_eq!(node.replayed().kept, 1);
    let file = kept_files(&node).remove(0);
    fs::rename(&file, &kept).unwrap();
    fs::rename(&aside, node.log_of(1)).unwrap();
    for _ in 0..2 {
        let (mut journal, _) = node.open().unwrap();
        let refused = journal.release(replica, incarnation).unwrap_err();
        assert!(refused.is_loss(), "{refused}");
        assert!(journal.release(Node::identity(2).replica, 7).is_ok(), "another replica goes on");
    }
    fs::rename(&kept, &file).unwrap();
    assert_eq!(node.replayed(), Replayed { writes: 1, let_go: 0, kept: 0 });
    assert_eq!(node.records(1).unwrap(), ["one"]);
}

#[test]
fn a_file_that_keeps_writes_is_not_missed_once_its_log_was_given_up() {
    let (node, incarnation) = node_with_a_record();
    let replica = Node::identity(1).replica;
    fs::rename(node.log_of(1), node.directory.0.join("aside")).unwrap();
    assert_eq!(node.replayed().kept, 1);
    fs::remove_file(kept_files(&node).remove(0)).unwrap();
    node.given_up.set(Some(replica));
    drop(node.open().unwrap());
    node.given_up.set(None);
    let (mut journal, _) = node.open().unwrap();
    assert!(journal.release(replica, incarnation).is_ok());
}

#[test]
fn a_journal_is_needed_as_long_as_a_log_may_lack_something() {
    let (node, _) = node_with_a_record();
    let is_needed = || Journal::is_needed(&node.journal(), CLUSTER).unwrap();
    let aside = node.directory.0.join("aside");
    assert!(is_needed(), "a record is not settled");
    fs::rename(node.log_of(1), &aside).unwrap();
    assert_eq!(node.replayed().kept, 1);
    assert!(is_needed(), "something is kept");
    let (file, kept) = (kept_files(&node).remove(0), node.directory.0.join("kept"));
    fs::rename(&file, &kept).unwrap();
    assert!(is_needed(), "what was kept is missed");
    fs::rename(&kept, &file).unwrap();
    fs::rename(&aside, node.log_of(1)).unwrap();
    assert_eq!(node.replayed().writes, 1);
    assert!(!is_needed());
    fs::remove_dir_all(node.journal()).unwrap();
    assert!(!is_needed(), "there is none");
}

/// The log has been given what is kept, and the disk of the journal has no room.
#[test]
fn a_file_stays_if_the_journal_cannot_note_that_it_is_not_missed() {
    let (node, incarnation) = node_with_a_record();
    let aside = node.directory.0.join("aside");
    fs::rename(node.log_of(1), &aside).unwrap();
    let (mut journal, _) = node.open().unwrap();
    assert!(journal.release(Node::identity(1).replica, incarnation).is_err());
    fs::rename(&aside, node.log_of(1)).unwrap();
    journal.replace_segment(without_room);
    journal.release(Node::identity(1).replica, incarnation).unwrap();
    assert_eq!(kept_files(&node).len(), 1, "the journal names it");
    drop(journal);
    let (mut journal, replayed) = node.open().unwrap();
    assert_eq!(replayed, Replayed { writes: 1, let_go: 0, kept: 0 });
    assert!(journal.release(Node::identity(1).replica, incarnation).is_ok());
    assert_eq!(kept_files(&node).len(), 0);
    drop(journal);
    assert_eq!(node.records(1).unwrap(), ["one"]);
}
