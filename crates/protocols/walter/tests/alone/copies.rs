//! Objects that have no replica at a site, and objects that have some.

use quorate_core::command::{End, Milestone};
use quorate_walter::{Container, Replicas};

use super::*;

fn new() -> Snapshot {
    Snapshot::New(v(&[]))
}

fn place(preferred: u16, copies: &[u16]) -> Update {
    let replicas = Replicas::of(copies.iter().copied().map(LocalSite));
    let container = Some(Container { preferred: LocalSite(preferred), replicas, stays: true });
    Update::Place { name: Key::from("a"), container }
}

/// The first of three sites, which has no copy of a container since the second has said so.
fn without_copy() -> Site {
    let mut site = site();
    site.takes("2/r0", foreign(1, 1, &[], vec![place(1, &[1, 2])]));
    site
}

fn reads(site: &mut Site, snapshot: &[u64], wanted: Wanted) -> String {
    let told = site.hears("c1", read_at(1, 9, Snapshot::Taken(v(snapshot)), vec![wanted]));
    assert_eq!(told.len(), 1, "{told:?}");
    let told = told[0].replace("c1 ← c1.9 reads ", "");
    told.split(" at ⟨").next().unwrap().to_owned()
}

fn count(element: &str) -> Wanted {
    Wanted::Count { set: Key::from("{a}s"), element: Key::from(element) }
}

fn elements(from: &str, to: Option<&str>) -> Wanted {
    let range = KeyRange { from: Key::from(from), to: to.map(Key::from) };
    Wanted::Elements { set: Key::from("{a}s"), range, from: End::Least, limit: 9 }
}

#[test]
fn a_site_without_a_copy_says_where_they_are_and_what_it_has_added_itself() {
    let mut site = without_copy();
    site.commits(1, vec![add("{a}s", "e", 2), add("{a}s", "g", 1), add("{b}s", "e", 5)]);
    site.commits(2, vec![add("{a}s", "e", -1), add("{a}s", "f", 4)]);
    let at = [2, 1];
    let elsewhere = "it elsewhere: s1 s2";
    for (wanted, expected) in [
        (register("{a}x"), elsewhere.to_owned()),
        (count("e"), format!("{elsewhere}, +2 e by 1, -1 e by 2")),
        (count("d"), elsewhere.to_owned()),
        (elements("", None), format!("{elsewhere}, +2 e by 1, +1 g by 1, -1 e by 2, +4 f by 2")),
        (elements("f", None), format!("{elsewhere}, +1 g by 1, +4 f by 2")),
        (elements("e", Some("f")), format!("{elsewhere}, +2 e by 1, -1 e by 2")),
        (elements("e", Some("g")), format!("{elsewhere}, +2 e by 1, -1 e by 2, +4 f by 2")),
        (Wanted::Range(all(), 9), "[], others at s1 s2".to_owned()),
        (Wanted::InFlight(Key::from("{a}x")), "everywhere".to_owned()),
    ] {
        assert_eq!(reads(&mut site, &at, wanted.clone()), expected, "{wanted:?}");
    }
    let found =
        site.hears("c1", read_at(1, 9, Snapshot::Taken(v(&at)), vec![Wanted::Container(Key::from("a"))]));
    assert_eq!(found, ["c1 ← c1.9 reads it at s1, copies at s1 s2 at ⟨2 1⟩, period 1"]);
    let members = Wanted::Members { set: Key::from("{a}s"), range: all(), from: End::Least, limit: 9 };
    assert!(reads(&mut site, &at, members).starts_with("it elsewhere: s1 s2, +2 e by 1"));
    // As far as the snapshot goes, of its transactions and of the container.
    assert_eq!(reads(&mut site, &[1, 1], count("e")), format!("{elsewhere}, +2 e by 1"));
    assert_eq!(reads(&mut site, &[], count("e")), "+0", "it was here");
    assert_eq!(reads(&mut site, &[], register("{a}x")), "nothing");
    assert_eq!(reads(&mut site, &[], Wanted::Range(all(), 9)), "[], others at s1 s2");
}

#[test]
fn a_register_that_was_written_here_is_known_wherever_the_copies_are() {
    let mut site = without_copy();
    site.is_asked(1, new(), vec![write("{a}x", "own")]);
    let vote = Message::Vote { transaction: txn(1, 1), keys: vec![Key::from("{a}x")], agrees: true };
    assert_eq!(only(site.hears("2/r0", vote), "appends").len(), 1);
    site.logs();
    assert_eq!(reads(&mut site, &[1, 1], register("{a}x")), "own@s0.1");
    assert_eq!(reads(&mut site, &[1, 1], Wanted::InFlight(Key::from("{a}x"))), "in flight");
    // Another site has written it since, and its value is there.
    let noted = Update::Noted { object: Key::from("{a}x"), writes: true };
    site.takes("2/r0", foreign(1, 2, &[1, 1], vec![noted]));
    assert_eq!(reads(&mut site, &[1, 2], register("{a}x")), "it elsewhere: s1 s2");
    assert_eq!(reads(&mut site, &[1, 1], register("{a}x")), "own@s0.1");
    let updates = ["{a}x", "{a}y", "elm"].map(|element| add("sage", element, 1)).to_vec();
    site.commits(2, updates);
    let members = || Wanted::Members { set: Key::from("sage"), range: all(), from: End::Least, limit: 9 };
    let told = reads(&mut site, &[2, 2], members());
    assert_eq!(told, "[elm+1=nothing {a}x+1=elsewhere {a}y+1=elsewhere]");
}

/// A copy that is about to be given up is at other sites as well, and values of it may not come here any more.
#[test]
fn a_site_that_is_about_to_give_its_copy_up_reads_it_for_no_other() {
    let mut site = site();
    site.commits(1, vec![add("{a}s", "e", 1), add("{b}s", "e", 1)]);
    let copy = |wanted: Wanted| Message::ReadCopy {
        transaction: txn(1, 2),
        request: 1,
        snapshot: v(&[1]),
        home: LocalSite(1),
        wanted: vec![wanted],
    };
    let wanted = || [register("{a}x"), count("e"), elements("", None)];
    for wanted in wanted() {
        let told = site.hears("c1", copy(wanted));
        assert!(told[0].contains("reads the copy"), "{told:?}");
    }
    site.is_sent("2/r0", vec![foreign(1, 1, &[1], vec![place(1, &[1, 2])])], 0);
    site.logs();
    for wanted in wanted() {
        assert_eq!(site.hears("c1", copy(wanted.clone())), ["✗ no replica of it is here"], "{wanted:?}");
    }
    let other = Wanted::Count { set: Key::from("{b}s"), element: Key::from("e") };
    assert_eq!(site.hears("c1", copy(other)), ["c1 ← c1.2 reads the copy +1, with 1"]);
    assert_eq!(site.hears("c1", copy(Wanted::Range(all(), 9))), ["c1 ← c1.2 reads the copy [], with 1"]);
    let counted = site.machine.copies_read();
    assert_eq!(counted, 5);
}

/// So many copies as survive the loss of so many sites, or all that there are.
#[test]
fn a_transaction_is_durable_with_copies_at_the_sites_that_hold_its_objects() {
    let ask = |sequence| Message::AskMilestone {
        transaction: txn(1, sequence),
        version: version(0, sequence),
        milestone: Milestone::Durable,
    };
    for (lost_max, updates, second, third, missing) in [
        (1, vec![add("{a}s", "e", 1)], 0, 2, " missing shard2"),
        (1, vec![add("{a}s", "e", 1)], 2, 0, ""),
        (2, vec![add("{a}s", "e", 1)], 2, 0, ""),
        (0, vec![add("{a}s", "e", 1)], 0, 0, ""),
        (2, vec![add("oak", "e", 1)], 2, 0, " missing shard3"),
        (2, vec![add("oak", "e", 1), add("{a}s", "e", 1)], 2, 0, " missing shard3"),
        (2, vec![add("oak", "e", 1)], 0, 0, " missing shard2 shard3"),
        (2, vec![add("oak", "e", 1)], 2, 2, ""),
    ] {
        let mut site = leader(|config| config.sites_lost_max = lost_max);
        site.takes(
            "2/r0",
            foreign(
                1,
                1,
                &[],
                vec![Update::Place {
                    name: Key::from("a"),
                    container: Some(Container {
                        preferred: LocalSite(0),
                        replicas: Replicas::of([LocalSite(0), LocalSite(1)]),
                        stays: true,
                    }),
                }],
            ),
        );
        site.commits(1, vec![add("iris", "e", 1)]);
        site.is_told("2/r0", 1, &[], &[]);
        site.is_told("3/r0", 1, &[], &[]);
        site.commits(2, updates.clone());
        site.is_told("2/r0", second.max(1), &[], &[]);
        site.is_told("3/r0", third.max(1), &[], &[]);
        let expected = match missing {
            "" => "c1 ← c1.2 is durable".to_owned(),
            missing => format!("c1 ← c1.2 is not durable,{missing}"),
        };
        assert_eq!(
            site.hears("c1", ask(2)),
            [expected],
            "{updates:?} at {second} and {third}, f = {lost_max}"
        );
    }
}

/// A site that has a copy in the snapshot of a transaction gets its values, and one that has given it up none.
#[test]
fn values_go_to_the_sites_that_the_snapshot_of_their_transaction_names() {
    let mut site = site();
    site.takes("2/r0", foreign(1, 1, &[], vec![place(0, &[])]));
    site.commits(1, vec![place(0, &[0, 1])]);
    site.is_asked(2, Snapshot::Taken(v(&[0, 1])), vec![write("{a}x", "early"), add("{a}s", "e", 1)]);
    site.logs();
    site.is_asked(
        3,
        new(),
        vec![write("{a}y", "late"), add("{a}s", "e", 1), add("{a}s", "f", 1), write("oak", "o")],
    );
    site.logs();
    let told = only(site.waits(5), "3/r0 ← PROPAGATE");
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("c1.2 at ⟨0 1⟩ {a}x=early {a}s[e]+1, "), "{told:?}");
    assert!(
        told[0].contains("c1.3 at ⟨2 1⟩ {a}y=elsewhere {a}s[…] elsewhere oak=o, "),
        "once for each object: {told:?}"
    );
}

/// A container may be limited to sites that have it all, among them its own, and to enough of them.
#[test]
fn a_container_that_has_few_copies_keeps_those_that_survive() {
    for (lost_max, copies, is_possible) in [
        (0, &[0][..], true),
        (0, &[1], false),
        (1, &[0], false),
        (1, &[0, 2], true),
        (2, &[0, 2], false),
        (2, &[0, 1, 2], true),
        (5, &[0, 1], false),
        (5, &[0, 1, 2], true),
    ] {
        let mut site = leader(|config| config.sites_lost_max = lost_max);
        // It belongs to this site, as a client has said before.
        site.takes("2/r0", foreign(1, 1, &[], vec![place(0, &[])]));
        let told = site.is_asked(1, new(), vec![place(0, copies)]);
        assert_eq!(told[0].starts_with("appends COMMIT"), is_possible, "{lost_max} of {copies:?}: {told:?}");
    }
    // A site that still joins may adopt the state of one that has not got them.
    let mut asking = super::removal::Asking::new(|_| {});
    asking.changes.join(ShardId(7), None).expect("it can join");
    asking.is_answered();
    asking.site.hears("7/r0", Message::Join {});
    asking.site.logs();
    asking.site.takes("2/r0", foreign(1, 1, &[], vec![place(0, &[])]));
    assert_eq!(asking.site.is_asked(1, new(), vec![place(0, &[0, 1, 3])]), ["appends REFUSED c1.1"]);
    assert_eq!(only(asking.site.is_asked(2, new(), vec![place(0, &[0, 1])]), "COMMIT").len(), 1);
}

/// Nothing is said of some objects alone.
#[test]
fn a_site_reads_for_another_all_that_it_is_asked_for_or_nothing() {
    let mut site = site();
    site.is_sent("2/r0", vec![foreign(1, 1, &[], vec![place(1, &[1, 2])])], 0);
    site.logs();
    let copy = |wanted: Vec<Wanted>| Message::ReadCopy {
        transaction: txn(1, 2),
        request: 1,
        snapshot: v(&[]),
        home: LocalSite(1),
        wanted,
    };
    let none = ["✗ no replica of it is here"];
    assert_eq!(site.hears("c1", copy(vec![register("{b}x"), register("{a}x")])), none);
    assert_eq!(site.hears("c1", copy(vec![register("{a}x"), register("{b}x")])), none);
    assert_eq!(site.hears("c1", copy(vec![register("{b}x"), register("{b}y")])).len(), 1);
    assert_eq!(site.machine.copies_read(), 1);
}
