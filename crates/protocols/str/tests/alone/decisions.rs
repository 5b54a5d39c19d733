//! A machine of a home: decisions stand in its log, are told to the shards, and found again.

use quorate_str::Entry;
use quorate_str::entry::Decision;

use super::*;

fn home(change: impl FnOnce(&mut ReplicaConfig)) -> Alone {
    let mut home = machine("3/r0", change);
    home.starts();
    let life = life_of(&home);
    home.hears("1/r0", Message::Time { life, clock: at(1_000) });
    home
}

fn leader() -> Alone {
    let mut home = home(|_| {});
    assert_eq!(home.leads(0), ["leads v0"]);
    home
}

/// A leader that forgets four seconds behind the time of the shards' leaders, which it has not heard yet; and its life.
fn forgetful_leader() -> (Alone, Life) {
    let mut home = machine("3/r0", |config| {
        config.floor_lag = Duration::from_secs(4);
        config.certify_timeout = Duration::from_secs(2);
    });
    home.starts();
    let life = life_of(&home);
    home.leads(0);
    (home, life)
}

/// Another machine of the home has decided a transaction that has written to both shards.
fn decision(sequence: u64, by: u8, outcome: Outcome) -> Decision {
    Decision {
        transaction: txn(1, sequence),
        by: ReplicaIndex(by),
        snapshot: at(500),
        begun: at(400),
        participants: vec![ShardId(1), ShardId(2)],
        outcome,
        readers: vec![(Key::from("apple"), at(450)), (Key::from("oak"), at(460))],
    }
}

fn record(sequence: u64, by: u8) -> Message {
    Message::Record { decision: decision(sequence, by, committed(900)), forgotten: None }
}

fn inquire(sequence: u64, snapshot: u64) -> Message {
    Message::Inquire { transaction: txn(1, sequence), snapshot: at(snapshot) }
}

#[test]
fn the_leader_records_decisions_for_all_machines() {
    let mut home = leader();
    assert_eq!(home.hears("3/r2", record(1, 1)), ["✗ the sender has no say in this"], "each decides its own");
    assert_eq!(home.hears("3/r1", record(1, 2)), ["✗ the sender has no say in this"]);
    let none = Decision { participants: Vec::new(), ..decision(1, 1, committed(900)) };
    assert_eq!(
        home.hears("3/r1", Message::Record { decision: none, forgotten: None }),
        ["✗ no coordinator sends this"]
    );
    let aborts = decision(1, 1, Outcome::Aborted);
    assert_eq!(
        home.hears("3/r1", Message::Record { decision: aborts, forgotten: None }),
        ["✗ no coordinator sends this"]
    );
    assert_eq!(home.hears("3/r1", record(1, 1)), ["appends RECORDED c1.1 committed @900"]);
    assert_eq!(home.hears("3/r1", record(1, 1)), ["✗ under way already"]);
    assert_eq!(home.logs(), ["3/r1 ← RECORDED c1.1 committed @900"]);
    assert_eq!(home.machine.decided(), (1, 0));
    assert_eq!((home.machine.record_len(), home.machine.waiting()), (1, 1), "it is not known to be applied");
    assert_eq!(home.hears("3/r1", record(1, 1)), ["3/r1 ← RECORDED c1.1 committed @900"]);
    let mut backup = super::decisions::home(|_| {});
    assert_eq!(backup.hears("3/r1", record(1, 1)), ["✗ this replica does not lead"]);
    assert_eq!(backup.hears("4/r0", record(1, 0)), ["✗ the sender has no say in this"], "of another home");
}

/// Until all shards have applied it; perhaps their leaders change.
#[test]
fn a_commit_is_told_to_the_shards_until_they_have_applied_it() {
    let mut home = leader();
    home.hears("3/r1", record(1, 1));
    home.logs();
    let told = |told| only(told, "DECIDE");
    assert_eq!(told(home.waits(999)), NOTHING, "the machine that has decided it tells them first");
    let first = |index: u8| format!("1/r{index} ← DECIDE c1.1 committed @900, oak read @460");
    let second = |index: u8| format!("2/r{index} ← DECIDE c1.1 committed @900, apple read @450");
    let at_once = |lines: [String; 2], after: u64| lines.map(|line| format!("{after} ms: {line}"));
    assert_eq!(told(home.waits(1)), at_once([first(0), second(0)], 1), "each is told of its own readers");
    assert_eq!(told(home.waits(1_000)), at_once([first(1), second(1)], 1_000), "they are silent");
    let applied = |sequence| Message::Applied { transaction: txn(1, sequence) };
    assert_eq!(home.hears("1/r2", applied(1)), NOTHING);
    assert_eq!(home.hears("1/r2", applied(7)), ["✗ this is known"]);
    assert_eq!(told(home.waits(1_000)), [format!("1000 ms: {}", second(2))]);
    assert_eq!(home.hears("2/r2", applied(1)), NOTHING);
    assert_eq!(home.hears("2/r2", applied(1)), ["✗ this is known"]);
    assert_eq!(only(home.waits(500), "appends"), ["500 ms: appends SETTLED c1.1"]);
    home.logs();
    assert_eq!(home.machine.waiting(), 0);
    assert_eq!(told(home.waits(5_000)), NOTHING);
}

#[test]
fn a_backup_tells_the_leader_what_is_settled() {
    let mut home = home(|_| {});
    home.log.leads = Some(View(0));
    home.leads(0);
    home.hears("3/r1", record(1, 1));
    home.logs();
    home.hears("1/r0", Message::Applied { transaction: txn(1, 1) });
    home.hears("2/r0", Message::Applied { transaction: txn(1, 1) });
    home.is_deposed();
    assert_eq!(only(home.waits(500), "SETTLED"), ["500 ms: 3/r1 ← SETTLED c1.1"]);
    assert_eq!(only(home.waits(5_000), "SETTLED"), NOTHING, "once");
    let settled = Message::Settled { transactions: vec![txn(1, 1)] };
    assert_eq!(home.hears("3/r1", settled.clone()), ["✗ this replica does not lead"]);
    home.leads(1);
    assert_eq!(home.hears("3/r1", settled), ["appends SETTLED c1.1"]);
    home.log.leads = None;
    let settled = Message::Settled { transactions: vec![txn(1, 1)] };
    assert_eq!(home.hears("3/r1", settled), ["✗ the log takes nothing now"]);
}

/// The machine that has decided it may be gone.
#[test]
fn a_machine_that_leads_now_delivers_what_is_not_settled() {
    let mut home = home(|_| {});
    let recorded = |sequence, outcome| Entry::Recorded(std::sync::Arc::new(decision(sequence, 1, outcome)));
    assert_eq!(home.follows(&recorded(1, committed(900))), NOTHING);
    home.follows(&recorded(2, committed(900)));
    home.follows(&recorded(3, Outcome::Aborted));
    home.follows(&Entry::Settled(vec![txn(1, 2)]));
    assert_eq!(only(home.waits(5_000), "DECIDE"), NOTHING, "it does not lead");
    home.leads(1);
    let told = only(home.waits(1_000), "DECIDE");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|line| line.contains("c1.1 committed @900")), "{told:?}");
}

/// The first decision on a transaction counts: an inquiry aborts what nobody has decided.
#[test]
fn an_inquiry_is_answered_by_the_log() {
    let mut home = leader();
    home.hears("3/r1", record(1, 1));
    assert_eq!(home.hears("c5", inquire(1, 500)), ["✗ under way already"]);
    let told = home.logs();
    assert_eq!(told, ["c5 ← c1.1 committed @900", "3/r1 ← RECORDED c1.1 committed @900"]);
    assert_eq!(home.hears("c5", inquire(1, 500)), ["c5 ← c1.1 committed @900"]);
    assert_eq!(home.hears("2/r1", inquire(1, 500)), ["2/r1 ← DECIDE c1.1 committed @900, apple read @450"]);
    assert_eq!(home.hears("c5", inquire(2, 500)), ["appends RECORDED c1.2 aborted"]);
    assert_eq!(home.hears("1/r1", inquire(2, 500)), ["✗ under way already"]);
    assert_eq!(home.logs(), ["1/r1 ← DECIDE c1.2 aborted", "c5 ← c1.2 aborted"]);
    assert_eq!(home.machine.decided(), (1, 1));
    assert_eq!(home.hears("3/r1", record(2, 1)), ["3/r1 ← RECORDED c1.2 aborted"], "it comes too late");
    assert_eq!(home.hears("c5", inquire(3, 30_001_001)), ["✗ the snapshot is too far ahead"]);
    assert_eq!(home.hears("c5", inquire(3, 30_001_000)), ["appends RECORDED c1.3 aborted"]);
    let mut backup = super::decisions::home(|_| {});
    assert_eq!(backup.hears("c5", inquire(3, 500)), ["c5 ← c1.3 NOT-LEADING, r1 does"]);
    assert_eq!(backup.hears("2/r0", inquire(3, 500)), ["2/r0 ← c1.3 NOT-LEADING, r1 does"]);
    home.log.leads = None;
    assert_eq!(home.hears("c5", inquire(4, 500)), ["✗ the log takes nothing now"]);
}

#[test]
fn what_a_machine_runs_itself_is_not_inquired_after() {
    let mut home = leader();
    let life = life_of_home(&mut home);
    let commit = Message::Commit {
        knows_indexes: false,
        transaction: txn(1, 1),
        session: Session::default(),
        snapshot: None,
        period: Period { life, number: 1 },
        begun: at(900),
        writes: writes("apple=x"),
        shows: false,
    };
    assert_eq!(home.hears("c1", commit), ["2/r0 ← PREPARE c1.1 apple=x in @1001"]);
    assert_eq!(home.hears("c1", inquire(1, 900)), ["✗ under way already"]);
    let prepared =
        Message::Prepared { transaction: txn(1, 1), view: View(0), proposal: at(1_500), holders: vec![] };
    assert_eq!(home.hears("2/r0", prepared), ["appends RECORDED c1.1 committed @1500"]);
    assert_eq!(only(home.waits(1_000), "under way").len(), 1, "its own record is repeated");
    let told = home.logs();
    let expected = ["c1 ← c1.1 committed @1500, snapshot @1001", "2/r0 ← DECIDE c1.1 committed @1500"];
    assert_eq!(told, expected);
    assert_eq!(home.hears("c1", inquire(1, 900)), ["c1 ← c1.1 committed @1500"]);
}

fn life_of_home(home: &mut Alone) -> Life {
    let other = Message::OtherPeriod { transaction: txn(9, 9), period: Period::default() };
    home.hears("c9", other);
    let commit = Message::Commit {
        knows_indexes: false,
        transaction: txn(9, 9),
        session: Session::default(),
        snapshot: None,
        period: Period::default(),
        begun: at(900),
        writes: writes("apple=x"),
        shows: false,
    };
    home.hears("c9", commit);
    match home.said[..] {
        [Message::OtherPeriod { period, .. }] => period.life,
        ref other => panic!("it says in which period it is: {other:?}"),
    }
}

/// No shard lets in what has a snapshot below, and nobody still decides it.
#[test]
fn decisions_are_forgotten_by_a_time_that_the_leaders_of_shards_share() {
    let (mut home, life) = forgetful_leader();
    home.hears("3/r1", record(1, 1));
    home.hears("c5", inquire(2, 500));
    home.logs();
    let forgets = |told| only(told, "FORGOTTEN");
    assert_eq!(forgets(home.waits(20_000)), NOTHING, "no leader has told its time");
    home.hears("1/r0", Message::Time { life, clock: at(11_000_000) });
    assert_eq!(forgets(home.waits(500)), ["500 ms: appends FORGOTTEN @1500000"]);
    assert_eq!(forgets(home.waits(1_000)), NOTHING, "a quarter of the floor is a step");
    assert_eq!(forgets(home.waits(500)), ["500 ms: appends FORGOTTEN @3000000"]);
    home.logs();
    assert_eq!(
        home.machine.record_len(),
        2,
        "the commit is not settled, and the abort is not beyond the lag of the bound"
    );
    assert_eq!(home.hears("c5", inquire(9, 2_999_999)), ["c5 ← c1.9 is forgotten"]);
    assert_eq!(
        home.hears("2/r0", inquire(9, 2_999_999)),
        ["2/r0 ← DECIDE c1.9 aborted"],
        "a commit is settled first"
    );
    assert_eq!(home.hears("c5", inquire(3, 3_000_000)), ["appends RECORDED c1.3 aborted"]);
    assert_eq!(home.machine.floor().micros, 3_000_000);
    home.log.leads = None;
    assert!(!only(home.waits(2_000), "log takes nothing").is_empty());
}

#[test]
fn a_deposed_machine_records_again_what_it_had_decided() {
    let mut home = leader();
    let life = life_of_home(&mut home);
    let commit = Message::Commit {
        knows_indexes: false,
        transaction: txn(1, 1),
        session: Session::default(),
        snapshot: None,
        period: Period { life, number: 1 },
        begun: at(900),
        writes: writes("apple=x"),
        shows: false,
    };
    home.hears("c1", commit);
    let prepared =
        Message::Prepared { transaction: txn(1, 1), view: View(0), proposal: at(1_500), holders: vec![] };
    home.hears("2/r0", prepared);
    assert_eq!(home.is_deposed(), ["is deposed"]);
    let told = only(home.waits(1_000), "RECORD");
    assert_eq!(told, ["1000 ms: 3/r1 ← RECORD c1.1 committed @1500"]);
    let told = home.leads(1);
    assert_eq!(told, ["appends RECORDED c1.1 committed @1500", "leads v1"]);
    // An inquiry may have come first.
    let aborted = Decision { outcome: Outcome::Aborted, ..decision(1, 1, Outcome::Aborted) };
    home.is_deposed();
    let told = home.follows(&Entry::Recorded(std::sync::Arc::new(aborted)));
    assert_eq!(told, ["c1 ← c1.1 aborted: it was lost", "2/r0 ← DECIDE c1.1 aborted"]);
}

/// The one that answers its client knows it, whether or not it has the log.
#[test]
fn a_machine_that_has_committed_a_transaction_says_so_and_one_that_has_aborted_it_does_not_know() {
    let mut home = home(|_| {});
    let life = life_of_home(&mut home);
    for sequence in 1..=2 {
        let commit = Message::Commit {
            knows_indexes: false,
            transaction: txn(1, sequence),
            session: Session::default(),
            snapshot: None,
            period: Period { life, number: 1 },
            begun: at(900),
            writes: writes(if sequence == 1 { "apple=x" } else { "pear=x" }),
            shows: false,
        };
        home.hears("c1", commit);
    }
    let transaction = txn(1, 1);
    home.hears(
        "2/r0",
        Message::Prepared { transaction, view: View(0), proposal: at(1_500), holders: vec![] },
    );
    home.hears("3/r1", Message::Recorded { transaction, outcome: committed(1_500) });
    assert_eq!(home.hears("c1", inquire(1, 900)), ["c1 ← c1.1 committed @1500"]);
    assert_eq!(home.hears("2/r0", inquire(1, 900)), ["2/r0 ← DECIDE c1.1 committed @1500"]);
    home.hears(
        "2/r0",
        Message::Refused { transaction: txn(1, 2), refusal: quorate_str::message::Refusal::Conflict },
    );
    assert_eq!(
        home.hears("c1", inquire(2, 900)),
        ["c1 ← c1.2 NOT-LEADING, r1 does"],
        "its client may have gone on with it at another one"
    );
}

/// For as long as a commit of it may still be on its way.
#[test]
fn an_abort_by_an_inquiry_is_remembered_from_the_time_that_it_came() {
    let mut home = home(|config| {
        config.floor_lag = Duration::from_millis(1);
        config.certify_timeout = Duration::from_millis(1);
    });
    home.leads(0);
    for (sequence, snapshot) in [(1, 500), (2, 1_000), (3, 5_000)] {
        home.hears("c5", inquire(sequence, snapshot));
    }
    // By a clock that has leapt ahead, as far as a node follows it.
    home.clock = 900_000_000;
    home.hears("c5", inquire(4, 500));
    home.logs();
    let mut snapshots = Vec::new();
    for page in home.pages() {
        let quorate_str::Page::Decisions(decisions) = page else { continue };
        snapshots.extend(decisions.iter().map(|known| known.decision.snapshot.as_micros()));
    }
    assert_eq!(snapshots, [3_000, 3_000, 5_000, 1_001_000], "as far as the bound lags behind, at least");
}

/// Those that ask need not know the snapshot, by whose time a commit is remembered: that may lie far beyond.
#[test]
fn a_decision_that_may_come_after_an_abort_that_is_forgotten_is_recorded_as_an_abort() {
    let (mut home, life) = forgetful_leader();
    // The snapshot is by a clock that has leapt ahead.
    let told = |sequence, forgotten| Message::Record {
        decision: Decision { snapshot: at(90_000_000), ..decision(sequence, 1, committed(90_000_001)) },
        forgotten: Some(at(forgotten)),
    };
    home.hears("c5", inquire(1, 400));
    home.logs();
    home.waits(20_000);
    home.hears("1/r0", Message::Time { life, clock: at(20_000_001) });
    assert_eq!(only(home.waits(500), "FORGOTTEN"), ["500 ms: appends FORGOTTEN @10500001"]);
    home.logs();
    assert_eq!(home.machine.record_len(), 0, "the abort is forgotten");
    assert_eq!(home.hears("3/r1", told(1, 0)), ["appends RECORDED c1.1 aborted"]);
    assert_eq!(home.hears("3/r1", told(2, 500_000)), ["appends RECORDED c1.2 aborted"]);
    assert_eq!(
        home.hears("3/r1", told(3, 500_001)),
        ["appends RECORDED c1.3 committed @90000001"],
        "an abort that it has not heard of is still remembered"
    );
    let copy = Message::Record { decision: decision(4, 1, committed(900)), forgotten: Some(at(0)) };
    assert_eq!(home.hears("3/r1", copy), ["appends RECORDED c1.4 committed @900"], "it may have committed");
    let expected = ["aborted", "aborted", "committed @90000001", "aborted"].into_iter().zip(1..);
    let expected = expected.map(|(outcome, sequence)| format!("3/r1 ← RECORDED c1.{sequence} {outcome}"));
    assert_eq!(home.logs(), Vec::from_iter(expected));
    assert_eq!(home.hears("c5", inquire(4, 500)), ["c5 ← c1.4 is forgotten"], "nothing was entered");
}

/// Another machine has seen to it.
#[test]
fn a_commit_that_is_settled_is_told_to_no_shard_any_more() {
    let mut home = leader();
    home.hears("3/r1", record(1, 1));
    home.hears("3/r1", record(2, 1));
    home.logs();
    assert_eq!(only(home.waits(1_000), "DECIDE").len(), 4);
    home.hears("3/r1", Message::Settled { transactions: vec![txn(1, 1)] });
    let told = only(home.waits(1_000), "DECIDE");
    assert!(told.len() == 2 && told.iter().all(|line| line.contains("c1.2")), "{told:?}");
}
