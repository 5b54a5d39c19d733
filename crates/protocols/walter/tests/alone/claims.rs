//! Clients claim to have seen what no site has had.

use super::*;

fn read(sequence: u64, seen: &[u64]) -> Message {
    read_at(1, sequence, Snapshot::New(v(seen)), vec![register("oak")])
}

/// The number of the question that was asked last.
fn question(site: &Site) -> u64 {
    let question = site.said.iter().find_map(|message| match message {
        Message::AskLast { question } => Some(*question),
        _ => None,
    });
    question.expect("a question was asked")
}

#[test]
fn a_site_knows_what_it_never_had_itself() {
    let mut site = site();
    site.commits(1, vec![write("oak", "x")]);
    assert_eq!(site.hears("c1", read(2, &[1])), ["c1 ← c1.2 reads x@s0.1 at ⟨1⟩, period 1"]);
    let denied = ["c1 ← c1.2 NEVER-COMMITTED, nothing after s0.1"];
    assert_eq!(site.hears("c1", read(2, &[2])), denied);
    assert_eq!(site.is_asked(2, Snapshot::New(v(&[2])), vec![write("oak", "y")]), denied);
    let denied = ["c1 ← c1.2 NEVER-COMMITTED, nothing after s3.0"];
    assert_eq!(site.hears("c1", read(2, &[1, 0, 0, 1])), denied, "there is no such site");
    assert_eq!(site.hears("c1", read(2, &[1, 0, 1])), NOTHING, "that one there is");
    // Another leader may have committed more.
    site.log.lease_until = None;
    assert_eq!(site.hears("c1", read(3, &[2])), NOTHING);
    site.log.confirmed = 1;
    assert_eq!(site.progresses(), ["c1 ← c1.3 NEVER-COMMITTED, nothing after s0.1"]);
}

#[test]
fn another_site_is_asked_what_it_has_had_while_a_client_waits_for_more() {
    let mut site = site();
    assert_eq!(only(site.waits(500), "ASK-LAST"), NOTHING, "nobody waits");
    site.hears("c1", read(1, &[0, 3]));
    site.hears("c1", read(2, &[0, 5]));
    assert_eq!(
        only(site.waits(500), "ASK-LAST"),
        ["500 ms: 2/r0 ← ASK-LAST"],
        "of the third nothing is claimed"
    );
    let first = question(&site);
    site.hears("c1", read(3, &[0, 9]));
    let last = |question, seqno| Message::Last { question, seqno };
    assert_eq!(site.hears("2/r0", last(first + 1, 0)), ["✗ no such question is open"]);
    let told = site.hears("2/r1", last(first, 3));
    assert_eq!(told, ["c1 ← c1.2 NEVER-COMMITTED, nothing after s1.3"], "the third was not asked for yet");
    assert_eq!(only(site.waits(500), "ASK-LAST"), ["500 ms: 2/r1 ← ASK-LAST"], "that one leads");
    assert_eq!(question(&site), first + 1);
    assert_eq!(
        site.hears("2/r1", last(first, 4)),
        NOTHING,
        "an answer to the question before says nothing of it"
    );
    let told = site.hears("2/r1", last(first + 1, 4));
    assert_eq!(told, ["c1 ← c1.3 NEVER-COMMITTED, nothing after s1.4"]);
    assert_eq!(site.machine.waiting(), 1, "there are three, and they come");
}

#[test]
fn a_commit_and_a_copy_are_refuted_like_a_read_and_a_lock_is_not() {
    let mut site = site();
    site.is_asked(1, Snapshot::New(v(&[0, 3])), vec![write("oak", "x")]);
    let copy = Message::ReadCopy {
        transaction: txn(2, 1),
        request: 1,
        snapshot: v(&[0, 3]),
        home: LocalSite(2),
        wanted: vec![register("oak")],
    };
    site.hears("c2", copy);
    site.takes("3/r0", foreign(2, 1, &[], vec![write("oak", "z")]));
    let prepare =
        Message::Prepare { transaction: txn(9, 1), keys: vec![Key::from("oak")], snapshot: v(&[0, 3]) };
    assert_eq!(site.hears("3/r0", prepare), NOTHING);
    assert_eq!(site.machine.waiting(), 3);
    site.waits(500);
    let first = question(&site);
    let told = site.hears("2/r0", Message::Last { question: first, seqno: 2 });
    let expected =
        ["c1 ← c1.1 NEVER-COMMITTED, nothing after s1.2", "c2 ← c2.1 NEVER-COMMITTED, nothing after s1.2"];
    assert_eq!(told, expected);
    assert_eq!(site.machine.waiting(), 1, "a site is believed");
}

#[test]
fn a_site_tells_how_much_it_has_had_once_it_surely_leads() {
    let mut site = site();
    site.commits(1, vec![write("oak", "x")]);
    assert_eq!(site.hears("2/r0", Message::AskLast { question: 7 }), ["2/r0 ← LAST 1"]);
    site.log.lease_until = None;
    assert_eq!(site.hears("2/r0", Message::AskLast { question: 8 }), NOTHING);
    site.log.confirmed = 1;
    assert_eq!(site.progresses(), ["2/r0 ← LAST 1"]);
}
