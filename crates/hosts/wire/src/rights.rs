//! The table of all messages: the senders that each may have, and its claim when a client says it.
//!
//! A node looks here before it gives a message to a replica. A replica of another node is believed for what replicas say, and only within its own group where the
//! protocol has nothing to say across groups; a client has to have the right that its message claims ([`quorate_access::native`]). Every match is exhaustive, so that a new
//! message has no row until somebody has thought about it.
//!
//! | said by | means |
//! |---|---|
//! | [`Speaker::Group`] | a replica of the group of the receiver |
//! | [`Speaker::Keyspace`] | a replica of any group of its keyspace |
//! | [`Speaker::Coordinator`] | a client; or a replica of the keyspace, where it coordinates or settles what a coordinator has left |
//! | [`Speaker::Client`] | a client alone |
//!
//! # What a right to read is enough for
//! A client that may only read runs transactions that only read, to their end: their prepares, decisions and questions for their outcomes carry no writes and are about
//! transactions of its own ([`Demand::Own`]). It tells replicas nothing that others would believe: what it says of versions that it has found ([`Demand::Hint`]) is passed over.

use quorate_access::Claim;
use quorate_core::TransactionId;
use quorate_granola::Class;
use quorate_ir::Operations;
use quorate_log::Part;
use quorate_serializable_shard::changes_procedures;

use crate::packet::Packet;
use crate::protocols::ProtocolMessage;

mod decisions;
mod denials;
mod packets;
pub use decisions::{Taking, decide_client, is_said_by_nodes};
pub use denials::Awaited;
pub use packets::{PacketRow, packet_row};

/// The peers that may say a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// A replica of the receiver's group.
    Group,
    /// A replica of any group of the receiver's keyspace.
    Keyspace,
    /// A client, or a replica of the keyspace.
    Coordinator,
    /// A client alone.
    Client,
}

/// The right that a message demands of a client that says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Nothing: it only ends what the client itself has begun.
    Nothing,
    /// This claim.
    Claim(Claim),
    /// [`Claim::Read`] for a transaction of the client itself, and [`Claim::Coordinate`] for that of another.
    Own(TransactionId),
    /// [`Claim::Coordinate`]; without it the message is passed over, and nobody is told: nothing waits for it.
    Hint,
    /// The rights that its keys and ranges demand: it is about entries of the catalogue.
    Entries,
}

/// The senders that a message may have, and the right that it demands of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The senders.
    pub speaker: Speaker,
    /// The right; [`Demand::Nothing`] where no client says it.
    pub demand: Demand,
}

const fn replicas(speaker: Speaker) -> Row {
    Row { speaker, demand: Demand::Nothing }
}

/// Within a group.
const GROUP: Row = replicas(Speaker::Group);
/// Among replicas of a keyspace, or from one to a client, which no node takes for another.
const KEYSPACE: Row = replicas(Speaker::Keyspace);
const READ: Row = client(Demand::Claim(Claim::Read));
const COORDINATE: Row = client(Demand::Claim(Claim::Coordinate));
const HINT: Row = client(Demand::Hint);
const ENTRIES: Row = client(Demand::Entries);

const fn client(demand: Demand) -> Row {
    Row { speaker: Speaker::Client, demand }
}

/// A client for its own transaction, or one that coordinates.
const fn own(transaction: TransactionId) -> Row {
    client(Demand::Own(transaction))
}

impl Row {
    /// The same from replicas of the keyspace as well.
    const fn or_replicas(self) -> Row {
        Row { speaker: Speaker::Coordinator, demand: self.demand }
    }
}

/// A transaction that writes has to be coordinated; one that only reads may be the client's own.
fn writes_or_own(writes: bool, transaction: TransactionId) -> Row {
    if writes { COORDINATE } else { own(transaction) }
}

/// The row of a message.
pub fn row(message: &ProtocolMessage) -> Row {
    match message {
        ProtocolMessage::Tapir(message) => tapir(message),
        ProtocolMessage::Granola(Part::Log(message)) => log(message),
        ProtocolMessage::Granola(Part::Own(message)) => granola(message),
        ProtocolMessage::Walter(Part::Log(message)) => log(message),
        ProtocolMessage::Walter(Part::Own(message)) => walter(message),
        ProtocolMessage::Str(Part::Log(message)) => log(message),
        ProtocolMessage::Str(Part::Own(message)) => str(message),
        ProtocolMessage::Configuration(Part::Log(message)) => log(message),
        ProtocolMessage::Configuration(Part::Own(message)) => configuration(message),
        #[cfg(feature = "rivals")]
        ProtocolMessage::Baseline(Part::Log(message)) => log(message),
        #[cfg(feature = "rivals")]
        ProtocolMessage::Baseline(Part::Own(message)) => baselines(message),
        #[cfg(feature = "rivals")]
        ProtocolMessage::QwStore(message) => qwstore(message),
    }
}

/// The transaction of a client that a message is about, for a refusal that reaches the call that waits for it.
pub fn transaction_of(message: &ProtocolMessage) -> Option<TransactionId> {
    match message {
        ProtocolMessage::Tapir(message) => tapir_transaction(message),
        ProtocolMessage::Granola(Part::Own(message)) => granola_transaction(message),
        ProtocolMessage::Walter(Part::Own(message)) => walter_transaction(message),
        ProtocolMessage::Str(Part::Own(message)) => str_transaction(message),
        #[cfg(feature = "rivals")]
        ProtocolMessage::Baseline(Part::Own(message)) => baselines_transaction(message),
        #[cfg(feature = "rivals")]
        ProtocolMessage::QwStore(message) => qwstore_transaction(message),
        ProtocolMessage::Configuration(_)
        | ProtocolMessage::Granola(Part::Log(_))
        | ProtocolMessage::Walter(Part::Log(_))
        | ProtocolMessage::Str(Part::Log(_)) => None,
        #[cfg(feature = "rivals")]
        ProtocolMessage::Baseline(Part::Log(_)) => None,
    }
}

/// Takes out of a message what only a coordinator is believed: what it says of versions that were found.
pub fn without_hints(message: &mut ProtocolMessage) {
    if let ProtocolMessage::Tapir(quorate_tapir::Message::ReadValidated { validated, .. }) = message {
        validated.clear();
    }
}

/// True if a message carries something that only a coordinator is believed.
pub fn has_hints(message: &ProtocolMessage) -> bool {
    matches!(message, ProtocolMessage::Tapir(quorate_tapir::Message::ReadValidated { validated, .. }) if !validated.is_empty())
}

/// The replicated log: nothing of it leaves a group.
fn log<P: quorate_log::Payload>(message: &quorate_log::Message<P>) -> Row {
    use quorate_log::Message;
    match message {
        Message::Prepare { .. }
        | Message::PrepareOk { .. }
        | Message::StartViewChange { .. }
        | Message::DoViewChange { .. }
        | Message::StartView { .. }
        | Message::Fetch { .. }
        | Message::Fetched { .. }
        | Message::FromState { .. }
        | Message::FetchState { .. }
        | Message::WhichLife { .. }
        | Message::KnownLife { .. }
        | Message::NewLife { .. }
        | Message::LifeNoted { .. }
        | Message::EpochBegun { .. }
        | Message::EpochStarted
        | Message::Join { .. } => GROUP,
    }
}

/// Inconsistent replication. `writes` says whether operations write.
fn ir<O: Operations>(
    message: &quorate_ir::Message<O>,
    inconsistent_writes: impl Fn(&O::Inconsistent) -> bool,
    consensus_writes: impl Fn(&O::Consensus) -> bool,
) -> Row {
    use quorate_ir::Message;
    match message {
        Message::ProposeInconsistent { id, operation } => {
            writes_or_own(inconsistent_writes(operation), id.transaction).or_replicas()
        }
        Message::ProposeConsensus { id, operation } => {
            writes_or_own(consensus_writes(operation), id.transaction).or_replicas()
        }
        // They are about an operation that the receiver has, or means nothing to it.
        Message::FinalizeInconsistent { id } | Message::FinalizeConsensus { id, .. } => {
            own(id.transaction).or_replicas()
        }
        // It moves the group to another view.
        Message::HigherView { .. } => HINT.or_replicas(),
        Message::InconsistentReply { .. } | Message::ConsensusReply { .. } | Message::Confirm { .. } => {
            KEYSPACE
        }
        Message::StartViewChange { .. }
        | Message::DoViewChange { .. }
        | Message::StartView { .. }
        | Message::PartsMissing { .. }
        | Message::StateWanted { .. }
        | Message::StatePage { .. }
        | Message::Arrived
        | Message::ViewQuery { .. }
        | Message::ViewQueryReply { .. } => GROUP,
    }
}

fn tapir(message: &quorate_tapir::Message) -> Row {
    use quorate_tapir::Message;
    use quorate_tapir::message::Decision;
    match message {
        Message::Read { .. }
        | Message::ReadMany { .. }
        | Message::ReadInTurn { .. }
        | Message::Scan { .. }
        | Message::QuorumRead { .. }
        | Message::QuorumScan { .. }
        // Its words on validated versions are taken out unless it comes from a coordinator.
        | Message::ReadValidated { .. } => READ,
        Message::Validated { .. } | Message::ClockProbe { .. } => HINT,
        Message::Ir(message) => {
            let decision_writes = |decision: &Decision| match decision {
                Decision::Commit { transaction, .. } => !transaction.writes.is_empty(),
                Decision::Abort { .. } => false,
            };
            ir(message, decision_writes, |prepare| !prepare.transaction.writes.is_empty())
        }
        Message::CommitPrepared { id, .. } => own(id.transaction).or_replicas(),
        Message::Recover { transaction, .. } => own(*transaction).or_replicas(),
        Message::ReadReply { .. }
        | Message::ReadManyReply { .. }
        | Message::ScanReply { .. }
        | Message::Recorded { .. }
        | Message::Outdated
        | Message::CoordinatorChange { .. }
        | Message::CoordinatorChangeReply { .. }
        | Message::Superseded { .. }
        | Message::RecoverReply { .. }
        | Message::ReadWaits { .. }
        | Message::ClockProbeReply { .. }
        | Message::ClockAhead { .. }
        | Message::AreDecided { .. }
        | Message::AreDecidedReply { .. }
        | Message::Forgotten { .. }
        | Message::HeldReads { .. }
        | Message::QuorumReadReply { .. }
        | Message::QuorumScanReply { .. }
        | Message::SnapshotTooOld { .. }
        | Message::ReadValidatedReply { .. } => KEYSPACE,
        Message::RecordOutcome { .. }
        | Message::RecordOutcomeReply { .. }
        | Message::Gather { .. }
        | Message::GatherReply { .. }
        | Message::FetchDecisions { .. }
        | Message::Decisions { .. }
        | Message::Complete { .. }
        | Message::CompleteReply { .. }
        | Message::RaiseFloor { .. } => GROUP,
    }
}

fn tapir_transaction(message: &quorate_tapir::Message) -> Option<TransactionId> {
    use quorate_ir::Message as Ir;
    use quorate_tapir::Message;
    match message {
        Message::Read { transaction, .. }
        | Message::ReadMany { transaction, .. }
        | Message::ReadInTurn { transaction, .. }
        | Message::Scan { transaction, .. }
        | Message::QuorumRead { transaction, .. }
        | Message::QuorumScan { transaction, .. }
        | Message::ReadValidated { transaction, .. }
        | Message::Recover { transaction, .. } => Some(*transaction),
        Message::CommitPrepared { id, .. }
        | Message::Ir(
            Ir::ProposeInconsistent { id, .. }
            | Ir::ProposeConsensus { id, .. }
            | Ir::FinalizeInconsistent { id }
            | Ir::FinalizeConsensus { id, .. },
        ) => Some(id.transaction),
        _ => None,
    }
}

fn granola(message: &quorate_granola::Message) -> Row {
    use quorate_granola::Message;
    const DEPLOY: Row = client(Demand::Claim(Claim::Deploy));
    match message {
        Message::Request(request) if changes_procedures(&request.operation) => DEPLOY,
        // A shard refuses an operation of this class that writes.
        Message::Request(request) if request.class == Class::ReadOnly => READ,
        Message::Request(_) => COORDINATE,
        // There is no group that coordinates in a keyspace of users.
        Message::Begin(begin) if begin.parts.values().any(|part| changes_procedures(part)) => DEPLOY,
        Message::Begin(_) => COORDINATE,
        Message::Inquire { transaction, .. } => own(*transaction).or_replicas(),
        Message::Reply { .. }
        | Message::Vote { .. }
        | Message::Resolved { .. }
        | Message::Abandoned { .. }
        | Message::Prepared { .. }
        | Message::Gathered { .. }
        | Message::NotLeading { .. }
        | Message::AskFloor
        | Message::AskFloorReply { .. } => KEYSPACE,
    }
}

fn granola_transaction(message: &quorate_granola::Message) -> Option<TransactionId> {
    use quorate_granola::Message;
    match message {
        Message::Request(request) => Some(request.transaction),
        Message::Begin(begin) => Some(begin.transaction),
        Message::Inquire { transaction, .. } => Some(*transaction),
        _ => None,
    }
}

fn walter(message: &quorate_walter::Message) -> Row {
    use quorate_walter::Message;
    match message {
        Message::Read { .. } | Message::ReadCopy { .. } | Message::AskMilestone { .. } => READ,
        Message::Commit { transaction, updates, .. } => writes_or_own(!updates.is_empty(), *transaction),
        Message::AskOutcome { transaction, .. } => own(*transaction).or_replicas(),
        Message::ReadReply { .. }
        | Message::CopyReply { .. }
        | Message::CommitReply { .. }
        | Message::TooOld { .. }
        | Message::NotLeading { .. }
        | Message::Prepare { .. }
        | Message::Vote { .. }
        | Message::Release { .. }
        | Message::Forgotten { .. }
        | Message::MilestoneReply { .. }
        | Message::Propagate { .. }
        | Message::Abandoned { .. }
        | Message::NeverCommitted { .. }
        | Message::AskShare { .. }
        | Message::AskLast { .. }
        | Message::Last { .. }
        | Message::Frozen { .. }
        | Message::Relay { .. }
        | Message::Progress { .. }
        | Message::Join {}
        | Message::Expected { .. }
        | Message::Fetch { .. }
        | Message::State { .. } => KEYSPACE,
    }
}

fn walter_transaction(message: &quorate_walter::Message) -> Option<TransactionId> {
    use quorate_walter::Message;
    match message {
        Message::Read { transaction, .. }
        | Message::ReadCopy { transaction, .. }
        | Message::AskMilestone { transaction, .. }
        | Message::Commit { transaction, .. }
        | Message::AskOutcome { transaction, .. } => Some(*transaction),
        _ => None,
    }
}

fn str(message: &quorate_str::Message) -> Row {
    use quorate_str::Message;
    match message {
        // It begins a transaction in the name of its client, or goes on with one.
        Message::Read { transaction, .. } | Message::Abort { transaction } => own(*transaction),
        Message::Commit { transaction, writes, .. } => writes_or_own(!writes.is_empty(), *transaction),
        Message::Inquire { transaction, .. } => own(*transaction).or_replicas(),
        Message::ReadReply { .. }
        | Message::Shown { .. }
        | Message::UnderWay { .. }
        | Message::CommitReply { .. }
        | Message::Doomed { .. }
        | Message::OtherPeriod { .. }
        | Message::InquireReply { .. }
        | Message::ReadAt { .. }
        | Message::ReadAtReply { .. }
        | Message::CannotRead { .. }
        | Message::Prepare { .. }
        | Message::LocalVote { .. }
        | Message::Vote { .. }
        | Message::Prepared { .. }
        | Message::Refused { .. }
        | Message::Decide { .. }
        | Message::Applied { .. }
        | Message::GiveWay { .. }
        | Message::AskTime { .. }
        | Message::Time { .. }
        | Message::Bound { .. }
        | Message::Hello { .. }
        | Message::NotLeading { .. } => KEYSPACE,
        Message::Replicate { .. }
        | Message::AskGrant { .. }
        | Message::Record { .. }
        | Message::Recorded { .. }
        | Message::Settled { .. } => GROUP,
    }
}

fn str_transaction(message: &quorate_str::Message) -> Option<TransactionId> {
    use quorate_str::Message;
    match message {
        Message::Read { transaction, .. }
        | Message::Abort { transaction }
        | Message::Commit { transaction, .. }
        | Message::Inquire { transaction, .. } => Some(*transaction),
        _ => None,
    }
}

fn configuration(message: &quorate_configuration::Message) -> Row {
    use quorate_configuration::Message;
    match message {
        Message::Get { .. }
        | Message::Scan { .. }
        | Message::Check { .. }
        | Message::Write { .. }
        | Message::Settle { .. }
        | Message::Grant { .. }
        | Message::Renew { .. }
        | Message::Release { .. }
        | Message::Watch { .. } => ENTRIES,
        Message::Unwatch { .. } => client(Demand::Nothing),
        Message::GetReply { .. }
        | Message::ScanReply { .. }
        | Message::CheckReply { .. }
        | Message::WriteReply { .. }
        | Message::Renewed { .. }
        | Message::NoSuchLease { .. }
        | Message::Changes { .. }
        | Message::Forgotten { .. }
        | Message::NotLeading { .. }
        | Message::Refused { .. } => KEYSPACE,
    }
}

#[cfg(feature = "rivals")]
fn baselines(message: &quorate_baselines::Message) -> Row {
    use quorate_baselines::Message;
    match message {
        // A read that locks keeps others from writing.
        Message::Read { lock: Some(_), .. } | Message::Scan { lock: Some(_), .. } => COORDINATE,
        Message::Read { .. } | Message::Scan { .. } => READ,
        Message::ReadCurrent { .. } | Message::ReadAt { .. } => READ,
        Message::Release { transaction } | Message::Validate { transaction, .. } => own(*transaction),
        Message::NextTimestamp { .. } => COORDINATE.or_replicas(),
        Message::Coordinate { transaction, parts, .. } => {
            writes_or_own(parts.iter().any(|part| !part.writes.is_empty()), *transaction)
        }
        Message::Prepare { transaction, part, .. } => {
            writes_or_own(!part.writes.is_empty(), *transaction).or_replicas()
        }
        Message::Decide { transaction, .. } | Message::Inquire { transaction, .. } => {
            own(*transaction).or_replicas()
        }
        Message::ReadReply { .. }
        | Message::ScanReply { .. }
        | Message::Wounded { .. }
        | Message::NextTimestampReply { .. }
        | Message::CoordinateReply { .. }
        | Message::PrepareReply { .. }
        | Message::ValidateReply { .. }
        | Message::ReadCurrentReply { .. }
        | Message::ReadAtReply { .. }
        | Message::SnapshotTooOld { .. }
        | Message::InquireReply { .. }
        | Message::NotLeading { .. }
        | Message::AskFloor
        | Message::AskFloorReply { .. } => KEYSPACE,
    }
}

#[cfg(feature = "rivals")]
fn baselines_transaction(message: &quorate_baselines::Message) -> Option<TransactionId> {
    use quorate_baselines::Message;
    match message {
        Message::Read { transaction, .. }
        | Message::Scan { transaction, .. }
        | Message::ReadCurrent { transaction, .. }
        | Message::ReadAt { transaction, .. }
        | Message::Release { transaction }
        | Message::Validate { transaction, .. }
        | Message::NextTimestamp { transaction, .. }
        | Message::Coordinate { transaction, .. }
        | Message::Prepare { transaction, .. }
        | Message::Decide { transaction, .. }
        | Message::Inquire { transaction, .. } => Some(*transaction),
        _ => None,
    }
}

#[cfg(feature = "rivals")]
fn qwstore(message: &quorate_qwstore::Message) -> Row {
    use quorate_qwstore::Message;
    match message {
        Message::Read { .. } | Message::Scan { .. } => READ,
        Message::Ir(message) => ir(message, |_| true, |never| match *never {}),
        Message::ReadReply { .. }
        | Message::ScanReply { .. }
        | Message::Late { .. }
        | Message::ClockAhead { .. }
        | Message::Outdated => KEYSPACE,
        Message::Gather { .. }
        | Message::GatherReply { .. }
        | Message::FetchPuts { .. }
        | Message::Puts { .. }
        | Message::Complete { .. }
        | Message::CompleteReply { .. }
        | Message::RaiseFloor { .. } => GROUP,
    }
}

#[cfg(feature = "rivals")]
fn qwstore_transaction(message: &quorate_qwstore::Message) -> Option<TransactionId> {
    use quorate_ir::Message as Ir;
    use quorate_qwstore::Message;
    match message {
        Message::Read { transaction, .. } | Message::Scan { transaction, .. } => Some(*transaction),
        Message::Ir(Ir::ProposeInconsistent { id, .. } | Ir::FinalizeInconsistent { id }) => {
            Some(id.transaction)
        }
        _ => None,
    }
}
