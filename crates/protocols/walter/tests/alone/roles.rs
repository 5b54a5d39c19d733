//! A site that comes back gets the role of the one that it replaces from the site that stood in for it.

use quorate_core::topology::{Settled, Settlement};

use super::removal::{Asking, frozen};
use super::*;

fn new() -> Snapshot {
    Snapshot::New(v(&[]))
}

fn is_over(removals: usize, shard: u32) -> Settlement {
    let ends = vec![(ShardId(shard), Settled { last: 0, barrier: vec![] })];
    Settlement { removals, ends, ready: None }
}

fn is_ready(removals: usize, shard: u32) -> Settlement {
    Settlement { removals, ends: vec![], ready: Some(ShardId(shard)) }
}

/// The first of three sites, which stands in for the third.
fn successor(change: impl FnOnce(&mut ReplicaConfig)) -> Asking {
    let mut asking = Asking::new(change);
    asking.removes(3);
    asking.is_answered();
    assert_eq!(only(asking.waits(5), "FREEZE").len(), 1);
    asking.site.logs();
    let told = asking.site.hears("2/r0", frozen(&[], &[], 0, &[]));
    assert_eq!(told, ["proposes that shard3 ends at 0, with the barrier []"]);
    assert!(asking.changes.settle(&is_over(1, 3)));
    assert_eq!(only(asking.is_answered(), "appends"), ["appends REMOVED s2 after 0"]);
    asking.site.logs();
    asking
}

/// The seventh group joins, in place of this one, and has what the others have.
fn joins(asking: &mut Asking, replaces: Option<u32>) {
    asking.changes.join(ShardId(7), replaces.map(ShardId)).expect("it can join");
    asking.is_answered();
    assert_eq!(asking.site.hears("7/r0", Message::Join {}).len(), 1);
    assert_eq!(asking.site.logs(), ["7/r0 ← EXPECTED, floor ⟨⟩"]);
    assert_eq!(asking.site.is_told("7/r0", 0, &[], &[]), NOTHING);
}

/// It is ready, and the first site hears of it.
fn is_there(asking: &mut Asking) -> Vec<String> {
    assert!(asking.changes.settle(&is_ready(1, 7)));
    only(asking.is_answered(), "appends")
}

const HANDED_OVER: &str = "appends COMMIT s0.1 c18446744073709551613.1 at ⟨⟩ {s2} to s3";

#[test]
fn the_role_of_a_lost_site_goes_to_the_one_that_replaces_it() {
    let mut asking = successor(|_| {});
    joins(&mut asking, Some(3));
    assert_eq!(asking.site.is_asked(1, new(), vec![add("pear", "a", 1)]).len(), 1, "it still joins");
    asking.site.logs();
    let told = is_there(&mut asking);
    assert_eq!(told, [HANDED_OVER.replace("s0.1", "s0.2").replace("3.1 at ⟨⟩", "3.2 at ⟨1⟩")]);
    assert_eq!(
        asking.site.is_asked(2, new(), vec![write("pear", "x")]),
        ["appends REFUSED c1.2"],
        "it is leaving"
    );
    assert_eq!(asking.site.is_asked(3, new(), vec![write("oak", "x")]).len(), 1, "its own stays");
    assert_eq!(only(asking.waits(1), "appends"), NOTHING, "it is handed over once");
    asking.site.logs();
    let told = asking.site.is_asked(4, new(), vec![write("pear", "x")]);
    assert_eq!(told, ["7/r0 ← PREPARE c1.4 pear at ⟨3⟩"]);
    assert_eq!(only(asking.waits(9), "appends COMMIT"), NOTHING, "it is there");
}

#[test]
fn a_role_stays_where_no_site_replaces_the_lost_one() {
    let mut asking = successor(|_| {});
    joins(&mut asking, None);
    assert_eq!(is_there(&mut asking), NOTHING);
    assert_eq!(only(asking.waits(9), "appends COMMIT"), NOTHING);
    assert_eq!(asking.site.is_asked(1, new(), vec![write("pear", "x")]).len(), 1);
}

#[test]
fn no_role_is_handed_over_to_a_site_that_is_lost_again() {
    let mut asking = successor(|_| {});
    joins(&mut asking, Some(3));
    assert!(asking.changes.settle(&is_ready(1, 7)));
    asking.changes.remove(ShardId(7), &[1, 2, 3, 7].map(ShardId)).expect("it can be removed");
    assert_eq!(only(asking.is_answered(), "appends"), NOTHING);
    assert_eq!(only(asking.waits(9), "appends COMMIT"), NOTHING);
}

/// Writes of what it lets in are refused meanwhile, as long as votes may take. Then clients have their turn.
#[test]
fn a_role_goes_once_nothing_is_locked_or_held_of_it_or_is_tried_later() {
    let mut asking = successor(|config| config.recovery_timeout = Duration::from_secs(1_000));
    joins(&mut asking, Some(3));
    let keys = |key: &str| vec![Key::from(key)];
    let prepare = |key| Message::Prepare { transaction: txn(9, 1), keys: keys(key), snapshot: v(&[]) };
    assert_eq!(asking.site.hears("2/r0", prepare("pear")).len(), 1);
    assert_eq!(is_there(&mut asking), NOTHING, "it is held");
    asking.site.logs();
    assert_eq!(only(asking.waits(1), "appends"), NOTHING, "it is locked");
    let is_let_in = |asking: &mut Asking, sequence| {
        let told = asking.site.is_asked(sequence, new(), vec![write("fig", "x")]);
        asking.site.logs();
        told[0].starts_with("appends COMMIT")
    };
    assert!(!is_let_in(&mut asking, 1));
    assert_eq!(only(asking.waits(1), "appends"), NOTHING);
    assert!(is_let_in(&mut asking, 2), "two seconds are enough");
    asking.waits(1);
    assert!(is_let_in(&mut asking, 3));
    asking.waits(1);
    assert!(!is_let_in(&mut asking, 4), "it is tried again");
    asking.site.hears("2/r0", Message::Release { transaction: txn(9, 1) });
    asking.site.logs();
    let told = only(asking.site.waits(500), "{s2} to s3");
    assert_eq!(told.len(), 1, "{told:?}");
}

/// Another site may have it since.
#[test]
fn a_site_hands_nothing_over_that_is_not_sure_to_be_left() {
    let mut asking = successor(|_| {});
    joins(&mut asking, Some(3));
    let asked = asking.site.now;
    asking.site.waits(4_000);
    assert!(asking.changes.settle(&is_ready(1, 7)));
    let changes = asking.changes.clone();
    let told = asking.site.does(quorate_walter::ReplicaCommand::Answer { asked, changes });
    assert_eq!(only(told, "appends"), NOTHING, "the lease has ended");
    assert_eq!(only(asking.is_answered(), "appends"), [HANDED_OVER]);
}

/// The role of the third site is that of its own and of the seventh group, which has replaced it and was lost as well.
#[test]
fn a_site_that_replaces_a_replacement_gets_all_its_roles() {
    let mut asking = successor(|_| {});
    joins(&mut asking, Some(3));
    assert_eq!(is_there(&mut asking), [HANDED_OVER]);
    asking.site.logs();
    asking.changes.remove(ShardId(7), &[1, 2, 3, 7].map(ShardId)).expect("it can be removed");
    asking.is_answered();
    assert_eq!(only(asking.waits(6), "FREEZE"), ["1000 ms: appends FREEZE without s2 to s0, s3 to s0"]);
    asking.site.logs();
    let own = quorate_walter::removal::Frozen { removals: 2, received: v(&[]), committed: v(&[]), seqno: 0 };
    asking.site.hears("2/r0", Message::Frozen { frozen: own, received: v(&[]) });
    assert!(asking.changes.settle(&is_over(2, 7)));
    asking.is_answered();
    asking.site.logs();
    asking.changes.join(ShardId(8), Some(ShardId(7))).expect("it can join");
    asking.is_answered();
    asking.site.hears("8/r0", Message::Join {});
    asking.site.logs();
    assert!(asking.changes.settle(&is_ready(2, 8)));
    let told = only(asking.is_answered(), "appends");
    assert_eq!(told, ["appends COMMIT s0.2 c18446744073709551612.2 at ⟨1⟩ {s3} to s4"]);
    asking.site.logs();
    let told = only(asking.waits(9), "appends COMMIT");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].ends_with("appends COMMIT s0.3 c18446744073709551613.3 at ⟨2⟩ {s2} to s4"), "{told:?}");
    asking.site.logs();
    assert_eq!(only(asking.waits(9), "appends COMMIT"), NOTHING);
}
