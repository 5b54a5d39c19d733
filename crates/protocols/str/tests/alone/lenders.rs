//! A replica of the first shard: snapshots are granted and read.

use quorate_core::topology::Grants;

use super::*;

fn ask(life: Life, wanted: u64) -> Message {
    Message::AskGrant { life, wanted: at(wanted) }
}

fn read_at(request: u64, snapshot: u64, wanted: Vec<Wanted>) -> Message {
    Message::ReadAt { life: LIFE, request, snapshot: at(snapshot), wanted }
}

fn prepare(sequence: u64, snapshot: u64, words: &str) -> Message {
    let (transaction, snapshot, writes) = (txn(1, sequence), at(snapshot), writes(words));
    Message::Prepare {
        knows_indexes: false,
        transaction,
        life: LIFE,
        snapshot,
        writes,
        after: Vec::new(),
        is_local: false,
    }
}

fn decide(sequence: u64, outcome: Outcome) -> Message {
    Message::Decide { transaction: txn(1, sequence), outcome, readers: Vec::new(), is_forgotten: false }
}

fn leader(change: impl FnOnce(&mut ReplicaConfig)) -> Alone {
    let mut shard = machine("1/r0", change);
    shard.starts();
    shard.leads(0);
    shard
}

#[test]
fn a_grant_reaches_as_far_as_the_clock_and_its_length() {
    let mut shard = leader(|_| {});
    assert_eq!(shard.hears("1/r1", ask(Life(5), 0)), ["appends GRANTED r1 up to @2001000"]);
    assert_eq!(shard.hears("1/r1", ask(Life(5), 0)), ["✗ granted already"]);
    assert_eq!(shard.logs(), NOTHING, "it concerns another one");
    assert_eq!(shard.hears("1/r1", ask(Life(6), 0)), ["appends GRANTED r1 up to @2001000"], "another life");
    shard.waits(999);
    assert_eq!(shard.hears("1/r1", ask(Life(6), 0)), ["✗ granted already"], "for more than half of it");
    shard.waits(1);
    assert_eq!(shard.hears("1/r1", ask(Life(6), 0)), ["appends GRANTED r1 up to @3001000"]);
    // The clocks of other shards' leaders may be ahead, but not that far.
    assert_eq!(shard.hears("1/r1", ask(Life(6), 9_000_000)), ["appends GRANTED r1 up to @11000000"]);
    assert_eq!(shard.hears("1/r2", ask(Life(5), 900_000_000)), ["appends GRANTED r2 up to @33001000"]);
    assert_eq!(shard.hears("1/r7", ask(Life(5), 0)), ["✗ the sender has no say in this"], "it is no member");
    shard.log.leads = None;
    assert_eq!(shard.hears("1/r1", ask(Life(8), 0)), ["✗ the log takes nothing now"]);
    shard.log.leads = Some(View(0));
    assert_eq!(
        shard.hears("1/r1", ask(Life(8), 0)),
        ["appends GRANTED r1 up to @11000000"],
        "no less than before"
    );
    shard.is_deposed();
    assert_eq!(shard.hears("1/r1", ask(Life(8), 0)), ["✗ this replica does not lead"]);
}

#[test]
fn those_who_were_granted_snapshots_vote_on_what_is_let_in_later() {
    let mut shard = leader(|_| {});
    shard.hears("1/r1", ask(Life(5), 0));
    shard.hears("1/r2", ask(Life(5), 0));
    shard.logs();
    let told = shard.hears("4/r0", prepare(1, 500, "oak=x"));
    let expected = [
        "appends PREPARED c1.1 oak=x in @500, @501",
        "1/r1 ← REPLICATE c1.1 oak in @500, granted up to @2001000",
        "1/r2 ← REPLICATE c1.1 oak in @500, granted up to @2001000",
    ];
    assert_eq!(told, expected);
    let told = shard.logs();
    assert_eq!(told, ["4/r0 ← PREPARED c1.1 @501 under v0, granted r1 up to @2001000, r2 up to @2001000"]);
    let told = shard.hears("4/r0", prepare(2, 2_001_000, "elm=x"));
    assert_eq!(told, ["appends PREPARED c1.2 elm=x in @2001000, @2001001"], "none serves anything above");
}

/// A read is served under a grant; until there is one it waits, and the leader is asked.
#[test]
fn a_backup_asks_for_a_grant_and_serves_what_waits_for_it() {
    let mut backup = machine("1/r0", |_| {});
    backup.starts();
    let told = backup.hears("4/r0", read_at(1, 700, vec![key("oak")]));
    assert_eq!(told, ["1/r1 ← ASK-GRANT for @700"]);
    let life = life_of(&backup);
    assert_eq!(backup.hears("4/r0", read_at(2, 2_500_000, vec![key("oak")])), NOTHING, "it was asked");
    assert_eq!(backup.hears("4/r0", read_at(6, 2_000_000, vec![key("oak")])), NOTHING);
    assert_eq!(backup.machine.waiting(), 3);
    assert_eq!(backup.waits(499), NOTHING);
    assert_eq!(backup.waits(1), ["1 ms: 1/r1 ← ASK-GRANT for @2500000"], "the latest that waits");
    let granted = |life, until, clock| {
        let holders = vec![Holder { replica: ReplicaIndex(0), life, until: at(until) }];
        quorate_str::Entry::Granted(quorate_str::entry::Granted { view: View(0), clock: at(clock), holders })
    };
    let told = backup.follows(&granted(life, 2_000_000, 1_000));
    let served = ["4/r0 ← holds oak=nothing, number 1", "4/r0 ← holds oak=nothing, number 6"];
    assert_eq!(told, served, "the other one waits");
    assert_eq!(backup.machine.waiting(), 1);
    let told = backup.hears("4/r0", read_at(3, 1_999_999, vec![key("oak"), range("a", "z", 5)]));
    assert_eq!(told, ["4/r0 ← holds oak=nothing [], number 3"]);
    let told = backup.hears("4/r0", read_at(4, 2_000_000, vec![key("oak")]));
    assert_eq!(told, ["4/r0 ← holds oak=nothing, number 4"]);
    // A snapshot that lies too far ahead of the clock of the leader is refused with the next grant.
    backup.hears("4/r0", read_at(5, 40_000_000, vec![key("oak")]));
    let told = backup.follows(&granted(life, 3_000_000, 1_000_000));
    let expected = ["4/r0 ← CANNOT-READ: ahead of @1000000, number 5", "4/r0 ← holds oak=nothing, number 2"];
    assert_eq!(told, expected);
    assert_eq!(backup.machine.waiting(), 0);
    // A grant of another life says that readers are forgotten.
    backup.follows(&granted(Life(1), 5_000_000, 1_000_000));
    backup.does(ReplicaCommand::Meet(vec![replica("3/r0")]));
    backup.hears("3/r0", Message::Hello { life: LIFE, wants: false });
    let here = Message::Prepare {
        knows_indexes: false,
        transaction: txn(1, 1),
        life: LIFE,
        snapshot: at(500),
        writes: writes("iris=x"),
        after: Vec::new(),
        is_local: true,
    };
    assert_eq!(backup.hears("3/r0", here), ["3/r0 ← LOCAL-VOTE c1.1 @5000001"]);
}

#[test]
fn a_replica_asks_for_more_while_somebody_reads() {
    let mut shard = leader(|_| {});
    assert_eq!(shard.hears("4/r0", read_at(1, 700, vec![key("oak")])), ["appends GRANTED r0 up to @2001000"]);
    assert_eq!(shard.logs(), ["4/r0 ← holds oak=nothing, number 1"]);
    assert_eq!(
        shard.waits(5_000).into_iter().filter(|line| line.contains("GRANTED")).count(),
        0,
        "nobody has read since"
    );
    shard.hears("4/r0", read_at(2, 800, vec![key("oak")]));
    let told = only(shard.waits(500), "GRANTED");
    assert_eq!(told, ["500 ms: appends GRANTED r0 up to @7501000"]);
    shard.logs();
    shard.hears("4/r0", read_at(3, 900, vec![key("oak")]));
    assert_eq!(only(shard.waits(500), "GRANTED"), NOTHING, "it does not end for a while");
    assert_eq!(only(shard.waits(500), "GRANTED"), ["500 ms: appends GRANTED r0 up to @8501000"]);
}

#[test]
fn a_leader_refuses_snapshots_that_are_far_ahead_of_its_clock() {
    let mut shard = leader(|config| config.ahead_max = Duration::from_secs(10));
    let told = shard.hears("4/r0", read_at(1, 10_001_001, vec![key("oak")]));
    assert_eq!(told, ["4/r0 ← CANNOT-READ: ahead of @1000, number 1"]);
    let told = shard.hears("4/r0", prepare(1, 10_001_001, "oak=x"));
    assert_eq!(told, ["4/r0 ← REFUSED c1.1: ahead of @1000"]);
    let told = shard.hears("4/r0", read_at(2, 10_001_000, vec![key("oak")]));
    assert_eq!(told, ["appends GRANTED r0 up to @12001000"]);
    shard.logs();
    // A snapshot that was granted is served at any reading of the clock.
    let told = shard.hears("4/r0", read_at(3, 12_001_000, vec![key("oak")]));
    assert_eq!(told, ["4/r0 ← holds oak=nothing, number 3"]);
}

#[test]
fn a_reader_waits_for_what_may_commit_in_its_snapshot() {
    let mut shard = leader(|_| {});
    shard.hears("4/r0", read_at(1, 400, vec![key("oak")]));
    shard.logs();
    shard.hears("4/r0", prepare(1, 500, "elm=x oak=x"));
    shard.logs();
    let told = shard.hears("4/r0", read_at(2, 500, vec![key("oak")]));
    assert_eq!(told, ["4/r0 ← holds oak=nothing, number 2"], "it commits above its own snapshot");
    assert_eq!(shard.hears("4/r0", read_at(3, 501, vec![key("oak")])), NOTHING);
    assert_eq!(shard.hears("4/r0", read_at(4, 900, vec![range("a", "z", 9)])), NOTHING);
    assert_eq!(
        shard.hears("4/r0", read_at(5, 900, vec![key("iris")])),
        ["4/r0 ← holds iris=nothing, number 5"]
    );
    // A read that waits has left its trace.
    let told = shard.hears("4/r0", prepare(2, 500, "iris=y"));
    assert_eq!(told, ["appends PREPARED c1.2 iris=y in @500, @901"]);
    let told = shard.hears("4/r0", decide(1, committed(600)));
    let expected = ["appends DECIDED c1.1 committed @600", "4/r0 ← holds oak=nothing, number 3"];
    assert_eq!(told, expected, "it is above that snapshot; the range waits for another one");
    let told = shard.hears("4/r0", decide(2, Outcome::Aborted));
    assert_eq!(
        told,
        ["4/r0 ← APPLIED c1.2"]
            .map(|_| "appends DECIDED c1.2 aborted")
            .into_iter()
            .chain(["4/r0 ← holds [elm=x@600 oak=x@600], number 4"])
            .collect::<Vec<_>>()
    );
    let told = shard.hears("4/r0", read_at(6, 900, vec![key("oak"), range("a", "z", 1), range("f", "z", 9)]));
    assert_eq!(told, ["4/r0 ← holds oak=x@600 [elm=x@600 … iris] [oak=x@600], number 6"]);
    shard.logs();
    let told = shard.hears("4/r0", read_at(7, 900, vec![range("a", "z", 1)]));
    assert_eq!(told, ["4/r0 ← holds [elm=x@600 … oak], number 7"]);
}

/// Nothing is left of a transaction that has aborted, not even the end of a page.
#[test]
fn a_key_that_nobody_holds_any_more_is_no_key() {
    let mut shard = leader(|_| {});
    shard.hears("4/r0", read_at(1, 400, vec![key("oak")]));
    shard.logs();
    shard.hears("4/r0", prepare(1, 500, "elm=x"));
    shard.hears("4/r0", prepare(2, 500, "iris=x"));
    shard.logs();
    shard.hears("4/r0", decide(1, committed(600)));
    shard.hears("4/r0", decide(2, Outcome::Aborted));
    shard.logs();
    let told = shard.hears("4/r0", read_at(2, 900, vec![range("a", "z", 1)]));
    assert_eq!(told, ["4/r0 ← holds [elm=x@600], number 2"]);
}

/// Its home has asked elsewhere by then, or is gone.
#[test]
fn a_reader_that_has_waited_for_long_is_given_up() {
    let mut shard = leader(|config| config.certify_timeout = Duration::from_secs(3));
    shard.hears("4/r0", read_at(1, 400, vec![key("oak")]));
    shard.logs();
    shard.hears("4/r0", prepare(1, 500, "oak=x"));
    shard.logs();
    shard.waits(100);
    shard.hears("4/r0", read_at(2, 900, vec![key("oak")]));
    shard.hears("4/r0", read_at(3, 3_900_000, vec![key("oak")]));
    shard.hears("4/r0", prepare(2, 900, "oak=y"));
    assert_eq!(shard.machine.waiting(), 3);
    shard.waits(2_900);
    assert_eq!(shard.machine.waiting(), 3);
    shard.waits(500);
    assert_eq!(shard.machine.waiting(), 1, "what wants to commit is told by its home");
}

/// The home of a node has what was noted for it in its own cache.
#[test]
fn a_reader_of_the_own_node_does_not_wait_for_what_was_noted_for_it() {
    let mut shard = leader(|_| {});
    shard.does(ReplicaCommand::Meet(vec![replica("3/r0")]));
    shard.hears("3/r0", Message::Hello { life: LIFE, wants: false });
    shard.logs();
    let here = Message::Prepare {
        knows_indexes: false,
        transaction: txn(1, 1),
        life: LIFE,
        snapshot: at(500),
        writes: writes("oak=x"),
        after: Vec::new(),
        is_local: true,
    };
    shard.hears("3/r0", here);
    assert_eq!(
        shard.hears("3/r0", read_at(1, 900, vec![key("oak")])),
        ["3/r0 ← holds oak=nothing, number 1"]
    );
    assert_eq!(shard.hears("3/r1", read_at(2, 900, vec![key("oak")])), NOTHING, "of another node");
    let other = Message::ReadAt { life: Life(8), request: 3, snapshot: at(900), wanted: vec![key("oak")] };
    assert_eq!(shard.hears("3/r0", other), ["✗ said in another life"]);
}

#[test]
fn where_leaders_alone_are_granted_snapshots_others_name_the_leader() {
    let mut backup = machine("1/r0", |config| config.grants = Grants::Leader);
    backup.starts();
    let told = backup.hears("4/r0", read_at(1, 700, vec![key("oak")]));
    assert_eq!(told, ["4/r0 ← CANNOT-READ: r1 leads, number 1"]);
    assert_eq!(backup.machine.waiting(), 0);
    let mut shard = leader(|config| config.grants = Grants::Leader);
    assert_eq!(shard.hears("1/r1", ask(Life(5), 0)), ["✗ leaders alone are granted snapshots"]);
    let told = shard.hears("4/r0", read_at(1, 700, vec![key("oak")]));
    assert_eq!(told, ["appends GRANTED r0 up to @2001000"]);
    assert_eq!(shard.logs(), ["4/r0 ← holds oak=nothing, number 1"]);
}

#[test]
fn a_leader_tells_its_time() {
    let mut shard = leader(|_| {});
    assert_eq!(shard.hears("4/r0", Message::AskTime { life: LIFE }), ["4/r0 ← TIME @1000"]);
    shard.is_deposed();
    assert_eq!(shard.hears("4/r0", Message::AskTime { life: LIFE }), ["4/r0 ← NOT-LEADING, r1 does"]);
}

/// A leader that was deposed holds what it has appended until a grant of a later view: its own entries may come right after the last grant.
#[test]
fn what_a_deposed_leader_has_appended_holds_its_keys_until_a_grant_of_a_later_view() {
    let mut shard = leader(|_| {});
    shard.hears("4/r0", read_at(1, 400, vec![key("oak")]));
    shard.logs();
    let life = {
        shard.does(ReplicaCommand::Meet(vec![replica("3/r0")]));
        life_of(&shard)
    };
    shard.hears("4/r0", prepare(1, 500, "oak=x"));
    assert_eq!(shard.is_deposed(), ["is deposed"]);
    assert_eq!(shard.machine.load(None), 1);
    assert_eq!(shard.hears("4/r0", read_at(2, 900, vec![key("oak")])), NOTHING, "it may be in the log");
    let granted = |view| {
        let holders = vec![Holder { replica: ReplicaIndex(0), life, until: at(3_000_000) }];
        quorate_str::Entry::Granted(quorate_str::entry::Granted {
            view: View(view),
            clock: at(1_000),
            holders,
        })
    };
    assert_eq!(shard.follows(&granted(0)), NOTHING);
    assert_eq!(shard.machine.load(None), 1);
    assert_eq!(shard.follows(&granted(1)), ["4/r0 ← holds oak=nothing, number 2"], "it is not");
    assert_eq!(shard.machine.load(None), 0);
    assert_eq!(shard.is_deposed(), ["✗ this replica does not lead"]);
}

/// Another replica serves snapshots of that time, and so does this one once it is granted as much.
#[test]
fn a_snapshot_that_any_replica_was_granted_is_not_too_far_ahead() {
    let mut shard = leader(|_| {});
    assert_eq!(shard.hears("1/r2", ask(Life(5), 900_000_000)), ["appends GRANTED r2 up to @32001000"]);
    let told = shard.hears("4/r0", read_at(1, 32_001_001, vec![key("oak")]));
    assert_eq!(told, ["4/r0 ← CANNOT-READ: ahead of @1000, number 1"]);
    let told = shard.hears("4/r0", read_at(2, 32_001_000, vec![key("oak")]));
    assert_eq!(told, ["appends GRANTED r0 up to @32001000"], "as far as a grant may reach");
    let told = only(shard.hears("4/r0", prepare(1, 32_001_000, "elm=x")), "appends");
    assert_eq!(told, ["appends PREPARED c1.1 elm=x in @32001000, @32001001"]);
}

/// By the clock of the leader that has granted one.
#[test]
fn a_reader_that_waits_for_a_grant_is_refused_beyond_the_greatest_that_may_come() {
    let mut backup = machine("1/r0", |_| {});
    backup.starts();
    backup.hears("4/r0", read_at(1, 31_000_000, vec![key("oak")]));
    let life = life_of(&backup);
    backup.hears("4/r0", read_at(2, 31_000_001, vec![key("oak")]));
    let holders = vec![Holder { replica: ReplicaIndex(0), life, until: at(3_000_000) }];
    let granted = quorate_str::entry::Granted { view: View(0), clock: at(1_000_000), holders };
    let told = backup.follows(&quorate_str::Entry::Granted(granted));
    assert_eq!(told, ["4/r0 ← CANNOT-READ: ahead of @1000000, number 2"]);
    assert_eq!(backup.machine.waiting(), 1);
    // Its bound may be above that.
    backup.hears("4/r0", read_at(3, 35_000_000, vec![key("oak")]));
    let holders = vec![Holder { replica: ReplicaIndex(0), life, until: at(35_000_000) }];
    let granted = quorate_str::entry::Granted { view: View(0), clock: at(1_000_000), holders };
    assert_eq!(only(backup.follows(&quorate_str::Entry::Granted(granted)), "holds").len(), 2);
}

/// A grant has served all others that had read there.
#[test]
fn a_replica_that_leads_grants_itself_what_its_readers_wait_for() {
    for waits in [false, true] {
        let mut backup = machine("1/r0", |_| {});
        backup.starts();
        backup.hears("4/r0", read_at(1, 700, vec![key("oak")]));
        let life = life_of(&backup);
        if waits {
            backup.hears("4/r0", read_at(2, 20_000_000, vec![key("oak")]));
        }
        let holders = vec![Holder { replica: ReplicaIndex(0), life, until: at(3_000_000) }];
        let granted = quorate_str::entry::Granted { view: View(0), clock: at(1_000_000), holders };
        assert_eq!(only(backup.follows(&quorate_str::Entry::Granted(granted)), "holds").len(), 1);
        let expected = match waits {
            true => vec!["appends GRANTED r0 up to @22000000", "leads v1"],
            false => vec!["leads v1"],
        };
        assert_eq!(backup.leads(1), expected);
    }
}

/// A note of a life that is over is nobody's; what the log has is the shard's all the same.
#[test]
fn the_next_life_of_a_home_waits_for_what_the_one_before_has_prepared() {
    let mut shard = leader(|_| {});
    shard.does(ReplicaCommand::Meet(vec![replica("3/r0")]));
    shard.hears("3/r0", Message::Hello { life: LIFE, wants: false });
    shard.logs();
    let here = Message::Prepare {
        knows_indexes: false,
        transaction: txn(1, 1),
        life: LIFE,
        snapshot: at(500),
        writes: writes("oak=x"),
        after: Vec::new(),
        is_local: true,
    };
    shard.hears("3/r0", here);
    shard.logs();
    assert_eq!(
        shard.hears("3/r0", read_at(1, 900, vec![key("oak")])),
        ["3/r0 ← holds oak=nothing, number 1"]
    );
    shard.hears("3/r0", Message::Hello { life: Life(8), wants: false });
    assert_eq!(shard.machine.load(None), 1);
    let read = Message::ReadAt { life: Life(8), request: 2, snapshot: at(900), wanted: vec![key("oak")] };
    assert_eq!(shard.hears("3/r0", read), NOTHING);
    let told = shard.hears("3/r0", decide(1, committed(800)));
    assert_eq!(told, ["appends DECIDED c1.1 committed @800", "3/r0 ← holds oak=x@800, number 2"]);
}

/// An operator reads versions that may no more change: a commit that may come below is waited for, and one above is not.
#[test]
fn an_operator_waits_for_what_may_commit_below_a_snapshot() {
    use quorate_core::log::FrozenAt;
    let may_read = |shard: &mut Alone, micros: u64| {
        let below = Timestamp { micros, client: ClientId(0) };
        match shard.machine.freeze_at(below) {
            FrozenAt::Frozen(_) => Some(true),
            FrozenAt::NotYet => Some(false),
            FrozenAt::Passed => None,
        }
    };
    let mut shard = leader(|config| config.floor_lag = Duration::from_secs(4));
    assert_eq!(may_read(&mut shard, 1_000), Some(false), "nobody has been granted that");
    // It is a reader, and a grant is asked for while somebody reads.
    assert_eq!(only(shard.waits(500), "GRANTED"), ["500 ms: appends GRANTED r0 up to @2501000"]);
    shard.logs();
    assert_eq!((may_read(&mut shard, 2_501_001), may_read(&mut shard, 2_501_002)), (Some(true), Some(false)));
    let mut backup = machine("1/r0", |_| {});
    backup.starts();
    backup.hears("4/r0", read_at(1, 700, vec![key("oak")]));
    let holders = vec![Holder { replica: ReplicaIndex(0), life: life_of(&backup), until: at(9_000) }];
    let granted = quorate_str::entry::Granted { view: View(0), clock: at(1_000), holders };
    backup.follows(&quorate_str::Entry::Granted(granted));
    let prepared = quorate_str::entry::Prepared {
        transaction: txn(1, 1),
        home: replica("4/r0"),
        life: LIFE,
        snapshot: at(500),
        proposal: at(501),
        writes: writes("oak=x"),
        view: View(0),
        holders: Vec::new(),
    };
    backup.follows(&quorate_str::Entry::Prepared(std::sync::Arc::new(prepared)));
    assert_eq!(may_read(&mut backup, 501), Some(true), "it commits above its own snapshot");
    assert_eq!(may_read(&mut backup, 502), Some(false));
    // The home has told of its end, and the log does not say so yet: then the version is not there.
    backup.hears("4/r0", decide(1, committed(700)));
    assert_eq!((may_read(&mut backup, 700), may_read(&mut backup, 701)), (Some(true), Some(false)));
    let decided =
        quorate_str::entry::Decided { transaction: txn(1, 1), outcome: committed(700), readers: Vec::new() };
    backup.follows(&quorate_str::Entry::Decided(std::sync::Arc::new(decided)));
    assert_eq!(may_read(&mut backup, 701), Some(true));
    backup.follows(&quorate_str::Entry::Floor(at(600)));
    assert_eq!(
        (may_read(&mut backup, 600), may_read(&mut backup, 601)),
        (None, Some(true)),
        "it is collected"
    );
}

/// It is nothing that may commit.
#[test]
fn an_operator_does_not_wait_for_what_has_aborted() {
    use quorate_core::log::FrozenAt;
    let mut shard = leader(|_| {});
    shard.hears("4/r0", read_at(1, 900, vec![key("oak")]));
    shard.logs();
    shard.hears("4/r0", prepare(1, 500, "oak=x"));
    shard.logs();
    let below = Timestamp { micros: 900, client: ClientId(0) };
    assert!(matches!(shard.machine.freeze_at(below), FrozenAt::NotYet));
    shard.hears("4/r0", decide(1, Outcome::Aborted));
    assert!(matches!(shard.machine.freeze_at(below), FrozenAt::Frozen(_)), "the log does not say so yet");
}
