//! A group that coordinates what the shards take part in.

use super::*;

/// The leader of group 3, which coordinates.
fn hub() -> Alone {
    Alone::leading(3, |config| config.hub = Some(ShardId(3)))
}

fn parts(of: &[(u32, &str)]) -> BTreeMap<ShardId, Value> {
    of.iter().map(|(shard, part)| (ShardId(*shard), Value::from((*part).to_owned()))).collect()
}

impl Alone {
    fn begins(&mut self, from: &str, transaction: TransactionId, of: &[(u32, &str)]) -> Vec<String> {
        let (high, first) = (at(7), at(self.clock));
        self.hears(from, Message::Begin(Begin { transaction, parts: parts(of), high, first }))
    }

    fn votes(&mut self, from: &str, vote: Vote, proposed: u64, answer: Option<&str>) -> Vec<String> {
        let (transaction, proposed, answer) = (txn(1, 1), at(proposed), answer.map(done));
        self.hears(from, Message::Prepared { transaction, vote, proposed, answer })
    }

    fn replies(&mut self, from: &str, reply: Reply) -> Vec<String> {
        self.hears(from, Message::Reply { transaction: txn(1, 1), reply })
    }

    fn is_not_led_by(&mut self, from: &str, leader: u8) -> Vec<String> {
        let leader = ReplicaIndex(leader);
        self.hears(from, Message::NotLeading { transaction: txn(1, 1), leader })
    }
}

/// The operations at shards 1 and 2 that the transactions below ask for.
const BOTH: [(u32, &str); 2] = [(1, "put a x"), (2, "put b y")];

const ASKED: [&str; 2] = [
    "1/r0 ← REQUEST-AGREE c1.1 of 1,2: put a x, above 7",
    "2/r0 ← REQUEST-AGREE c1.1 of 1,2: put b y, above 7",
];

#[test]
fn all_participants_are_asked_and_the_greatest_proposal_is_the_timestamp() {
    let mut hub = hub();
    assert_eq!(hub.begins("c1", txn(1, 1), &BOTH), ASKED);
    assert_eq!(hub.votes("2/r0", Vote::Commit, 300, Some("b")), NOTHING);
    assert_eq!(hub.votes("2/r0", Vote::Commit, 300, Some("b")), NOTHING, "the same again");
    let told = [
        "1/r0 ← RESOLVED c1.1 final at 300",
        "2/r0 ← RESOLVED c1.1 final at 300",
        "c1 ← GATHERED c1.1 at 300: 1 a, 2 b",
    ];
    assert_eq!(hub.votes("1/r0", Vote::Commit, 200, Some("a")), told);
    let over = ["✗ nothing waits under this name"];
    assert_eq!(hub.votes("1/r0", Vote::Commit, 200, Some("a")), over);
    assert_eq!(hub.begins("c1", txn(1, 1), &BOTH), ASKED, "the group keeps nothing");
}

#[test]
fn a_client_that_asks_again_has_only_the_silent_asked() {
    let mut hub = hub();
    hub.begins("c1", txn(1, 1), &BOTH);
    assert_eq!(hub.begins("c1", txn(1, 1), &BOTH), ASKED);
    hub.votes("1/r0", Vote::Commit, 300, Some("a"));
    assert_eq!(hub.begins("c1", txn(1, 1), &BOTH), ASKED[1..]);
    assert_eq!(hub.begins("c1", txn(1, 2), &[(1, "x"), (4, "y")]).len(), 2, "another one");
}

#[test]
fn nothing_is_begun_that_the_group_need_not_or_cannot_coordinate() {
    let participants = ["✗ these cannot be the participants"];
    let mut hub = hub();
    assert_eq!(hub.begins("c2", txn(1, 1), &BOTH), ["✗ asked in the name of another client"]);
    assert_eq!(hub.begins("2/r0", txn(1, 1), &BOTH), ["✗ asked in the name of another client"]);
    assert_eq!(hub.begins("c1", txn(1, 1), &BOTH[..1]), participants);
    assert_eq!(hub.begins("c1", txn(1, 1), &[]), participants);
    assert_eq!(hub.begins("c1", txn(1, 1), &[(1, "x"), (5, "y")]), participants, "there are four shards");
    assert_eq!(hub.votes("1/r0", Vote::Commit, 300, Some("a")), ["✗ nothing waits under this name"]);

    let ahead = Duration::from_secs(60).as_micros() as u64;
    let begin = |first| {
        let (transaction, parts, high) = (txn(1, 1), parts(&BOTH), at(7));
        Message::Begin(Begin { transaction, parts, high, first: at(first) })
    };
    let told = ["c1 ← REPLY c1.1 too far ahead, the clock says 1000"];
    assert_eq!(hub.hears("c1", begin(1_001 + ahead)), told);
    assert_eq!(hub.hears("c1", begin(1_000 + ahead)).len(), 2);
}

#[test]
fn a_group_that_is_led_by_another_replica_says_so() {
    let mut hub = hub();
    hub.begins("c1", txn(1, 1), &BOTH);
    hub.is_deposed();
    assert_eq!(hub.begins("c1", txn(1, 1), &BOTH), ["c1 ← NOT-LEADING c1.1, r2 does"]);
    let not_leading = ["✗ this replica does not lead"];
    assert_eq!(hub.votes("1/r0", Vote::Commit, 300, Some("a")), not_leading);
    assert_eq!(hub.replies("1/r0", Reply::Ended(Outcome::Conflict)), not_leading);
    assert_eq!(hub.is_not_led_by("1/r0", 1), not_leading);
}

#[test]
fn one_vote_against_it_is_told_to_all() {
    let against = [
        (Vote::Abort(Value::from("no")), "aborted by 2 (no)", "aborted by 2 (no)"),
        (Vote::Conflict, "dropped", "conflict"),
    ];
    for (vote, ending, outcome) in against {
        for answer in [None, Some("b")] {
            let mut hub = hub();
            hub.begins("c1", txn(1, 1), &BOTH);
            hub.votes("1/r0", Vote::Commit, 300, Some("a"));
            let told = [
                format!("1/r0 ← RESOLVED c1.1 {ending}"),
                format!("2/r0 ← RESOLVED c1.1 {ending}"),
                format!("c1 ← REPLY c1.1 {outcome}"),
            ];
            assert_eq!(hub.votes("2/r0", vote.clone(), 300, answer), told);
            let over = ["✗ nothing waits under this name"];
            assert_eq!(hub.votes("2/r0", vote.clone(), 300, answer), over);
        }
    }
}

/// It has taken over, and knows the answer once it has executed.
#[test]
fn a_vote_without_an_answer_does_not_count_yet() {
    let mut hub = hub();
    hub.begins("c1", txn(1, 1), &BOTH);
    hub.votes("1/r0", Vote::Commit, 300, Some("a"));
    assert_eq!(hub.votes("2/r0", Vote::Commit, 400, None), ["✗ voted for without an answer yet"]);
    assert_eq!(hub.begins("c1", txn(1, 1), &BOTH), ASKED[1..]);
    assert_eq!(hub.votes("2/r0", Vote::Commit, 400, Some("b")).len(), 3);
}

#[test]
fn a_participant_that_has_executed_it_says_at_which_timestamp() {
    let mut hub = hub();
    hub.begins("c1", txn(1, 1), &BOTH);
    let (timestamp, answer) = (at(250), done("b"));
    assert_eq!(hub.replies("2/r0", Reply::Ended(Outcome::Committed { timestamp, answer })), NOTHING);
    let told = [
        "1/r0 ← RESOLVED c1.1 final at 250",
        "2/r0 ← RESOLVED c1.1 final at 250",
        "c1 ← GATHERED c1.1 at 250: 1 a, 2 b",
    ];
    assert_eq!(hub.votes("1/r0", Vote::Commit, 200, Some("a")), told);
}

#[test]
fn a_participant_that_has_ended_it_otherwise_ends_it_everywhere() {
    let refusal = Refusal { shard: ShardId(1), reason: Value::from("no") };
    let ends = [
        (Outcome::Aborted(refusal), "aborted by 1 (no)", "aborted by 1 (no)"),
        (Outcome::Conflict, "dropped", "conflict"),
    ];
    for (ended, ending, outcome) in ends {
        let mut hub = hub();
        hub.begins("c1", txn(1, 1), &BOTH);
        let told = [
            format!("1/r0 ← RESOLVED c1.1 {ending}"),
            format!("2/r0 ← RESOLVED c1.1 {ending}"),
            format!("c1 ← REPLY c1.1 {outcome}"),
        ];
        assert_eq!(hub.replies("2/r0", Reply::Ended(ended)), told);
    }
}

/// The others have it ended by asking each other.
#[test]
fn a_participant_that_does_not_begin_it_is_passed_on_to_the_client() {
    let clock = at(9);
    let replies = [
        (Reply::Forgotten { clock }, "forgotten, the clock says 9"),
        (Reply::TooOld { clock }, "too old, the clock says 9"),
        (Reply::Lost { shard: ShardId(2) }, "2 is lost"),
        (Reply::ClockAhead { clock }, "too far ahead, the clock says 9"),
    ];
    for (reply, text) in replies {
        let mut hub = hub();
        hub.begins("c1", txn(1, 1), &BOTH);
        assert_eq!(hub.replies("2/r0", reply), [format!("c1 ← REPLY c1.1 {text}")]);
        let over = ["✗ nothing waits under this name"];
        assert_eq!(hub.votes("1/r0", Vote::Commit, 300, Some("a")), over);
    }
}

#[test]
fn only_participants_of_a_transaction_vote_on_it() {
    let mut hub = hub();
    hub.begins("c1", txn(1, 1), &BOTH);
    let participants = ["✗ these cannot be the participants"];
    assert_eq!(hub.votes("4/r0", Vote::Conflict, 300, None), participants);
    assert_eq!(hub.replies("4/r0", Reply::Ended(Outcome::Conflict)), participants);
    assert_eq!(hub.votes("c1", Vote::Conflict, 300, None), ["✗ said by a client"]);
    assert_eq!(hub.replies("c1", Reply::Ended(Outcome::Conflict)), ["✗ said by a client"]);
    assert_eq!(hub.is_not_led_by("c1", 1), ["✗ said by a client"]);
    assert_eq!(hub.begins("c1", txn(1, 1), &BOTH), ASKED, "it is as open as before");
}

#[test]
fn a_participant_is_asked_where_it_is_led() {
    let mut hub = hub();
    hub.begins("c1", txn(1, 1), &BOTH);
    let asked = |leader: u8| [ASKED[0].replace("1/r0", &format!("1/r{leader}"))];
    assert_eq!(hub.is_not_led_by("1/r0", 2), asked(2));
    assert_eq!(hub.is_not_led_by("1/r0", 1), ["✗ no news of its leader"], "that is known of it");
    assert_eq!(hub.is_not_led_by("1/r2", 2), ["✗ no news of its leader"], "it names itself");
    assert_eq!(hub.is_not_led_by("1/r2", 1), asked(1));
    assert_eq!(hub.votes("2/r1", Vote::Commit, 300, Some("b")), NOTHING, "it leads, since it votes");
    let told = [
        "1/r1 ← RESOLVED c1.1 final at 400",
        "2/r1 ← RESOLVED c1.1 final at 400",
        "c1 ← GATHERED c1.1 at 400: 1 a, 2 b",
    ];
    assert_eq!(hub.votes("1/r1", Vote::Commit, 400, Some("a")), told);
    assert_eq!(hub.is_not_led_by("1/r1", 0), NOTHING, "nobody has to be asked any more");
}

#[test]
fn what_participants_say_to_each_other_is_not_for_the_group_that_coordinates() {
    let mut hub = hub();
    let (transaction, participants, first) = (txn(1, 1), shards(&[1, 2]), at(1_000));
    let request = Request {
        transaction,
        participants: participants.clone(),
        operation: Value::from("put a x"),
        class: Class::Coordinated,
        high: at(0),
        first,
    };
    let vote = Message::Vote {
        transaction,
        participants: participants.clone(),
        first,
        vote: Vote::Commit,
        proposed: at(5),
        class: Class::Independent,
        wants: true,
    };
    let messages = [
        Message::Request(request),
        vote,
        Message::Resolved { transaction, ending: Ending::Conflict },
        Message::Abandoned { transaction, lost: ShardId(1) },
        Message::Inquire { transaction, participants, not_before: at(0) },
        Message::AskFloorReply { floor: at(0), ceiling: at(0) },
    ];
    for message in messages {
        assert_eq!(hub.hears("1/r0", message), ["✗ only participants are told so"]);
    }
    let (timestamp, answers) = (at(5), BTreeMap::new());
    let gathered = Message::Gathered { transaction, timestamp, answers };
    assert_eq!(hub.hears("1/r0", gathered), ["✗ only clients are told so"]);
    assert_eq!(hub.hears("1/r0", Message::AskFloor), ["1/r0 ← ASK-FLOOR-REPLY 0"]);
}
