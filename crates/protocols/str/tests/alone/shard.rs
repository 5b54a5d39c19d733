//! A replica of the first shard: transactions are let in, voted on and ended.

use quorate_str::Entry;

use super::*;

/// The first replica, which leads the first view, with the home of its node and a grant up to 2,001,000.
fn leader(change: impl FnOnce(&mut ReplicaConfig)) -> Alone {
    let mut shard = machine("1/r0", change);
    assert_eq!(shard.starts(), NOTHING);
    assert_eq!(shard.leads(0), ["leads v0"]);
    introduce(&mut shard);
    assert_eq!(shard.logs(), ["3/r0 ← BOUND @2001000"]);
    shard
}

fn shard() -> Alone {
    leader(|_| {})
}

/// The machine of its node greets it.
fn introduce(shard: &mut Alone) -> Vec<String> {
    let told = shard.does(ReplicaCommand::Meet(vec![replica("3/r0")]));
    assert_eq!(told, ["3/r0 ← HELLO, and who are you?"]);
    shard.hears("3/r0", Message::Hello { life: LIFE, wants: false })
}

fn prepare(sequence: u64, snapshot: u64, words: &str) -> Message {
    Message::Prepare {
        knows_indexes: false,
        transaction: txn(1, sequence),
        life: LIFE,
        snapshot: at(snapshot),
        writes: writes(words),
        after: Vec::new(),
        is_local: false,
    }
}

/// The same at the node of its home.
fn here(sequence: u64, snapshot: u64, words: &str) -> Message {
    let Message::Prepare { transaction, life, snapshot, writes, after, .. } =
        prepare(sequence, snapshot, words)
    else {
        unreachable!("it is one")
    };
    Message::Prepare { knows_indexes: false, transaction, life, snapshot, writes, after, is_local: true }
}

fn decide(sequence: u64, outcome: Outcome) -> Message {
    Message::Decide { transaction: txn(1, sequence), outcome, readers: Vec::new(), is_forgotten: false }
}

fn read_at(request: u64, snapshot: u64, wanted: Vec<Wanted>) -> Message {
    Message::ReadAt { life: LIFE, request, snapshot: at(snapshot), wanted }
}

/// An inquiry may come to the home long after all shards have applied the commit.
#[test]
fn an_answer_that_nothing_is_remembered_changes_no_commit() {
    let forgotten = |sequence| Message::Decide {
        transaction: txn(1, sequence),
        outcome: Outcome::Aborted,
        readers: Vec::new(),
        is_forgotten: true,
    };
    let mut shard = shard();
    shard.hears("4/r0", prepare(1, 500, "oak=x"));
    shard.hears("4/r0", prepare(2, 500, "elm=x"));
    shard.logs();
    assert_eq!(shard.hears("4/r0", decide(1, committed(900))), ["appends DECIDED c1.1 committed @900"]);
    assert_eq!(shard.hears("4/r0", forgotten(1)), ["✗ it has ended here"], "it is on its way into the log");
    shard.logs();
    assert_eq!(shard.hears("4/r0", forgotten(1)), ["✗ it has ended here"]);
    assert_eq!(shard.machine.outcome(txn(1, 1)), Some(committed(900)));
    assert_eq!(
        shard.hears("4/r0", forgotten(2)),
        ["appends DECIDED c1.2 aborted"],
        "a commit is forgotten later"
    );
}

#[test]
fn a_transaction_is_let_in_once_it_is_stable_and_ends_once_its_outcome_is() {
    let mut shard = shard();
    let told = shard.hears("4/r0", prepare(1, 500, "oak=x"));
    assert_eq!(told, ["appends PREPARED c1.1 oak=x in @500, @501"]);
    assert_eq!(shard.hears("4/r0", prepare(1, 500, "oak=x")), ["✗ under way already"]);
    assert_eq!(shard.machine.load(None), 1);
    let prepared = "4/r0 ← PREPARED c1.1 @501 under v0, nobody else votes";
    assert_eq!(shard.logs(), [prepared]);
    assert_eq!(shard.machine.prepared(), 1);
    assert_eq!(shard.hears("4/r0", prepare(1, 500, "oak=x")), [prepared], "it may be lost");
    assert_eq!(shard.hears("4/r1", decide(1, committed(900))), ["appends DECIDED c1.1 committed @900"]);
    assert_eq!(shard.hears("4/r0", decide(1, committed(900))), ["✗ under way already"]);
    assert_eq!(shard.logs(), ["4/r0 ← APPLIED c1.1"], "the one that has asked last");
    assert_eq!(shard.machine.decided(), (1, 0));
    assert_eq!((shard.machine.prepared(), shard.machine.load(None), shard.machine.record_len()), (0, 0, 1));
    assert_eq!(shard.machine.outcome(txn(1, 1)), Some(committed(900)));
    assert_eq!(shard.hears("4/r0", decide(1, committed(900))), ["4/r0 ← APPLIED c1.1"]);
    assert_eq!(shard.hears("4/r0", prepare(1, 500, "oak=x")), ["4/r0 ← APPLIED c1.1"]);
    let told = shard.hears("4/r0", prepare(2, 899, "oak=y"));
    assert_eq!(told, ["4/r0 ← REFUSED c1.2: overwritten @900"]);
    assert_eq!(shard.hears("4/r0", prepare(3, 900, "oak=y")).len(), 1);
    shard.logs();
    assert_eq!(shard.hears("4/r0", decide(3, Outcome::Aborted)), ["appends DECIDED c1.3 aborted"]);
    assert_eq!(shard.logs(), ["4/r0 ← APPLIED c1.3"]);
    assert_eq!(shard.machine.decided(), (1, 1));
    assert_eq!(shard.hears("4/r0", prepare(3, 900, "oak=y")), ["4/r0 ← REFUSED c1.3: a conflict"]);
    assert_eq!(shard.machine.versions().len(), 1);
}

/// A deletion below the floor may be forgotten, so the home goes by an answer there; but not where something is left out that it knows itself.
#[test]
fn an_answer_lacks_nothing_below_the_floor_but_for_what_is_left_out() {
    let mut shard = shard();
    shard.hears("3/r0", here(1, 500, "oak=x"));
    shard.logs();
    shard.follows(&Entry::Floor(at(600)));
    for (request, wanted, expected) in [
        (1, key("elm"), 600),
        (2, key("oak"), 500),
        (3, range("a", "n", 9), 600),
        (4, range("a", "z", 9), 500),
    ] {
        shard.hears("3/r0", read_at(request, 1_000, vec![wanted.clone()]));
        let [Message::ReadAtReply { floor, .. }] = &shard.said[..] else { panic!("{:?}", shard.said) };
        assert_eq!(*floor, at(expected), "{wanted:?}");
    }
}

/// So no two wait for each other.
#[test]
fn a_transaction_waits_for_one_with_a_lower_snapshot_and_is_refused_by_others() {
    let mut shard = shard();
    shard.hears("4/r0", prepare(1, 500, "oak=x"));
    shard.logs();
    assert_eq!(shard.hears("4/r0", prepare(2, 500, "oak=y")), ["4/r0 ← REFUSED c1.2: a conflict"]);
    assert_eq!(shard.hears("4/r0", prepare(3, 499, "oak=y")), ["4/r0 ← REFUSED c1.3: a conflict"]);
    assert_eq!(shard.hears("4/r0", prepare(4, 501, "oak=y")), NOTHING, "it waits");
    assert_eq!(shard.hears("4/r0", prepare(4, 501, "oak=y")), ["✗ under way already"]);
    assert_eq!(shard.machine.waiting(), 1);
    assert_eq!(shard.hears("4/r0", prepare(5, 501, "elm=y")).len(), 1, "another key");
    assert_eq!(shard.hears("4/r0", prepare(6, 700, "oak=z")), NOTHING);
    // One that has aborted must not be let in once it need not wait any longer.
    let told = shard.hears("4/r0", decide(6, Outcome::Aborted));
    assert_eq!(told, ["4/r0 ← APPLIED c1.6"]);
    assert_eq!(shard.machine.waiting(), 1);
    let told = shard.hears("4/r0", decide(1, Outcome::Aborted));
    assert_eq!(
        told,
        ["appends PREPARED c1.4 oak=y in @501, @502", "appends DECIDED c1.1 aborted"],
        "it has ended"
    );
    assert_eq!(shard.machine.waiting(), 0);
    assert_eq!(
        shard.hears("4/r0", prepare(6, 700, "oak=z")),
        ["4/r0 ← REFUSED c1.6: a conflict"],
        "its abort came before"
    );
}

#[test]
fn an_abort_that_overtakes_its_prepare_is_remembered_for_as_long_as_that_may_come() {
    let mut shard = leader(|config| config.floor_lag = Duration::from_secs(4));
    assert_eq!(shard.hears("4/r0", decide(1, Outcome::Aborted)), ["4/r0 ← APPLIED c1.1"]);
    shard.waits(3_999);
    let far = prepare(1, 3_990_000, "oak=x");
    assert_eq!(shard.hears("4/r0", far.clone()), ["4/r0 ← REFUSED c1.1: a conflict"]);
    shard.waits(501);
    assert_eq!(only(shard.hears("4/r0", far), "appends PREPARED").len(), 1);
}

/// Section 6.3: one more than the latest reader.
#[test]
fn a_proposal_is_above_those_who_have_read_what_is_overwritten() {
    let mut shard = shard();
    assert_eq!(
        shard.hears("4/r0", read_at(1, 900, vec![key("oak"), key("elm")])),
        ["4/r0 ← holds oak=nothing elm=nothing, number 1"]
    );
    assert_eq!(
        shard.hears("4/r0", read_at(2, 1_900, vec![range("e", "f", 9)])),
        ["4/r0 ← holds [], number 2"]
    );
    for (sequence, words, proposal) in [(1, "oak=x", 901), (2, "elm=x", 1_901), (3, "iris=x", 501)] {
        let told = shard.hears("4/r0", prepare(sequence, 500, words));
        assert_eq!(told, [format!("appends PREPARED c1.{sequence} {words} in @500, @{proposal}")]);
    }
    // Those at its own node have said so with the decision.
    let readers = vec![(Key::from("iris"), at(5_000))];
    shard.logs();
    let decides =
        Message::Decide { transaction: txn(1, 3), outcome: Outcome::Aborted, readers, is_forgotten: false };
    shard.hears("4/r0", decides);
    shard.logs();
    let told = shard.hears("4/r0", prepare(4, 600, "iris=y"));
    assert_eq!(told, ["appends PREPARED c1.4 iris=y in @600, @5001"]);
}

#[test]
fn a_proposal_follows_the_clock_where_timestamps_are_physical() {
    let mut shard = leader(|config| config.variant = quorate_str::Variant::CLOCK_SI);
    let told = shard.hears("4/r0", prepare(1, 500, "oak=x"));
    assert_eq!(told, ["appends PREPARED c1.1 oak=x in @500, @1000"]);
    let told = shard.hears("4/r0", prepare(2, 1_500, "elm=x"));
    assert_eq!(told, ["appends PREPARED c1.2 elm=x in @1500, @1501"]);
    // Another replica has served nothing above its bound.
    let mut backup = machine("1/r1", |config| config.variant = quorate_str::Variant::CLOCK_SI);
    backup.starts();
    introduce(&mut backup);
    backup.clock = 9_000;
    let told = backup.hears("3/r0", here(1, 500, "oak=x"));
    assert_eq!(told, ["3/r0 ← LOCAL-VOTE c1.1 @501"]);
}

#[test]
fn what_no_home_sends_is_dropped() {
    let mut shard = shard();
    for (words, is_formed) in [
        ("oak=x", true),
        ("elm=x oak=x", true),
        ("oak=x elm=x", false),
        ("oak=x oak=y", false),
        ("", false),
        ("apple=x", false),
        ("apple=x oak=x", false),
    ] {
        let told = shard.hears("4/r0", prepare(1, 500, words));
        let expected = if is_formed { "appends PREPARED" } else { "✗ no coordinator sends this" };
        assert!(told[0].starts_with(expected), "{words}: {told:?}");
        shard = super::shard::shard();
    }
    assert_eq!(shard.hears("c1", prepare(1, 500, "oak=x")), ["✗ only homes are told so"], "a client is none");
    for message in [prepare(1, 500, "oak=x"), decide(1, committed(5)), read_at(1, 5, vec![key("oak")])] {
        for from in ["1/r1", "2/r0"] {
            assert_eq!(shard.hears(from, message.clone()), ["✗ the sender has no say in this"], "{from}");
        }
    }
    let ask = Message::AskGrant { life: LIFE, wanted: at(0) };
    for from in ["2/r0", "3/r0"] {
        assert_eq!(shard.hears(from, ask.clone()), ["✗ the sender has no say in this"], "{from}");
    }
    let told = shard.hears("3/r0", Message::Time { life: LIFE, clock: at(5) });
    assert_eq!(told, ["✗ only homes are told so"]);
    let told = shard.hears("3/r0", Message::UnderWay { transaction: txn(1, 1) });
    assert_eq!(told, ["✗ only clients are told so"]);
    let unknown = Message::NotLeading { transaction: None, leader: ReplicaIndex(1) };
    assert_eq!(shard.hears("1/r1", unknown.clone()), ["✗ this is known"]);
    assert_eq!(shard.hears("3/r1", unknown), ["✗ the sender has no say in this"]);
}

#[test]
fn a_backup_notes_what_its_node_commits_and_lets_nothing_in() {
    let mut backup = machine("1/r1", |_| {});
    assert_eq!(backup.starts(), NOTHING);
    assert_eq!(backup.hears("3/r0", here(1, 500, "oak=x")), ["✗ said in another life"], "they have not met");
    // The leader of the log, as it knows, is itself: so it asks nobody for a grant.
    assert_eq!(introduce(&mut backup), ["✗ this replica does not lead"]);
    assert_eq!(backup.hears("3/r0", here(1, 500, "oak=x")), ["3/r0 ← LOCAL-VOTE c1.1 @501"]);
    assert_eq!(backup.hears("3/r0", here(1, 500, "oak=x")), ["✗ under way already"]);
    assert_eq!(backup.hears("3/r1", here(2, 500, "elm=x")), ["✗ said in another life"], "of another node");
    assert_eq!(backup.hears("3/r0", prepare(3, 500, "elm=x")), ["3/r0 ← c1.3 NOT-LEADING, r1 does"]);
    assert_eq!(backup.machine.load(None), 1);
    assert_eq!(backup.hears("3/r0", decide(1, Outcome::Aborted)), NOTHING);
    assert_eq!(backup.machine.load(None), 0);
    // A commit is noted until the log says so.
    backup.hears("3/r0", here(4, 500, "oak=x"));
    assert_eq!(backup.hears("3/r0", decide(4, committed(700))), NOTHING);
    assert_eq!(backup.machine.load(None), 1);
}

#[test]
fn a_local_certification_is_appended_by_a_replica_that_leads() {
    let mut shard = shard();
    let told = shard.hears("3/r0", here(1, 500, "oak=x"));
    assert_eq!(
        told,
        ["appends PREPARED c1.1 oak=x in @500, @501", "3/r0 ← LOCAL-VOTE c1.1 @501, and appends it"]
    );
    assert_eq!(shard.logs(), ["3/r0 ← PREPARED c1.1 @501 under v0, nobody else votes"]);
    shard.log.leads = None;
    let told = shard.hears("3/r0", here(2, 500, "elm=x"));
    assert_eq!(
        told,
        ["3/r0 ← LOCAL-VOTE c1.2 @501"],
        "the log takes nothing, and the home asks the leader again"
    );
    assert_eq!(shard.hears("4/r0", prepare(3, 500, "iris=x")), ["✗ the log takes nothing now"]);
    shard.log.leads = Some(View(0));
    assert_eq!(shard.hears("4/r0", prepare(3, 500, "iris=x")).len(), 1, "nothing is left of it");
}

#[test]
fn a_transaction_of_one_home_stands_on_top_of_another_one_of_it() {
    let mut shard = shard();
    shard.hears("3/r0", here(1, 500, "oak=x"));
    let on_top = |life| Message::Prepare {
        knows_indexes: false,
        transaction: txn(1, 2),
        life,
        snapshot: at(600),
        writes: writes("oak=y"),
        after: vec![txn(1, 1)],
        is_local: true,
    };
    assert_eq!(shard.hears("3/r0", on_top(Life(6))), ["✗ said in another life"]);
    let told = shard.hears("3/r0", on_top(LIFE));
    assert_eq!(told[0], "appends PREPARED c1.2 oak=y in @600, @601", "{told:?}");
    shard.logs();
    // They may be decided in any order.
    shard.hears("3/r0", decide(2, committed(900)));
    shard.logs();
    shard.hears("3/r0", decide(1, committed(700)));
    shard.logs();
    let told = shard.hears("4/r0", read_at(1, 1_000, vec![key("oak")]));
    assert_eq!(told, ["4/r0 ← holds oak=y@900, number 1"]);
    let told = shard.hears("4/r0", read_at(2, 800, vec![key("oak")]));
    assert_eq!(told, ["4/r0 ← holds oak=x@700, number 2"]);
}

/// A transaction that has committed at one node alone gives way to one that the shard lets in.
#[test]
fn a_vote_waits_until_notes_have_given_way() {
    let mut backup = machine("1/r1", |_| {});
    backup.starts();
    introduce(&mut backup);
    backup.hears("3/r0", here(1, 500, "oak=x"));
    backup.hears("3/r0", here(2, 500, "iris=x"));
    let holder = |until| Holder { replica: ReplicaIndex(1), life: LIFE, until: at(until) };
    let replicate = |sequence, snapshot, words: &[&str], view| Message::Replicate {
        transaction: txn(9, sequence),
        home: replica("4/r0"),
        life: LIFE,
        snapshot: at(snapshot),
        keys: words.iter().map(|word| Key::from(*word)).collect(),
        holder: holder(300),
        view: View(view),
    };
    let told = backup.hears("1/r0", replicate(1, 400, &["iris", "oak"], 0));
    assert_eq!(told, ["3/r0 ← GIVE-WAY c1.1", "3/r0 ← GIVE-WAY c1.2"]);
    assert_eq!(backup.machine.gave_way(), 2);
    assert_eq!(backup.hears("3/r0", decide(1, Outcome::Aborted)), NOTHING);
    let told = only(backup.waits(500), "GIVE-WAY");
    assert_eq!(told, ["500 ms: 3/r0 ← GIVE-WAY c1.2"], "the other one is asked again");
    assert_eq!(backup.machine.gave_way(), 2);
    let told = backup.hears("3/r0", decide(2, Outcome::Aborted));
    assert_eq!(told, ["4/r0 ← VOTE c9.1 @401 under v0"]);
    // Its own life was granted nothing, so it votes above the grant that the leader knows.
    let told = backup.hears("1/r0", replicate(2, 200, &["elm"], 0));
    assert_eq!(told, ["4/r0 ← VOTE c9.2 @301 under v0"]);
    assert_eq!(backup.hears("1/r0", replicate(3, 200, &["moss", "elm"], 0)), ["✗ no coordinator sends this"]);
    let stranger = Message::Replicate {
        transaction: txn(9, 4),
        home: replica("4/r0"),
        life: LIFE,
        snapshot: at(400),
        keys: vec![Key::from("sage")],
        holder: Holder { replica: ReplicaIndex(2), life: LIFE, until: at(300) },
        view: View(0),
    };
    assert_eq!(backup.hears("1/r0", stranger), ["✗ the sender has no say in this"], "it is for another one");
    assert_eq!(backup.hears("4/r0", replicate(5, 400, &["sage"], 0)), ["✗ the sender has no say in this"]);
}

/// As the log says it, too.
#[test]
fn a_vote_leaves_once_the_note_in_its_way_has_ended_in_the_log() {
    let mut backup = machine("1/r1", |_| {});
    backup.starts();
    introduce(&mut backup);
    backup.hears("3/r0", here(1, 500, "oak=x"));
    let replicate = Message::Replicate {
        transaction: txn(9, 1),
        home: replica("4/r0"),
        life: LIFE,
        snapshot: at(400),
        keys: vec![Key::from("oak")],
        holder: Holder { replica: ReplicaIndex(1), life: LIFE, until: at(300) },
        view: View(0),
    };
    assert_eq!(backup.hears("1/r0", replicate), ["3/r0 ← GIVE-WAY c1.1"]);
    let prepared = quorate_str::entry::Prepared {
        transaction: txn(1, 1),
        home: replica("3/r0"),
        life: LIFE,
        snapshot: at(500),
        proposal: at(501),
        writes: writes("oak=x"),
        view: View(0),
        holders: Vec::new(),
    };
    backup.follows(&quorate_str::Entry::Prepared(std::sync::Arc::new(prepared)));
    let decided = quorate_str::entry::Decided {
        transaction: txn(1, 1),
        outcome: Outcome::Aborted,
        readers: Vec::new(),
    };
    let told = backup.follows(&quorate_str::Entry::Decided(std::sync::Arc::new(decided)));
    assert_eq!(told, ["4/r0 ← VOTE c9.1 @401 under v0"]);
}

#[test]
fn a_leader_asks_the_home_what_became_of_a_transaction_that_holds_keys_for_long() {
    let mut shard = shard();
    shard.waits(250);
    shard.hears("4/r1", prepare(1, 500, "oak=x"));
    shard.logs();
    let asked = |told| only(told, "INQUIRE");
    assert_eq!(asked(shard.waits(2_249)), NOTHING);
    assert_eq!(shard.machine.recoveries(), 0);
    assert_eq!(asked(shard.waits(1)), ["1 ms: 4/r1 ← INQUIRE c1.1 of @500"]);
    assert_eq!(shard.machine.recoveries(), 1);
    let not_leading =
        |leader| Message::NotLeading { transaction: Some(txn(1, 1)), leader: ReplicaIndex(leader) };
    assert_eq!(shard.hears("4/r1", not_leading(0)), ["✗ this is known"], "it was asked this instant");
    assert_eq!(asked(shard.waits(1_999)), NOTHING);
    assert_eq!(
        asked(shard.waits(1)),
        ["1 ms: 4/r1 ← INQUIRE c1.1 of @500"],
        "its own machine may only be slow"
    );
    shard.waits(10);
    assert_eq!(shard.hears("4/r1", not_leading(1)), ["✗ this is known"], "it names itself");
    assert_eq!(shard.hears("3/r1", not_leading(0)), ["✗ this is known"], "of another home");
    assert_eq!(shard.hears("4/r1", not_leading(2)), ["4/r2 ← INQUIRE c1.1 of @500"]);
    let told = asked(shard.waits(4_000));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("4/r2 ←") && told[1].contains("4/r0 ←"), "then the others in turn: {told:?}");
    shard.hears("4/r0", decide(1, Outcome::Aborted));
    assert_eq!(shard.hears("4/r0", not_leading(2)), ["✗ nothing waits under this name"]);
    shard.logs();
    assert_eq!(asked(shard.waits(20_000)), NOTHING);
}

/// Only an entry of its own tells a leader that it leads: if that is applied, so is all that came before.
#[test]
fn a_leader_that_knows_nothing_of_a_commit_appends_it_before_it_vouches() {
    let mut shard = shard();
    assert_eq!(shard.hears("4/r0", decide(1, committed(900))), ["appends DECIDED c1.1 committed @900"]);
    assert_eq!(shard.hears("4/r1", decide(1, committed(900))), ["✗ under way already"]);
    assert_eq!(shard.logs(), ["4/r1 ← APPLIED c1.1"]);
    shard.log.leads = None;
    assert_eq!(shard.hears("4/r0", decide(2, committed(900))), ["✗ the log takes nothing now"]);
    let mut backup = machine("1/r1", |_| {});
    backup.starts();
    assert_eq!(backup.hears("4/r0", decide(1, committed(900))), NOTHING);
    assert_eq!(backup.hears("4/r0", decide(1, Outcome::Aborted)), NOTHING);
}

#[test]
fn a_backup_hears_of_an_outcome_from_the_log() {
    let mut backup = machine("1/r1", |_| {});
    backup.starts();
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
    let entry =
        |one: &quorate_str::entry::Prepared| quorate_str::Entry::Prepared(std::sync::Arc::new(one.clone()));
    assert_eq!(backup.follows(&entry(&prepared)), NOTHING);
    assert_eq!(backup.hears("4/r1", decide(1, committed(700))), NOTHING, "the home has said so");
    let stray = backup.hears("3/r1", decide(1, committed(700)));
    assert_eq!(stray, ["✗ the sender has no say in this"], "another home does not decide it");
    let decided =
        quorate_str::entry::Decided { transaction: txn(1, 1), outcome: committed(700), readers: Vec::new() };
    let decided = quorate_str::Entry::Decided(std::sync::Arc::new(decided));
    // It leads before the log says so: it says it.
    backup.log.leads = Some(View(1));
    assert_eq!(backup.leads(1), ["appends DECIDED c1.1 committed @700", "leads v1"]);
    assert_eq!(backup.is_deposed(), ["is deposed"]);
    assert_eq!(backup.follows(&decided), NOTHING);
    assert_eq!(backup.machine.decided(), (1, 0));
    assert_eq!(backup.hears("4/r0", decide(1, committed(700))), ["✗ it has ended here"]);
    // One that has ended before its prepare was appended holds nothing.
    assert_eq!(backup.follows(&entry(&prepared)), NOTHING);
    assert_eq!(backup.machine.load(None), 0);
}

#[test]
fn the_floor_follows_the_clock_in_steps() {
    let mut shard = leader(|config| config.floor_lag = Duration::from_secs(4));
    shard.hears("4/r0", prepare(1, 500, "oak=x"));
    shard.logs();
    shard.hears("4/r0", decide(1, committed(900)));
    shard.logs();
    let floors = |told| only(told, "FLOOR");
    assert_eq!(floors(shard.waits(4_500)), NOTHING, "a second is a step");
    assert_eq!(floors(shard.waits(500)), ["500 ms: appends FLOOR @1001000"]);
    assert_eq!(floors(shard.waits(1_000)), NOTHING);
    shard.logs();
    assert_eq!(shard.machine.record_len(), 0);
    assert_eq!(shard.machine.floor().micros, 1_001_000);
    let told = shard.hears("4/r0", prepare(2, 1_000_999, "oak=x"));
    assert_eq!(told, ["4/r0 ← REFUSED c1.2: older than @1001000"]);
    assert_eq!(only(shard.hears("4/r0", prepare(3, 1_001_000, "oak=x")), "appends PREPARED").len(), 1);
    let told = shard.hears("4/r0", read_at(1, 1_000_999, vec![key("oak")]));
    assert_eq!(told, ["4/r0 ← CANNOT-READ: older than @1001000, number 1"]);
    shard.log.leads = None;
    assert_eq!(only(shard.waits(500), "log takes nothing").len(), 1);
    shard.log.leads = Some(View(0));
    assert_eq!(floors(shard.waits(500)), ["500 ms: appends FLOOR @3001000"]);
}

#[test]
fn only_so_many_requests_wait_at_one_replica() {
    let mut shard = leader(|config| config.waiting_max = 2);
    shard.hears("4/r0", prepare(1, 500, "oak=x"));
    shard.logs();
    assert_eq!(shard.hears("4/r0", prepare(2, 600, "oak=y")), NOTHING);
    assert_eq!(shard.hears("4/r0", read_at(1, 600, vec![key("oak")])), NOTHING);
    assert_eq!(shard.hears("4/r0", read_at(2, 600, vec![key("oak")])), ["✗ too many requests wait"]);
    assert_eq!(shard.hears("4/r0", prepare(3, 600, "oak=z")), ["4/r0 ← REFUSED c1.3: too much to do"]);
    assert_eq!(shard.machine.waiting(), 2);
    let told = shard.hears("4/r0", decide(1, committed(550)));
    assert_eq!(only(told.clone(), "holds oak=x@550, number 1").len(), 1, "{told:?}");
    assert_eq!(shard.machine.waiting(), 0);
}

#[test]
fn the_notes_of_an_earlier_life_of_its_home_are_dropped() {
    let mut backup = machine("1/r1", |_| {});
    backup.starts();
    introduce(&mut backup);
    backup.hears("3/r0", here(1, 500, "oak=x"));
    assert_eq!(
        backup.hears("3/r1", Message::Hello { life: Life(8), wants: true }),
        ["✗ the sender is on another node"]
    );
    assert_eq!(backup.hears("3/r0", Message::Hello { life: LIFE, wants: true }), ["3/r0 ← HELLO"]);
    assert_eq!(backup.machine.load(None), 1);
    let told = backup.hears("3/r0", Message::Hello { life: Life(8), wants: false });
    assert_eq!(told, NOTHING, "it has asked for a grant a moment ago");
    assert_eq!(backup.machine.load(None), 0);
    assert_eq!(backup.hears("3/r0", here(2, 500, "oak=x")), ["✗ said in another life"]);
    // Another machine has come to its node.
    let told = backup.does(ReplicaCommand::Meet(vec![replica("4/r2"), replica("1/r0")]));
    assert_eq!(told, ["4/r2 ← HELLO, and who are you?"]);
    let told = backup.does(ReplicaCommand::Meet(vec![]));
    assert_eq!(told, NOTHING);
}

#[test]
fn a_state_that_replaces_another_one_has_all_of_it() {
    let mut shard = shard();
    shard.hears("4/r0", prepare(1, 500, "oak=x"));
    shard.hears("4/r0", prepare(2, 500, "elm=x"));
    shard.logs();
    let decides = Message::Decide {
        transaction: txn(1, 1),
        outcome: committed(900),
        readers: vec![(Key::from("oak"), at(950))],
        is_forgotten: false,
    };
    shard.hears("4/r0", decides);
    shard.logs();
    let pages = shard.pages();
    let mut copy = machine("1/r1", |_| {});
    copy.starts();
    introduce(&mut copy);
    copy.hears("3/r0", here(3, 500, "iris=x"));
    copy.hears("4/r0", decide(2, Outcome::Aborted));
    copy.machine.replace_state(quorate_core::log::Position(9), pages.clone());
    assert_eq!(copy.pages(), pages);
    assert_eq!((copy.machine.prepared(), copy.machine.load(None)), (1, 2), "what it has noted stays");
    let told = copy.hears("3/r0", here(4, 950, "oak=z"));
    assert_eq!(told, ["3/r0 ← LOCAL-VOTE c1.4 @951"]);
}
