//! More writes at a time than one record of the journal takes.

use super::*;

fn logs(node: &Node, count: u32) -> Vec<Log> {
    let create =
        |shard| Log::create(&node.log_of(shard), Node::identity(shard), LogOptions::default()).unwrap();
    (1..=count).map(create).collect()
}

/// Appends a record of its own length to each log.
fn write_each(logs: &mut [Log], lengths: &[usize]) -> Vec<Unsynced> {
    let write = |(log, length): (&mut Log, &usize)| {
        log.append(&vec![7; *length]);
        log.write_later().unwrap().unwrap()
    };
    logs.iter_mut().zip(lengths).map(write).collect()
}

#[test]
fn many_logs_are_served_though_the_segment_of_the_journal_is_still_small() {
    const LOGS: u32 = 64;
    let node = Node::new();
    let mut journal = node.create_for_syncer();
    let mut logs = logs(&node, LOGS);
    // More than a quarter of the segment, which is how long a record may be.
    let Committed { together, alone } = journal.commit(write_each(&mut logs, &[5 << 10; LOGS as usize]));
    assert_eq!((together.len(), alone.len()), (LOGS as usize, 0));
    assert!(logs.iter().all(|log| log.durable() == log.end()));
    drop((journal, logs, together));
    (1..=LOGS).for_each(|shard| node.lose(shard, 1));
    assert_eq!(node.replayed(), Replayed { writes: LOGS.into(), let_go: 0, kept: 0 });
    for shard in 1..=LOGS {
        assert_eq!(node.records(shard).unwrap(), [vec![7; 5 << 10]]);
    }
}

#[test]
fn records_of_one_batch_go_over_to_the_next_segment_of_the_journal_and_are_settled_together() {
    let node = Node::new();
    let mut journal = node.create();
    let mut logs = logs(&node, 3);
    // A record each, and the first segment has room for four at most.
    assert_eq!(journal.commit(write_each(&mut logs, &[600; 2])).together.len(), 2);
    journal.prepare().unwrap();
    assert_eq!(journal.commit(write_each(&mut logs, &[600; 3])).together.len(), 3);
    drop((journal, logs));
    (1..=3).for_each(|shard| node.lose(shard, 1));
    assert_eq!(node.replayed(), Replayed { writes: 5, let_go: 0, kept: 0 });
    assert_eq!([1, 2, 3].map(|shard| node.records(shard).unwrap().len()), [2, 2, 1]);
    assert_eq!(node.replayed(), Replayed::default());
}

#[test]
fn logs_whose_record_finds_no_room_are_synced_for_themselves() {
    let node = Node::new();
    let mut journal = node.create();
    let mut logs = logs(&node, 8);
    // The next segment is not there yet.
    let Committed { together, alone } = journal.commit(write_each(&mut logs, &[700; 8]));
    assert_eq!((together.len(), alone.len()), (3, 5));
    assert!(logs[..3].iter().all(|log| log.durable() == log.end()));
    assert!(logs[3..].iter().all(|log| log.durable() < log.end()));
    alone.iter().for_each(|unsynced| unsynced.sync().unwrap());
    drop((journal, logs, together, alone));
    assert_eq!(node.replayed(), Replayed { writes: 3, let_go: 0, kept: 0 });
}

#[test]
fn one_log_with_much_keeps_no_other_from_the_journal() {
    let node = Node::new();
    let mut journal = node.create();
    let mut logs = logs(&node, 3);
    let Committed { together, alone } = journal.commit(write_each(&mut logs, &[10, 3000, 10]));
    assert_eq!((together.len(), alone.len()), (2, 1));
    assert!(logs[1].durable() < logs[1].end(), "it does not fit into a record");
}
