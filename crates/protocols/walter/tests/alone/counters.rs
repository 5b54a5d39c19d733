//! Counters that do not fall below zero: a site takes from its own share, and asks others for theirs.

use super::*;

const STOCK: &str = "\0stock";

fn new() -> Snapshot {
    Snapshot::New(v(&[]))
}

fn change(by: i32) -> Vec<Update> {
    vec![add(STOCK, "value", by)]
}

/// Another site has so much of the counter.
fn share_of(site: u16, seqno: u64, by: i32) -> std::sync::Arc<Commit> {
    foreign(site, seqno, &[], vec![add(STOCK, &format!("s{site}"), by)])
}

fn ask(wanted: u64) -> Message {
    Message::AskShare { counter: Key::from(STOCK), wanted }
}

#[test]
fn a_site_takes_from_its_own_share_what_its_snapshot_has_and_nobody_has_taken_since() {
    let mut site = site();
    site.commits(1, change(5));
    let told = site.is_asked(2, new(), change(-3));
    assert_eq!(told, ["appends COMMIT s0.2 c1.2 at ⟨1⟩ #stock[s0]-3"]);
    assert_eq!(
        site.is_asked(3, Snapshot::Taken(v(&[1])), change(-3)),
        ["appends REFUSED c1.3"],
        "two are left"
    );
    let told = site.is_asked(4, Snapshot::Taken(v(&[1])), change(-2));
    assert_eq!(told, ["appends COMMIT s0.3 c1.4 at ⟨1⟩ #stock[s0]-2"]);
    let told = site.logs();
    let expected = [
        "c1 ← c1.2 committed as s0.2 at ⟨1⟩",
        "c1 ← c1.3 aborted, below zero",
        "c1 ← c1.4 committed as s0.3 at ⟨1⟩",
    ];
    assert_eq!(told, expected);
    assert_eq!(site.is_asked(5, new(), change(-1)), ["appends REFUSED c1.5"]);
    site.logs();
    assert_eq!(site.is_asked(6, new(), change(1)).len(), 1);
    // What its client adds comes before.
    assert_eq!(site.is_asked(7, new(), change(-1)), NOTHING, "it waits for what is about to be added");
    let told = site.logs();
    assert!(told.contains(&"appends COMMIT s0.5 c1.7 at ⟨4⟩ #stock[s0]-1".to_owned()), "{told:?}");
}

/// The share has come after the snapshot: a new attempt has a new one.
#[test]
fn what_has_come_since_the_snapshot_is_not_taken() {
    let mut site = site();
    site.commits(1, change(1));
    site.commits(2, change(5));
    assert_eq!(site.is_asked(3, Snapshot::Taken(v(&[1])), change(-4)), ["appends REFUSED c1.3"]);
    assert_eq!(site.logs(), ["c1 ← c1.3 aborted"], "it is not told that there is too little");
    assert_eq!(site.is_asked(4, Snapshot::Taken(v(&[2])), change(-4)).len(), 1);
}

#[test]
fn a_slow_commit_holds_what_it_takes() {
    let mut site = site();
    site.commits(1, change(5));
    let told = site.is_asked(2, new(), [change(-3), vec![write("apple", "a")]].concat());
    assert_eq!(told, ["2/r0 ← PREPARE c1.2 apple at ⟨1⟩"]);
    assert_eq!(site.is_asked(3, new(), change(-3)), ["appends REFUSED c1.3"]);
    let vote = Message::Vote { transaction: txn(1, 2), keys: vec![Key::from("apple")], agrees: false };
    site.hears("2/r0", vote);
    site.logs();
    assert_eq!(
        site.is_asked(4, new(), change(-5)),
        ["appends COMMIT s0.2 c1.4 at ⟨1⟩ #stock[s0]-5"],
        "it is free again"
    );
}

#[test]
fn a_site_that_lacks_a_share_asks_the_one_that_has_most() {
    let mut site = site();
    site.commits(1, change(1));
    site.takes("2/r0", share_of(1, 1, 4));
    site.takes("3/r0", share_of(2, 1, 9));
    assert_eq!(site.is_asked(2, new(), change(-5)), ["3/r0 ← ASK-SHARE 4 of #stock"], "what is missing");
    assert_eq!(site.is_asked(3, new(), change(-7)), NOTHING, "it was asked");
    assert_eq!(site.machine.waiting(), 2);
    assert_eq!(site.is_asked(4, new(), change(-15)), ["appends REFUSED c1.4"], "all have fourteen");
    assert_eq!(site.logs(), ["c1 ← c1.4 aborted, below zero"]);
    assert_eq!(
        only(site.waits(1_000), "ASK-SHARE"),
        ["1000 ms: 3/r1 ← ASK-SHARE 6 of #stock"],
        "the most that is wanted"
    );
    let given = foreign(2, 2, &[0, 0, 1], vec![add(STOCK, "s2", -6), add(STOCK, "s0", 6)]);
    site.is_sent("3/r0", vec![given], 2);
    site.logs();
    let told = site.logs();
    assert_eq!(
        only(told, "appends"),
        ["appends COMMIT s0.2 c1.2 at ⟨1 1 2⟩ #stock[s0]-5", "3/r0"][..1].to_vec()
    );
    let told = site.logs();
    assert!(only(told, "ASK-SHARE").is_empty());
}

#[test]
fn a_site_that_does_not_give_its_share_is_named_to_the_client() {
    let mut site = site();
    site.takes("2/r0", share_of(1, 1, 4));
    assert_eq!(site.is_asked(1, new(), change(-2)), ["2/r0 ← ASK-SHARE 2 of #stock"]);
    assert_eq!(only(site.waits(999), "ASK-SHARE"), NOTHING);
    assert_eq!(only(site.waits(1), "ASK-SHARE"), ["1 ms: 2/r1 ← ASK-SHARE 2 of #stock"], "another replica");
    assert_eq!(site.is_asked(2, new(), change(-3)), NOTHING);
    site.waits(1_000);
    assert_eq!(site.is_asked(3, new(), change(-1)), ["appends REFUSED c1.3"]);
    assert_eq!(site.logs(), ["c1 ← c1.3 aborted, 2 is silent"]);
    let told = site.is_asked(4, new(), change(-1));
    assert!(told[0].contains("ASK-SHARE 1 of #stock"), "it is asked anew: {told:?}");
}

#[test]
fn a_site_gives_what_is_missing_or_half_of_its_share() {
    for (has, wanted, given) in [(10, 1, 5), (10, 7, 7), (10, 12, 10), (1, 1, 1), (9, 2, 5)] {
        let mut site = site();
        site.commits(1, change(has));
        let told = site.hears("2/r0", ask(wanted));
        let transaction = "c18446744073709420543.2";
        assert_eq!(
            told,
            [format!("appends COMMIT s0.2 {transaction} at ⟨1⟩ #stock[s0]-{given} #stock[s1]+{given}")]
        );
        assert_eq!(site.machine.shares_given(), 1);
        site.logs();
        let told = site.hears("2/r0", ask(100));
        if given == has {
            assert_eq!(told, ["✗ there is no share to give"]);
        }
    }
    let mut site = site();
    assert_eq!(site.hears("2/r0", ask(1)), ["✗ there is no share to give"]);
    let set = Message::AskShare { counter: Key::from("stock"), wanted: 1 };
    assert_eq!(site.hears("2/r0", set), ["✗ no coordinator sends this"], "a set has no shares");
}

/// Otherwise they would take it from each other in turn.
#[test]
fn of_two_sites_that_lack_a_share_the_first_gets_it() {
    let mut first = site();
    first.commits(1, change(3));
    first.takes("2/r0", share_of(1, 1, 3));
    assert_eq!(first.is_asked(2, new(), change(-5)), ["2/r0 ← ASK-SHARE 2 of #stock"]);
    assert_eq!(first.hears("2/r0", ask(2)), ["✗ this site lacks a share itself"]);
    assert_eq!(first.hears("3/r0", ask(2)), ["✗ this site lacks a share itself"]);

    // The second site would give it to the first.
    let mut second = backup(|config| config.replica = replica("2/r0"));
    second.log.lease_until = Some(second.now + Duration::from_secs(9_999));
    second.leads(0);
    second.commits(1, change(3));
    second.takes("1/r0", share_of(0, 1, 3));
    assert_eq!(second.is_asked(2, new(), change(-5)), ["1/r0 ← ASK-SHARE 2 of #stock"]);
    assert_eq!(second.hears("3/r0", ask(2)), ["✗ this site lacks a share itself"]);
    assert_eq!(only(second.hears("1/r0", ask(2)), "appends").len(), 1);
}

#[test]
fn a_site_that_may_have_been_taken_out_gives_nothing() {
    let mut site = leader(|config| config.lease = Some(Duration::from_secs(4)));
    assert_eq!(site.hears("2/r0", ask(1)), ["✗ this site may have been removed"]);
}

/// Clients see one element, whatever its shares are.
#[test]
fn a_counter_is_a_set_of_one_element() {
    let mut site = site();
    site.commits(1, change(5));
    site.takes("2/r0", share_of(1, 1, 4));
    let mut read = |from: &str, to: &str, limit| {
        let range = KeyRange { from: Key::from(from), to: Some(Key::from(to)) };
        let from = quorate_core::command::End::Least;
        let wanted = Wanted::Elements { set: Key::from(STOCK), range, from, limit };
        site.hears("c1", read_at(1, 9, Snapshot::Taken(v(&[1, 1])), vec![wanted]))
    };
    for (from, to, limit, expected) in [
        ("a", "z", 9, "[value+9]"),
        ("value", "valued", 1, "[value+9]"),
        ("value", "valued", 0, "[ …]"),
        ("a", "value", 9, "[]"),
        ("valued", "z", 9, "[]"),
        ("value", "value", 9, "[]"),
        ("a", "b", 0, "[]"),
    ] {
        let told = read(from, to, limit);
        assert_eq!(told, [format!("c1 ← c1.9 reads {expected} at ⟨1 1⟩, period 1")], "{from} to {to}");
    }
}
