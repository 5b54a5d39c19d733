//! The conclusions of a backup coordinator, one answer at a time: nothing before so many have said so as the rule wants.

mod epochs;
mod phases;

use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::Outcome;
use quorate_core::machine::{InputOf, OutboxOf};
use quorate_core::{
    Address, Ballot, ClientId, ClockTime, Context, Effect, Epoch, GroupSize, Input, Instant, Key, Machine,
    Outbox, Random, ReplicaId, ReplicaIndex, ShardId, Timestamp, Transaction, TransactionId, View, Write,
};
use quorate_ir::{Message as Ir, OperationId};
use quorate_tapir::message::{Decision, Prepare, RecordedVote, Vote};
use quorate_tapir::{Boot, Message, Replica, ReplicaConfig, ReplicaTimer};

const TRANSACTION: TransactionId = TransactionId { client: ClientId(7), sequence: 1, attempt: 0 };
const TIMESTAMP: Timestamp = Timestamp { micros: 50, client: ClientId(7) };
const CLOCK_MICROS: u64 = 1_000;

/// A replica of the shard that the backup coordinators belong to.
fn member(index: u8) -> ReplicaId {
    ReplicaId { shard: ShardId(1), index: ReplicaIndex(index) }
}

/// A replica of another participant.
fn other(index: u8) -> ReplicaId {
    ReplicaId { shard: ShardId(2), index: ReplicaIndex(index) }
}

fn prepare(participants: Vec<ShardId>) -> Prepare {
    let writes = vec![Write { key: Key::from("a"), value: None }];
    let transaction = Arc::new(Transaction { participants, writes, ..Transaction::default() });
    Prepare { transaction, timestamp: TIMESTAMP, first: None }
}

/// Replica 0, which another has asked to settle a transaction.
struct Backup {
    replica: Replica,
    ballot: Ballot,
    participants: Vec<ShardId>,
    now: Instant,
    random: Random,
    /// The membership under which others speak to it.
    epoch: Epoch,
}

impl Backup {
    fn new(replicas: usize) -> Self {
        Backup::over(vec![ShardId(1)], replicas)
    }

    fn over(participants: Vec<ShardId>, replicas: usize) -> Self {
        Backup::asked_by(member(1).into(), participants, replicas, TIMESTAMP)
    }

    fn asked_by(asker: Address, participants: Vec<ShardId>, replicas: usize, timestamp: Timestamp) -> Self {
        let config = ReplicaConfig::new(member(0), GroupSize::new(replicas).unwrap(), Boot::Initialise);
        let replica = Replica::restore(config, []);
        let mut backup = Backup {
            replica,
            ballot: Ballot::ORIGINAL,
            participants: participants.clone(),
            now: Instant::START,
            random: Random::new(1),
            epoch: Epoch::FIRST,
        };
        let said =
            backup.hears(asker, Message::Recover { transaction: TRANSACTION, participants, timestamp });
        backup.ballot = said.iter().find_map(elected).expect("it holds an election");
        backup
    }

    /// Its messages to anybody when a replica of its group tells it something; each of them once, however many receive it.
    fn hears(&mut self, from: impl Into<Address>, message: Message) -> Vec<Message> {
        self.steps(Input::Message { from: from.into(), epoch: self.epoch, message })
    }

    /// The backup coordinator looks at its recoveries after some time; gives the messages that it sends.
    fn looks_after(&mut self, time: Duration) -> Vec<Message> {
        self.now = self.now + time;
        self.steps(Input::Timer(ReplicaTimer::Sweep))
    }

    fn steps(&mut self, input: InputOf<Replica>) -> Vec<Message> {
        let mut said = Vec::new();
        for (_, message) in self.sends(input) {
            if !said.contains(&message) {
                said.push(message);
            }
        }
        said
    }

    /// The messages that the backup coordinator sends, and their receivers.
    fn sends(&mut self, input: InputOf<Replica>) -> Vec<(Address, Message)> {
        let mut outbox: OutboxOf<Replica> = Outbox::new();
        let clock = ClockTime::from_micros(CLOCK_MICROS);
        let mut context = Context { now: self.now, clock, random: &mut self.random };
        self.replica.step(&mut context, input, &mut outbox);
        let sent = |effect| match effect {
            Effect::Send { to, message } => Some((to, message)),
            _ => None,
        };
        outbox.drain().filter_map(sent).collect()
    }

    /// A promise, with or without a vote that is held; of nothing, if all there was is collected.
    fn promise(
        &mut self,
        from: ReplicaId,
        ballot: Ballot,
        view: u64,
        vote: Option<Vote>,
        settled: bool,
    ) -> Vec<Message> {
        let recorded = |vote| RecordedVote {
            number: 1,
            prepare: prepare(self.participants.clone()),
            vote,
            finalized: None,
            held: vote == Vote::Ok,
        };
        let reply = Message::CoordinatorChangeReply {
            transaction: TRANSACTION,
            ballot,
            view: View(view),
            outcome: None,
            committed: None,
            votes: vote.map(recorded).into_iter().collect(),
            accepted: None,
            settled,
        };
        self.hears(from, reply)
    }

    /// A promise of somebody who knows the outcome.
    fn knows(&mut self, from: ReplicaId, outcome: Outcome) -> Vec<Message> {
        let reply = Message::CoordinatorChangeReply {
            transaction: TRANSACTION,
            ballot: self.ballot,
            view: View(0),
            outcome: Some(outcome),
            committed: None,
            votes: Vec::new(),
            accepted: None,
            settled: false,
        };
        self.hears(from, reply)
    }

    fn confirm(&mut self, from: u8, view: u64) -> Vec<Message> {
        let id = OperationId { transaction: TRANSACTION, number: 1 };
        let (view, verdict) = (View(view), Some(Vote::Ok));
        self.hears(member(from), Message::Ir(Ir::Confirm { id, view, verdict, finalized: true }))
    }

    fn accept(&mut self, from: u8, ballot: Ballot, view: u64) -> Vec<Message> {
        self.hears(
            member(from),
            Message::RecordOutcomeReply { transaction: TRANSACTION, ballot, view: View(view) },
        )
    }

    fn recorded(&mut self, from: u8, view: u64) -> Vec<Message> {
        let id = OperationId { transaction: TRANSACTION, number: OperationId::INCONSISTENT };
        self.hears(member(from), Message::Ir(Ir::InconsistentReply { id, view: View(view) }))
    }
}

fn elected(message: &Message) -> Option<Ballot> {
    match message {
        Message::CoordinatorChange { ballot, .. } => Some(*ballot),
        _ => None,
    }
}

fn finalizes(said: &[Message]) -> bool {
    said.iter().any(|message| matches!(message, Message::Ir(Ir::FinalizeConsensus { .. })))
}

fn records(said: &[Message]) -> Option<Outcome> {
    said.iter().find_map(|message| match message {
        Message::RecordOutcome { outcome, .. } => Some(*outcome),
        _ => None,
    })
}

fn tells(said: &[Message]) -> Option<Decision> {
    said.iter().find_map(|message| match message {
        Message::Ir(Ir::ProposeInconsistent { operation, .. }) => Some(operation.clone()),
        _ => None,
    })
}

#[test]
fn a_commit_waits_for_a_majority_at_every_step() {
    let mut backup = Backup::new(5);
    let (ballot, earlier) = (backup.ballot, Ballot(backup.ballot.0 - 1));
    let ok = Some(Vote::Ok);
    // Promises: of three in one view, under this ballot.
    for said in [
        backup.promise(member(1), earlier, 0, ok, false),
        backup.promise(member(2), ballot, 0, ok, false),
        backup.promise(member(3), earlier, 0, ok, false),
        backup.promise(member(4), ballot, 0, ok, false),
    ] {
        assert!(said.is_empty(), "{said:?}");
    }
    assert!(finalizes(&backup.promise(member(3), ballot, 0, ok, false)));
    // Confirmations: of three in the view that the votes are from.
    for said in [backup.confirm(2, 0), backup.confirm(2, 0), backup.confirm(4, 0)] {
        assert!(said.is_empty(), "{said:?}");
    }
    assert_eq!(records(&backup.confirm(3, 0)), Some(Outcome::Committed(TIMESTAMP)));
    // Acceptances: of three in one view, under this ballot.
    for said in [
        backup.accept(1, ballot, 0),
        backup.accept(2, ballot, 1),
        backup.accept(3, earlier, 1),
        backup.accept(4, ballot, 1),
    ] {
        assert!(said.is_empty(), "{said:?}");
    }
    assert!(matches!(tells(&backup.accept(3, ballot, 1)), Some(Decision::Commit { .. })));
    // And everybody is told until three in one view have it.
    backup.recorded(1, 0);
    backup.recorded(2, 1);
    backup.recorded(3, 1);
    assert_eq!(backup.replica.recoveries(), 1);
    backup.recorded(4, 1);
    assert_eq!(backup.replica.recoveries(), 0);
}

#[test]
fn votes_of_a_view_that_is_over_are_not_made_final() {
    let mut backup = Backup::new(3);
    let (ballot, ok) = (backup.ballot, Some(Vote::Ok));
    backup.promise(member(1), ballot, 4, ok, false);
    assert!(finalizes(&backup.promise(member(2), ballot, 4, ok, false)));
    assert!(backup.confirm(1, 4).is_empty() && backup.confirm(2, 3).is_empty(), "one is late");
    let said = backup.confirm(2, 5);
    assert_eq!(records(&said), None, "{said:?}");
    let again = said.iter().find_map(elected).expect("the votes have been settled anew, so it looks again");
    assert!(again > ballot);
}

/// A backup coordinator over two shards that has made every vote final and records the commit.
fn recording() -> Backup {
    let mut backup = Backup::over(vec![ShardId(1), ShardId(2)], 3);
    let (ballot, ok) = (backup.ballot, Some(Vote::Ok));
    for from in [member(0), member(1), other(0), other(1)] {
        backup.promise(from, ballot, 0, ok, false);
    }
    let id = OperationId { transaction: TRANSACTION, number: 1 };
    let confirm = Message::Ir(Ir::Confirm { id, view: View(0), verdict: Some(Vote::Ok), finalized: true });
    let said: Vec<Vec<Message>> =
        [member(0), member(1), other(0), other(1)].map(|from| backup.hears(from, confirm.clone())).into();
    assert_eq!(records(&said.concat()), Some(Outcome::Committed(TIMESTAMP)));
    backup
}

/// A replica of another shard that has executed the COMMIT and collected its vote can make that final no more.
#[test]
fn a_commit_that_is_being_recorded_is_in_the_hands_of_the_backup_shard() {
    for (from, stands_back) in [(other(2), false), (member(2), true)] {
        let mut backup = recording();
        let promised = Ballot(backup.ballot.0 + 1);
        assert!(backup.hears(from, Message::Superseded { transaction: TRANSACTION, promised }).is_empty());
        backup.accept(0, backup.ballot, 0);
        let told = tells(&backup.accept(1, backup.ballot, 0));
        assert_eq!(told.is_none(), stands_back, "{from}: {told:?}");
    }
    // An abort rests on what a majority of one shard has not heard, so a replica that has heard more is listened to.
    let mut backup = Backup::over(vec![ShardId(1), ShardId(2)], 3);
    let ballot = backup.ballot;
    let said =
        [member(0), member(1), other(0), other(1)].map(|from| backup.promise(from, ballot, 0, None, false));
    assert_eq!(records(&said.concat()), Some(Outcome::Aborted));
    let promised = Ballot(ballot.0 + 1);
    backup.hears(other(2), Message::Superseded { transaction: TRANSACTION, promised });
    assert!(backup.accept(0, ballot, 0).is_empty() && backup.accept(1, ballot, 0).is_empty());
}

/// A replica that has not heard of the transaction may have answered just before the COMMIT reached it, that another has collected.
#[test]
fn what_somebody_has_collected_is_not_aborted_before_all_were_asked_again() {
    let mut backup = Backup::over(vec![ShardId(1), ShardId(2)], 3);
    let ballot = backup.ballot;
    let answers = [(member(0), false), (member(1), false), (other(0), true)];
    for (from, settled) in answers {
        assert!(backup.promise(from, ballot, 0, None, settled).is_empty());
    }
    let said = backup.promise(other(1), ballot, 0, None, false);
    assert_eq!(records(&said), None, "{said:?}");
    let again = said.iter().find_map(elected).expect("everybody is asked again");
    assert!(again > ballot);
    for (from, settled) in answers {
        assert!(backup.promise(from, again, 0, None, settled).is_empty());
    }
    let said = backup.promise(other(1), again, 0, None, false);
    assert_eq!(records(&said), Some(Outcome::Aborted));
}

/// A later proposal of its coordinator must not be taken for new once the abort is collected.
#[test]
fn an_abort_says_until_when_something_may_have_been_proposed() {
    let last = until_when_proposed(member(1).into(), TIMESTAMP);
    assert!(last.micros >= CLOCK_MICROS + proposals_ahead_micros());
}

/// The least that the timestamps of proposals may lie above the clock.
fn proposals_ahead_micros() -> u64 {
    let config = ReplicaConfig::new(member(0), GroupSize::new(3).unwrap(), Boot::Initialise);
    (config.timestamp_ahead_max + config.retry_span).as_micros() as u64
}

/// Until when something may have been proposed of a transaction that was aborted, as its abort says, if the first that is
/// known of it is what `asker` says of its timestamp.
fn until_when_proposed(asker: Address, timestamp: Timestamp) -> Timestamp {
    let mut backup = Backup::asked_by(asker, vec![ShardId(1)], 3, timestamp);
    let ballot = backup.ballot;
    backup.promise(member(0), ballot, 0, None, false);
    assert_eq!(records(&backup.promise(member(1), ballot, 0, None, false)), Some(Outcome::Aborted));
    assert!(backup.accept(0, ballot, 0).is_empty());
    let told = backup.accept(1, ballot, 0);
    let Some(Decision::Abort { last }) = tells(&told) else {
        panic!("the outcome is told once it is recorded: {told:?}");
    };
    last
}

/// Else a client that has no part in a transaction could have its outcome kept for ages.
#[test]
fn an_outcome_is_kept_as_long_as_replicas_ask_for_and_not_clients() {
    let far = Timestamp { micros: CLOCK_MICROS + 1_000_000_000_000, client: ClientId(7) };
    let stranger = Address::Client(ClientId(9));
    let last = until_when_proposed(stranger, far);
    assert_eq!(last.micros, CLOCK_MICROS + proposals_ahead_micros());
    let last = until_when_proposed(member(1).into(), far);
    assert_eq!(last.micros, far.micros + proposals_ahead_micros());
}

fn recover(participants: &[u32], timestamp: Timestamp) -> Message {
    let participants = participants.iter().copied().map(ShardId).collect();
    Message::Recover { transaction: TRANSACTION, participants, timestamp }
}

/// It has them from the client that began the transaction. The answers of the replicas so far were about something else.
#[test]
fn a_replica_that_asks_is_believed_and_not_the_client_that_asked_before() {
    let far = Timestamp { micros: CLOCK_MICROS + 1_000_000_000_000, client: ClientId(7) };
    let stranger = || Backup::asked_by(Address::Client(ClientId(9)), vec![ShardId(1)], 3, far);

    let mut backup = stranger();
    let said = backup.hears(member(1), recover(&[1], TIMESTAMP));
    let again = said.iter().find_map(elected).expect("everybody is asked again");
    assert!(again > backup.ballot);
    let asks = |message: &_| matches!(message, Message::CoordinatorChange { timestamp: TIMESTAMP, .. });
    assert!(said.iter().any(asks), "{said:?}");
    backup.promise(member(0), again, 0, None, false);
    backup.promise(member(1), again, 0, None, false);
    backup.accept(0, again, 0);
    let told = backup.accept(1, again, 0);
    let Some(Decision::Abort { last }) = tells(&told) else { panic!("{told:?}") };
    assert_eq!(last.micros, CLOCK_MICROS + proposals_ahead_micros());

    let mut backup = stranger();
    let said = backup.hears(member(1), recover(&[1, 2], far));
    assert!(said.iter().find_map(elected) > Some(backup.ballot), "others take part: {said:?}");
    // And from now on another client is not.
    let said = backup.hears(Address::Client(ClientId(9)), recover(&[1], TIMESTAMP));
    assert!(said.is_empty(), "{said:?}");
}

/// An abort that a shard without part in it knows is no outcome, so who knows one must be asked by somebody trusted.
#[test]
fn a_client_that_asks_is_not_taken_at_its_word_and_a_replica_is() {
    for (asker, follows) in [(Address::Client(ClientId(9)), false), (member(1).into(), true)] {
        let mut backup = Backup::asked_by(asker, vec![ShardId(1), ShardId(2)], 3, TIMESTAMP);
        let said = backup.knows(other(0), Outcome::Aborted);
        assert_eq!(tells(&said).is_some(), follows, "{said:?}");
        if !follows {
            backup.hears(member(1), recover(&[1, 2], TIMESTAMP));
            let said = backup.knows(other(1), Outcome::Aborted);
            assert!(tells(&said).is_some(), "now a replica has asked: {said:?}");
        }
    }
}

/// Replicas ask because something stands in the way of others.
#[test]
fn clients_do_not_take_all_the_room_of_recoveries() {
    let mut backup = Backup::new(3);
    let ask = |backup: &mut Backup, from: Address, sequences: std::ops::Range<u64>| {
        for sequence in sequences {
            let transaction = TransactionId { sequence, ..TRANSACTION };
            let (participants, timestamp) = (vec![ShardId(1)], TIMESTAMP);
            backup.hears(from, Message::Recover { transaction, participants, timestamp });
        }
        backup.replica.recoveries()
    };
    let led = ask(&mut backup, Address::Client(ClientId(9)), 2..12_000);
    assert!(led < 11_000, "{led}");
    assert_eq!(ask(&mut backup, Address::Client(ClientId(9)), 12_000..12_001), led);
    assert_eq!(ask(&mut backup, member(1).into(), 12_000..12_001), led + 1);
    assert_eq!(ask(&mut backup, member(1).into(), 12_001..24_000), 2 * led, "half of it is theirs alone");
}

#[test]
fn nothing_counts_that_was_not_asked_for() {
    let mut backup = Backup::new(3);
    let (ballot, ok) = (backup.ballot, Some(Vote::Ok));
    let said = backup.knows(other(0), Outcome::Aborted);
    assert!(said.is_empty(), "that shard takes no part: {said:?}");
    backup.promise(member(0), ballot, 0, ok, false);
    assert!(finalizes(&backup.promise(member(1), ballot, 0, ok, false)));
    for index in 0..3 {
        let confirms = |number, verdict| {
            let id = OperationId { transaction: TRANSACTION, number };
            Message::Ir(Ir::Confirm { id, view: View(0), verdict: Some(verdict), finalized: true })
        };
        let said = backup.hears(member(index), confirms(2, Vote::Ok));
        assert!(said.is_empty(), "it is another prepare: {said:?}");
        let said = backup.hears(member(index), confirms(1, Vote::Abstain));
        assert!(said.is_empty(), "it is another verdict: {said:?}");
    }
    assert!(backup.confirm(0, 0).is_empty());
    assert!(records(&backup.confirm(1, 0)).is_some());
    for index in 0..3 {
        let message = Message::RecordOutcomeReply { transaction: TRANSACTION, ballot, view: View(0) };
        let said = backup.hears(other(index), message);
        assert!(said.is_empty(), "the outcome is recorded in the backup shard: {said:?}");
    }
    assert!(backup.accept(0, ballot, 0).is_empty());
    assert!(tells(&backup.accept(1, ballot, 0)).is_some());
}

#[test]
fn an_overtaken_backup_coordinator_stands_back() {
    let mut backup = Backup::new(3);
    let (ballot, promised) = (backup.ballot, Ballot(backup.ballot.0 + 5));
    backup.promise(member(1), ballot, 0, None, false);
    backup.hears(member(2), Message::Superseded { transaction: TRANSACTION, promised: ballot });
    backup.hears(member(2), Message::Superseded { transaction: TRANSACTION, promised });
    let said = backup.promise(member(0), ballot, 0, None, false);
    assert!(said.is_empty(), "another may have concluded something else: {said:?}");
}

/// The answers of one replica of three in every election.
#[derive(Clone, Copy, Debug)]
enum Tells {
    Nothing,
    Outcome,
    Accepted,
    Vote,
    Settled,
}

/// After how many elections a recovery is given up in which one replica of three answers; none if it goes on.
fn given_up_after(asker: Address, tells: Tells) -> Option<u32> {
    let mut backup = Backup::asked_by(asker, vec![ShardId(1)], 3, TIMESTAMP);
    let quarter =
        ReplicaConfig::new(member(0), GroupSize::new(3).unwrap(), Boot::Initialise).recovery_timeout / 4;
    let mut elections = 1;
    for _ in 0..400 {
        let vote = RecordedVote {
            number: 1,
            prepare: prepare(vec![ShardId(1)]),
            vote: Vote::Ok,
            finalized: None,
            held: true,
        };
        let reply = Message::CoordinatorChangeReply {
            transaction: TRANSACTION,
            ballot: backup.ballot,
            view: View(0),
            outcome: matches!(tells, Tells::Outcome).then_some(Outcome::Aborted),
            committed: None,
            votes: matches!(tells, Tells::Vote).then_some(vote).into_iter().collect(),
            accepted: matches!(tells, Tells::Accepted).then_some((Ballot(1), Outcome::Aborted)),
            settled: matches!(tells, Tells::Settled),
        };
        backup.hears(member(2), reply);
        let said = backup.looks_after(quarter);
        if backup.replica.recoveries() == 0 {
            return Some(elections);
        }
        if let Some(ballot) = said.iter().find_map(elected).filter(|ballot| *ballot > backup.ballot) {
            backup.ballot = ballot;
            elections += 1;
        }
    }
    None
}

/// Of a transaction that clients make up nothing is ever found, and nobody waits for it.
#[test]
fn only_what_nobody_knows_and_no_replica_asks_for_is_given_up_and_not_before_some_elections() {
    let stranger = Address::Client(ClientId(9));
    assert_eq!(given_up_after(stranger, Tells::Nothing), Some(3));
    assert_eq!(given_up_after(member(1).into(), Tells::Nothing), None);
    for tells in [Tells::Outcome, Tells::Accepted, Tells::Vote, Tells::Settled] {
        assert_eq!(given_up_after(stranger, tells), None, "{tells:?}");
    }
}

/// The client that began it knows who takes part, and the shard that was asked does not.
#[test]
fn a_recovery_is_passed_on_to_a_shard_that_takes_part() {
    let mut backup = Backup::asked_by(Address::Client(ClientId(9)), vec![ShardId(1)], 3, TIMESTAMP);
    backup.participants = vec![ShardId(2)];
    let said = backup.promise(member(1), backup.ballot, 0, Some(Vote::Ok), false);
    assert_eq!(said, [recover(&[2], TIMESTAMP)]);
    assert_eq!(backup.replica.recoveries(), 0);
}
