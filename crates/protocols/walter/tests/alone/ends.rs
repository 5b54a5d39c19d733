//! The ends of lost sites: what the others send each other of them, and on what they agree.

use quorate_core::topology::{Removal, Settled, Settlement, SiteChanges};
use quorate_walter::{Container, ReplicaCommand, Replicas, removal::Frozen};

use super::removal::{Asking, frozen};
use super::*;

fn new() -> Snapshot {
    Snapshot::New(v(&[]))
}

fn of_third(number: u64) -> std::sync::Arc<Commit> {
    foreign(2, number, &[], vec![add("pear", "a", 1)])
}

/// The first of so many sites, which has received so many transactions of the third one and goes on without that.
fn without_third(sites: u32, received: u64, change: impl FnOnce(&mut ReplicaConfig)) -> Asking {
    let mut asking = Asking::of(sites, change);
    asking.site.is_sent("3/r0", (1..=received).map(of_third).collect(), 0);
    asking.site.logs();
    goes_on(&mut asking);
    asking
}

fn goes_on(asking: &mut Asking) {
    asking.removes(3);
    asking.is_answered();
    assert_eq!(only(asking.waits(5), "FREEZE").len(), 1);
    asking.site.logs();
}

fn relayed(told: &[String]) -> Vec<&str> {
    let relays = told.iter().filter(|line| line.contains("RELAY"));
    relays
        .flat_map(|line| line.split(' ').filter(|word| word.starts_with("s2.") || word.starts_with("s3.")))
        .collect()
}

#[test]
fn a_site_is_sent_what_it_lacks_of_a_lost_one_as_far_as_a_batch_goes() {
    let small = |config: &mut ReplicaConfig| config.batch_bytes_max = 1;
    for (batch, received, expected) in [
        (256 * 1024, 0, &["s2.1", "s2.2", "s2.3"][..]),
        (256 * 1024, 2, &["s2.3"]),
        (256 * 1024, 3, &[]),
        (256 * 1024, 4, &[]),
        (1, 0, &["s2.1"]),
        (1, 1, &["s2.2"]),
        (200, 0, &["s2.1", "s2.2"]),
    ] {
        let mut asking = without_third(3, 3, |config| config.batch_bytes_max = batch);
        let told = asking.site.hears("2/r0", frozen(&[], &[], 0, &[0, 0, received]));
        assert_eq!(relayed(&told), expected, "{batch} bytes, from {received}: {told:?}");
    }
    // Of each lost site it gets something: one may be the cause of the other.
    let mut asking = Asking::of(4, small);
    asking.site.is_sent("3/r0", vec![of_third(1), of_third(2)], 0);
    let fourth = (1..=2).map(|number| foreign(3, number, &[], vec![add("fig", "a", 1)])).collect();
    asking.site.is_sent("4/r0", fourth, 0);
    asking.site.logs();
    asking.removes(4);
    goes_on(&mut asking);
    let told = asking.site.hears("2/r0", frozen(&[], &[], 0, &[]));
    assert_eq!(relayed(&told), ["s3.1", "s2.1"]);
}

/// A transaction beyond the end is abandoned.
#[test]
fn a_site_is_sent_nothing_that_is_not_kept() {
    let mut asking = without_third(3, 3, |_| {});
    let ends = vec![(ShardId(3), Settled { last: 2, barrier: vec![] })];
    assert!(asking.changes.settle(&Settlement { removals: 1, ends, ready: None }));
    asking.is_answered();
    asking.site.logs();
    let told = asking.site.hears("2/r0", frozen(&[], &[], 0, &[]));
    assert_eq!(relayed(&told), ["s2.1", "s2.2"]);
}

/// It had received no more when it went on without the lost site.
#[test]
fn a_site_is_not_sent_what_its_sender_got_from_others_since() {
    let mut asking = without_third(3, 1, |_| {});
    asking.site.hears("2/r0", frozen(&[0, 0, 2], &[], 0, &[0, 0, 2]));
    let told = asking.site.hears("2/r0", Message::Relay { commits: vec![of_third(2)] });
    assert_eq!(only(told, "RECEIVED").len(), 1);
    asking.site.logs();
    let told = asking.site.hears("2/r0", frozen(&[0, 0, 2], &[], 0, &[]));
    assert_eq!(relayed(&told), ["s2.1"]);
}

#[test]
fn what_others_relay_takes_effect_in_order_and_once() {
    let mut asking = without_third(3, 1, |_| {});
    let relay = |numbers: &[u64]| Message::Relay { commits: numbers.iter().copied().map(of_third).collect() };
    let unknown = ["✗ no site has said that there is so much"];
    assert_eq!(asking.site.hears("2/r0", relay(&[2])), unknown);
    asking.site.hears("2/r0", frozen(&[0, 0, 4], &[], 0, &[0, 0, 4]));
    assert_eq!(asking.site.hears("2/r0", relay(&[5])), unknown);
    assert_eq!(asking.site.hears("3/r0", relay(&[2])), ["✗ the sender is no other local site"]);
    let of_itself = foreign(2, 2, &[0, 0, 2], vec![]);
    assert_eq!(asking.site.hears("2/r0", Message::Relay { commits: vec![of_itself] }), unknown);
    let of_another = foreign(1, 1, &[], vec![]);
    assert_eq!(asking.site.hears("2/r0", Message::Relay { commits: vec![of_another] }), unknown);
    assert_eq!(asking.site.hears("2/r0", relay(&[4, 3])), NOTHING, "the second is missing");
    assert_eq!(asking.site.hears("2/r0", relay(&[1])), NOTHING, "that is here");
    let told = asking.site.hears("2/r0", relay(&[2]));
    assert!(told.len() == 1 && told[0].starts_with("appends RECEIVED s2.2"), "{told:?}");
    assert!(told[0].contains("s2.3") && told[0].contains("s2.4"), "{told:?}");
    assert_eq!(asking.site.hears("2/r0", relay(&[2, 3, 4])), NOTHING);
    asking.site.logs();
    assert_eq!(asking.site.machine.histories().received(), &v(&[0, 0, 4]));
}

/// All that are left have said how far they had come, going on without the same sites.
#[test]
fn an_end_is_proposed_once_all_that_are_left_have_it() {
    let proposed = |told: Vec<String>| only(told, "proposes");
    let mut asking = without_third(4, 1, |_| {});
    asking.site.commits(1, vec![add("oak", "a", 1)]);
    let said = |removals, received: &[u64], seqno, now: &[u64]| {
        let frozen = Frozen { removals, received: v(received), committed: v(&[]), seqno };
        Message::Frozen { frozen, received: v(now) }
    };
    assert_eq!(proposed(asking.site.hears("2/r0", said(1, &[0, 0, 2], 4, &[0, 0, 2]))), NOTHING);
    assert_eq!(proposed(asking.site.hears("4/r0", said(1, &[], 7, &[]))), NOTHING, "all have two, or will");
    assert_eq!(proposed(asking.site.hears("4/r0", said(1, &[], 7, &[0, 0, 2]))), NOTHING, "this one has one");
    asking.site.hears("2/r0", Message::Relay { commits: vec![of_third(2)] });
    asking.site.logs();
    assert_eq!(proposed(asking.site.hears("4/r0", said(2, &[], 7, &[0, 0, 2]))), NOTHING, "without others");
    let told = proposed(asking.site.hears("4/r0", said(1, &[], 7, &[0, 0, 3])));
    assert_eq!(
        told,
        ["proposes that shard3 ends at 2, with the barrier [0, 4, 0, 7]"],
        "as far as it was frozen"
    );
    assert_eq!(proposed(asking.site.hears("4/r0", said(1, &[], 7, &[0, 0, 3]))), NOTHING, "it has said so");
    // Every now and then again, as long as it is not settled.
    assert_eq!(only(asking.site.waits(1_000), "proposes").len(), 1);
    let ends = vec![(ShardId(3), Settled { last: 2, barrier: vec![] })];
    assert!(asking.changes.settle(&Settlement { removals: 1, ends, ready: None }));
    asking.is_answered();
    assert_eq!(only(asking.site.waits(4_000), "proposes"), NOTHING);
}

/// A container whose values the second and the third site have, and not this one.
fn limited() -> Update {
    let container = Container {
        preferred: LocalSite(1),
        replicas: Replicas::of([LocalSite(1), LocalSite(2)]),
        stays: true,
    };
    Update::Place { name: Key::from("a"), container: Some(container) }
}

/// A transaction survives with the values that it has written, and so do those after it.
#[test]
fn a_lost_site_ends_before_the_first_transaction_whose_values_are_lost() {
    let noted = || Update::Noted { object: Key::from("{a}x"), writes: true };
    let first = || foreign(2, 1, &[0, 1], vec![noted()]);
    let second = || foreign(2, 2, &[0, 1, 1], vec![add("pear", "a", 1)]);
    for (received, committed, last) in
        [(&[][..], &[][..], 0), (&[0, 0, 1], &[], 2), (&[0, 0, 1], &[0, 0, 1], 2)]
    {
        let mut asking = Asking::new(|_| {});
        asking.site.takes("2/r0", foreign(1, 1, &[], vec![limited()]));
        asking.site.is_sent("3/r0", vec![first(), second()], 0);
        asking.site.logs();
        goes_on(&mut asking);
        let told = asking.site.hears("2/r0", frozen(received, committed, 1, &[0, 0, 2]));
        let expected = format!("proposes that shard3 ends at {last}, with the barrier [0, 1]");
        assert_eq!(only(told, "proposes"), [expected], "{received:?} and {committed:?}");
    }
    // Each has an object that the other lacks.
    let mut asking = Asking::new(|_| {});
    asking.site.takes("2/r0", foreign(1, 1, &[], vec![limited()]));
    let both = foreign(2, 1, &[0, 1], vec![write("pear", "p"), noted()]);
    asking.site.is_sent("3/r0", vec![both], 0);
    asking.site.logs();
    goes_on(&mut asking);
    let told = asking.site.hears("2/r0", frozen(&[0, 0, 1], &[], 1, &[0, 0, 1]));
    assert_eq!(only(told, "proposes"), ["proposes that shard3 ends at 1, with the barrier [0, 1]"]);
}

/// A transaction that has committed at a site that is left is kept, even if a part of it is lost.
#[test]
fn what_has_committed_at_a_site_that_is_left_is_kept() {
    let mut asking = Asking::new(|_| {});
    asking.site.takes("2/r0", foreign(1, 1, &[], vec![limited()]));
    let noted = Update::Noted { object: Key::from("{a}x"), writes: true };
    asking.site.is_sent("3/r0", vec![foreign(2, 1, &[0, 1], vec![noted])], 1);
    asking.site.logs();
    asking.site.logs();
    assert_eq!(asking.site.machine.committed(), &v(&[0, 1, 1]));
    goes_on(&mut asking);
    assert_eq!(only(asking.site.hears("2/r0", frozen(&[], &[], 1, &[])), "proposes"), NOTHING);
    let told = asking.site.hears("2/r0", frozen(&[], &[], 1, &[0, 0, 1]));
    assert_eq!(only(told, "proposes"), ["proposes that shard3 ends at 1, with the barrier [0, 1]"]);
}

/// Two sites are lost at once. The effects of one depend on those of the other.
#[test]
fn an_effect_ends_with_its_cause() {
    let mut asking = Asking::of(4, |_| {});
    asking.site.takes("2/r0", foreign(1, 1, &[], vec![limited()]));
    let noted = Update::Noted { object: Key::from("{a}x"), writes: true };
    asking.site.is_sent("3/r0", vec![foreign(2, 1, &[0, 1], vec![noted])], 0);
    asking.site.is_sent("4/r0", vec![foreign(3, 1, &[], vec![]), foreign(3, 2, &[0, 1, 1], vec![])], 0);
    asking.site.logs();
    asking.removes(4);
    goes_on(&mut asking);
    let frozen = Frozen { removals: 2, received: v(&[]), committed: v(&[]), seqno: 1 };
    let told = asking.site.hears("2/r0", Message::Frozen { frozen, received: v(&[0, 0, 1, 2]) });
    let expected = "proposes that shard4 ends at 1, with the barrier [0, 1], that shard3 ends at 0, with the barrier [0, 1]";
    assert_eq!(only(told, "proposes"), [expected]);
}

/// If they have not agreed after a while, another one is silent, and clients are told for want of which.
#[test]
fn a_write_waits_for_the_end_of_its_site_for_a_while() {
    let mut asking = Asking::new(|_| {});
    asking.removes(3);
    asking.is_answered();
    assert_eq!(only(asking.waits(5), "FREEZE").len(), 1);
    asking.site.logs();
    assert_eq!(asking.site.is_asked(1, new(), vec![write("pear", "x")]), NOTHING);
    asking.waits(4);
    assert_eq!(asking.site.is_asked(2, new(), vec![write("pear", "x")]), NOTHING);
    asking.waits(1);
    assert_eq!(asking.site.is_asked(3, new(), vec![write("pear", "x")]), ["appends REFUSED c1.3"]);
    assert_eq!(asking.site.logs(), ["c1 ← c1.3 aborted, 3 is silent"]);
    // A refusal by another site is not for want of it.
    assert_eq!(asking.site.is_asked(4, new(), vec![write("oak", "x")]).len(), 1);
}

#[test]
fn a_site_passes_over_changes_that_name_others() {
    let mut asking = Asking::new(|_| {});
    let removal =
        |shard, successor| Removal { shard: ShardId(shard), successor: ShardId(successor), settled: None };
    for (shard, successor) in [(9, 1), (3, 9)] {
        let changes = SiteChanges::new(vec![removal(shard, successor)], vec![]);
        let asked = asking.site.now;
        let told = asking.site.does(ReplicaCommand::Answer { asked, changes });
        assert_eq!(told, ["✗ the sender is no other local site"]);
    }
    assert_eq!(only(asking.waits(9), "FREEZE"), NOTHING);
}

/// A site that joins is not waited for, so all on which the others agree is theirs.
#[test]
fn a_site_that_joins_has_no_say_in_an_end() {
    let mut asking = Asking::new(|_| {});
    asking.changes.join(ShardId(7), None).expect("it can join");
    asking.is_answered();
    asking.site.hears("7/r0", Message::Join {});
    asking.site.logs();
    asking.site.is_sent("3/r0", vec![of_third(1)], 0);
    asking.site.logs();
    goes_on(&mut asking);
    let told = asking.site.hears("7/r0", frozen(&[0, 0, 9], &[], 9, &[]));
    assert_eq!(relayed(&told), ["s2.1"], "it is sent what it lacks: {told:?}");
    let told = asking.site.hears("2/r0", frozen(&[], &[], 0, &[0, 0, 1]));
    assert_eq!(only(told, "proposes"), ["proposes that shard3 ends at 1, with the barrier []"]);
}

/// The words about an end go to the sites that are left, also to those that join.
#[test]
fn a_site_says_how_far_it_had_come_to_all_that_are_left() {
    let mut asking = Asking::of(4, |_| {});
    asking.removes(4);
    asking.is_answered();
    asking.waits(5);
    let told = asking.site.logs();
    let receivers: Vec<&str> =
        told.iter().filter_map(|line| line.split_once(" ← FROZEN")).map(|(to, _)| &to[..1]).collect();
    assert_eq!(receivers, ["2", "3"]);
    asking.removes(3);
    asking.is_answered();
    asking.waits(5);
    let told = only(asking.site.logs(), "FROZEN without 2");
    assert_eq!(told.len(), 1, "{told:?}");
    // From the other lost site nothing is taken any more.
    let said = Frozen { removals: 1, received: v(&[]), committed: v(&[]), seqno: 0 };
    let told = asking.site.hears("3/r0", Message::Frozen { frozen: said, received: v(&[]) });
    assert_eq!(told, ["✗ the sender is no other local site"]);
}

/// A transaction that has come from it before its causes is taken no more; those that have come from others are.
#[test]
fn a_site_forgets_what_has_come_too_early_from_a_lost_one() {
    let mut asking = Asking::new(|_| {});
    asking.site.is_sent("3/r0", vec![of_third(2)], 0);
    asking.site.is_sent("2/r0", vec![foreign(1, 2, &[], vec![add("plum", "a", 1)])], 0);
    goes_on(&mut asking);
    asking.site.hears("2/r0", frozen(&[0, 0, 1], &[], 0, &[0, 0, 1]));
    let told = asking.site.hears("2/r0", Message::Relay { commits: vec![of_third(1)] });
    assert_eq!(told, ["appends RECEIVED s2.1 c102.1 at ⟨⟩ pear[a]+1"], "no site that is left has the second");
    let told = asking.site.is_sent("2/r0", vec![foreign(1, 1, &[], vec![add("plum", "a", 1)])], 0);
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("s1.1") && told[0].contains("s1.2"), "{told:?}");
}

/// A client that has seen what is abandoned is told so, and its request is not kept.
#[test]
fn a_request_that_has_seen_what_is_abandoned_does_not_wait() {
    let mut asking = without_third(3, 1, |_| {});
    let ends = vec![(ShardId(3), Settled { last: 1, barrier: vec![] })];
    assert!(asking.changes.settle(&Settlement { removals: 1, ends, ready: None }));
    asking.is_answered();
    asking.site.logs();
    asking.site.logs();
    for message in [
        commit_at(1, 2, Snapshot::New(v(&[0, 0, 2])), vec![write("oak", "y")]),
        read_at(1, 2, Snapshot::New(v(&[0, 0, 2])), vec![register("oak")]),
    ] {
        let told = asking.site.hears("c1", message.clone());
        assert_eq!(told, ["c1 ← c1.2 ABANDONED, all after s2.1"], "{message:?}");
        assert_eq!(asking.site.machine.waiting(), 0, "{message:?}");
    }
}

/// An end that is settled says nothing of another one.
#[test]
fn each_lost_site_has_an_end_of_its_own() {
    let mut asking = Asking::of(4, |_| {});
    asking.removes(4);
    asking.is_answered();
    asking.waits(5);
    asking.site.logs();
    let ends = vec![(ShardId(4), Settled { last: 0, barrier: vec![] })];
    assert!(asking.changes.settle(&Settlement { removals: 1, ends, ready: None }));
    asking.is_answered();
    asking.site.logs();
    goes_on(&mut asking);
    let said = |received: &[u64]| {
        let frozen = Frozen { removals: 2, received: v(&[0, 0, 2]), committed: v(&[]), seqno: 0 };
        Message::Frozen { frozen, received: v(received) }
    };
    asking.site.hears("2/r0", said(&[0, 0, 2]));
    let told = asking.site.hears("2/r0", Message::Relay { commits: vec![of_third(1), of_third(2)] });
    assert_eq!(only(told, "RECEIVED").len(), 1);
    asking.site.logs();
    let told = only(asking.site.waits(2_000), "proposes");
    assert!(told[0].ends_with("proposes that shard3 ends at 2, with the barrier []"), "{told:?}");
    // Once it is settled, it is the end that counts, and not how far a site had come.
    let ends = vec![(ShardId(3), Settled { last: 1, barrier: vec![] })];
    assert!(asking.changes.settle(&Settlement { removals: 2, ends, ready: None }));
    asking.is_answered();
    let told = asking.site.hears("2/r0", Message::Relay { commits: vec![of_third(2)] });
    assert_eq!(told, ["✗ no site has said that there is so much"]);
    assert_eq!(only(asking.site.logs(), "ADVANCE"), ["appends ADVANCE ⟨0 0 1⟩"]);
    assert_eq!(asking.site.machine.histories().received(), &v(&[0, 0, 1]));
}

/// More sites were lost at once than a keyspace survives: what has committed at one that is left is taken as it is known.
#[test]
fn a_value_that_no_site_has_is_waited_for_only_if_its_transaction_may_be_abandoned() {
    let noted = || Update::Noted { object: Key::from("{a}x"), writes: true };
    for (committed, is_taken) in [(&[][..], false), (&[0, 0, 1], true)] {
        let mut asking = Asking::new(|_| {});
        let container = Container {
            preferred: LocalSite(0),
            replicas: Replicas::of([LocalSite(0), LocalSite(2)]),
            stays: true,
        };
        let place = Update::Place { name: Key::from("a"), container: Some(container) };
        asking.site.takes("2/r0", foreign(1, 1, &[], vec![place]));
        goes_on(&mut asking);
        asking.site.hears("2/r0", frozen(&[0, 0, 1], committed, 1, &[0, 0, 1]));
        let relay = Message::Relay { commits: vec![foreign(2, 1, &[0, 1], vec![noted()])] };
        let told = asking.site.hears("2/r0", relay);
        assert_eq!(only(told, "RECEIVED").len(), usize::from(is_taken), "{committed:?}");
        // The value itself is taken in any case.
        let whole = foreign(2, 1, &[0, 1], vec![write("{a}x", "x")]);
        let told = asking.site.hears("2/r0", Message::Relay { commits: vec![whole] });
        assert_eq!(only(told, "RECEIVED").len(), usize::from(!is_taken), "{committed:?}");
    }
}

/// The container that the first one places tells which values are to come with the second.
#[test]
fn what_others_relay_takes_effect_once_it_is_known_who_holds_its_objects() {
    let mut asking = Asking::new(|_| {});
    goes_on(&mut asking);
    asking.site.hears("2/r0", frozen(&[0, 0, 2], &[], 0, &[0, 0, 2]));
    let noted = Update::Noted { object: Key::from("{a}x"), writes: true };
    let commits = vec![foreign(2, 1, &[], vec![limited()]), foreign(2, 2, &[0, 0, 1], vec![noted])];
    let told = only(asking.site.hears("2/r0", Message::Relay { commits }), "appends");
    assert!(told.len() == 1 && !told[0].contains("s2.2"), "{told:?}");
    let told = only(asking.site.logs(), "appends");
    assert_eq!(told, ["appends RECEIVED s2.2 c102.2 at ⟨0 0 1⟩ {a}x=elsewhere"]);
}
