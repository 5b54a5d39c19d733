//! Nodes that may not have heard yet how transactions of theirs ended, of which another machine of their home has told the client. Such a node
//! still shows the local commit. A client that has been told of its abort and tries again must not read it: it turns to another node until
//! this one knows.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::{ClockTime, Instant, ReplicaId, TransactionId};

use super::Out;
use crate::message::Message;

/// Per machine what it may not have heard of.
#[derive(Debug, Default)]
pub(super) struct Behind(BTreeMap<ReplicaId, Unheard>);

#[derive(Debug)]
struct Unheard {
    /// The transactions, and when they were begun by the clock of the client.
    aborted: BTreeMap<TransactionId, ClockTime>,
    /// When the machine is asked about them next.
    asks_at: Instant,
}

impl Behind {
    /// Another machine of its home has said that the transaction is aborted.
    pub(super) fn note(&mut self, machine: ReplicaId, aborted: TransactionId, begun: ClockTime) {
        let unheard = Unheard { aborted: BTreeMap::new(), asks_at: Instant::START };
        self.0.entry(machine).or_insert(unheard).aborted.insert(aborted, begun);
    }

    /// The machine does not run the transaction any more.
    pub(super) fn note_heard(&mut self, machine: ReplicaId, aborted: TransactionId) {
        if let Some(unheard) = self.0.get_mut(&machine) {
            unheard.aborted.remove(&aborted);
            if unheard.aborted.is_empty() {
                self.0.remove(&machine);
            }
        }
    }

    /// Drops the machines that are no longer there.
    pub(super) fn retain(&mut self, is_there: impl Fn(ReplicaId) -> bool) {
        self.0.retain(|machine, _| is_there(*machine));
    }

    /// True if the machine may show what its client knows to be aborted.
    pub(super) fn contains(&self, machine: ReplicaId) -> bool {
        self.0.contains_key(&machine)
    }

    /// INQUIRE at the machine about all of that, unless it was asked a moment ago.
    pub(super) fn ask(&mut self, machine: ReplicaId, now: Instant, interval: Duration, outbox: &mut Out) {
        let Some(unheard) = self.0.get_mut(&machine).filter(|unheard| unheard.asks_at <= now) else { return };
        unheard.asks_at = now + interval;
        for (transaction, begun) in &unheard.aborted {
            outbox.send_unordered(machine, Message::Inquire { transaction: *transaction, snapshot: *begun });
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{Address, ClientId, Effect, ReplicaIndex, ShardId};

    use super::*;

    const INTERVAL: Duration = Duration::from_millis(500);

    fn machine(index: u8) -> ReplicaId {
        ReplicaId { shard: ShardId(2), index: ReplicaIndex(index) }
    }

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt: 0 }
    }

    /// The transactions that a machine is asked about so many milliseconds after the start.
    fn asked(behind: &mut Behind, index: u8, millis: u64) -> Vec<u64> {
        let mut outbox = Out::new();
        behind.ask(machine(index), Instant::START + Duration::from_millis(millis), INTERVAL, &mut outbox);
        let sequence = |effect: &Effect<Message, _, _, _>| match effect {
            Effect::SendUnordered {
                to: Address::Replica(to),
                message: Message::Inquire { transaction, .. },
            } => {
                assert_eq!(*to, machine(index));
                transaction.sequence
            }
            other => panic!("it only asks: {other:?}"),
        };
        outbox.effects().iter().map(sequence).collect()
    }

    fn behind() -> Behind {
        let mut behind = Behind::default();
        for (index, sequence) in [(0, 7), (0, 8), (1, 9)] {
            behind.note(machine(index), id(sequence), ClockTime::from_micros(sequence));
        }
        behind
    }

    #[test]
    fn a_machine_is_asked_about_all_of_it_once_in_a_while() {
        let mut behind = behind();
        assert_eq!(asked(&mut behind, 0, 100), [7, 8]);
        assert_eq!(asked(&mut behind, 0, 599), [0; 0], "it was asked a moment ago");
        assert_eq!(asked(&mut behind, 1, 599), [9], "another one was not");
        assert_eq!(asked(&mut behind, 0, 600), [7, 8]);
        assert_eq!(asked(&mut behind, 2, 600), [0; 0], "nothing is wanted of it");
    }

    #[test]
    fn a_machine_is_behind_until_it_has_heard_of_all_or_is_gone() {
        let mut behind = behind();
        behind.note_heard(machine(0), id(7));
        assert!(behind.contains(machine(0)) && behind.contains(machine(1)));
        behind.note_heard(machine(0), id(8));
        assert!(!behind.contains(machine(0)) && behind.contains(machine(1)));
        behind.retain(|there| there != machine(1));
        assert!(!behind.contains(machine(1)));
        assert_eq!(asked(&mut behind, 1, 0), [0; 0]);
    }
}
