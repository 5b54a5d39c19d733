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
    // The amount that its client adds comes before.
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

/// The first of three sites, which has so much, and stands in for the third one, which had so much.
fn heir(own: i32, inherited: i32) -> super::removal::Asking {
    let mut asking = super::removal::Asking::new(|_| {});
    asking.site.takes("3/r0", share_of(2, 1, inherited));
    if own > 0 {
        asking.site.commits(1, change(own));
    }
    asking.removes(3);
    asking.is_answered();
    asking.waits(5);
    asking.site.logs();
    let ends = vec![(ShardId(3), quorate_core::topology::Settled { last: 1, barrier: vec![] })];
    assert!(asking.changes.settle(&quorate_core::topology::Settlement { removals: 1, ends, ready: None }));
    assert_eq!(only(asking.is_answered(), "appends"), ["appends REMOVED s2 after 1"]);
    asking.site.logs();
    asking
}

#[test]
fn the_share_of_a_lost_site_is_given_first_by_the_one_that_stands_in_for_it() {
    for (own, inherited, wanted, given) in [
        (3, 8, 1, "#stock[s2]-6 #stock[s1]+6"),
        (3, 8, 9, "#stock[s2]-8 #stock[s0]-1 #stock[s1]+9"),
        (3, 8, 20, "#stock[s2]-8 #stock[s0]-3 #stock[s1]+11"),
        (0, 8, 8, "#stock[s2]-8 #stock[s1]+8"),
        (9, 1, 2, "#stock[s2]-1 #stock[s0]-4 #stock[s1]+5"),
    ] {
        let mut asking = heir(own, inherited);
        let told = asking.site.hears("2/r0", ask(wanted));
        assert!(told[0].ends_with(given), "{wanted} of {own} and {inherited}: {told:?}");
        assert_eq!(asking.site.machine.shares_given(), 1);
    }
    // Before the end is settled it is nobody's.
    let mut asking = super::removal::Asking::new(|_| {});
    asking.site.takes("3/r0", share_of(2, 1, 8));
    asking.removes(3);
    asking.is_answered();
    asking.waits(5);
    asking.site.logs();
    assert_eq!(asking.site.hears("2/r0", ask(1)), ["✗ there is no share to give"]);
    assert_eq!(asking.site.is_asked(1, new(), change(-1)), ["appends REFUSED c1.1"], "and nobody is asked");
    assert_eq!(asking.site.logs()[0], "c1 ← c1.1 aborted");
}

/// It takes it over as it is asked for, half of it at least.
#[test]
fn a_site_that_lacks_a_share_takes_from_that_of_a_lost_site_for_which_it_stands_in() {
    let mut asking = heir(3, 8);
    let told = asking.site.is_asked(2, new(), change(-5));
    assert_eq!(told.len(), 1);
    assert!(told[0].ends_with("#stock[s2]-4 #stock[s0]+4"), "{told:?}");
    let told = only(asking.site.logs(), "appends");
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("appends COMMIT s0.3 c1.2") && told[0].ends_with("#stock[s0]-5"), "{told:?}");
    assert_eq!(asking.site.machine.shares_given(), 0, "no other site has got it");
    // Another site that has more is asked.
    asking.site.logs();
    asking.site.takes("2/r0", foreign(1, 1, &[], vec![add(STOCK, "s1", 5)]));
    assert_eq!(asking.site.is_asked(3, new(), change(-3)), ["2/r0 ← ASK-SHARE 1 of #stock"]);
}

#[test]
fn one_change_of_a_count_holds_no_more_than_it_may() {
    let mut site = site();
    for sequence in 1..=3 {
        site.commits(sequence, change(i32::MAX));
    }
    let most = i32::MAX;
    let told = site.hears("2/r0", ask(1));
    assert!(told[0].ends_with(&format!("#stock[s0]-{most} #stock[s1]+{most}")), "{told:?}");
    let told = site.hears("2/r0", ask(u64::MAX));
    assert!(
        told[0].ends_with(&format!("#stock[s0]-{most} #stock[s1]+{most}")),
        "the first is on its way: {told:?}"
    );
    let told = site.hears("2/r0", ask(u64::MAX));
    assert!(told[0].ends_with(&format!("#stock[s0]-{most} #stock[s1]+{most}")), "{told:?}");
    assert_eq!(site.hears("2/r0", ask(u64::MAX)), ["✗ there is no share to give"]);
}

#[test]
fn of_sites_that_have_as_much_the_first_is_asked() {
    let mut site = site();
    site.takes("2/r0", share_of(1, 1, 4));
    site.takes("3/r0", share_of(2, 1, 4));
    assert_eq!(site.is_asked(1, new(), change(-2)), ["2/r0 ← ASK-SHARE 2 of #stock"]);
    // The other one has more by now, and the first is silent.
    site.takes("3/r0", foreign(2, 2, &[], vec![add(STOCK, "s2", 1)]));
    assert_eq!(only(site.waits(1_000), "ASK-SHARE"), ["1000 ms: 3/r0 ← ASK-SHARE 2 of #stock"]);
    site.is_told("3/r0", 0, &[], &[]);
    assert_eq!(only(site.waits(1_000), "ASK-SHARE"), ["1000 ms: 3/r1 ← ASK-SHARE 2 of #stock"]);
    assert_eq!(site.is_asked(2, new(), change(-2)), ["appends REFUSED c1.2"], "two seconds are long enough");
    assert_eq!(site.logs()[0], "c1 ← c1.2 aborted, 3 is silent", "the one that was asked last");
}

/// Nobody lacks it any more if no request comes again.
#[test]
fn a_share_that_nobody_lacks_is_asked_for_no_more() {
    let mut site = site();
    site.takes("2/r0", share_of(1, 1, 4));
    site.is_asked(1, new(), change(-2));
    assert_eq!(only(site.waits(3_999), "ASK-SHARE").len(), 3);
    assert_eq!(only(site.waits(10_000), "ASK-SHARE"), NOTHING);
    assert_eq!(site.is_asked(2, new(), change(-2)).len(), 1, "it is asked for anew");
}

/// A share is what each site takes from alone. One below zero would be no help to others.
#[test]
fn a_share_below_zero_lessens_no_other() {
    let mut site = site();
    site.takes("2/r0", share_of(1, 1, 4));
    site.takes("3/r0", share_of(2, 1, -3));
    assert_eq!(site.is_asked(1, new(), change(-4)), ["2/r0 ← ASK-SHARE 4 of #stock"]);
    assert_eq!(site.is_asked(2, new(), change(-5)), ["appends REFUSED c1.2"]);
    assert_eq!(site.logs()[0], "c1 ← c1.2 aborted, below zero");
}

/// Each request that waits for it is handled again; those of other counters wait on.
#[test]
fn a_share_that_comes_wakes_those_that_wait_for_shares() {
    let mut site = site();
    let other = "\0other";
    site.takes("2/r0", foreign(1, 1, &[], vec![add(STOCK, "s1", 4), add(other, "s1", 4)]));
    site.is_asked(1, new(), change(-2));
    site.is_asked(2, new(), vec![add(other, "value", -3)]);
    let given = foreign(1, 2, &[0, 1], vec![add(STOCK, "s1", -2), add(STOCK, "s0", 2)]);
    site.is_sent("2/r0", vec![given], 2);
    site.logs();
    let told = site.logs();
    assert_eq!(only(told.clone(), "appends"), ["appends COMMIT s0.1 c1.1 at ⟨0 2⟩ #stock[s0]-2"]);
    assert_eq!(site.machine.waiting(), 2, "one commits, and the other still waits: {told:?}");
    site.logs();
    let told = only(site.waits(1_000), "ASK-SHARE");
    assert_eq!(told, ["1000 ms: 2/r1 ← ASK-SHARE 3 of #other"]);
}

/// Clients are not waited for without end: a counter to which somebody always adds is refused if another site could help.
#[test]
fn a_request_waits_for_additions_of_others_only_if_no_site_has_enough() {
    let mut site = site();
    site.is_asked(1, new(), change(2));
    assert_eq!(site.hears("c2", commit_at(2, 1, new(), change(-1))), NOTHING, "no site has it");
    site.logs();
    site.logs();
    site.takes("2/r0", share_of(1, 1, 9));
    site.is_asked(3, new(), change(2));
    let told = site.hears("c2", commit_at(2, 2, new(), change(-5)));
    assert_eq!(told, ["2/r0 ← ASK-SHARE 4 of #stock"]);
}

/// The role of a lost site goes back, and its share with it: what is left of that here is given by nobody while it leaves.
#[test]
fn the_share_of_a_lost_site_is_not_given_while_its_role_is_handed_over() {
    use quorate_core::topology::Settlement;
    let mut asking = heir(0, 8);
    asking.changes.join(ShardId(7), Some(ShardId(3))).expect("it can join");
    asking.is_answered();
    asking.site.hears("7/r0", Message::Join {});
    asking.site.logs();
    let ready = Settlement { removals: 1, ends: vec![], ready: Some(ShardId(7)) };
    assert!(asking.changes.settle(&ready));
    assert_eq!(only(asking.is_answered(), "{s2} to s3").len(), 1);
    assert_eq!(asking.site.hears("2/r0", ask(1)), ["✗ there is no share to give"], "it is leaving");
    asking.site.logs();
    assert_eq!(asking.site.hears("2/r0", ask(1)), ["✗ there is no share to give"], "it is another site's");
}

#[test]
fn a_change_by_nothing_takes_nothing() {
    let mut site = site();
    let told = site.is_asked(1, new(), change(0));
    assert_eq!(told, ["appends COMMIT s0.1 c1.1 at ⟨⟩ #stock[s0]+0"]);
    assert_eq!(site.is_asked(2, new(), change(-1)), ["appends REFUSED c1.2"], "nothing is about to be added");
    site.logs();
    site.takes("2/r0", share_of(1, 1, 4));
    assert_eq!(site.is_asked(3, new(), change(0)).len(), 1);
}

/// An amount taken from it meanwhile makes it less, and then an amount that comes is more again.
#[test]
fn a_share_has_come_if_there_is_more_than_before() {
    let mut site = site();
    site.commits(1, change(3));
    site.takes("2/r0", share_of(1, 1, 9));
    assert_eq!(site.is_asked(2, new(), change(-5)), ["2/r0 ← ASK-SHARE 2 of #stock"]);
    site.commits(3, change(-2));
    let given = |seqno, by: i32| foreign(1, seqno, &[], vec![add(STOCK, "s1", -by), add(STOCK, "s0", by)]);
    site.is_sent("2/r0", vec![given(2, 1)], 2);
    site.logs();
    let told = site.logs();
    assert_eq!(only(told, "ASK-SHARE"), ["2/r0 ← ASK-SHARE 3 of #stock"], "it has come, and is not enough");
    site.is_sent("2/r0", vec![given(3, 3)], 3);
    site.logs();
    let told = only(site.logs(), "appends");
    assert_eq!(told, ["appends COMMIT s0.3 c1.2 at ⟨2 3⟩ #stock[s0]-5"]);
}

/// Each site has a name of its own for them.
#[test]
fn the_transactions_that_give_shares_are_named_by_their_site() {
    let mut second = backup(|config| config.replica = replica("2/r0"));
    second.log.lease_until = Some(second.now + Duration::from_secs(9_999));
    second.leads(0);
    second.commits(1, change(4));
    let told = second.hears("3/r0", ask(1));
    assert_eq!(told, ["appends COMMIT s1.2 c18446744073709420542.2 at ⟨0 1⟩ #stock[s1]-2 #stock[s2]+2"]);
}

/// Whatever the leader before was asked for is lost with its leadership.
#[test]
fn the_next_leader_of_another_site_is_asked_for_its_share_at_once() {
    let mut site = site();
    site.takes("2/r0", share_of(1, 1, 4));
    assert_eq!(site.is_asked(1, new(), change(-2)), ["2/r0 ← ASK-SHARE 2 of #stock"]);
    assert_eq!(site.is_asked(2, new(), change(-3)), NOTHING);
    assert_eq!(only(site.is_told("3/r2", 0, &[], &[]), "ASK-SHARE"), NOTHING, "that site was not asked");
    let told = only(site.is_told("2/r1", 0, &[], &[]), "ASK-SHARE");
    assert_eq!(told, ["2/r1 ← ASK-SHARE 3 of #stock"], "the most that is wanted");
}
