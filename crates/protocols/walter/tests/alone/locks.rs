//! A preferred site locks what slow commits of other sites write.

use super::*;

fn prepare(sequence: u64, keys: &[&str], snapshot: &[u64]) -> Message {
    let keys = keys.iter().map(|key| Key::from(*key)).collect();
    Message::Prepare { transaction: txn(9, sequence), keys, snapshot: v(snapshot) }
}

fn release(sequence: u64) -> Message {
    Message::Release { transaction: txn(9, sequence) }
}

fn new() -> Snapshot {
    Snapshot::New(v(&[]))
}

#[test]
fn a_vote_leaves_once_the_locks_are_stable() {
    let mut site = site();
    assert_eq!(
        site.hears("2/r0", prepare(1, &["elm", "oak"], &[])),
        ["appends LOCKED elm oak for c9.1 of s1"]
    );
    assert_eq!(site.hears("2/r0", prepare(1, &["elm", "oak"], &[])), ["✗ under way already"]);
    assert_eq!(
        site.is_asked(1, new(), vec![write("oak", "x")]),
        ["appends REFUSED c1.1"],
        "it is held already"
    );
    assert_eq!(site.machine.locks(), 0);
    assert_eq!(site.logs(), ["2/r0 ← VOTE c9.1 yes", "c1 ← c1.1 aborted"]);
    assert_eq!(site.machine.locked_for(), [(txn(9, 1), ShardId(2))]);
    assert_eq!(site.hears("2/r1", prepare(1, &["elm", "oak"], &[])), ["2/r1 ← VOTE c9.1 yes"], "it stands");
    assert_eq!(site.hears("2/r0", prepare(1, &["oak"], &[])), ["2/r0 ← VOTE c9.1 yes"]);
    let told = site.hears("2/r0", prepare(1, &["iris", "oak"], &[]));
    assert_eq!(told, ["2/r0 ← VOTE c9.1 no"], "of others nothing was looked at");
    assert_eq!(site.is_asked(2, new(), vec![write("elm", "x")]), ["appends REFUSED c1.2"]);
    assert_eq!(site.is_asked(3, new(), vec![write("iris", "x")]).len(), 1, "that is free");
    assert_eq!(site.hears("3/r0", prepare(2, &["elm"], &[])), ["3/r0 ← VOTE c9.2 no"]);
}

#[test]
fn locks_go_once_they_are_released_by_the_site_that_coordinates() {
    let mut site = site();
    assert_eq!(site.hears("2/r0", release(1)), ["✗ nothing waits under this name"]);
    site.hears("2/r0", prepare(1, &["oak"], &[]));
    assert_eq!(site.hears("2/r0", release(1)), ["appends RELEASED c9.1"], "behind LOCKED in the log");
    site.logs();
    assert_eq!(site.machine.locks(), 0);
    site.hears("2/r0", prepare(2, &["oak"], &[]));
    site.logs();
    assert_eq!(
        site.hears("3/r0", release(2)),
        ["✗ nothing waits under this name"],
        "another site coordinates it"
    );
    assert_eq!(site.hears("2/r0", release(2)), ["appends RELEASED c9.2"]);
    assert_eq!(site.hears("2/r0", release(2)), ["✗ nothing waits under this name"], "once");
    site.logs();
    assert_eq!(site.machine.locks(), 0);
    assert_eq!(site.is_asked(1, new(), vec![write("oak", "x")]).len(), 1);
}

#[test]
fn locks_go_once_their_transaction_has_committed_here() {
    let mut site = site();
    site.hears("2/r0", prepare(1, &["oak"], &[]));
    site.logs();
    let mut commit = (*foreign(1, 1, &[], vec![write("oak", "y")])).clone();
    commit.transaction = txn(9, 1);
    site.is_sent("2/r0", vec![std::sync::Arc::new(commit)], 0);
    site.logs();
    assert_eq!(site.machine.locks(), 1, "it has not committed here");
    site.is_sent("2/r0", vec![], 1);
    site.logs();
    assert_eq!(site.machine.locks(), 0);
    // A message that comes late finds the transaction's own writes.
    assert_eq!(site.hears("2/r0", prepare(1, &["oak"], &[])), ["2/r0 ← VOTE c9.1 no"]);
    let told = site.hears("2/r0", prepare(3, &["oak"], &[0, 1]));
    assert_eq!(told, ["appends LOCKED oak for c9.3 of s1"], "that is in this snapshot");
}

/// The transaction in the way may be in the snapshot.
#[test]
fn a_site_waits_for_what_a_snapshot_includes_before_it_votes_against_it() {
    let mut site = site();
    site.is_sent("3/r0", vec![foreign(2, 1, &[], vec![write("oak", "z")])], 0);
    site.logs();
    let told = site.hears("2/r0", prepare(1, &["oak"], &[0, 0, 1]));
    assert_eq!(told, ["appends LOCKED oak for c9.1 of s1"], "what was received is known, and included");
    assert_eq!(site.hears("2/r0", prepare(2, &["oak"], &[0, 2])), NOTHING, "it may be released by then");
    site.logs();
    site.takes("2/r0", foreign(1, 1, &[], vec![write("apple", "a")]));
    let second = foreign(1, 2, &[], vec![write("plum", "a")]);
    site.is_sent("2/r0", vec![second], 2);
    site.logs();
    assert_eq!(site.logs(), ["2/r0 ← VOTE c9.2 no"]);
    let told = site.hears("2/r0", prepare(4, &["apple"], &[]));
    assert_eq!(told, ["2/r0 ← VOTE c9.4 no"], "another site lets that in");
}

#[test]
fn a_lock_that_is_old_makes_its_site_ask_for_the_ending() {
    let mut site = site();
    site.waits(100);
    site.hears("2/r0", prepare(1, &["oak"], &[]));
    site.logs();
    site.takes("2/r0", foreign(1, 1, &[], vec![write("apple", "a")]));
    let asks = |told: Vec<String>| only(told, "ASK-OUTCOME");
    assert_eq!(asks(site.waits(2_399)), NOTHING);
    assert_eq!(site.machine.settling(), 0);
    let expected = "1 ms: 2/r0 ← ASK-OUTCOME c9.1, period 0, 1 committed";
    assert_eq!(asks(site.waits(1)), [expected], "at 2,500 ms");
    assert_eq!(site.machine.settling(), 1);
    assert_eq!(asks(site.waits(1_999)), NOTHING);
    assert_eq!(asks(site.waits(1)).len(), 1, "again");
    site.hears("2/r0", release(1));
    site.logs();
    site.waits(500);
    assert_eq!(site.machine.settling(), 0);
}

/// The next attempt at a slow commit finds what it wants to lock: fast commits wait for a while.
#[test]
fn a_refusal_reserves_what_was_to_be_locked() {
    let mut site = site();
    site.commits(1, vec![write("oak", "x")]);
    assert_eq!(site.hears("2/r0", prepare(1, &["oak"], &[])), ["2/r0 ← VOTE c9.1 no"]);
    assert_eq!(site.is_asked(2, new(), vec![write("oak", "y")]), NOTHING, "it waits");
    assert_eq!(site.is_asked(3, new(), vec![write("elm", "y")]).len(), 1, "another register is free");
    site.logs();
    assert_eq!(but_for_progress(site.waits(299)).iter().filter(|line| line.contains("COMMIT ")).count(), 0);
    let told = only(site.waits(1), "appends");
    assert_eq!(told, ["1 ms: appends COMMIT s0.3 c1.2 at ⟨2⟩ oak=y"], "for 300 ms");
    site.logs();
    // Another transaction gets none before as much time has passed again.
    assert_eq!(site.hears("3/r0", prepare(2, &["oak"], &[])), ["3/r0 ← VOTE c9.2 no"]);
    assert_eq!(site.is_asked(4, new(), vec![write("oak", "z")]).len(), 1);
    site.logs();
    // The next attempt of the first gets a longer one, and once it has its lock nobody waits.
    let again = |snapshot: &[u64]| Message::Prepare {
        transaction: TransactionId { attempt: 1, ..txn(9, 1) },
        keys: vec![Key::from("oak")],
        snapshot: v(snapshot),
    };
    assert_eq!(site.hears("2/r0", again(&[1])), ["2/r0 ← VOTE c9.1/1 no"]);
    assert_eq!(site.is_asked(5, new(), vec![write("oak", "w")]), NOTHING);
    assert_eq!(only(site.waits(599), "appends"), NOTHING);
    let told = site.hears("2/r0", again(&[4]));
    assert_eq!(
        told,
        ["appends LOCKED oak for c9.1/1 of s1", "appends REFUSED c1.5"],
        "it goes on, and conflicts"
    );
    // A slow commit of this site does not wait.
    site.hears("3/r0", prepare(3, &["elm"], &[]));
    assert_eq!(site.is_asked(6, new(), vec![write("elm", "e"), write("apple", "a")]).len(), 1);
}
