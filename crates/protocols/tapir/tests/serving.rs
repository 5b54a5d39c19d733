//! The service of a replica to clients, and when it is silent: reads that take turns, requests that wait, and repetitions.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::machine::{InputOf, OutboxOf};
use quorate_core::{
    Address, Ballot, ClientId, ClockTime, Context, Effect, Epoch, GroupSize, Groups, Input, Instant, Key,
    KeyRange, Machine, Members, Outbox, Random, ReadVersion, ReplicaId, ReplicaIndex, ShardId, Timestamp,
    Transaction, TransactionId, Value, View, Write,
};
use quorate_ir::{Message as Ir, OperationId};
use quorate_tapir::message::{Decision, Prepare, Vote};
use quorate_tapir::{
    Boot, Message, Record, Replica, ReplicaCommand, ReplicaConfig, ReplicaEvent, ReplicaTimer, Status,
};

fn member(index: u8) -> ReplicaId {
    ReplicaId { shard: ShardId(1), index: ReplicaIndex(index) }
}

/// Each client has one transaction.
fn id(client: u64) -> TransactionId {
    TransactionId { client: ClientId(client), sequence: 1, attempt: 0 }
}

fn at(client: u64, micros: u64) -> Timestamp {
    Timestamp { micros, client: ClientId(client) }
}

/// "rK" reads K absent, "wK" writes it.
fn contents(text: &str) -> Arc<Transaction> {
    let mut transaction = Transaction { participants: vec![ShardId(1)], ..Transaction::default() };
    for word in text.split(' ') {
        let key = Key::from(word[1..].to_owned());
        if word.starts_with('r') {
            let version = Timestamp::ZERO;
            transaction.reads.push(ReadVersion { key, version, deleted: false });
        } else {
            transaction.writes.push(Write { key, value: Some(Value::from_static(b"x")) });
        }
    }
    Arc::new(transaction)
}

/// Replica 0 of three.
struct Server {
    replica: Replica,
    now: Instant,
    /// Whether its timer of turns was set in the last step, and to after how long.
    turn_set: Option<Duration>,
    /// The same of the timer of its agenda.
    agenda_set: Option<Duration>,
    persisted: Vec<Record>,
    events: Vec<ReplicaEvent>,
}

impl Server {
    fn new() -> Self {
        Server::with(Boot::Initialise, |_| {})
    }

    fn with(boot: Boot, change: impl FnOnce(&mut ReplicaConfig)) -> Self {
        let mut config = ReplicaConfig::new(member(0), GroupSize::new(3).unwrap(), boot);
        change(&mut config);
        let replica = Replica::restore(config, []);
        let mut server = Server::of(replica);
        server.step(Input::Start);
        server
    }

    fn of(replica: Replica) -> Self {
        let (now, persisted, events) = (Instant::START, Vec::new(), Vec::new());
        Server { replica, now, turn_set: None, agenda_set: None, persisted, events }
    }

    fn step(&mut self, input: InputOf<Replica>) -> Vec<(Address, Message)> {
        let mut outbox: OutboxOf<Replica> = Outbox::new();
        let (clock, mut random) = (ClockTime::from_micros(1_000), Random::new(1));
        self.replica.step(&mut Context { now: self.now, clock, random: &mut random }, input, &mut outbox);
        (self.turn_set, self.agenda_set) = (None, None);
        (self.persisted, self.events) = Default::default();
        let mut said = Vec::new();
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } | Effect::SendUnordered { to, message } => {
                    said.push((to, message))
                }
                Effect::SetTimer { timer: ReplicaTimer::Turn, after } => self.turn_set = Some(after),
                Effect::SetTimer { timer: ReplicaTimer::Agenda, after } => self.agenda_set = Some(after),
                Effect::Persist { record, .. } => self.persisted.push(record),
                Effect::Emit(event) => self.events.push(event),
                _ => {}
            }
        }
        said
    }

    fn hears_in(
        &mut self,
        epoch: Epoch,
        from: impl Into<Address>,
        message: Message,
    ) -> Vec<(Address, Message)> {
        self.step(Input::Message { from: from.into(), epoch, message })
    }

    fn hears(&mut self, from: impl Into<Address>, message: Message) -> Vec<(Address, Message)> {
        self.hears_in(Epoch::FIRST, from, message)
    }

    fn hears_client(&mut self, client: u64, message: Message) -> Vec<(Address, Message)> {
        self.hears(ClientId(client), message)
    }

    /// A client proposes its transaction; gives the vote, if there is one at once.
    fn prepares(&mut self, client: u64, text: &str, micros: u64) -> Option<Vote> {
        let operation = Prepare { transaction: contents(text), timestamp: at(client, micros), first: None };
        let id = OperationId { transaction: id(client), number: 1 };
        let said = self.hears_client(client, Message::Ir(Ir::ProposeConsensus { id, operation }));
        votes(&said).into_iter().find(|(voter, _)| *voter == client).map(|(_, vote)| vote)
    }

    fn commits(&mut self, client: u64, text: &str, micros: u64) -> Vec<(Address, Message)> {
        let (transaction, timestamp) = (contents(text), at(client, micros));
        let operation = Decision::Commit { transaction, timestamp, last: timestamp };
        let id = OperationId { transaction: id(client), number: OperationId::INCONSISTENT };
        self.hears_client(client, Message::Ir(Ir::ProposeInconsistent { id, operation }))
    }

    fn reads_in_turn(&mut self, client: u64, key: &str) -> Vec<(Address, Message)> {
        let key = Key::from(key.to_owned());
        self.hears_client(client, Message::ReadInTurn { transaction: id(client), key })
    }

    /// So many milliseconds after the beginning; gives the readers that are answered.
    fn at(&mut self, milliseconds: u64) -> Vec<u64> {
        self.now = Instant::START + Duration::from_millis(milliseconds);
        let said = self.step(Input::Timer(ReplicaTimer::Turn));
        answered(&said)
    }

    fn changes_views(&mut self) {
        self.hears(member(1), Message::Ir(Ir::StartViewChange { view: View(1) }));
        assert_eq!(self.replica.status(), Status::ViewChanging);
    }

    /// View 1 begins.
    fn starts_view(&mut self) -> Vec<(Address, Message)> {
        let start = Ir::StartView {
            view: View(1),
            since: None,
            part: quorate_ir::Part::WHOLE,
            page: quorate_ir::RecordPage::default(),
            outline: quorate_ir::Outline::default(),
            supplement: Default::default(),
            floor: None,
            state: None,
            state_to: None,
        };
        let said = self.hears(member(1), Message::Ir(start));
        assert_eq!(self.replica.status(), Status::Normal);
        said
    }
}

fn votes(said: &[(Address, Message)]) -> Vec<(u64, Vote)> {
    let vote = |(_, message): &(Address, Message)| match message {
        Message::Ir(Ir::ConsensusReply { id, verdict, .. }) => Some((id.transaction.client.0, *verdict)),
        _ => None,
    };
    said.iter().filter_map(vote).collect()
}

/// The clients whose reads are answered.
fn answered(said: &[(Address, Message)]) -> Vec<u64> {
    let client = |(_, message): &(Address, Message)| match message {
        Message::ReadReply { transaction, .. } => Some(transaction.client.0),
        _ => None,
    };
    said.iter().filter_map(client).collect()
}

/// True if a reader is told that it waits, and has no answer.
fn waits(said: &[(Address, Message)]) -> bool {
    let is_told = said.iter().any(|(_, message)| matches!(message, Message::ReadWaits { .. }));
    is_told && answered(said).is_empty()
}

/// All requests of clients that need what a replica stores.
fn requests() -> Vec<Message> {
    let (transaction, key) = (id(7), Key::from("a"));
    let range = KeyRange { from: key.clone(), to: None };
    let (timestamp, keys) = (at(7, 900), vec![key.clone()]);
    let number = OperationId { transaction, number: 1 };
    let operation = Prepare { transaction: contents("wa"), timestamp, first: None };
    let decided = OperationId { transaction, number: OperationId::INCONSISTENT };
    vec![
        Message::Read { transaction, key: key.clone() },
        Message::ReadInTurn { transaction, key },
        Message::ReadMany { transaction, request: 1, keys: keys.clone(), in_turn: false },
        Message::ReadMany { transaction, request: 1, keys: keys.clone(), in_turn: true },
        Message::Scan { transaction, request: 1, range: range.clone(), limit: 9 },
        Message::QuorumRead { transaction, round: 1, timestamp, keys: keys.clone(), in_turn: false },
        Message::QuorumRead { transaction, round: 1, timestamp, keys: keys.clone(), in_turn: true },
        Message::QuorumScan { transaction, round: 1, timestamp, range, limit: 9 },
        Message::ReadValidated { transaction, keys, otherwise: None, validated: vec![] },
        Message::Ir(Ir::ProposeConsensus { id: number, operation }),
        Message::Ir(Ir::ProposeInconsistent { id: decided, operation: Decision::Abort { last: timestamp } }),
    ]
}

#[test]
fn a_replica_that_has_lost_its_records_answers_no_client() {
    for request in requests() {
        let mut server = Server::with(Boot::Rejoin, |_| {});
        assert_eq!(server.replica.status(), Status::Recovering);
        let said = server.hears_client(7, request.clone());
        assert!(said.iter().all(|(to, _)| matches!(to, Address::Replica(_))), "{request:?}: {said:?}");
        assert!(!Server::new().hears_client(7, request).is_empty());
    }
}

#[test]
fn a_request_waits_for_a_view_as_long_as_its_client_would() {
    for request in requests() {
        for (after, is_answered) in [(1_999, true), (2_000, false)] {
            let mut server = Server::new();
            server.changes_views();
            assert!(server.hears_client(7, request.clone()).is_empty());
            // That it is looked at now and then does not make it any younger.
            for milliseconds in [500, 1_000, 1_500, after] {
                server.at(milliseconds);
            }
            let said = server.starts_view();
            let is_told = said.iter().any(|(to, _)| *to == Address::Client(ClientId(7)));
            assert_eq!(is_told, is_answered, "{request:?}: {said:?}");
        }
    }
}

/// A replica is no client: it asks again when it likes, and what it wants of another waits for nothing.
#[test]
fn only_requests_of_clients_wait_for_a_view() {
    let mut server = Server::new();
    server.changes_views();
    let read = Message::Read { transaction: id(7), key: Key::from("a") };
    server.hears(member(2), read);
    assert!(answered(&server.starts_view()).is_empty());
}

#[test]
fn a_reader_that_waits_is_looked_at_when_its_turn_may_come_and_not_all_the_time() {
    let mut server = Server::new();
    assert_eq!(server.prepares(1, "wa", 900), Some(Vote::Ok));
    assert!(waits(&server.reads_in_turn(2, "a")));
    assert_eq!(server.turn_set, Some(Duration::from_millis(500)), "its outcome may not come");
    assert!(waits(&server.reads_in_turn(3, "a")));
    assert_eq!(server.turn_set, None, "it is looked at in time");
    server.now = server.now + Duration::from_millis(100);
    let said = server.commits(1, "wa", 900);
    assert!(answered(&said).is_empty());
    assert_eq!(server.turn_set, Some(Duration::from_millis(10)), "another may be on its heels");
    assert!(server.at(109).is_empty());
    assert_eq!(server.at(110), [2]);
    assert_eq!(server.turn_set, Some(Duration::from_millis(300)), "2 may not prepare at all");
    assert_eq!(server.at(410), [3]);
}

#[test]
fn readers_that_wait_are_forgotten_with_the_view() {
    let mut server = Server::new();
    server.prepares(1, "wa", 900);
    assert!(waits(&server.reads_in_turn(2, "a")));
    server.changes_views();
    assert!(answered(&server.starts_view()).is_empty());
    assert!(server.at(600).is_empty(), "it has asked again, perhaps elsewhere");
}

/// It may be that nobody has waited when the write ended.
#[test]
fn a_reader_that_comes_after_a_write_leaves_its_heels_to_others() {
    let mut server = Server::new();
    server.prepares(1, "wa", 900);
    assert!(waits(&server.reads_in_turn(2, "a")));
    assert_eq!(server.at(500), [2], "it waits no longer");
    server.commits(1, "wa", 900);
    server.at(1_000);
    assert!(waits(&server.reads_in_turn(3, "a")));
    assert!(server.at(1_009).is_empty());
    assert_eq!(server.at(1_010), [3]);
}

#[test]
fn a_line_of_readers_goes_when_nobody_has_used_it_for_long() {
    let mut server = Server::new();
    server.prepares(1, "wa", 900);
    assert!(waits(&server.reads_in_turn(2, "a")));
    server.commits(1, "wa", 900);
    assert_eq!(server.at(10), [2]);
    let swept = |server: &mut Server, milliseconds| {
        server.now = Instant::START + Duration::from_millis(milliseconds);
        server.step(Input::Timer(ReplicaTimer::Sweep));
        server.replica.remains().turns
    };
    assert_eq!(swept(&mut server, 5_009), 1);
    assert_eq!(swept(&mut server, 5_010), 0);
}

/// Its turn has come to an end, or it has none; and nobody is about to write.
#[test]
fn the_repetition_of_a_prepare_that_was_answered_is_no_news_to_those_that_wait() {
    let mut server = Server::new();
    server.prepares(1, "ra wa", 900);
    assert!(waits(&server.reads_in_turn(2, "a")));
    server.now = server.now + Duration::from_millis(100);
    server.commits(1, "ra wa", 900);
    server.now = server.now + Duration::from_millis(5);
    assert_eq!(server.prepares(1, "ra wa", 900), Some(Vote::Ok), "it has committed there");
    assert_eq!(server.at(110), [2], "the heels are those of the outcome");
}

#[test]
fn a_prepare_that_waits_for_another_is_noted_once() {
    let mut server =
        Server::with(Boot::Initialise, |config| config.prepare_wait_max = Duration::from_secs(9));
    assert_eq!(server.prepares(1, "ra wa", 900), Some(Vote::Ok));
    assert!(waits(&server.reads_in_turn(5, "a")));
    assert_eq!(server.prepares(2, "ra wa", 910), None, "the first is in the way");
    server.now = server.now + Duration::from_millis(450);
    assert_eq!(server.prepares(2, "ra wa", 910), None, "it is repeated");
    // The reader has waited for writers for 500 ms since the latest of them came.
    assert_eq!(server.at(500), [5]);
}

#[test]
fn a_prepare_that_comes_after_its_outcome_is_answered_whatever_is_in_its_way() {
    for (text, expected) in [("wa", Some(Vote::Ok)), ("wb", None)] {
        let mut server =
            Server::with(Boot::Initialise, |config| config.prepare_wait_max = Duration::from_secs(9));
        assert_eq!(server.prepares(1, "wa wb", 800), Some(Vote::Ok));
        if text == "wa" {
            server.commits(2, "wa", 900);
        }
        assert_eq!(server.prepares(2, text, 900), expected, "{text}");
    }
}

/// A key that is read when it is prepared was not read before, and says nothing of lines.
#[test]
fn a_hold_on_what_it_reads_does_not_make_a_key_contended() {
    let mut server = Server::new();
    server.prepares(1, "wa", 900);
    assert!(waits(&server.reads_in_turn(2, "a")));
    server.commits(1, "wa", 900);
    assert_eq!(server.at(10), [2]);
    server.now = Instant::START + Duration::from_millis(1_500);
    let reader = Transaction { reads_when_prepared: true, ..Transaction::clone(&contents("ra")) };
    let operation = Prepare { transaction: Arc::new(reader), timestamp: at(3, 950), first: None };
    let number = OperationId { transaction: id(3), number: 1 };
    server.hears_client(3, Message::Ir(Ir::ProposeConsensus { id: number, operation }));
    server.now = Instant::START + Duration::from_millis(2_010);
    let said = server.reads_in_turn(4, "a");
    assert!(said.len() == 1 && answered(&said) == [4], "nobody has used the line for two seconds: {said:?}");
}

#[test]
fn a_quorum_read_waits_for_an_earlier_writer_if_it_is_to_take_its_turn() {
    for (in_turn, is_answered) in [(false, true), (true, false)] {
        let mut server =
            Server::with(Boot::Initialise, |config| config.prepare_wait_max = Duration::from_secs(9));
        server.prepares(1, "wa", 900);
        let keys = vec![Key::from("a")];
        let (transaction, timestamp) = (id(2), at(2, 950));
        let read = Message::QuorumRead { transaction, round: 3, timestamp, keys, in_turn };
        let said = server.hears_client(2, read);
        let reply = |said: &[(Address, Message)]| {
            said.iter().any(|(_, message)| matches!(message, Message::QuorumReadReply { round: 3, .. }))
        };
        assert_eq!((reply(&said), waits(&said)), (is_answered, !is_answered));
        assert_eq!(reply(&server.commits(1, "wa", 900)), !is_answered);
    }
}

#[test]
fn so_many_of_several_keys_are_read_as_fit_into_a_reply() {
    let mut server = Server::with(Boot::Initialise, |config| config.scan_page_max = 3);
    server.commits(1, "wb", 900);
    server.prepares(2, "wc", 910);
    let told = |server: &mut Server, in_turn, keys: &[&str]| {
        let keys = keys.iter().map(|key| Key::from((*key).to_owned())).collect();
        let said =
            server.hears_client(3, Message::ReadMany { transaction: id(3), request: 8, keys, in_turn });
        let [(_, Message::ReadManyReply { request: 8, found, waiting, .. })] = &said[..] else {
            panic!("{said:?}")
        };
        let name = |key: &Key| String::from_utf8_lossy(key).into_owned();
        let found: Vec<String> =
            found.iter().map(|found| format!("{}@{}", name(&found.key), found.version.micros)).collect();
        (found.join(" "), waiting.iter().map(name).collect::<Vec<_>>().join(" "))
    };
    let of = |found: &str, waiting: &str| (found.to_owned(), waiting.to_owned());
    assert_eq!(told(&mut server, false, &["a", "b"]), of("a@0 b@900", ""));
    assert_eq!(told(&mut server, false, &["a", "b", "c", "d"]), of("a@0 b@900 c@0", ""));
    assert_eq!(told(&mut server, true, &["a", "c", "b", "d"]), of("a@0 b@900", "c"), "those that wait count");
    assert_eq!(told(&mut server, true, &["c"]), of("", "c"));
    assert_eq!(server.turn_set, None);
}

#[test]
fn an_outcome_ends_what_waits_of_its_transaction() {
    let mut server =
        Server::with(Boot::Initialise, |config| config.prepare_wait_max = Duration::from_secs(9));
    server.prepares(1, "wa", 900);
    assert_eq!(server.prepares(2, "wa", 910), None);
    assert_eq!(server.replica.waiting(), 1);
    let abort = Decision::Abort { last: at(2, 910) };
    let number = OperationId { transaction: id(2), number: OperationId::INCONSISTENT };
    server.hears_client(2, Message::Ir(Ir::ProposeInconsistent { id: number, operation: abort }));
    assert_eq!(server.replica.waiting(), 0);
    assert!(votes(&server.commits(1, "wa", 900)).is_empty());
}

/// Nobody waits for the answer to a COMMIT, so a client that knows how is told of many at once, and only about the view in which they were recorded.
#[test]
fn commits_of_a_client_are_acknowledged_together() {
    let commit = |server: &mut Server, client: u64, together| {
        let id = OperationId { transaction: id(client), number: 1 };
        server.hears_client(client, Message::CommitPrepared { id, timestamp: at(client, 900), together })
    };
    let mut server = Server::new();
    for (client, key) in [(1, "wa"), (2, "wb"), (3, "wc")] {
        server.prepares(client, key, 900);
    }
    let now = commit(&mut server, 3, false);
    assert!(
        matches!(now[..], [(_, Message::Ir(Ir::InconsistentReply { .. }))]),
        "an earlier client: {now:?}"
    );
    assert_eq!((commit(&mut server, 1, true), commit(&mut server, 2, true)), (vec![], vec![]));
    assert_eq!(server.replica.committed(), 3, "they have taken effect");
    let recorded = |client| {
        let transactions = vec![id(client)];
        (Address::Client(ClientId(client)), Message::Recorded { view: View(0), transactions })
    };
    let acknowledged = server.step(Input::Timer(ReplicaTimer::Acknowledgement));
    assert_eq!(acknowledged, [recorded(1), recorded(2)]);
    assert_eq!(server.step(Input::Timer(ReplicaTimer::Acknowledgement)), [], "each is said once");
    // An acknowledgement that waits when a view ends is not said: its record is not that of the next one.
    server.prepares(4, "wd", 900);
    assert_eq!(commit(&mut server, 4, true), []);
    server.hears(member(1), Message::Ir(Ir::StartViewChange { view: View(1) }));
    assert_eq!(server.step(Input::Timer(ReplicaTimer::Acknowledgement)), []);
}

/// A COMMIT without contents is of use only where the prepare is known that has committed.
#[test]
fn a_short_commit_is_taken_for_the_prepare_at_its_timestamp_alone() {
    let short = |server: &mut Server, client: u64, micros: u64| {
        let id = OperationId { transaction: id(client), number: 1 };
        let commit = Message::CommitPrepared { id, timestamp: at(client, micros), together: false };
        let said = server.hears_client(client, commit);
        said.iter().any(|(_, message)| matches!(message, Message::Ir(Ir::InconsistentReply { .. })))
    };
    let mut server = Server::new();
    assert!(!short(&mut server, 1, 900), "nothing is known of it");
    server.prepares(1, "wa", 900);
    assert!(!short(&mut server, 1, 901));
    assert_eq!(server.replica.outcome(id(1)), None);
    assert!(short(&mut server, 1, 900));
    assert!(server.replica.outcome(id(1)).is_some());
    assert!(short(&mut server, 1, 900), "it is acknowledged as often as it is told");
    assert_eq!(server.replica.committed(), 1);
    server.commits(2, "wb", 950);
    assert!(short(&mut server, 2, 950), "the contents have come another way");
}

#[test]
fn only_a_client_says_whether_its_timestamps_are_deadlines() {
    for (from, deadlines, waits) in [
        (Address::Client(ClientId(1)), true, true),
        (Address::Client(ClientId(1)), false, false),
        (member(1).into(), true, false),
    ] {
        let mut server = Server::new();
        let sent = ClockTime::from_micros(5);
        let said = server.hears(from, Message::ClockProbe { sent, deadlines });
        let arrived = ClockTime::from_micros(1_000);
        assert_eq!(said, [(from, Message::ClockProbeReply { sent, arrived })]);
        assert_eq!(server.prepares(1, "wa", 5_000).is_none(), waits, "{from} {deadlines}");
    }
}

#[test]
fn what_replicas_alone_say_is_taken_of_no_client() {
    let mut server = Server::new();
    server.prepares(1, "wa", 900);
    server.hears_client(1, Message::Forgotten { transaction: id(1) });
    server.now = server.now + Duration::from_millis(400);
    let said = server.step(Input::Timer(ReplicaTimer::Sweep));
    assert!(said.is_empty() && server.replica.status() == Status::Normal);
    server.hears(member(1), Message::Forgotten { transaction: id(1) });
    server.now = server.now + Duration::from_secs(100);
    server.step(Input::Timer(ReplicaTimer::Sweep));
    assert_eq!(server.replica.status(), Status::ViewChanging, "it has missed how that ended");
}

fn next_groups() -> Groups {
    let other = Members::new([0, 1, 3].map(ReplicaIndex)).unwrap();
    Groups::new(GroupSize::new(3).unwrap()).next([(ShardId(2), other)])
}

#[test]
fn an_epoch_is_entered_once_and_what_was_asked_for_before_is_asked_for_again() {
    let mut server = Server::new();
    server.now = Instant::START + Duration::from_secs(100);
    server.prepares(1, "wa", 900);
    server.now = server.now + Duration::from_secs(3);
    let recoveries = |server: &mut Server| {
        let said = server.step(Input::Timer(ReplicaTimer::Sweep));
        said.iter().filter(|(_, message)| matches!(message, Message::Recover { .. })).count()
    };
    assert_eq!([recoveries(&mut server), recoveries(&mut server)], [1, 0]);
    let groups = next_groups();
    server.step(Input::Command(ReplicaCommand::ChangeGroups(groups.clone())));
    assert_eq!(server.persisted, [Record::EpochEntered { groups: groups.clone() }]);
    assert_eq!([recoveries(&mut server), recoveries(&mut server)], [1, 0], "those before have given up");
    for known in [groups, Groups::new(GroupSize::new(3).unwrap())] {
        server.step(Input::Command(ReplicaCommand::ChangeGroups(known)));
        assert!(server.persisted.is_empty());
        assert_eq!(server.replica.groups().epoch, Epoch(Epoch::FIRST.0 + 1));
    }
    assert_eq!(recoveries(&mut server), 0, "that was no news");
}

/// An epoch before its own is no news, whether it was told of the change or has read of it.
#[test]
fn a_replica_hears_of_later_epochs_than_that_which_it_has_entered() {
    let groups = Groups { epoch: Epoch(5), ..next_groups() };
    let config = ReplicaConfig::new(member(0), GroupSize::new(3).unwrap(), Boot::Rejoin);
    let records = [
        Record::Initialised,
        Record::ViewEntered { view: View(0) },
        Record::EpochEntered { groups: groups.clone() },
    ];
    let read = Replica::restore(config, records);
    assert_eq!(read.groups().epoch, Epoch(5));
    let read = Server::of(read);
    let mut told = Server::new();
    told.step(Input::Command(ReplicaCommand::ChangeGroups(groups)));
    for mut server in [read, told] {
        let mut heard = |epoch: u64| {
            let query = Message::Recover { transaction: id(1), participants: vec![], timestamp: at(1, 1) };
            server.hears_in(Epoch(epoch as _), member(1), query);
            server.events.clone()
        };
        assert!(heard(4).is_empty() && heard(3).is_empty());
        assert_eq!(heard(6), [ReplicaEvent::Outdated { epoch: Epoch(6) }]);
        assert!(heard(6).is_empty() && heard(5).is_empty());
        assert_eq!(heard(7), [ReplicaEvent::Outdated { epoch: Epoch(7) }]);
    }
}

#[test]
fn a_promise_to_a_backup_coordinator_keeps_the_client_off_and_not_what_it_reads() {
    let mut server =
        Server::with(Boot::Initialise, |config| config.prepare_wait_max = Duration::from_secs(9));
    assert_eq!(server.prepares(2, "wa", 900), Some(Vote::Ok));
    let (transaction, keys) = (id(1), vec![Key::from("a")]);
    let read = Message::QuorumRead { transaction, round: 1, timestamp: at(1, 950), keys, in_turn: true };
    assert!(waits(&server.hears_client(1, read)));
    assert_eq!(server.prepares(3, "wa", 940), None, "that waits, too");
    for client in [1, 3] {
        let (transaction, ballot, timestamp) = (id(client), Ballot(3), at(client, 940));
        server.hears(member(1), Message::CoordinatorChange { transaction, ballot, timestamp });
    }
    let said = server.commits(2, "wa", 900);
    let reply = |(to, message): &(Address, Message)| {
        matches!(message, Message::QuorumReadReply { .. }) && *to == Address::Client(ClientId(1))
    };
    assert!(said.iter().any(reply), "{said:?}");
    assert!(votes(&said).is_empty(), "another settles it");
    assert_eq!(server.prepares(1, "wb", 960), None);
}

/// It has been settled otherwise, or is known already.
#[test]
fn a_replica_that_knows_an_outcome_agrees_to_no_other() {
    use quorate_core::command::Outcome;
    let (committed, aborted) = (Outcome::Committed(at(1, 900)), Outcome::Aborted);
    for known in [committed, aborted] {
        for told in [committed, aborted, Outcome::Committed(at(1, 901))] {
            let mut server = Server::new();
            if known == committed {
                server.commits(1, "wa", 900);
            } else {
                let abort = Decision::Abort { last: at(1, 900) };
                let number = OperationId { transaction: id(1), number: OperationId::INCONSISTENT };
                server.hears_client(1, Message::Ir(Ir::ProposeInconsistent { id: number, operation: abort }));
            }
            let (transaction, ballot) = (id(1), Ballot(3));
            let said = server.hears(member(1), Message::RecordOutcome { transaction, ballot, outcome: told });
            let agrees = matches!(said[0].1, Message::RecordOutcomeReply { ballot: Ballot(3), .. });
            assert_eq!(agrees, known == told, "{known:?}, {told:?}: {said:?}");
            assert_eq!(
                matches!(said[0].1, Message::Superseded { promised, .. } if promised > ballot),
                !agrees
            );
        }
    }
}

/// The epoch that it was created in may be a later one than that of its disk.
#[test]
fn a_replica_goes_on_in_the_latest_epoch_that_it_knows_of() {
    for (created, read, expected) in [(7, 5, 7), (5, 7, 7), (6, 6, 6)] {
        let groups = |epoch: u64| Groups { epoch: Epoch(epoch as _), ..next_groups() };
        let config = ReplicaConfig::new(member(0), GroupSize::new(3).unwrap(), Boot::Rejoin);
        let config = ReplicaConfig { groups: groups(created), ..config };
        let records = [
            Record::Initialised,
            Record::ViewEntered { view: View(0) },
            Record::EpochEntered { groups: groups(read) },
        ];
        let replica = Replica::restore(config, records);
        let mut server = Server::of(replica);
        assert_eq!(server.replica.groups().epoch, Epoch(expected as _));
        server.step(Input::Start);
        let writes = server.persisted.iter().any(|record| matches!(record, Record::EpochEntered { .. }));
        assert_eq!(writes, created > read, "it writes down what its disk does not know");
    }
}

/// Nothing more is promised of it: nothing that binds is forgotten with it.
#[test]
fn a_backup_coordinator_of_what_has_ended_is_answered_and_promised_nothing() {
    let promises = |ended: bool| {
        let mut server = Server::new();
        server.prepares(1, "wa", 900);
        if ended {
            server.commits(1, "wa", 900);
        }
        let (transaction, ballot, timestamp) = (id(1), Ballot(3), at(1, 900));
        let said = server.hears(member(1), Message::CoordinatorChange { transaction, ballot, timestamp });
        let [(_, Message::CoordinatorChangeReply { outcome, votes, .. })] = &said[..] else {
            panic!("{said:?}")
        };
        assert_eq!((outcome.is_some(), votes.len()), (ended, usize::from(!ended)));
        let written = server.persisted.iter().any(|record| matches!(record, Record::Promised { .. }));
        assert_eq!(written, server.replica.promises() == 1);
        written
    };
    assert!(promises(false) && !promises(true));
}

/// A prepare that begins a transaction anew may lie at the floor, and not below it.
#[test]
fn a_further_prepare_comes_too_late_below_the_floor() {
    for (micros, too_late) in [(499, true), (500, false), (501, false)] {
        let mut server = Server::new();
        let floor = at(1, 500);
        server.hears(member(1), Message::Complete { view: View(0), below: floor });
        server.hears(member(1), Message::RaiseFloor { floor });
        assert_eq!(server.replica.floor(), floor);
        let operation =
            Prepare { transaction: contents("wa"), timestamp: at(1, micros), first: Some(at(1, 450)) };
        let number = OperationId { transaction: id(1), number: 2 };
        let said = server.hears_client(1, Message::Ir(Ir::ProposeConsensus { id: number, operation }));
        let superseded = said.iter().any(|(_, message)| matches!(message, Message::Superseded { .. }));
        assert_eq!(superseded, too_late, "{micros}: {said:?}");
    }
}

#[test]
fn prepares_that_wait_are_looked_at_in_their_time_and_forgotten_with_the_view() {
    let wait = Duration::from_secs(9);
    let mut server = Server::with(Boot::Initialise, |config| config.prepare_wait_max = wait);
    server.prepares(1, "wa", 900);
    assert_eq!(server.agenda_set, None, "nothing waits");
    server.prepares(2, "wa", 910);
    assert_eq!(server.agenda_set, Some(wait));
    server.now = server.now + Duration::from_secs(1);
    server.prepares(3, "wa", 920);
    assert_eq!((server.agenda_set, server.replica.waiting()), (None, 2), "it is looked at in time");
    server.changes_views();
    assert_eq!(server.replica.waiting(), 0, "their coordinators ask again");
    assert!(votes(&server.starts_view()).is_empty());
}

/// Whatever comes of it, the outcome is what it is.
#[test]
fn a_backup_coordinator_promises_itself_nothing_of_what_has_ended() {
    for ended in [false, true] {
        let mut server = Server::new();
        server.prepares(1, "wa", 900);
        if ended {
            server.commits(1, "wa", 900);
        }
        let (transaction, participants, timestamp) = (id(1), vec![ShardId(1)], at(1, 900));
        let said = server.hears(member(1), Message::Recover { transaction, participants, timestamp });
        assert!(
            said.iter().any(|(_, message)| matches!(message, Message::CoordinatorChange { .. })),
            "{said:?}"
        );
        let promised = server.persisted.iter().any(|record| matches!(record, Record::Promised { .. }));
        assert_eq!(promised, !ended);
    }
}

#[test]
fn the_repetition_of_a_prepare_waits_for_nothing_that_has_come_since() {
    let mut server =
        Server::with(Boot::Initialise, |config| config.prepare_wait_max = Duration::from_secs(9));
    let sent = ClockTime::from_micros(5);
    server.hears_client(2, Message::ClockProbe { sent, deadlines: true });
    assert_eq!(server.prepares(2, "wa", 5_000), None, "it waits for its time");
    assert_eq!(server.prepares(1, "wb", 6_000), Some(Vote::Ok));
    assert_eq!(server.prepares(3, "wb", 5_500), Some(Vote::Abstain));
    server.hears_client(4, Message::ClockProbe { sent, deadlines: true });
    assert_eq!(server.prepares(4, "wb", 5_800), None);
    assert_eq!(server.prepares(1, "wb", 6_000), Some(Vote::Ok), "it has its vote");
}

/// Nobody could outbid it.
#[test]
fn a_ballot_above_all_that_can_be_is_followed_by_nobody() {
    let mut server = Server::new();
    server.prepares(1, "wa", 900);
    let (transaction, ballot, timestamp) = (id(1), Ballot(u32::MAX), at(1, 900));
    assert!(
        server.hears(member(1), Message::CoordinatorChange { transaction, ballot, timestamp }).is_empty()
    );
    let outcome = quorate_core::command::Outcome::Aborted;
    assert!(server.hears(member(1), Message::RecordOutcome { transaction, ballot, outcome }).is_empty());
    assert_eq!((server.replica.promises(), server.persisted.len()), (0, 0));
}

#[test]
fn a_replica_that_has_lost_its_records_settles_nothing() {
    let (transaction, timestamp) = (id(1), at(1, 900));
    let recover = Message::Recover { transaction, participants: vec![ShardId(1)], timestamp };
    let change = Message::CoordinatorChange { transaction, ballot: Ballot(3), timestamp };
    for message in [recover, change] {
        let mut server = Server::with(Boot::Rejoin, |_| {});
        let said = server.hears(member(1), message.clone());
        assert!(said.is_empty() && server.replica.recoveries() == 0, "{message:?}: {said:?}");
        assert!(!Server::new().hears(member(1), message).is_empty());
    }
}

/// It knows when that is, and is not told.
#[test]
fn a_reader_that_waits_for_its_time_alone_is_not_told_that_it_waits() {
    let mut server = Server::new();
    let sent = ClockTime::from_micros(5);
    server.hears_client(2, Message::ClockProbe { sent, deadlines: true });
    let keys = vec![Key::from("a")];
    let read =
        Message::QuorumRead { transaction: id(2), round: 1, timestamp: at(2, 3_000), keys, in_turn: true };
    assert!(server.hears_client(2, read).is_empty());
    assert_eq!(server.replica.waiting(), 1);
    server.now = server.now + Duration::from_millis(2);
    let said = server.step(Input::Timer(ReplicaTimer::Agenda));
    assert!(said.iter().any(|(_, message)| matches!(message, Message::QuorumReadReply { .. })), "{said:?}");
}
