//! A client: which replicas it asks, when it asks them again, and what it makes of their answers.

use std::sync::Arc;

use quorate_core::command::Routes;
use quorate_core::machine::{InputOf, Machine, OutboxOf};
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard};
use quorate_core::{KeyspaceId, NodeId};
use quorate_granola::{Command, Coordinator, CoordinatorConfig, CoordinatorTimer};

use super::*;

/// A client with its clock, of which the timer fires when it is due.
struct Client {
    coordinator: Coordinator,
    now: Instant,
    clock: u64,
    timer: Option<Instant>,
    sequence: u64,
    random: Random,
}

const KEYSPACE: KeyspaceId = KeyspaceId(1);

fn routes(epoch: Epoch) -> Arc<Routes> {
    let nodes: Vec<NodeId> = (0..3).map(NodeId).collect();
    let shards = (1..=4).map(|id| Shard::new(ShardId(id), nodes.clone())).collect();
    let keyspace =
        Keyspace { epoch, ..Keyspace::new(KEYSPACE, "k", Isolation::Serializable, Durability::Sync, shards) };
    Arc::new(Routes::new(keyspace, vec![(0..3).map(ReplicaIndex).collect(); 4]))
}

fn committed(timestamp: u64, word: &str) -> Reply {
    Reply::Ended(Outcome::Committed { timestamp: at(timestamp), answer: done(word) })
}

impl Client {
    fn new() -> Self {
        Client::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut CoordinatorConfig)) -> Self {
        let mut config = CoordinatorConfig::new(ClientId(1));
        change(&mut config);
        let mut client = Client {
            coordinator: Coordinator::restore(config, []),
            now: Instant::START,
            clock: 1_000,
            timer: None,
            sequence: 0,
            random: Random::new(1),
        };
        client.does(Command::Route(routes(Epoch::FIRST)));
        client
    }

    fn step(&mut self, input: InputOf<Coordinator>) -> Vec<String> {
        let mut outbox: OutboxOf<Coordinator> = Outbox::new();
        let clock = at(self.clock);
        let mut context = Context { now: self.now, clock, random: &mut self.random };
        self.coordinator.step(&mut context, input, &mut outbox);
        let mut told: Vec<String> =
            outbox.take_ignored().into_iter().map(|reason| format!("✗ {reason}")).collect();
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } | Effect::SendUnordered { to, message } => {
                    told.push(format!("{} ← {}", name(to), describe::message(&message)));
                }
                Effect::Emit(event) => told.push(describe::event(&event)),
                Effect::SetTimer { timer: CoordinatorTimer::Attention, after } => {
                    self.timer = Some(self.now + after);
                }
                other => panic!("{other:?}"),
            }
        }
        told
    }

    fn does(&mut self, command: Command) -> Vec<String> {
        self.step(Input::Command(command))
    }

    /// Executes a transaction, with ten seconds for it.
    fn executes(&mut self, class: Class, persists: bool, of: &[(u32, &str)]) -> Vec<String> {
        self.sequence += 1;
        let parts = of.iter().map(|(shard, part)| (ShardId(*shard), Value::from((*part).to_owned())));
        let (transaction, parts) = (txn(1, self.sequence), parts.collect());
        let patience = Duration::from_secs(10);
        self.does(Command::Execute { transaction, parts, class, persists, patience })
    }

    fn inquires(&mut self, of: &[u32], wants_answers: bool) -> Vec<String> {
        self.sequence += 1;
        let (transaction, participants, not_before) = (txn(1, self.sequence), shards(of), at(700));
        let patience = Duration::from_secs(10);
        self.does(Command::Inquire { transaction, participants, not_before, wants_answers, patience })
    }

    fn hears(&mut self, from: &str, message: Message) -> Vec<String> {
        self.step(Input::Message { from: address(from), epoch: Epoch::FIRST, message })
    }

    fn is_told(&mut self, from: &str, reply: Reply) -> Vec<String> {
        self.is_told_of(from, 0, reply)
    }

    /// The same of another attempt.
    fn is_told_of(&mut self, from: &str, attempt: u32, reply: Reply) -> Vec<String> {
        let transaction = TransactionId { attempt, ..txn(1, self.sequence) };
        self.hears(from, Message::Reply { transaction, reply })
    }

    fn is_redirected(&mut self, from: &str, leader: u8) -> Vec<String> {
        let (transaction, leader) = (txn(1, self.sequence), ReplicaIndex(leader));
        self.hears(from, Message::NotLeading { transaction, leader })
    }

    /// The events that happen by themselves within these milliseconds, and after how many.
    fn waits(&mut self, milliseconds: u64) -> Vec<String> {
        let (begin, end) = (self.now, self.now + Duration::from_millis(milliseconds));
        let mut told = Vec::new();
        while let Some(next) = self.timer.take_if(|timer| *timer <= end) {
            self.now = next;
            let after = (next - begin).as_millis();
            let lines = self.step(Input::Timer(CoordinatorTimer::Attention));
            told.extend(lines.into_iter().map(|line| format!("{after} ms: {line}")));
        }
        self.now = end;
        told
    }
}

const BOTH: [(u32, &str); 2] = [(1, "put a x"), (2, "put b y")];

#[test]
fn a_transaction_is_executed_once_all_its_participants_have_answered_at_one_timestamp() {
    let mut client = Client::new();
    let asked = ["1/r0 ← REQUEST c1.1 of 1,2: put a x", "2/r0 ← REQUEST c1.1 of 1,2: put b y"];
    assert_eq!(client.executes(Class::Independent, false, &BOTH), asked);
    assert_eq!(client.is_told("1/r0", committed(1_500, "a")), NOTHING);
    assert_eq!(client.is_told("1/r0", committed(1_500, "a")), NOTHING, "the same again");
    assert_eq!(client.is_told("3/r0", committed(1_500, "c")), ["✗ these cannot be the participants"]);
    let told = client.is_told("2/r0", committed(1_500, "b"));
    assert_eq!(told, ["c1.1 COMMITTED at 1500: 1 a, 2 b"]);
    assert_eq!(client.is_told("2/r0", committed(1_500, "b")), ["✗ nothing waits under this name"]);
    assert_eq!(client.waits(60_000), NOTHING);
    // Everything that it has seen comes before its next transaction.
    assert_eq!(client.coordinator.seen(), at(1_500));
    let asked = client.executes(Class::ReadOnly, false, &[(1, "get a")]);
    assert_eq!(asked, ["1/r0 ← REQUEST-READ c1.2 of 1: get a, above 1500"]);
    client.does(Command::Observe { timestamp: at(1_400) });
    assert_eq!(client.coordinator.seen(), at(1_500), "that was before");
    client.does(Command::Observe { timestamp: at(1_600) });
    let asked = client.executes(Class::Coordinated, false, &[(1, "put a x")]);
    assert_eq!(asked, ["1/r0 ← REQUEST-AGREE c1.3 of 1: put a x, above 1600"]);
}

#[test]
fn only_the_silent_are_asked_again_and_perhaps_another_replica() {
    let mut client = Client::new();
    client.executes(Class::Independent, false, &BOTH);
    client.is_told("1/r0", committed(1_500, "a"));
    assert_eq!(client.waits(999), NOTHING);
    let again = client.waits(3_001);
    let expected = |after: u64, index: u8| format!("{after} ms: 2/r{index} ← REQUEST c1.1 of 1,2: put b y");
    let indices: Vec<u8> =
        again.iter().map(|line| line[line.find("/r").unwrap() + 2..][..1].parse().unwrap()).collect();
    let times = [1, 1_001, 2_001, 3_001];
    let all: Vec<String> = times.iter().zip(&indices).map(|(at, index)| expected(*at, *index)).collect();
    assert_eq!(again, all);
    assert!(indices[0] != 0, "one that is silent need not lead: {indices:?}");
    let told = client.waits(60_000);
    assert_eq!(told.last().unwrap(), "6000 ms: c1.1 UNKNOWN, 2 is silent");
    assert_eq!(client.waits(60_000), NOTHING);
}

#[test]
fn a_client_follows_from_one_replica_to_the_one_that_it_names() {
    let mut client = Client::new();
    client.executes(Class::Independent, false, &BOTH);
    assert_eq!(client.is_redirected("2/r0", 2), ["2/r2 ← REQUEST c1.1 of 1,2: put b y"]);
    assert_eq!(client.coordinator.leader(ShardId(2)).index, ReplicaIndex(2));
    assert_eq!(client.is_redirected("2/r0", 2), ["✗ no news of its leader"]);
    assert_eq!(client.is_redirected("2/r1", 0), ["✗ no news of its leader"], "it was not asked");
    for (from, leader) in [("2/r2", 1), ("2/r1", 0), ("2/r0", 1)] {
        assert_eq!(client.is_redirected(from, leader).len(), 1, "{from}");
    }
    assert_eq!(client.is_redirected("2/r1", 2), ["✗ redirected too often"]);
    let again = client.waits(1_000);
    assert_eq!(again.len(), 2, "after a while it begins anew: {again:?}");
    let old = Message::NotLeading { transaction: txn(1, 9), leader: ReplicaIndex(1) };
    assert_eq!(client.hears("1/r0", old), ["✗ nothing waits under this name"]);
    let asked = client.executes(Class::Independent, false, &[(1, "put a x")]);
    assert!(asked[0].starts_with("1/r1"), "what was said of it is remembered: {asked:?}");
}

#[test]
fn two_that_follow_each_other_are_sent_on_together() {
    let mut client = Client::new();
    client.executes(Class::Independent, false, &[(1, "put a x")]);
    client.executes(Class::Independent, false, &[(1, "put a y")]);
    assert_eq!(client.is_redirected("1/r0", 2), ["1/r2 ← REQUEST c1.2 of 1: put a y"]);
    client.sequence = 1;
    let told = client.is_redirected("1/r0", 2);
    assert_eq!(told, ["1/r2 ← REQUEST c1.1 of 1: put a x"], "no news, but this one was asked there as well");
    assert_eq!(client.is_redirected("1/r0", 2), ["✗ no news of its leader"]);
}

/// Within a while that doubles with each attempt.
#[test]
fn a_conflict_is_tried_again_under_another_name_if_that_is_wanted() {
    let mut client = Client::new();
    client.executes(Class::Independent, false, &BOTH);
    assert_eq!(client.is_told("1/r0", Reply::Ended(Outcome::Conflict)), ["c1.1 CONFLICT"]);
    let longest = [5, 10, 20, 40, 80, 160, 320, 320, 320];
    let mut client = Client::new();
    client.executes(Class::Independent, true, &[(1, "put a x")]);
    let mut waited = Vec::new();
    for (attempt, longest) in (0..).zip(longest) {
        assert_eq!(client.is_told_of("1/r0", attempt, Reply::Ended(Outcome::Conflict)), NOTHING);
        let over = ["✗ this attempt is over"];
        assert_eq!(client.is_told_of("1/r0", attempt, committed(1_500, "a")), over);
        let begin = client.now;
        let asked = loop {
            let asked = client.waits(1);
            if !asked.is_empty() {
                break asked;
            }
            assert!(client.now - begin <= Duration::from_millis(longest + 1), "attempt {attempt}");
        };
        waited.push((client.now - begin).as_millis());
        assert!(
            asked[0].ends_with(&format!("1/r0 ← REQUEST c1.1/{} of 1: put a x", attempt + 1)),
            "{asked:?}"
        );
        let other = ["✗ another attempt than the open one"];
        assert_eq!(client.is_told_of("1/r0", attempt, committed(1_500, "a")), other);
    }
    assert!(waited[4..].iter().any(|waited| *waited > 40), "{waited:?}");
    let told = client.is_told_of("1/r0", 9, committed(1_500, "a"));
    assert_eq!(told, ["c1.1/9 COMMITTED at 1500: 1 a"]);
}

#[test]
fn a_refusal_is_told_at_once() {
    let refusal = Refusal { shard: ShardId(2), reason: Value::from("no") };
    let clock = at(9_000);
    for (reply, told) in [
        (Reply::Ended(Outcome::Aborted(refusal)), "c1.1 ABORTED by 2 (no)"),
        (Reply::Lost { shard: ShardId(3) }, "c1.1 LOST is 3"),
        (Reply::Forgotten { clock }, "c1.1 FORGOTTEN"),
        (Reply::TooOld { clock }, "c1.1 CONFLICT"),
        (Reply::ClockAhead { clock: at(400) }, "c1.1 600 µs AHEAD"),
    ] {
        let mut client = Client::new();
        client.executes(Class::Independent, false, &BOTH);
        assert_eq!(client.is_told("1/r0", reply), [told]);
        assert_eq!(client.waits(60_000), NOTHING);
    }
}

/// Its clock is behind: what it does next is sent by the clock of the leader.
#[test]
fn a_client_whose_clock_is_behind_goes_by_the_leaders() {
    for reply in [Reply::TooOld { clock: at(9_000) }, Reply::Forgotten { clock: at(9_000) }] {
        let mut client = Client::new();
        client.executes(Class::Independent, false, &BOTH);
        client.is_told("1/r0", reply);
        client.clock = 2_000;
        client.executes(Class::Independent, false, &BOTH);
        assert_eq!(client.is_told("1/r0", Reply::TooOld { clock: at(9_500) }), ["c1.2 CONFLICT"]);
        client.executes(Class::Independent, false, &BOTH);
        let told = client.is_told("1/r0", Reply::ClockAhead { clock: at(0) });
        assert_eq!(told, ["c1.3 10000 µs AHEAD"], "by as much as it was behind at most");
    }
}

/// The shard asks the others whether they have come so far.
#[test]
fn what_is_refused_because_of_what_its_client_has_seen_is_sent_again_a_few_times() {
    let mut client = Client::new();
    client.does(Command::Observe { timestamp: at(50_000) });
    client.executes(Class::Independent, false, &[(1, "put a x")]);
    for wait in [250, 500, 1_000, 2_000] {
        assert_eq!(client.is_told("1/r0", Reply::ClockAhead { clock: at(1_000) }), NOTHING);
        assert_eq!(client.waits(wait - 1), NOTHING, "{wait}");
        let again = "1 ms: 1/r0 ← REQUEST c1.1 of 1: put a x, above 50000";
        assert_eq!(client.waits(1), [again], "{wait}");
    }
    let told = client.is_told("1/r0", Reply::ClockAhead { clock: at(1_000) });
    assert_eq!(told, ["c1.1 has SEEN what is 49000 µs ahead"]);
}

#[test]
fn answers_that_differ_want_an_operator_unless_they_are_only_read() {
    let mut client = Client::new();
    client.executes(Class::Independent, false, &BOTH);
    client.is_told("1/r0", committed(1_500, "a"));
    let told = client.is_told("2/r0", committed(1_600, "b"));
    assert_eq!(told, ["c1.1 DISAGREEMENT: 1 a at 1500, 2 b at 1600"]);
    client.executes(Class::Independent, false, &BOTH);
    client.is_told("1/r0", committed(1_700, "a"));
    let answer = Answer::Refused(Value::from("no"));
    let refused = || Reply::Ended(Outcome::Committed { timestamp: at(1_700), answer: answer.clone() });
    let told = client.is_told("2/r0", refused());
    assert_eq!(told, ["c1.2 DISAGREEMENT: 1 a at 1700, 2 refused (no) at 1700"]);
    client.executes(Class::Independent, false, &BOTH);
    client.is_told("1/r0", refused());
    let told = client.is_told("2/r0", refused());
    assert_eq!(told, ["c1.3 COMMITTED at 1700: 1 refused (no), 2 refused (no)"], "they agree");

    client.executes(Class::ReadOnly, false, &[(1, "get a"), (2, "get b")]);
    client.is_told("1/r0", committed(1_800, "a"));
    assert_eq!(client.is_told("2/r0", committed(1_900, "b")), ["c1.4 CONFLICT"]);
    client.executes(Class::ReadOnly, true, &[(1, "get a"), (2, "get b")]);
    client.is_told("1/r0", committed(2_000, "a"));
    client.is_told("1/r0", committed(2_200, "later"));
    let told = client.is_told("2/r0", committed(2_000, "b"));
    assert_eq!(told, ["c1.5 COMMITTED at 2000: 1 a, 2 b"], "a request that came twice");
}

#[test]
fn an_inquiry_ends_with_the_first_that_knows_or_with_all_answers() {
    let mut client = Client::new();
    let asked = ["1/r0 ← INQUIRE c1.1 of 1,2, not before 700", "2/r0 ← INQUIRE c1.1 of 1,2, not before 700"];
    assert_eq!(client.inquires(&[1, 2], false), asked);
    assert_eq!(client.is_told("2/r0", committed(1_500, "b")), ["c1.1 COMMITTED at 1500: 2 b"]);

    client.inquires(&[1, 2], true);
    assert_eq!(client.is_told("2/r0", committed(1_600, "b")), NOTHING);
    let told = client.is_told("1/r0", committed(1_600, "a"));
    assert_eq!(told, ["c1.2 COMMITTED at 1600: 1 a, 2 b"]);

    client.inquires(&[1, 2], true);
    client.is_told("2/r0", committed(1_700, "b"));
    let told = client.is_told("1/r0", Reply::Forgotten { clock: at(1_000) });
    assert_eq!(told, ["c1.3 COMMITTED at 1700: 2 b"], "one that knows is enough");
    client.inquires(&[1, 2], true);
    client.is_told("2/r0", committed(1_800, "b"));
    assert_eq!(client.waits(10_000).last().unwrap(), "10000 ms: c1.4 COMMITTED at 1800: 2 b");

    for reply in [Reply::TooOld { clock: at(1_000) }, Reply::Forgotten { clock: at(1_000) }] {
        client.inquires(&[1, 2], false);
        let told = client.is_told("2/r0", reply);
        assert_eq!(told, [format!("c1.{} FORGOTTEN", client.sequence)]);
    }
    client.inquires(&[1, 2], false);
    let told = client.is_told("2/r0", Reply::Ended(Outcome::Conflict));
    assert_eq!(told, [format!("c1.{} CONFLICT", client.sequence)]);
    client.inquires(&[1, 2], false);
    let told = client.waits(10_000);
    assert_eq!(told.last().unwrap(), &format!("10000 ms: c1.{} UNKNOWN, 1,2 is silent", client.sequence));
}

#[test]
fn nothing_is_begun_without_participants_or_under_a_name_that_is_in_use() {
    let mut client = Client::new();
    assert_eq!(client.executes(Class::Independent, false, &[]), ["c1.1 NO SUCH SHARD None"]);
    let told = client.executes(Class::Independent, false, &[(1, "put a x"), (5, "put b x")]);
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("c1.2 NO SUCH SHARD Some("), "{told:?}");
    client.executes(Class::Independent, false, &BOTH);
    client.sequence -= 1;
    assert_eq!(client.executes(Class::Independent, false, &BOTH), ["c1.3 IN USE"]);
    assert_eq!(client.is_told("1/r0", committed(1_500, "a")), NOTHING, "the first goes on");
}

#[test]
fn a_group_that_coordinates_is_asked_for_what_has_several_participants() {
    let mut client = Client::with(|config| config.hub = Some(ShardId(4)));
    let asked = ["4/r0 ← BEGIN c1.1 1 put a x, 2 put b y"];
    assert_eq!(client.executes(Class::Independent, false, &BOTH), asked);
    let gathered = |answers: &[u32]| {
        let answers = answers.iter().map(|shard| (ShardId(*shard), done("z"))).collect();
        Message::Gathered { transaction: txn(1, 1), timestamp: at(1_500), answers }
    };
    let participants = ["✗ these cannot be the participants"];
    assert_eq!(client.hears("3/r0", gathered(&[1, 2])), participants, "that group does not coordinate");
    assert_eq!(client.hears("4/r0", gathered(&[1])), participants);
    assert_eq!(client.hears("4/r0", gathered(&[1, 2, 3])), participants);
    let again = client.waits(1_000);
    assert!(again.len() == 1 && again[0].ends_with("← BEGIN c1.1 1 put a x, 2 put b y"), "{again:?}");
    assert!(!again[0].contains("4/r0"), "another replica of the group: {again:?}");
    assert_eq!(client.hears("4/r0", gathered(&[1, 2])), ["c1.1 COMMITTED at 1500: 1 z, 2 z"]);
    assert_eq!(client.hears("4/r0", gathered(&[1, 2])), ["✗ nothing waits under this name"]);
    assert_eq!(client.coordinator.seen(), at(1_500));

    let asked = client.executes(Class::Independent, false, &[(1, "put a x")]);
    assert_eq!(asked, ["1/r0 ← REQUEST c1.2 of 1: put a x, above 1500"], "what one shard decides goes there");
    client.executes(Class::Independent, false, &BOTH);
    assert_eq!(client.is_told("4/r0", Reply::Ended(Outcome::Conflict)), ["c1.3 CONFLICT"]);
    client.executes(Class::Independent, false, &BOTH);
    assert_eq!(client.is_told("4/r0", committed(1_600, "z")), participants, "it executes nothing itself");
    assert_eq!(client.inquires(&[1, 2], false).len(), 2, "participants are asked what has become of it");
}

#[test]
fn what_replicas_say_to_each_other_is_not_for_a_client() {
    let mut client = Client::new();
    client.executes(Class::Independent, false, &BOTH);
    let transaction = txn(1, 1);
    let (proposed, answer) = (at(5), None);
    for message in [
        Message::AskFloor,
        Message::AskFloorReply { floor: at(0), ceiling: at(0) },
        Message::Resolved { transaction, ending: Ending::Conflict },
        Message::Abandoned { transaction, lost: ShardId(1) },
        Message::Prepared { transaction, vote: Vote::Conflict, proposed, answer },
    ] {
        assert_eq!(client.hears("1/r0", message), ["✗ only replicas are told so"]);
    }
}

#[test]
fn a_client_hears_that_a_keyspace_has_changed_once() {
    let mut client = Client::new();
    client.executes(Class::Independent, false, &BOTH);
    let (from, epoch) = (address("1/r0"), Epoch(2));
    let hears = |client: &mut Client| {
        let message = Message::Reply { transaction: txn(1, 1), reply: committed(1_500, "a") };
        client.step(Input::Message { from, epoch, message })
    };
    assert_eq!(hears(&mut client).len(), 1);
    assert_eq!(hears(&mut client), NOTHING);
    assert_eq!(
        client.is_told("2/r0", committed(1_500, "b")).len(),
        1,
        "an answer is one under any membership"
    );
}
