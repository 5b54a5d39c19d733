//! A replica of the first shard: what holds keys, for whom and for how long, and what its state is as pages.

mod lives;

use std::sync::Arc;

use quorate_core::changes::Retention;
use quorate_core::log::Position;
use quorate_core::transaction::KeyVersion;
use quorate_core::{Groups, Members};
use quorate_str::entry::{Decided, Granted, Prepared};
use quorate_str::{Entry, Page};

use super::*;

fn backup(change: impl FnOnce(&mut ReplicaConfig)) -> Alone {
    let mut backup = machine("1/r1", change);
    backup.starts();
    backup
}

fn leader(change: impl FnOnce(&mut ReplicaConfig)) -> Alone {
    let mut shard = machine("1/r0", change);
    shard.starts();
    shard.leads(0);
    shard
}

/// The machine of its node greets it. Gives the life in which it is.
fn introduce(shard: &mut Alone) -> Life {
    shard.does(ReplicaCommand::Meet(vec![replica("3/r0")]));
    let life = life_of(shard);
    shard.hears("3/r0", Message::Hello { life: LIFE, wants: false });
    life
}

fn prepare(sequence: u64, snapshot: u64, words: &str, is_local: bool) -> Message {
    let (transaction, snapshot, writes) = (txn(1, sequence), at(snapshot), writes(words));
    Message::Prepare {
        knows_indexes: false,
        transaction,
        life: LIFE,
        snapshot,
        writes,
        after: Vec::new(),
        is_local,
    }
}

fn decide(sequence: u64, outcome: Outcome) -> Message {
    Message::Decide { transaction: txn(1, sequence), outcome, readers: Vec::new(), is_forgotten: false }
}

fn read_at(request: u64, snapshot: u64, wanted: Vec<Wanted>) -> Message {
    Message::ReadAt { life: LIFE, request, snapshot: at(snapshot), wanted }
}

/// The leader of a view announces a transaction to the second replica.
fn replicate(sequence: u64, snapshot: u64, view: u64, words: &[&str]) -> Message {
    Message::Replicate {
        transaction: txn(1, sequence),
        home: replica("4/r0"),
        life: LIFE,
        snapshot: at(snapshot),
        keys: words.iter().map(|word| Key::from(*word)).collect(),
        holder: holder(1, LIFE, 300),
        view: View(view),
    }
}

fn holder(index: u8, life: Life, until: u64) -> Holder {
    Holder { replica: ReplicaIndex(index), life, until: at(until) }
}

fn granted(view: u64, holders: Vec<Holder>) -> Entry {
    Entry::Granted(Granted { view: View(view), clock: at(1_000), holders })
}

fn prepared(sequence: u64, snapshot: u64, words: &str) -> Entry {
    Entry::Prepared(Arc::new(Prepared {
        transaction: txn(1, sequence),
        home: replica("4/r0"),
        life: LIFE,
        snapshot: at(snapshot),
        proposal: at(snapshot + 1),
        writes: writes(words),
        view: View(0),
        holders: Vec::new(),
    }))
}

fn decided(sequence: u64, outcome: Outcome, readers: &[(&str, u64)]) -> Entry {
    let readers = readers.iter().map(|(key, micros)| (Key::from(*key), at(*micros))).collect();
    Entry::Decided(Arc::new(Decided { transaction: txn(1, sequence), outcome, readers }))
}

/// The transaction of an announcement may have ended meanwhile, and then nothing ends it again.
#[test]
fn an_announcement_of_what_has_ended_holds_nothing() {
    let mut shard = backup(|_| {});
    shard.follows(&prepared(1, 500, "oak=x"));
    shard.follows(&decided(1, committed(700), &[]));
    assert_eq!(shard.hears("1/r0", replicate(1, 500, 0, &["oak"])), ["✗ it has ended here"]);
    shard.follows(&Entry::Floor(at(1_000)));
    assert_eq!(shard.hears("1/r0", replicate(2, 999, 0, &["elm"])), ["✗ it has ended here"], "it may have");
    assert_eq!(shard.machine.load(None), 0);
    assert_eq!(shard.hears("1/r0", replicate(3, 1_000, 0, &["elm"])), ["4/r0 ← VOTE c1.3 @1001 under v0"]);
    assert_eq!(shard.machine.load(None), 1);
}

/// A leader that was deposed may still send what it had announced.
#[test]
fn an_announcement_holds_until_a_grant_of_a_view_after_the_latest_that_has_made_it() {
    let mut shard = backup(|_| {});
    shard.hears("1/r2", replicate(1, 500, 2, &["oak"]));
    assert_eq!(shard.hears("1/r0", replicate(1, 500, 1, &["oak"])), ["4/r0 ← VOTE c1.1 @501 under v1"]);
    let nobody = |view| granted(view, vec![holder(0, Life(4), 9_000)]);
    shard.follows(&nobody(2));
    assert_eq!(shard.machine.load(None), 1);
    shard.follows(&nobody(3));
    assert_eq!(shard.machine.load(None), 0);
    // In the log it needs no announcement.
    shard.follows(&prepared(2, 500, "elm=x"));
    shard.hears("1/r0", replicate(2, 500, 2, &["elm"]));
    shard.follows(&nobody(4));
    assert_eq!(shard.machine.load(None), 1);
}

/// The home on its node may have committed something there that the shard has not let in.
#[test]
fn a_leader_answers_for_what_is_in_the_log_once_notes_have_given_way() {
    let mut shard = leader(|_| {});
    introduce(&mut shard);
    shard.logs();
    shard.log.leads = None;
    let told = shard.hears("3/r0", prepare(1, 500, "oak=x", true));
    assert_eq!(told, ["3/r0 ← LOCAL-VOTE c1.1 @501"], "it is only noted");
    shard.log.leads = Some(View(0));
    let told = shard.hears("4/r0", prepare(2, 600, "oak=y", false));
    assert_eq!(told, ["appends PREPARED c1.2 oak=y in @600, @601", "3/r0 ← GIVE-WAY c1.1"]);
    assert_eq!(shard.logs(), ["3/r0 ← GIVE-WAY c1.1"]);
    assert_eq!(shard.hears("4/r0", prepare(2, 600, "oak=y", false)), ["✗ under way already"]);
    assert_eq!(shard.machine.gave_way(), 1);
    let told = shard.hears("3/r0", decide(1, Outcome::Aborted));
    assert_eq!(told, ["4/r0 ← PREPARED c1.2 @601 under v0, nobody else votes", "3/r0 ← APPLIED c1.1"]);
}

/// A life of this replica that is over may have served all that it was granted, whether or not that is in the log yet.
#[test]
fn a_leader_proposes_above_what_an_earlier_life_of_it_was_granted() {
    let mut shard = leader(|_| {});
    let ask = Message::AskGrant { life: Life(9), wanted: at(0) };
    assert_eq!(shard.hears("1/r0", ask), ["appends GRANTED r0 up to @2001000"]);
    let told = shard.hears("4/r0", prepare(1, 500, "oak=x", false));
    assert_eq!(told, ["appends PREPARED c1.1 oak=x in @500, @2001001"]);
}

/// The home has said how it ended before the log does.
#[test]
fn a_commit_is_read_as_soon_as_its_home_has_told_of_it() {
    let mut shard = backup(|_| {});
    let life = introduce(&mut shard);
    shard.follows(&granted(0, vec![holder(1, life, 9_000)]));
    shard.follows(&prepared(1, 500, "elm=x oak=x"));
    shard.follows(&prepared(2, 600, "iris=x"));
    assert_eq!(shard.hears("4/r0", read_at(1, 650, vec![key("oak")])), NOTHING);
    let told = shard.hears("4/r0", decide(1, committed(700)));
    assert_eq!(told, ["4/r0 ← holds oak=nothing, number 1"]);
    for (request, snapshot, expected) in [(2, 699, "nothing"), (3, 700, "x@700"), (4, 5_000, "x@700")] {
        let told = shard.hears("4/r0", read_at(request, snapshot, vec![key("oak")]));
        assert_eq!(told, [format!("4/r0 ← holds oak={expected}, number {request}")]);
    }
    shard.hears("4/r0", decide(2, Outcome::Aborted));
    let told = shard.hears("4/r0", read_at(5, 5_000, vec![key("iris")]));
    assert_eq!(told, ["4/r0 ← holds iris=nothing, number 5"]);
    // One that is only announced here has its keys and not its values: its readers wait for the log.
    shard.hears("1/r0", replicate(3, 800, 0, &["oak"]));
    shard.hears("4/r0", decide(3, committed(900)));
    assert_eq!(shard.hears("4/r0", read_at(6, 899, vec![key("oak")])), ["4/r0 ← holds oak=x@700, number 6"]);
    assert_eq!(shard.hears("4/r0", read_at(7, 900, vec![key("oak")])), NOTHING);
    shard.follows(&prepared(3, 800, "oak=y"));
    let told = shard.follows(&decided(3, committed(900), &[]));
    assert_eq!(told, ["4/r0 ← holds oak=y@900, number 7"]);
    // The latest commit counts, whichever of the two the log has.
    let told = shard.hears("4/r0", read_at(8, 5_000, vec![key("oak")]));
    assert_eq!(told, ["4/r0 ← holds oak=y@900, number 8"]);
}

#[test]
fn a_page_of_a_range_ends_where_so_many_keys_were_looked_at() {
    let mut shard = leader(|config| config.scan_page_max = 2);
    shard.hears("4/r0", read_at(1, 400, vec![key("oak")]));
    for (sequence, words) in [(1, "elm="), (2, "iris=i"), (3, "oak=o")] {
        shard.hears("4/r0", prepare(sequence, 500, words, false));
        shard.logs();
        shard.hears("4/r0", decide(sequence, committed(900)));
        shard.logs();
    }
    let told = shard.hears("4/r0", read_at(2, 1_000, vec![range("a", "z", 9)]));
    assert_eq!(told, ["4/r0 ← holds [elm=nothing@900 iris=i@900 … oak], number 2"], "a deletion is told");
    let told = shard.hears("4/r0", read_at(3, 1_000, vec![range("i", "z", 9)]));
    assert_eq!(told, ["4/r0 ← holds [iris=i@900 oak=o@900], number 3"], "nothing follows");
    let told = shard.hears("4/r0", read_at(4, 1_000, vec![range("i", "z", 1)]));
    assert_eq!(told, ["4/r0 ← holds [iris=i@900 … oak], number 4"], "no more were wanted");
}

/// One that is no member any more may still run beside the one that has come in its place.
#[test]
fn a_replica_greets_the_home_on_its_node_that_is_a_member() {
    let mut shard = backup(|_| {});
    let meets = |shard: &mut Alone, names: &[&str]| {
        shard.does(ReplicaCommand::Meet(names.iter().map(|name| replica(name)).collect()))
    };
    assert_eq!(meets(&mut shard, &["3/r0", "3/r7"]), ["3/r0 ← HELLO, and who are you?"]);
    assert_eq!(meets(&mut shard, &["3/r7"]), ["3/r7 ← HELLO, and who are you?"], "there is no other");
    assert_eq!(meets(&mut shard, &["3/r1", "3/r0", "2/r2"]), ["3/r1 ← HELLO, and who are you?"]);
    shard.hears("3/r1", Message::Hello { life: LIFE, wants: false });
    assert_eq!(shard.hears("3/r1", prepare(1, 500, "oak=x", true)), ["3/r1 ← LOCAL-VOTE c1.1 @501"]);
    assert_eq!(meets(&mut shard, &["3/r1"]), ["3/r1 ← HELLO"], "it is known");
    assert_eq!(shard.machine.load(None), 1);
    assert_eq!(meets(&mut shard, &["3/r0"]), ["3/r0 ← HELLO, and who are you?"]);
    assert_eq!(shard.machine.load(None), 0, "the notes of another home are nobody's");
}

#[test]
fn a_replica_follows_its_groups_to_later_epochs() {
    let mut shard = backup(|_| {});
    let members = Members::new([0, 1, 2, 3, 4].map(ReplicaIndex)).unwrap();
    let groups = Groups::new(GroupSize::new(3).unwrap()).next([(ShardId(1), members)]);
    let ask = Message::AskGrant { life: Life(4), wanted: at(0) };
    assert_eq!(shard.hears("1/r3", ask.clone()), ["✗ the sender has no say in this"]);
    assert_eq!(shard.does(ReplicaCommand::ChangeGroups(groups.clone())), NOTHING);
    assert_eq!(shard.does(ReplicaCommand::ChangeGroups(groups)), ["✗ an epoch that is known"]);
    assert_eq!(shard.hears("1/r3", ask), ["✗ this replica does not lead"], "it is a member");
}

/// A node takes the clock of the leader from the grant.
#[test]
fn a_bound_is_told_with_the_latest_clock_that_has_granted_it() {
    let mut shard = backup(|_| {});
    let life = introduce(&mut shard);
    let grant = |clock, until| {
        Entry::Granted(Granted { view: View(0), clock: at(clock), holders: vec![holder(1, life, until)] })
    };
    for (clock, until, told) in
        [(1_000, 5_000, (5_000, 1_000)), (3_000, 6_000, (6_000, 3_000)), (2_000, 5_500, (6_000, 3_000))]
    {
        shard.follows(&grant(clock, until));
        let bounds: Vec<(u64, u64)> = shard
            .said
            .iter()
            .filter_map(|message| match message {
                Message::Bound { until, clock } => Some((until.as_micros(), clock.as_micros())),
                _ => None,
            })
            .collect();
        assert_eq!(bounds, [told]);
    }
}

/// The bounds of the last page.
fn bounds(shard: &Alone) -> (u64, Vec<Holder>, Vec<(Key, ClockTime)>) {
    match shard.pages().pop() {
        Some(Page::Bounds { floor, grants, readers, .. }) => (floor.as_micros(), grants, readers),
        other => panic!("it comes last: {other:?}"),
    }
}

/// The state is that of all lives: a leader of an earlier one may have served it.
#[test]
fn bounds_and_readers_only_grow_until_the_floor_has_passed_them() {
    let mut shard = backup(|_| {});
    shard.follows(&granted(0, vec![holder(0, Life(4), 5_000), holder(2, Life(5), 5_000)]));
    shard.follows(&granted(0, vec![holder(0, Life(6), 4_000)]));
    shard.follows(&decided(1, Outcome::Aborted, &[("oak", 700), ("elm", 900)]));
    shard.follows(&decided(2, Outcome::Aborted, &[("oak", 600), ("elm", 901)]));
    let grants = vec![holder(0, Life(6), 5_000), holder(2, Life(5), 5_000)];
    let reader = |key: &str, micros| (Key::from(key), at(micros));
    assert_eq!(bounds(&shard), (0, grants.clone(), vec![reader("elm", 901), reader("oak", 700)]));
    shard.follows(&Entry::Floor(at(901)));
    assert_eq!(bounds(&shard), (901, grants.clone(), vec![reader("elm", 901)]));
    shard.follows(&Entry::Floor(at(902)));
    shard.follows(&Entry::Floor(at(800)));
    assert_eq!(bounds(&shard), (902, grants, vec![]), "it never falls");
}

/// A page has about as many bytes as it may: 64 for each element beside its keys and values.
#[test]
fn elements_of_pages_have_their_bytes() {
    let sizes = |bytes: usize, entries: &[Entry]| {
        let mut shard = backup(|config| config.page_bytes_max = bytes);
        entries.iter().for_each(|entry| _ = shard.follows(entry));
        let size = |page: &Page| match page {
            Page::Versions(all) => all.len(),
            Page::Prepared(all) => all.len(),
            Page::Ended(all) => all.len(),
            _ => 0,
        };
        shard.pages().iter().map(size).collect::<Vec<_>>()
    };
    let commits = |words: &str| [prepared(1, 500, words), decided(1, committed(900), &[])];
    // A key of three bytes and a value of two, and a key of four without a value; then the end of the transaction, and the bounds.
    assert_eq!(sizes(69, &commits("elm=xy iris= oak=xy")), [1, 2, 1, 0]);
    assert_eq!(sizes(70, &commits("elm=xy iris= oak=xy")), [2, 1, 1, 0]);
    assert_eq!(sizes(68, &commits("elm= iris= oak=")), [2, 1, 1, 0]);
    assert_eq!(sizes(67, &commits("elm= iris= oak=")), [1, 1, 1, 1, 0]);
    let held = [prepared(1, 500, "elm=xy iris="), prepared(2, 500, "moss=x"), prepared(3, 500, "oak=x")];
    assert_eq!(sizes(73, &held), [1, 2, 0]);
    assert_eq!(sizes(74, &held), [2, 1, 0]);
    let ends = [1, 2, 3]
        .map(|sequence| [prepared(sequence, 500, "elm=x"), decided(sequence, Outcome::Aborted, &[])]);
    assert_eq!(sizes(64, &ends.concat()), [1, 1, 1, 0]);
    assert_eq!(sizes(65, &ends.concat()), [2, 1, 0]);
}

/// Replicas are compared by what clients can read.
#[test]
fn the_data_of_a_state_are_its_versions() {
    let mut shard = backup(|_| {});
    shard.follows(&prepared(1, 500, "elm=x oak=x"));
    shard.follows(&decided(1, committed(900), &[]));
    shard.follows(&prepared(2, 500, "iris=x"));
    let mut frozen = shard.machine.freeze_data();
    let pages: Vec<Page> = std::iter::from_fn(|| Replica::next_page(&mut frozen)).collect();
    let [Page::Versions(versions)] = &pages[..] else { panic!("there is nothing else: {pages:?}") };
    let keys: Vec<&Key> = versions.iter().map(|KeyVersion { key, .. }| key).collect();
    assert_eq!(keys, [&Key::from("elm"), &Key::from("oak")]);
    assert_eq!(shard.pages().len(), 4);
}

/// A transaction of which the log had said something before is held by that, or is over.
#[test]
fn a_state_from_another_replica_leaves_what_is_noted_or_announced_here() {
    let mut other = backup(|_| {});
    for (sequence, words) in [(1, "oak=x"), (2, "elm=x"), (3, "iris=x")] {
        other.follows(&prepared(sequence, 500, words));
    }
    for sequence in [1, 2] {
        other.follows(&decided(sequence, Outcome::Aborted, &[]));
    }
    let pages = other.pages();
    let mut shard = machine("1/r0", |_| {});
    shard.starts();
    introduce(&mut shard);
    shard.follows(&prepared(1, 500, "oak=x"));
    shard.follows(&prepared(4, 500, "moss=x"));
    shard.hears("3/r0", prepare(2, 500, "elm=x", true));
    shard.hears("3/r0", prepare(5, 500, "sage=x", true));
    assert_eq!(shard.machine.load(None), 4);
    shard.machine.replace_state(Position(9), pages);
    // The first two have ended, of the fourth nobody has heard, the fifth is noted here, and the third has come.
    assert_eq!((shard.machine.load(None), shard.machine.prepared()), (2, 1));
    assert_eq!(shard.machine.outcomes().len(), 2);
}

/// Its home is not asked again about what it has told.
#[test]
fn an_outcome_that_the_log_did_not_take_is_appended_later() {
    let mut shard = leader(|_| {});
    shard.hears("4/r0", prepare(1, 500, "oak=x", false));
    shard.logs();
    shard.log.leads = None;
    assert_eq!(shard.hears("4/r0", decide(1, committed(900))), ["✗ the log takes nothing now"]);
    shard.log.leads = Some(View(0));
    assert_eq!(only(shard.waits(1_999), "DECIDED"), NOTHING);
    assert_eq!(only(shard.waits(1), "DECIDED"), ["1 ms: appends DECIDED c1.1 committed @900"]);
    assert_eq!(shard.hears("4/r1", decide(1, committed(900))), ["✗ under way already"]);
    assert_eq!(shard.logs(), ["4/r1 ← APPLIED c1.1"]);
}

/// A replica may have to vote before the log has the decision.
#[test]
fn readers_that_come_with_a_decision_count_at_once() {
    let mut shard = backup(|_| {});
    introduce(&mut shard);
    let readers = vec![(Key::from("oak"), at(5_000))];
    let decides =
        Message::Decide { transaction: txn(9, 9), outcome: Outcome::Aborted, readers, is_forgotten: false };
    assert_eq!(shard.hears("4/r0", decides), NOTHING);
    assert_eq!(shard.hears("3/r0", prepare(1, 500, "oak=x", true)), ["3/r0 ← LOCAL-VOTE c1.1 @5001"]);
    assert_eq!(shard.hears("3/r0", prepare(2, 500, "elm=x", true)), ["3/r0 ← LOCAL-VOTE c1.2 @501"]);
}

/// Readers would wait for the next look at grants otherwise.
#[test]
fn a_replica_that_is_read_from_grants_itself_snapshots_as_soon_as_it_leads() {
    for is_read in [false, true] {
        let mut shard = backup(|_| {});
        shard.does(ReplicaCommand::Meet(vec![replica("3/r0")]));
        let life = life_of(&shard);
        shard.follows(&granted(0, vec![holder(1, life, 2_001_000)]));
        shard.waits(1_200);
        if is_read {
            let told = shard.hears("4/r0", read_at(1, 400, vec![key("oak")]));
            assert_eq!(told, ["4/r0 ← holds oak=nothing, number 1"]);
        }
        let expected = match is_read {
            true => vec!["appends GRANTED r1 up to @3201000", "leads v1"],
            false => vec!["leads v1"],
        };
        assert_eq!(shard.leads(1), expected);
    }
}

/// Of a transaction that stands on top of another the log may have the end first.
#[test]
fn an_earlier_commit_that_is_heard_of_later_does_not_hide_a_later_one() {
    let mut shard = backup(|_| {});
    let life = introduce(&mut shard);
    shard.follows(&granted(0, vec![holder(1, life, 9_000)]));
    shard.follows(&prepared(1, 500, "oak=x"));
    shard.follows(&prepared(2, 600, "oak=y"));
    shard.follows(&decided(2, committed(900), &[]));
    shard.hears("4/r0", decide(1, committed(700)));
    for (request, snapshot, expected) in [(1, 699, "nothing"), (2, 800, "x@700"), (3, 1_000, "y@900")] {
        let told = shard.hears("4/r0", read_at(request, snapshot, vec![key("oak")]));
        assert_eq!(told, [format!("4/r0 ← holds oak={expected}, number {request}")]);
    }
}

/// A key may still be written in a snapshot above the floor, whatever the clock says.
#[test]
fn readers_are_forgotten_with_the_floor_and_no_earlier() {
    let mut shard = leader(|config| config.floor_lag = Duration::from_secs(4));
    shard.log.leads = None;
    shard.waits(20_000);
    shard.log.leads = Some(View(0));
    let told = shard.hears("4/r0", prepare(1, 500, "oak=x", false));
    assert_eq!(told, ["appends PREPARED c1.1 oak=x in @500, @501"], "there is no floor");
    shard.logs();
    shard.waits(500);
    shard.logs();
    assert_eq!(shard.machine.floor().micros, 16_501_000);
    shard.waits(500);
    let told = shard.hears("4/r0", prepare(2, 16_501_000, "elm=x", false));
    assert_eq!(told, ["appends PREPARED c1.2 elm=x in @16501000, @16501001"]);
}

/// A transaction is not appended once more that the leader before has appended, or of which a home has told the end.
#[test]
fn a_transaction_that_has_ended_or_is_on_its_way_is_not_let_in_again() {
    let mut shard = leader(|_| {});
    shard.hears("4/r0", prepare(1, 500, "oak=x", false));
    shard.is_deposed();
    shard.hears("4/r0", decide(1, committed(900)));
    shard.leads(1);
    let told = shard.hears("4/r0", prepare(1, 500, "oak=x", false));
    assert_eq!(told, ["✗ under way already"], "it has ended, and the log has to say what it was");
    // The node notes only what is not in the log.
    let mut shard = leader(|_| {});
    introduce(&mut shard);
    shard.logs();
    shard.hears("3/r0", prepare(2, 500, "elm=x", true));
    shard.logs();
    assert_eq!(shard.hears("3/r0", prepare(2, 500, "elm=x", true)), ["✗ under way already"]);
    assert_eq!(
        shard.hears("3/r0", prepare(2, 500, "elm=x", false)),
        ["3/r0 ← PREPARED c1.2 @501 under v0, nobody else votes"]
    );
}

/// However many there are.
#[test]
fn a_floor_collects_what_lies_below_it() {
    let mut shard = backup(|config| config.retention = Retention::NONE);
    let words: String = (0..2_500).map(|number| format!("key{number:04}=x ")).collect();
    for (sequence, micros) in [(1, 900), (2, 1_000)] {
        shard.follows(&prepared(sequence, 500, &words));
        shard.follows(&decided(sequence, committed(micros), &[]));
    }
    assert_eq!((shard.machine.version_count(), shard.machine.left()), (5_000, vec![]));
    shard.follows(&Entry::Floor(at(1_001)));
    assert_eq!((shard.machine.version_count(), shard.machine.left()), (2_500, vec![]));
}
