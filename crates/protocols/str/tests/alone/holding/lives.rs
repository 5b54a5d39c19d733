//! Names and lives say nothing of who is who: each is another one, whichever number it has. And a replica stops where it is told what cannot be.

use super::*;

/// Lives are drawn at random: a later one may have the lesser number.
#[test]
fn a_life_is_another_one_whichever_number_it_has() {
    for life in [Life(1), Life(u64::MAX)] {
        let mut shard = leader(|_| {});
        let ask = Message::AskGrant { life, wanted: at(0) };
        assert_eq!(shard.hears("1/r0", ask), ["appends GRANTED r0 up to @2001000"]);
        let told = shard.hears("4/r0", prepare(1, 500, "oak=x", false));
        assert_eq!(told, ["appends PREPARED c1.1 oak=x in @500, @2001001"]);
        // The log has a grant of that life: nobody knows its readers any more, and this one may serve none of it.
        let mut shard = backup(|_| {});
        introduce(&mut shard);
        shard.follows(&granted(0, vec![holder(1, life, 5_000)]));
        assert_eq!(shard.hears("3/r0", prepare(1, 500, "oak=x", true)), ["3/r0 ← LOCAL-VOTE c1.1 @5001"]);
        assert_eq!(only(shard.hears("4/r0", read_at(1, 900, vec![key("elm")])), "holds"), NOTHING);
        shard.machine.replace_state(
            Position(9),
            vec![Page::Bounds {
                floor: at(0),
                grants: vec![holder(1, life, 6_000)],
                readers: vec![],
                retained_from: None,
            }],
        );
        assert_eq!(shard.hears("3/r0", prepare(2, 500, "elm=x", true)), ["3/r0 ← LOCAL-VOTE c1.2 @6001"]);
        assert_eq!(only(shard.hears("4/r0", read_at(2, 901, vec![key("elm")])), "holds"), NOTHING);
        // The home of the node has begun it.
        let told = shard.hears("3/r0", Message::Hello { life, wants: true });
        assert!(told.contains(&"3/r0 ← HELLO".to_owned()), "{told:?}");
        assert_eq!(shard.machine.load(None), 0, "its notes are nobody's");
        assert_eq!(shard.hears("3/r0", prepare(3, 500, "oak=x", true)), ["✗ said in another life"]);
    }
    let mut shard = leader(|_| {});
    for life in [5, 6, 4] {
        let ask = Message::AskGrant { life: Life(life), wanted: at(0) };
        assert_eq!(shard.hears("1/r1", ask), ["appends GRANTED r1 up to @2001000"], "{life}");
    }
}

/// Another replica that lives by the same number is another one.
#[test]
fn a_grant_of_another_replica_is_not_served() {
    let mut shard = backup(|_| {});
    let life = introduce(&mut shard);
    for index in [0, 2] {
        assert_eq!(shard.follows(&granted(0, vec![holder(index, life, 5_000)])), NOTHING);
        assert_eq!(only(shard.hears("4/r0", read_at(1, 900, vec![key("elm")])), "holds"), NOTHING);
    }
    assert_eq!(shard.hears("3/r0", prepare(1, 500, "oak=x", true)), ["3/r0 ← LOCAL-VOTE c1.1 @501"]);
}

/// One of a lower number than the home, or than its home's other machines.
#[test]
fn a_replica_notes_for_the_machine_beside_it() {
    let mut shard = backup(|_| {});
    shard.does(ReplicaCommand::Meet(vec![replica("4/r1")]));
    let life = life_of(&shard);
    shard.hears("4/r1", Message::Hello { life: LIFE, wants: false });
    shard.follows(&granted(0, vec![holder(1, life, 9_000)]));
    for from in ["3/r1", "4/r0", "4/r2"] {
        let hello = Message::Hello { life: LIFE, wants: true };
        assert_eq!(shard.hears(from, hello), ["✗ the sender is on another node"], "{from}");
        assert_eq!(shard.hears(from, prepare(1, 500, "oak=x", true)), ["✗ said in another life"], "{from}");
        let other =
            Message::ReadAt { life: Life(9), request: 1, snapshot: at(900), wanted: vec![key("oak")] };
        let told = shard.hears(from, other);
        assert_eq!(told, [format!("{from} ← holds oak=nothing, number 1")], "its lives are its own affair");
    }
    assert_eq!(shard.hears("4/r1", prepare(1, 500, "oak=x", true)), ["4/r1 ← LOCAL-VOTE c1.1 @901"]);
}

/// The note that has to give way may be of a later transaction than the one that is let in.
#[test]
fn notes_give_way_whichever_name_they_have() {
    for (note, let_in) in [(1, 5), (5, 1)] {
        let mut shard = backup(|_| {});
        introduce(&mut shard);
        shard.hears("3/r0", prepare(note, 500, "oak=x", true));
        let told = shard.hears("1/r0", replicate(let_in, 400, 0, &["oak"]));
        assert_eq!(told, [format!("3/r0 ← GIVE-WAY c1.{note}")]);
        let told = shard.hears("3/r0", decide(note, Outcome::Aborted));
        assert_eq!(told, [format!("4/r0 ← VOTE c1.{let_in} @401 under v0")]);
    }
}

/// The leader of its shard is asked for it, and that is this replica, whose log takes nothing.
#[test]
fn a_note_stays_if_the_log_does_not_take_its_transaction() {
    let mut shard = leader(|_| {});
    introduce(&mut shard);
    shard.logs();
    shard.log.leads = None;
    shard.hears("3/r0", prepare(1, 500, "oak=x", true));
    assert_eq!(shard.hears("3/r0", prepare(1, 500, "oak=x", false)), ["✗ the log takes nothing now"]);
    assert_eq!(shard.machine.load(None), 1);
    assert_eq!(shard.hears("4/r0", read_at(1, 900, vec![key("oak")])), NOTHING, "it may commit there");
}

/// Keys that are held and keys that have versions are walked through side by side.
#[test]
fn a_range_has_versions_between_keys_that_are_held() {
    let mut shard = backup(|_| {});
    let life = introduce(&mut shard);
    shard.follows(&granted(0, vec![holder(1, life, 9_000)]));
    shard.follows(&prepared(1, 500, "iris=i"));
    shard.follows(&decided(1, committed(600), &[]));
    shard.follows(&prepared(2, 800, "elm=e iris=j oak=o"));
    let told = shard.hears("4/r0", read_at(1, 800, vec![range("a", "z", 9)]));
    assert_eq!(told, ["4/r0 ← holds [iris=i@600], number 1"], "the others commit above that");
    let told = shard.hears("4/r0", read_at(2, 800, vec![range("a", "z", 1)]));
    assert_eq!(told, ["4/r0 ← holds [iris=i@600 … oak], number 2"]);
    shard.follows(&decided(2, Outcome::Aborted, &[]));
    shard.follows(&prepared(3, 700, "oak=o"));
    assert_eq!(shard.hears("4/r0", read_at(3, 900, vec![range("a", "z", 9)])), NOTHING, "that one may not");
    assert_eq!(shard.machine.waiting(), 1);
    assert!(!shard.machine.is_idle(false), "a home on another node may read here");
}

/// A home that repeats itself says the same, and the log agrees with the shard's own proposal: a replica that hears otherwise
/// stops, before it answers anybody by it.
#[test]
fn a_replica_stops_at_ends_that_contradict_each_other() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    type Contradicts = fn(&mut Alone);
    let stories: [(&str, Contradicts); 4] = [
        ("ended as", |shard| {
            shard.hears("4/r0", decide(1, committed(700)));
            shard.hears("4/r0", decide(1, Outcome::Aborted));
        }),
        ("ended as", |shard| {
            shard.follows(&decided(1, committed(700), &[]));
            shard.hears("4/r0", decide(1, Outcome::Aborted));
        }),
        ("and its snapshot is", |shard| _ = shard.follows(&decided(1, committed(500), &[]))),
        ("and its shard has proposed", |shard| _ = shard.follows(&decided(1, committed(599), &[]))),
    ];
    for (told, contradicts) in stories {
        let mut shard = backup(|_| {});
        let entry = Prepared {
            transaction: txn(1, 1),
            home: replica("4/r0"),
            life: LIFE,
            snapshot: at(500),
            proposal: at(600),
            writes: writes("oak=x"),
            view: View(0),
            holders: Vec::new(),
        };
        shard.follows(&Entry::Prepared(Arc::new(entry)));
        let panic = catch_unwind(AssertUnwindSafe(|| contradicts(&mut shard))).expect_err("it stops");
        let reason = panic.downcast_ref::<String>().expect("it says why");
        assert!(reason.contains(told), "{told}: {reason}");
    }
}
