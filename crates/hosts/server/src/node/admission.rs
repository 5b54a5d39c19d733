//! Which new work is refused while the node is overloaded or about to stop.
//!
//! Only what begins or extends a transaction can be refused: reads and scans above a high mark, prepares above twice the
//! mark, because a transaction that has read deserves to finish before others begin. Commits, aborts, recovery and view
//! changes free what is held, so they always pass; so does everything that comes from replicas.

use quorate_baselines::Message as Baseline;
use quorate_configuration::Message as Configuration;
use quorate_core::ClientId;
use quorate_granola::Message as Granola;
use quorate_log::Part;
use quorate_qwstore::Message as QwStore;
use quorate_tapir::Message;
use quorate_tapir::message::Tapir;
use quorate_wire::catalogue::validate_put;
use quorate_wire::{DecodeError, ProtocolMessage};

use crate::Limits;

/// How much a message may be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Begins a transaction, or extends one that holds nothing yet.
    Early,
    /// Wants to hold keys for a transaction that has done its reading.
    Prepare,
    /// Frees what is held, or settles what became of it.
    Always,
}

/// What a message from a client is.
pub(crate) fn classify(message: &ProtocolMessage) -> Class {
    match message {
        ProtocolMessage::Tapir(message) => classify_tapir(message),
        ProtocolMessage::Baseline(Part::Own(message)) => classify_baseline(message),
        ProtocolMessage::Configuration(Part::Own(message)) => classify_configuration(message),
        ProtocolMessage::QwStore(message) => classify_qwstore(message),
        ProtocolMessage::Granola(Part::Own(message)) => classify_granola(message),
        // Only replicas say these, and to whom others do it means nothing.
        ProtocolMessage::Baseline(Part::Log(_))
        | ProtocolMessage::Configuration(Part::Log(_))
        | ProtocolMessage::Granola(Part::Log(_)) => Class::Always,
    }
}

fn classify_tapir(message: &Message) -> Class {
    match message {
        Message::Read { .. }
        | Message::ReadInTurn { .. }
        | Message::ReadValidated { .. }
        | Message::Scan { .. }
        | Message::QuorumRead { .. }
        | Message::QuorumScan { .. } => Class::Early,
        Message::Ir(quorate_ir::Message::<Tapir>::ProposeConsensus { .. }) => Class::Prepare,
        _ => Class::Always,
    }
}

/// A put is all that a transaction wants of a replica: nothing is held for it that it could free.
fn classify_qwstore(message: &QwStore) -> Class {
    match message {
        QwStore::Read { .. } | QwStore::Scan { .. } => Class::Early,
        QwStore::Ir(quorate_ir::Message::ProposeInconsistent { .. }) => Class::Prepare,
        _ => Class::Always,
    }
}

/// What writes may compare what a transaction has read before.
fn classify_granola(message: &Granola) -> Class {
    match message {
        Granola::Request(request) if request.class == quorate_granola::Class::ReadOnly => Class::Early,
        Granola::Request(_) => Class::Prepare,
        _ => Class::Always,
    }
}

/// A transaction that asks for a timestamp, or whether what it has read is still valid, has done its reading.
fn classify_baseline(message: &Baseline) -> Class {
    match message {
        Baseline::Read { .. }
        | Baseline::Scan { .. }
        | Baseline::ReadCurrent { .. }
        | Baseline::ReadAt { .. } => Class::Early,
        Baseline::NextTimestamp { .. }
        | Baseline::Coordinate { .. }
        | Baseline::Prepare { .. }
        | Baseline::Validate { .. } => Class::Prepare,
        _ => Class::Always,
    }
}

/// A lease that is held has to be renewed, or what it is held for ends.
fn classify_configuration(message: &Configuration) -> Class {
    match message {
        Configuration::Get { .. } | Configuration::Scan { .. } | Configuration::Watch { .. } => Class::Early,
        Configuration::Check { .. } | Configuration::Write { .. } | Configuration::Grant { .. } => {
            Class::Prepare
        }
        _ => Class::Always,
    }
}

/// What is wrong with what a message wants to write into the catalogue, if anything is.
pub(crate) fn refusal_of_write(message: &ProtocolMessage) -> Option<DecodeError> {
    let ProtocolMessage::Configuration(Part::Own(Configuration::Write { write, .. })) = message else {
        return None;
    };
    write.puts.iter().find_map(|put| validate_put(&put.key, put.value.as_ref()).err())
}

/// False if a message that wants to hold keys is of a transaction which has only read, and takes next to no room.
pub(crate) fn writes(message: &ProtocolMessage) -> bool {
    match message {
        ProtocolMessage::Tapir(Message::Ir(quorate_ir::Message::<Tapir>::ProposeConsensus {
            operation,
            ..
        })) => !operation.transaction.writes.is_empty(),
        _ => true,
    }
}

/// The client whose transaction a message wants to prepare, if it does.
pub(crate) fn prepares_for(message: &ProtocolMessage) -> Option<ClientId> {
    match message {
        ProtocolMessage::Tapir(Message::Ir(quorate_ir::Message::<Tapir>::ProposeConsensus {
            id, ..
        })) => Some(id.transaction.client),
        ProtocolMessage::Baseline(Part::Own(
            Baseline::Coordinate { transaction, .. } | Baseline::Prepare { transaction, .. },
        )) => Some(transaction.client),
        _ => None,
    }
}

/// How full things are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// What waits to be sent, over all connections, in bytes.
    pub(crate) queued_bytes: usize,
    /// What the replica holds prepared.
    pub(crate) prepared: usize,
    /// What of that the client has which sends the message.
    pub(crate) client_prepared: usize,
    /// What of the replica waits for the disk, in bytes.
    pub(crate) log_lag_bytes: u64,
}

impl Load {
    /// True if a message of this class is to be taken in.
    pub(crate) fn admits(self, class: Class, limits: &Limits) -> bool {
        let times = match class {
            Class::Early => 1,
            Class::Prepare => 2,
            Class::Always => return true,
        };
        self.queued_bytes <= times * limits.queued_bytes_high
            && self.prepared <= times * limits.prepared_high
            && self.client_prepared <= times * limits.client_prepared_high
            && self.log_lag_bytes <= times as u64 * limits.log_lag_bytes_high
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use quorate_baselines::message::{Age, Wanted};
    use quorate_configuration::{ConditionalWrite, Consistency, LeaseId, Revision};
    use quorate_core::command::Outcome;
    use quorate_core::log::Position;
    use quorate_core::{KeyRange, Timestamp, Transaction, TransactionId};
    use quorate_ir::OperationId;
    use quorate_tapir::message::{Decision, Prepare};

    use super::*;

    #[test]
    fn load_as_a_table() {
        let limits = Limits {
            queued_bytes_high: 10,
            prepared_high: 10,
            client_prepared_high: 5,
            log_lag_bytes_high: 10,
            ..Limits::default()
        };
        let load = |queued_bytes, prepared, log_lag_bytes| Load {
            queued_bytes,
            prepared,
            client_prepared: 0,
            log_lag_bytes,
        };
        let of_client = |client_prepared| Load { client_prepared, ..Load::default() };
        // load, reads, prepares
        let table = [
            (load(0, 0, 0), true, true),
            (load(10, 10, 10), true, true),
            (load(11, 0, 0), false, true),
            (load(0, 11, 0), false, true),
            (load(0, 0, 11), false, true),
            (load(21, 0, 0), false, false),
            (load(0, 21, 0), false, false),
            (load(0, 0, 21), false, false),
            (of_client(5), true, true),
            (of_client(6), false, true),
            (of_client(11), false, false),
        ];
        for (load, early, prepare) in table {
            assert_eq!(load.admits(Class::Early, &limits), early, "{load:?}");
            assert_eq!(load.admits(Class::Prepare, &limits), prepare, "{load:?}");
            assert!(load.admits(Class::Always, &limits), "{load:?}");
        }
    }

    #[test]
    fn what_frees_is_never_refused() {
        let (transaction, timestamp) = (TransactionId::default(), Timestamp::ZERO);
        let range = KeyRange { from: "k".into(), to: None };
        let id = OperationId { transaction, number: 1 };
        let prepare = Prepare {
            transaction: Arc::new(Transaction::default()),
            timestamp: Timestamp::ZERO,
            first: None,
        };
        let table = [
            (Message::Read { transaction, key: "k".into() }, Class::Early),
            (Message::ReadInTurn { transaction, key: "k".into() }, Class::Early),
            (Message::ReadValidated { transaction, keys: vec![] }, Class::Early),
            (Message::Scan { transaction, request: 1, range: range.clone(), limit: 1 }, Class::Early),
            (
                Message::QuorumRead { transaction, round: 1, timestamp, keys: vec![], in_turn: false },
                Class::Early,
            ),
            (Message::QuorumScan { transaction, round: 1, timestamp, range, limit: 1 }, Class::Early),
            (Message::Ir(quorate_ir::Message::ProposeConsensus { id, operation: prepare }), Class::Prepare),
            (
                Message::Ir(quorate_ir::Message::ProposeInconsistent {
                    id,
                    operation: Decision::Abort { last: Timestamp::ZERO },
                }),
                Class::Always,
            ),
            (Message::Ir(quorate_ir::Message::FinalizeInconsistent { id }), Class::Always),
            (
                Message::Recover { transaction, participants: vec![], timestamp: Timestamp::ZERO },
                Class::Always,
            ),
        ];
        for (message, class) in table {
            assert_eq!(classify(&message.clone().into()), class, "{message:?}");
        }
    }

    #[test]
    fn new_work_of_the_quorum_store_waits() {
        let (transaction, key) = (TransactionId::default(), quorate_core::Key::from("k"));
        let range = KeyRange { from: "k".into(), to: None };
        let id = OperationId { transaction, number: OperationId::INCONSISTENT };
        let (value, timestamp) = (None, Timestamp::ZERO);
        let operation = Arc::new(quorate_qwstore::message::Put { key: key.clone(), value, timestamp });
        let table = [
            (QwStore::Read { transaction, key }, Class::Early),
            (QwStore::Scan { transaction, request: 1, range, limit: 1 }, Class::Early),
            (QwStore::Ir(quorate_ir::Message::ProposeInconsistent { id, operation }), Class::Prepare),
            (QwStore::Ir(quorate_ir::Message::HigherView { view: quorate_core::View(1) }), Class::Always),
        ];
        for (message, class) in table {
            assert_eq!(classify(&ProtocolMessage::QwStore(message.clone())), class, "{message:?}");
        }
    }

    #[test]
    fn what_ends_transactions_of_granola_is_never_refused() {
        let transaction = TransactionId::default();
        let request = |class| {
            let (participants, operation) = (vec![], Default::default());
            let (high, first) = Default::default();
            let request =
                quorate_granola::Request { transaction, participants, operation, class, high, first };
            Granola::Request(request)
        };
        let table = [
            (request(quorate_granola::Class::ReadOnly), Class::Early),
            (request(quorate_granola::Class::Independent), Class::Prepare),
            (request(quorate_granola::Class::Coordinated), Class::Prepare),
            (
                Granola::Inquire { transaction, participants: vec![], not_before: Default::default() },
                Class::Always,
            ),
            (Granola::AskFloor, Class::Always),
        ];
        for (message, class) in table {
            let message = ProtocolMessage::Granola(Part::Own(message));
            assert_eq!(classify(&message), class, "{message:?}");
        }
    }

    #[test]
    fn leases_are_kept_under_load_and_new_work_of_the_configuration_waits() {
        let (request, transaction, since) = (1, TransactionId::default(), Position::START);
        let (lease, after) = (LeaseId::default(), Revision::START);
        let range = KeyRange { from: "k".into(), to: None };
        let consistency = Consistency::Stale;
        let write = Arc::new(ConditionalWrite::default());
        let table = [
            (Configuration::Get { request, keys: vec![], consistency }, Class::Early),
            (Configuration::Scan { request, range: range.clone(), limit: 1, consistency }, Class::Early),
            (Configuration::Watch { request, range, after }, Class::Early),
            (Configuration::Check { request, compares: vec![] }, Class::Prepare),
            (Configuration::Write { request, transaction, since, write }, Class::Prepare),
            (Configuration::Grant { request, lease, duration: Duration::ZERO }, Class::Prepare),
            (Configuration::Settle { request, transaction, since }, Class::Always),
            (Configuration::Renew { request, lease }, Class::Always),
            (Configuration::Release { request, lease }, Class::Always),
            (Configuration::Unwatch { request }, Class::Always),
        ];
        for (message, class) in table {
            assert_eq!(
                classify(&ProtocolMessage::Configuration(Part::Own(message.clone()))),
                class,
                "{message:?}"
            );
        }
    }

    #[test]
    fn what_frees_is_never_refused_in_comparison_systems() {
        let transaction = TransactionId { client: ClientId(7), ..TransactionId::default() };
        let (age, part, keys) = (Timestamp::ZERO, Arc::new(Transaction::default()), vec!["k".into()]);
        let range = KeyRange { from: "k".into(), to: None };
        let prepare =
            Baseline::Prepare { transaction, part: part.clone(), proposed: age, age, locked_in: None };
        let own = [
            (Baseline::Read { transaction, key: "k".into(), lock: None }, Class::Early),
            (Baseline::Scan { transaction, request: 1, range, limit: 1, lock: None }, Class::Early),
            (Baseline::ReadCurrent { transaction, keys: keys.clone() }, Class::Early),
            (Baseline::ReadAt { transaction, wanted: Wanted::Keys(keys), at: age }, Class::Early),
            (Baseline::NextTimestamp { transaction, above: age }, Class::Prepare),
            (Baseline::Coordinate { transaction, parts: vec![part.clone()], proposed: age }, Class::Prepare),
            (Baseline::Validate { transaction, part, locked_in: None, at: None }, Class::Prepare),
            (prepare.clone(), Class::Prepare),
            (Baseline::Release { transaction }, Class::Always),
            (Baseline::Decide { transaction, outcome: Outcome::Aborted }, Class::Always),
            (
                Baseline::Inquire { transaction, participants: vec![], age: Age::NotBefore(age) },
                Class::Always,
            ),
        ];
        for (message, class) in own {
            let message = ProtocolMessage::Baseline(Part::Own(message));
            assert_eq!(classify(&message), class, "{message:?}");
        }
        let of_log = ProtocolMessage::Baseline(Part::Log(quorate_log::Message::NewLife { life: 1 }));
        assert_eq!(classify(&of_log), Class::Always);
        let prepare = ProtocolMessage::Baseline(Part::Own(prepare));
        assert_eq!(prepares_for(&prepare), Some(ClientId(7)));
        assert_eq!(prepares_for(&of_log), None);
    }
}
