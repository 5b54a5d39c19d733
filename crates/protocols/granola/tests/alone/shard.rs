//! A shard that its clients and other shards talk to: what it takes in, what it says of it, and what it asks for when it hears nothing.

use quorate_core::transaction::TRANSACTION_BYTES_MAX;
use quorate_granola::ReplicaCommand;

use super::*;

const SECOND: u64 = 1_000_000;

/// The leader of shard 1.
fn shard() -> Alone {
    Alone::leading(1, |_| {})
}

/// A request, as its client sends it; tests change what they are about.
fn request(sequence: u64, of: &[u32], operation: &str) -> Request {
    Request {
        transaction: txn(1, sequence),
        participants: shards(of),
        operation: Value::from(operation.to_owned()),
        class: Class::Independent,
        high: at(0),
        first: at(1_000),
    }
}

impl Alone {
    fn asks(&mut self, request: Request) -> Vec<String> {
        let client = format!("c{}", request.transaction.client.0);
        self.hears(&client, Message::Request(request))
    }

    /// A vote on what shards 1 and 2 take part in.
    fn is_voted(&mut self, from: &str, sequence: u64, vote: Vote, proposed: u64, wants: bool) -> Vec<String> {
        self.hears(from, ballot(sequence, Class::Independent, vote, proposed, wants))
    }

    fn resolved(&mut self, from: &str, sequence: u64, ending: Ending) -> Vec<String> {
        self.hears(from, Message::Resolved { transaction: txn(1, sequence), ending })
    }

    fn abandons(&mut self, from: &str, sequence: u64, lost: u32) -> Vec<String> {
        self.hears(from, Message::Abandoned { transaction: txn(1, sequence), lost: ShardId(lost) })
    }

    fn inquires(&mut self, of: &[u32], sequence: u64, not_before: u64) -> Vec<String> {
        let (transaction, participants, not_before) = (txn(1, sequence), shards(of), at(not_before));
        self.hears("c9", Message::Inquire { transaction, participants, not_before })
    }

    fn is_declared_lost(&mut self, shard: u32) -> Vec<String> {
        let input = Input::Command(ReplicaCommand::DeclareLost(ShardId(shard)));
        self.step(|replica, context, log, outbox| replica.step(context, input, log, outbox))
    }
}

fn ballot(sequence: u64, class: Class, vote: Vote, proposed: u64, wants: bool) -> Message {
    let (transaction, participants) = (txn(1, sequence), shards(&[1, 2]));
    let (first, proposed) = (at(1_000), at(proposed));
    Message::Vote { transaction, participants, first, vote, proposed, class, wants }
}

#[test]
fn what_one_shard_decides_is_executed_once_it_is_stable() {
    let mut shard = shard();
    let appended = shard.asks(request(1, &[1], "put a x"));
    assert_eq!(appended, ["appends VOTED c1.1 COMMIT put a x at 1001, ceiling 501001"]);
    assert_eq!(shard.asks(request(1, &[1], "put a x")), ["✗ under way already"]);
    assert_eq!(shard.logs(), ["c1 ← REPLY c1.1 committed at 1001: nothing"]);
    let again = shard.asks(request(1, &[1], "put a x"));
    assert_eq!(again, ["c1 ← REPLY c1.1 committed at 1001: nothing"], "the answer is remembered");
    // The next is proposed above, although the clock stands still; and above what its client has seen.
    let appended = shard.asks(request(2, &[1], "put a y"));
    assert_eq!(appended, ["appends VOTED c1.2 COMMIT put a y at 1002, ceiling 501002"]);
    let appended = shard.asks(Request { high: at(5_000), ..request(3, &[1], "put a z") });
    assert_eq!(appended, ["appends VOTED c1.3 COMMIT put a z at 5001, ceiling 505001"]);
    let told = ["c1 ← REPLY c1.2 committed at 1002: x", "c1 ← REPLY c1.3 committed at 5001: y"];
    assert_eq!(shard.logs(), told);
}

#[test]
fn nothing_is_accepted_that_a_client_may_not_ask_for() {
    let mut shard = shard();
    let foreign = ["✗ asked in the name of another client"];
    assert_eq!(shard.hears("c2", Message::Request(request(1, &[1], "put a x"))), foreign);
    assert_eq!(shard.hears("3/r0", Message::Request(request(1, &[1, 2], "put a x"))), foreign);
    for participants in [&[][..], &[2], &[2, 1], &[1, 1], &[1, 5], &[0, 1]] {
        let told = shard.asks(request(1, participants, "put a x"));
        assert_eq!(told, ["✗ these cannot be the participants"], "{participants:?}");
    }
    let large = |bytes: usize| Request { operation: Value::from(vec![b'x'; bytes]), ..request(1, &[1], "") };
    assert_eq!(shard.asks(large(TRANSACTION_BYTES_MAX + 1)), ["✗ operation too large"]);
    assert_eq!(shard.asks(large(TRANSACTION_BYTES_MAX)).len(), 1);
    let mut backup = Alone::following(1, |_| {});
    assert_eq!(backup.asks(request(1, &[1], "put a x")), ["c1 ← NOT-LEADING c1.1, r2 does"]);

    let mut of_hub = Alone::leading(1, |config| config.hub = Some(ShardId(3)));
    let told = of_hub.hears("3/r1", Message::Request(request(1, &[1], "put a x")));
    assert_eq!(told, foreign, "what one shard decides its client asks for itself");
    assert_eq!(of_hub.hears("3/r1", Message::Request(request(1, &[1, 2], "put a x"))).len(), 1);
    assert_eq!(of_hub.logs(), ["3/r1 ← PREPARED c1.1 COMMIT at 1001"]);
}

/// It would lift the timestamps of the whole shard, or would have to be remembered for so long.
#[test]
fn what_lies_too_far_ahead_of_the_clock_is_refused() {
    let ahead = 60 * SECOND;
    let mut shard = shard();
    let clock = "c1 ← REPLY c1.1 too far ahead, the clock says 1000";
    let asked = ["2/r1 ← ASK-FLOOR", "3/r1 ← ASK-FLOOR", "4/r1 ← ASK-FLOOR", clock];
    let early =
        |first: u64, high: u64| Request { first: at(first), high: at(high), ..request(1, &[1], "put a x") };
    assert_eq!(shard.asks(early(1_001 + ahead, 0)), asked);
    shard.now = shard.now + Duration::from_millis(499);
    assert_eq!(shard.asks(early(0, 1_001 + ahead)), [clock], "they have been asked");
    shard.now = shard.now + Duration::from_millis(1);
    let others = ["2/r2 ← ASK-FLOOR", "3/r2 ← ASK-FLOOR", "4/r2 ← ASK-FLOOR", clock];
    assert_eq!(shard.asks(early(0, 1_001 + ahead)), others, "of each shard another replica");
    // Another shard has come so far: the client may well have seen that.
    let reply = Message::AskFloorReply { floor: at(0), ceiling: at(1_001 + ahead) };
    assert_eq!(shard.hears("2/r2", reply), NOTHING);
    assert_eq!(shard.asks(early(0, 1_002 + ahead)), [clock]);
    assert_eq!(shard.asks(early(0, 1_001 + ahead)).len(), 1);
    let mut shard = Alone::leading(1, |_| {});
    assert!(shard.asks(early(1_000 + ahead, 1_000 + ahead))[0].starts_with("appends VOTED c1.1 COMMIT"));
}

#[test]
fn what_several_take_part_in_is_executed_at_the_greatest_proposal() {
    let mut shard = shard();
    assert_eq!(shard.asks(request(1, &[1, 2], "put a x")).len(), 1);
    assert_eq!(shard.is_voted("2/r0", 1, Vote::Commit, 900_000, false), NOTHING, "the own vote may be lost");
    assert_eq!(shard.logs(), ["appends ceiling 1400000", "2/r0 ← VOTE c1.1 COMMIT at 1001"]);
    assert_eq!(shard.logs(), ["c1 ← REPLY c1.1 committed at 900000: nothing"]);
    let ended = ["✗ it has ended here"];
    assert_eq!(shard.is_voted("2/r0", 1, Vote::Commit, 900_000, false), ended);
    let told = ["2/r0 ← RESOLVED c1.1 final at 900000"];
    assert_eq!(
        shard.is_voted("2/r0", 1, Vote::Commit, 900_000, true),
        told,
        "it lacks the vote of this shard"
    );
    assert_eq!(shard.attends(10).len(), 0);
}

#[test]
fn a_vote_is_answered_if_its_sender_lacks_the_own() {
    let mut shard = shard();
    shard.asks(request(1, &[1, 2, 3], "put a x"));
    let told = ["2/r0 ← VOTE c1.1 COMMIT at 1001", "3/r0 ← VOTE c1.1 COMMIT at 1001"];
    assert_eq!(shard.logs(), told);
    let (transaction, participants, first, proposed) = (txn(1, 1), shards(&[1, 2, 3]), at(1_000), at(7));
    let vote = |wants: bool| {
        let (vote, class, participants) = (Vote::Commit, Class::Independent, participants.clone());
        Message::Vote { transaction, participants, first, vote, proposed, class, wants }
    };
    assert_eq!(shard.hears("2/r0", vote(false)), NOTHING);
    assert_eq!(shard.hears("2/r0", vote(false)), ["✗ this vote is known"]);
    assert_eq!(shard.hears("2/r0", vote(true)), ["2/r0 ← VOTE c1.1 COMMIT at 1001"]);
    assert_eq!(shard.hears("2/r1", vote(false))[0], "✗ this vote is known");
    let participants_only = ["✗ these cannot be the participants"];
    assert_eq!(shard.hears("4/r0", vote(false)), participants_only);
    assert_eq!(shard.hears("1/r1", vote(false)), participants_only);
    assert_eq!(shard.hears("c1", vote(false)), ["✗ said by a client"]);
    let mut backup = Alone::following(1, |_| {});
    assert_eq!(backup.hears("2/r0", vote(false)), ["2/r0 ← NOT-LEADING c1.1, r2 does"]);
}

#[test]
fn one_vote_against_it_ends_it_here() {
    let refuse = [(Vote::Conflict, "conflict"), (Vote::Abort(Value::from("no")), "aborted by 2 (no)")];
    for (vote, expected) in refuse {
        let mut shard = shard();
        shard.asks(request(1, &[1, 2], "put a x"));
        shard.logs();
        let told = shard.is_voted("2/r0", 1, vote.clone(), 0, false);
        assert_eq!(told, [format!("c1 ← REPLY c1.1 {expected}")]);
        assert_eq!(shard.is_voted("2/r0", 1, vote, 0, false), ["✗ it has ended here"]);
        let told = shard.asks(request(1, &[1, 2], "put a x"));
        assert_eq!(told, [format!("c1 ← REPLY c1.1 {expected}")], "it is not accepted again");
    }
}

/// Every replica of the shard is asked, because its leader is not known to be there; later those as well that have voted.
#[test]
fn votes_that_do_not_come_are_asked_for_at_longer_and_longer_intervals() {
    let mut shard = Alone::leading(1, |config| config.locking = quorate_granola::Locking::NeverNorWait);
    shard.asks(request(1, &[1, 2, 3], "put a x"));
    shard.logs();
    let (transaction, participants, first, proposed) = (txn(1, 1), shards(&[1, 2, 3]), at(1_000), at(7));
    let (vote, class, wants) = (Vote::Commit, Class::Independent, false);
    let known = Message::Vote { transaction, participants, first, vote, proposed, class, wants };
    shard.hears("3/r1", known);
    let wanted = |replica: &str| format!("{replica} ← VOTE c1.1 COMMIT at 1001, and yours?");
    let silent = ["2/r0", "2/r1", "2/r2"].map(wanted).to_vec();
    let all = ["2/r0", "2/r1", "2/r2", "3/r1"].map(wanted).to_vec();
    assert_eq!(shard.attends(999), NOTHING);
    assert_eq!(shard.attends(1), silent);
    for seconds in [2, 4, 8, 16, 16, 16] {
        assert_eq!(shard.attends(1_000 * seconds - 1), NOTHING, "{seconds}");
        assert_eq!(shard.attends(1), all, "{seconds}");
    }
}

#[test]
fn what_only_reads_is_given_up_if_votes_do_not_come() {
    let mut shard = shard();
    let reads = || Request { class: Class::ReadOnly, ..request(1, &[1, 2], "get a") };
    assert_eq!(shard.asks(reads()), ["2/r0 ← VOTE c1.1 COMMIT at 1001"], "it is not appended");
    let wanted = |replica: &str| format!("{replica} ← VOTE c1.1 COMMIT at 1001, and yours?");
    assert_eq!(shard.attends(1_000), ["2/r0", "2/r1", "2/r2"].map(wanted));
    assert_eq!(shard.attends(1_999), NOTHING);
    assert_eq!(shard.attends(1), ["c1 ← REPLY c1.1 conflict"]);
    assert_eq!(shard.asks(reads()).len(), 1, "nothing is left of it");
}

#[test]
fn a_shard_that_is_led_by_another_replica_learns_of_the_votes() {
    let mut shard = shard();
    shard.asks(request(1, &[1, 2], "put a x"));
    shard.asks(request(2, &[1, 3], "put b x"));
    shard.logs();
    let not_leading = |sequence: u64, leader: u8| Message::NotLeading {
        transaction: txn(1, sequence),
        leader: ReplicaIndex(leader),
    };
    assert_eq!(shard.hears("2/r0", not_leading(1, 2)), ["2/r2 ← VOTE c1.1 COMMIT at 1001, and yours?"]);
    assert_eq!(shard.hears("2/r0", not_leading(1, 1)), ["✗ no news of its leader"]);
    assert_eq!(shard.hears("2/r2", not_leading(1, 2)), ["✗ no news of its leader"]);
    assert_eq!(shard.hears("2/r2", not_leading(9, 1)), NOTHING, "of what is not open nothing is told");
    assert_eq!(shard.hears("c1", not_leading(1, 0)), ["✗ said by a client"]);
    // A vote says who leads, and then all that the two have to agree on is told there.
    let told = shard.is_voted("2/r0", 7, Vote::Commit, 5, false);
    assert_eq!(told, ["2/r0 ← VOTE c1.1 COMMIT at 1001"]);
    assert_eq!(shard.is_voted("2/r0", 8, Vote::Commit, 5, false), NOTHING, "that is no news");
    let mut backup = Alone::following(1, |_| {});
    assert_eq!(backup.hears("2/r0", not_leading(1, 2)), ["✗ this replica does not lead"]);
}

#[test]
fn a_participant_that_knows_the_timestamp_spares_the_vote() {
    let mut shard = shard();
    shard.asks(request(1, &[1, 2], "put a x"));
    shard.logs();
    assert_eq!(shard.resolved("c1", 1, Ending::Conflict), ["✗ said by a client"]);
    assert_eq!(shard.resolved("2/r0", 2, Ending::Conflict), ["✗ nothing waits under this name"]);
    assert_eq!(
        shard.resolved("2/r0", 1, Ending::Commit(at(2_000))),
        ["c1 ← REPLY c1.1 committed at 2000: nothing"]
    );
    assert_eq!(shard.resolved("2/r0", 1, Ending::Conflict), ["✗ nothing waits under this name"]);

    shard.asks(request(2, &[1, 2], "put a y"));
    shard.logs();
    let told = shard.resolved("2/r0", 2, Ending::Commit(at(5)));
    assert_eq!(told, ["c1 ← REPLY c1.2 committed at 2001: x"], "no sooner than it was proposed here");
    let mut backup = Alone::following(1, |_| {});
    assert_eq!(backup.resolved("2/r0", 1, Ending::Conflict), ["✗ this replica does not lead"]);
}

/// A replica that does not know yet that it leads no longer may ask for what has ended everywhere and is forgotten.
#[test]
fn that_something_is_executed_nowhere_counts_for_a_replica_that_surely_leads() {
    let mut shard = shard();
    shard.asks(request(1, &[1, 2], "put a x"));
    shard.logs();
    assert_eq!(shard.resolved("2/r0", 1, Ending::Conflict), NOTHING, "others are asked whether it leads");
    assert_eq!(shard.resolved("2/r0", 1, Ending::Conflict), ["✗ noted already"]);
    shard.log.lease_until = Some(shard.now + Duration::from_millis(1));
    assert_eq!(shard.resolved("2/r0", 1, Ending::Conflict), ["c1 ← REPLY c1.1 conflict"]);
    shard.asks(request(2, &[1, 2], "put a x"));
    shard.logs();
    shard.now = shard.now + Duration::from_millis(1);
    assert_eq!(shard.resolved("2/r0", 2, Ending::Conflict), NOTHING, "the lease is over");
}

#[test]
fn whoever_inquires_has_what_is_unknown_voted_against() {
    let mut shard = shard();
    shard.asks(request(1, &[1], "put a x"));
    assert_eq!(shard.inquires(&[1], 1, 0), ["✗ under way already"]);
    shard.logs();
    assert_eq!(shard.inquires(&[1], 1, 0), ["c9 ← REPLY c1.1 committed at 1001: nothing"]);
    assert_eq!(shard.inquires(&[2], 1, 0), ["✗ these cannot be the participants"]);
    let told = shard.inquires(&[1, 2], 2, 0);
    assert_eq!(told, ["appends VOTED c1.2 CONFLICT at 1001, ceiling 501001"]);
    assert_eq!(shard.logs(), ["2/r0 ← VOTE c1.2 CONFLICT at 0", "c1 ← REPLY c1.2 conflict"]);
    let mut backup = Alone::following(1, |_| {});
    assert_eq!(backup.inquires(&[1], 1, 0), ["c9 ← NOT-LEADING c1.1, r2 does"]);
}

#[test]
fn nothing_is_begun_with_a_shard_that_is_lost_and_nobody_waits_for_its_votes() {
    let mut shard = shard();
    shard.asks(request(1, &[1, 2], "put a x"));
    shard.asks(request(2, &[1, 2, 3], "put b x"));
    shard.asks(request(3, &[1, 3], "put c x"));
    shard.logs();
    for other in [1, 0, 5] {
        assert_eq!(shard.is_declared_lost(other), ["✗ no other shard of the keyspace"]);
    }
    assert_eq!(shard.abandons("3/r0", 2, 2), ["✗ the shard is not lost here"]);
    assert_eq!(shard.is_declared_lost(2), ["appends 2 is lost, ceiling 501003"]);
    let told = ["c1 ← REPLY c1.1 conflict", "3/r0 ← ABANDONED c1.2, 2 is lost"];
    assert_eq!(shard.logs(), told, "of the second another participant may know the vote");
    assert_eq!(shard.is_declared_lost(2), ["✗ the shard is lost already"]);
    assert_eq!(shard.is_voted("2/r0", 2, Vote::Commit, 5, false), ["✗ its shard is lost"]);
    // An earlier leader of this shard may have dropped it, and told its client.
    assert_eq!(shard.resolved("2/r0", 2, Ending::Commit(at(5))), ["✗ its shard is lost"]);
    assert_eq!(shard.attends(10), ["3/r0 ← ABANDONED c1.2, 2 is lost"], "it may not have heard it");
    assert_eq!(shard.abandons("c1", 2, 2), ["✗ said by a client"]);
    assert_eq!(shard.abandons("3/r0", 9, 2), ["✗ nothing waits under this name"]);
    assert_eq!(shard.abandons("3/r0", 1, 2), ["3/r0 ← RESOLVED c1.1 dropped"]);
    assert_eq!(shard.abandons("3/r0", 3, 2), NOTHING, "of that one nothing is lost");
    assert_eq!(shard.abandons("3/r0", 2, 2), ["c1 ← REPLY c1.2 conflict"]);
    assert_eq!(shard.asks(request(4, &[1, 2], "put a x")), ["c1 ← REPLY c1.4 2 is lost"]);
    assert_eq!(shard.asks(request(4, &[1], "put a x")).len(), 1);
    let mut backup = Alone::following(1, |_| {});
    assert_eq!(backup.is_declared_lost(2), ["✗ this replica does not lead"]);
}

/// Nothing is forgotten that a copy of a request could begin anew, here or at another participant.
#[test]
fn a_floor_stays_behind_the_clock_and_below_all_that_is_open() {
    let mut shard = shard();
    shard.asks(request(1, &[1, 2], "put a x"));
    shard.logs();
    shard.is_voted("2/r0", 1, Vote::Commit, 1_001, false);
    let finals = Input::Timer(ReplicaTimer::Finals);
    shard.step(|replica, context, log, outbox| replica.step(context, finals, log, outbox));
    shard.logs();
    shard.clock = 20 * SECOND;
    let told = ["appends FLOOR 10000000, forgotten below 0, ceiling 501001", "2/r1 ← ASK-FLOOR"];
    assert_eq!(shard.attends(1), told);
    assert_eq!(shard.attends(60_000), NOTHING, "one at a time is on its way");
    let late = |sequence: u64, first: u64| Request { first: at(first), ..request(sequence, &[1], "put a y") };
    let told = shard.asks(late(2, 9_999_999));
    assert_eq!(told, ["appends VOTED c1.2 CONFLICT at 1001, ceiling 501001"], "others may forget it");
    shard.logs();
    let reply = Message::AskFloorReply { floor: at(9_000_000), ceiling: at(0) };
    assert_eq!(shard.hears("2/r1", reply), NOTHING);
    let told = ["appends FLOOR 10000000, forgotten below 9000000, ceiling 501001", "2/r2 ← ASK-FLOOR"];
    assert_eq!(shard.attends(1), told);
    shard.logs();
    assert_eq!(shard.attends(4_999), NOTHING);
    assert_eq!(shard.attends(1), ["2/r0 ← ASK-FLOOR"], "it cannot be higher, for all that is known");
    assert_eq!(shard.asks(late(3, 8_999_999)), ["c1 ← REPLY c1.3 forgotten, the clock says 20000000"]);
    assert_eq!(shard.asks(late(4, 9_999_999)), ["c1 ← REPLY c1.4 too old, the clock says 20000000"]);
    assert_eq!(shard.asks(late(5, 10_000_000)).len(), 1);
}

/// An idle shard writes nothing, unless another has asked for its floor lately.
#[test]
fn a_shard_that_remembers_nothing_leaves_its_floor_where_it_is() {
    let mut shard = shard();
    shard.clock = 20 * SECOND;
    assert_eq!(shard.attends(60_000), NOTHING);
    assert_eq!(shard.hears("2/r0", Message::AskFloor), ["2/r0 ← ASK-FLOOR-REPLY 0"]);
    assert_eq!(shard.attends(5_000), ["appends FLOOR 10000000, forgotten below 0, ceiling 500000"]);
    shard.logs();
    assert_eq!(shard.hears("2/r0", Message::AskFloor), ["2/r0 ← ASK-FLOOR-REPLY 10000000"]);
    assert_eq!(shard.attends(5_000), ["appends FLOOR 10000000, forgotten below 10000000, ceiling 500000"]);
    shard.logs();
    assert_eq!(shard.attends(5_000), NOTHING, "it is as high as it can be");
    shard.clock = 60 * SECOND;
    // A transaction that is not stable holds it up as well.
    shard.asks(Request { first: at(49 * SECOND), ..request(1, &[1, 2], "put a x") });
    let told = shard.attends(5_000);
    assert_eq!(told, ["appends FLOOR 49000000, forgotten below 10000000, ceiling 60500001"]);
    let mut forgotten = Alone::leading(1, |_| {});
    forgotten.hears("2/r0", Message::AskFloor);
    forgotten.clock = 20 * SECOND;
    assert_eq!(forgotten.attends(30_000), NOTHING, "nobody has asked for long");
}

#[test]
fn what_the_log_does_not_take_is_not_accepted() {
    let mut shard = shard();
    // The log knows already that another leads, and the machine does not.
    shard.log.leads = None;
    assert_eq!(shard.asks(request(1, &[1], "put a x")), NOTHING);
    assert_eq!(shard.asks(Request { class: Class::Coordinated, ..request(2, &[1, 2], "put a x") }), NOTHING);
    shard.log.leads = Some(View(0));
    assert_eq!(shard.asks(request(1, &[1], "put a x")).len(), 1, "nothing is left of it");
    let agreed = Request { class: Class::Coordinated, ..request(2, &[1, 2], "put b x") };
    assert_eq!(shard.asks(agreed).len(), 1, "and nothing is locked");
}

/// A group that coordinates has told the client of what it coordinates, and of nothing else.
#[test]
fn a_refusal_of_what_one_shard_decides_is_told_to_its_client_also_where_a_group_coordinates() {
    let mut shard = Alone::leading(1, |config| config.hub = Some(ShardId(3)));
    for (sequence, of, told) in [
        (1, &[1][..], &["3/r0 ← PREPARED c1.1 CONFLICT at 0", "c1 ← REPLY c1.1 conflict"][..]),
        (2, &[1, 2], &["3/r0 ← PREPARED c1.2 CONFLICT at 0"]),
    ] {
        assert_eq!(shard.inquires(of, sequence, 0).len(), 1);
        let mut logged = shard.logs();
        logged.sort();
        assert_eq!(logged, told);
    }
}

#[test]
fn only_a_leader_locks() {
    let mut shard = Alone::leading(1, |config| config.locking = quorate_granola::Locking::Always);
    assert!(shard.replica.is_locking());
    // While it locks, what one shard decides is executed before it is logged, and told when it is.
    assert_eq!(shard.asks(request(1, &[1], "put a x")).len(), 1);
    assert_eq!(shard.asks(request(1, &[1], "put a x")), ["✗ under way already"]);
    assert_eq!(shard.logs(), ["c1 ← REPLY c1.1 committed at 1001: nothing"]);
    shard.is_deposed();
    assert!(!shard.replica.is_locking());
    assert!(!Alone::following(1, |_| {}).replica.is_locking());
}

/// Each answer leaves with its own confirmation, in order.
#[test]
fn answers_to_reads_without_a_lease_leave_in_the_order_of_their_confirmations() {
    let mut shard = shard();
    let reads = |sequence: u64| Request { class: Class::ReadOnly, ..request(sequence, &[1], "get a") };
    for sequence in 1..=3 {
        assert_eq!(shard.asks(reads(sequence)), NOTHING, "it may lead no longer");
    }
    shard.log.confirmed = 2;
    let told = shard.progresses();
    let expected = [1, 2].map(|sequence| format!("c1 ← REPLY c1.{sequence} committed at 0: nothing"));
    assert_eq!(told, expected);
    shard.log.confirmed = 3;
    assert_eq!(shard.progresses().len(), 1);
    assert_eq!(shard.progresses(), NOTHING);
    shard.log.lease_until = Some(shard.now + Duration::from_millis(1));
    assert_eq!(shard.asks(reads(4)).len(), 1, "nobody else can lead before");
}

/// A read may be as of the last timestamp that its client has seen, beneath all that is pending.
#[test]
fn a_read_passes_beneath_what_is_pending_if_its_client_has_seen_no_more() {
    let mut shard = shard();
    shard.log.lease_until = Some(shard.now + Duration::from_secs(9));
    shard.asks(request(1, &[1, 2], "put a x"));
    shard.logs();
    let reads = |sequence: u64, high: u64| Request {
        class: Class::ReadOnly,
        high: at(high),
        ..request(sequence, &[1], "get a")
    };
    for high in [0, 999, 1_000] {
        let sequence = 10 + high;
        let told = shard.asks(reads(sequence, high));
        assert_eq!(told, [format!("c1 ← REPLY c1.{sequence} committed at {high}: nothing")]);
    }
    assert_eq!(shard.asks(reads(2, 1_001)), NOTHING, "that one has seen what is pending");
    let told = shard.is_voted("2/r0", 1, Vote::Commit, 1_001, false);
    assert!(told.contains(&"c1 ← REPLY c1.2 committed at 1001: x".to_owned()), "{told:?}");
}

#[test]
fn what_lacks_votes_for_long_is_locked_until_it_has_ended() {
    let mut shard = shard();
    shard.asks(request(1, &[1, 2], "put a x"));
    shard.logs();
    shard.attends(1_000);
    assert!(!shard.replica.is_locking(), "votes were asked for once");
    shard.attends(2_000);
    assert!(shard.replica.is_locking());
    let told = shard.asks(request(2, &[1], "put a y"));
    assert_eq!(told, ["appends VOTED c1.2 CONFLICT at 1001, ceiling 501001"], "what is locked is refused");
    assert_eq!(shard.logs(), ["c1 ← REPLY c1.2 conflict"]);
    assert_eq!(shard.asks(request(3, &[1], "put b y")).len(), 1);
    assert_eq!(shard.logs(), ["c1 ← REPLY c1.3 committed at 1002: nothing"], "what is not is executed");
    let told = shard.is_voted("2/r0", 1, Vote::Conflict, 0, false);
    assert_eq!(told, ["c1 ← REPLY c1.1 conflict"]);
    shard.attends(500);
    assert!(!shard.replica.is_locking(), "it goes back to timestamps");
    assert_eq!(shard.replica.mode_changes(), (1, 1));
}

/// The transaction before it cannot end, so its client may as well try again. One that takes part elsewhere is not for this shard to give up.
#[test]
fn what_has_waited_for_long_behind_what_is_locked_is_given_up_if_no_other_shard_takes_part_in_it() {
    let mut shard = Alone::leading(1, |config| config.wait_timeout = Duration::from_secs(5));
    shard.asks(request(1, &[1, 2], "put a x"));
    shard.asks(request(2, &[1], "put a y"));
    shard.asks(request(3, &[1, 3], "put a z"));
    assert!(shard.logs().iter().all(|line| !line.contains("REPLY")), "they wait for the first");
    shard.attends(1_000);
    shard.attends(2_000);
    assert!(shard.replica.is_locking());
    let appended =
        |told: Vec<String>| told.into_iter().filter(|line| line.starts_with("appends")).collect::<Vec<_>>();
    assert_eq!(appended(shard.attends(1_999)), NOTHING);
    assert_eq!(appended(shard.attends(1)), ["appends c1.2 dropped, ceiling 501002"]);
    assert_eq!(appended(shard.attends(4_000)), NOTHING, "once");
    assert_eq!(shard.logs(), ["c1 ← REPLY c1.2 conflict"]);
    let told = shard.is_voted("2/r0", 1, Vote::Commit, 1_001, false);
    assert!(told.contains(&"c1 ← REPLY c1.1 committed at 1001: nothing".to_owned()), "{told:?}");
}
