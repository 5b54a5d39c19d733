//! Decisions that are acknowledged together: COMMIT is the last that a coordinator says of most transactions, and nobody waits for the answer. So a replica that is told of many by one
//! client says so once for all of them, a moment later.
//!
//! An acknowledgement is a promise about one view. Those that wait when another begins are never said: the coordinator, which has no answer, tells the decision again.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::{ClientId, TransactionId, View};

use crate::message::Message;

/// An acknowledgement waits for others for so long: far less than it takes until a decision is told again.
pub(super) const WAIT: Duration = Duration::from_millis(1);

/// So many go together at most.
const TOGETHER_MAX: usize = 64;

/// The acknowledgements that wait for others.
#[derive(Debug, Default)]
pub(super) struct Acknowledgements {
    /// The view in which they were given.
    view: View,
    of_clients: BTreeMap<ClientId, Vec<TransactionId>>,
    /// True if a timer runs out when they are to be said.
    is_timed: bool,
}

impl Acknowledgements {
    /// The decision of a transaction of this client is recorded in this view. Gives the message to the client if there are enough for one.
    pub(super) fn note(
        &mut self,
        client: ClientId,
        transaction: TransactionId,
        view: View,
    ) -> Option<Message> {
        assert_eq!(transaction.client, client, "a client is told of its own transactions");
        if view != self.view {
            self.forget();
            self.view = view;
        }
        let waiting = self.of_clients.entry(client).or_default();
        assert!(
            waiting.len() < TOGETHER_MAX,
            "{} acknowledgements of {client} wait, and are enough",
            waiting.len()
        );
        waiting.push(transaction);
        if waiting.len() < TOGETHER_MAX {
            return None;
        }
        let transactions = std::mem::take(waiting);
        Some(Message::Recorded { view, transactions })
    }

    /// Nothing that waits is ever said.
    pub(super) fn forget(&mut self) {
        self.of_clients.clear();
    }

    /// True if a timer is to be set: some wait, and none runs.
    pub(super) fn wants_timer(&mut self) -> bool {
        let wants = !self.is_timed && !self.of_clients.is_empty();
        self.is_timed |= wants;
        wants
    }

    /// The timer has run out, in this view. Gives the message to each client that is still to be told.
    pub(super) fn say(&mut self, view: View) -> impl Iterator<Item = (ClientId, Message)> + use<> {
        self.is_timed = false;
        let is_said = view == self.view;
        let waiting = std::mem::take(&mut self.of_clients).into_iter();
        waiting
            .filter(move |(_, transactions)| is_said && !transactions.is_empty())
            .map(move |(client, transactions)| (client, Message::Recorded { view, transactions }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(client: u64, sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(client), sequence, attempt: 0 }
    }

    fn note(waiting: &mut Acknowledgements, id: TransactionId, view: u64) -> Option<Message> {
        waiting.note(id.client, id, View(view))
    }

    fn said(waiting: &mut Acknowledgements, view: u64) -> Vec<(ClientId, Message)> {
        waiting.say(View(view)).collect()
    }

    #[test]
    fn those_of_a_client_go_together_when_the_time_has_come() {
        let mut waiting = Acknowledgements::default();
        assert!(!waiting.wants_timer(), "nothing waits");
        for known in [id(1, 1), id(2, 1), id(1, 2)] {
            assert_eq!(note(&mut waiting, known, 3), None);
        }
        assert!(waiting.wants_timer());
        assert!(!waiting.wants_timer(), "it runs");
        let to = |client, transactions| (ClientId(client), Message::Recorded { view: View(3), transactions });
        let expected = [to(1, vec![id(1, 1), id(1, 2)]), to(2, vec![id(2, 1)])];
        assert_eq!(said(&mut waiting, 3), expected);
        assert_eq!((said(&mut waiting, 3), waiting.wants_timer()), (vec![], false), "each is said once");
    }

    #[test]
    fn many_do_not_wait() {
        let mut waiting = Acknowledgements::default();
        let mut full =
            (1..=TOGETHER_MAX as u64).filter_map(|sequence| note(&mut waiting, id(1, sequence), 1));
        let Some(Message::Recorded { view: View(1), transactions }) = full.next() else {
            panic!("there are enough for a message")
        };
        assert_eq!((transactions.len(), full.next()), (TOGETHER_MAX, None));
        assert_eq!(said(&mut waiting, 1), [], "a message says something");
    }

    #[test]
    fn what_waits_when_a_view_ends_is_never_said() {
        let mut waiting = Acknowledgements::default();
        assert_eq!(note(&mut waiting, id(1, 1), 1), None);
        assert_eq!(said(&mut waiting, 2), [], "the record of the new view may lack it");
        assert_eq!(note(&mut waiting, id(1, 2), 2), None);
        assert_eq!(note(&mut waiting, id(1, 3), 4), None);
        let only = Message::Recorded { view: View(4), transactions: vec![id(1, 3)] };
        assert_eq!(said(&mut waiting, 4), [(ClientId(1), only)]);
    }
}
