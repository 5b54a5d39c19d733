//! Other directories in the place of a log, of the journal, or of what it keeps.

use std::path::Path;

use super::*;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// An older copy of a log stands in its place for one start, and then the log itself again.
#[test]
fn an_older_copy_of_a_log_is_not_given_what_belongs_to_the_log() {
    let node = Node::new();
    let (mut journal, mut logs) = (node.create(), node.create_logs());
    logs[0].append(b"one");
    logs[0].sync().unwrap();
    let (older, aside) = (node.directory.0.join("older"), node.directory.0.join("aside"));
    copy(&node.log_of(1), &older);
    logs[0].append(b"two");
    logs[0].sync().unwrap();
    assert_eq!(commit(&mut journal, &mut logs, b"three").together.len(), 2);
    let incarnation = logs[0].incarnation();
    drop((journal, logs));
    // Nothing of it had come to the files.
    fs::rename(node.log_of(1), &aside).unwrap();
    fs::rename(&older, node.log_of(1)).unwrap();
    let (mut journal, replayed) = node.open().unwrap();
    assert_eq!(replayed, Replayed { writes: 1, let_go: 0, kept: 1 });
    assert!(journal.release(Node::identity(1).replica, incarnation).is_err(), "an older copy is refused");
    drop(journal);
    fs::remove_dir_all(node.log_of(1)).unwrap();
    fs::rename(&aside, node.log_of(1)).unwrap();
    node.replayed();
    assert_eq!(node.records(1).unwrap(), ["one", "two", "three"]);
}
