//! Operations in normal views (TAPIR paper, section 3.2.1).

use quorate_core::{Address, Ballot, TransactionId, View};

use super::{Fact, Host, Replica, Status, Upcalls};
use crate::message::{Message, OperationId};
use crate::record::{ConsensusEntry, State};
use crate::{Mistake, Operations};

/// A replica's answer to a consensus operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<V> {
    /// Its verdict.
    pub verdict: V,
    /// True if the verdict is final.
    pub finalized: bool,
    /// True if the operation has run just now; else this repeats what was found earlier.
    pub is_new: bool,
}

impl<O: Operations> Replica<O> {
    /// Records an inconsistent operation and says so.
    pub fn on_propose_inconsistent<H: Host<O>>(
        &mut self,
        from: Address,
        id: OperationId,
        operation: O::Inconsistent,
        host: &mut H,
    ) {
        if self.record_inconsistent(id, operation, host) {
            host.send(from, Message::InconsistentReply { id, view: self.view });
        }
    }

    /// Records an inconsistent operation. False while this replica is silent; else its proposer is to be told, after what this persists, that it is in the record in the present
    /// view.
    pub fn record_inconsistent<H: Host<O>>(
        &mut self,
        id: OperationId,
        operation: O::Inconsistent,
        host: &mut H,
    ) -> bool {
        if !self.is_answering() {
            return false;
        }
        let transaction = id.transaction;
        let timestamp = O::inconsistent_timestamp(&operation);
        // Where nothing is held there is nothing to let go of, and an operation that leaves nothing behind either does nothing.
        let holds = || self.record.consensus_of(transaction).any(|known| O::is_favourable(&known.verdict));
        let does_nothing = |operation: &O::Inconsistent| {
            !O::leaves_state(operation) && (!holds() || self.makes(Mistake::LetsGoOnArrival))
        };
        let runs = |operation: &O::Inconsistent| {
            self.executes_on_arrival() || O::runs_on_arrival(operation) || does_nothing(operation)
        };
        match self.record.inconsistent(transaction) {
            // It was recorded when the group was larger, and waited for a FINALIZE that a smaller one does without.
            Some(known) if !known.executed && runs(&known.operation) => {
                host.protocol().execute_inconsistent(transaction, &known.operation);
                host.persist(Fact::InconsistentExecuted(transaction));
                self.record.mark_executed(transaction);
            }
            Some(_) => {}
            // An operation that ended below the floor is a fact that everybody knows; nothing of it is left to be recorded.
            None if self.is_settled(transaction, timestamp) => {}
            None => {
                let executed = runs(&operation);
                if executed {
                    host.protocol().execute_inconsistent(transaction, &operation);
                }
                host.persist(self.recorded(transaction, &operation, executed));
                self.record.record_inconsistent(transaction, operation, executed);
            }
        }
        assert!(
            self.record.inconsistent(transaction).is_some() || timestamp < self.floor,
            "{transaction} at {timestamp} is said to be recorded, and is not, above the floor {}",
            self.floor
        );
        true
    }

    /// The fact that an inconsistent operation is recorded: without its contents if those stand in the log with a verdict, which a log
    /// that begins later would lack.
    pub(super) fn recorded(
        &self,
        transaction: TransactionId,
        operation: &O::Inconsistent,
        executed: bool,
    ) -> Fact<O> {
        let as_proposed = |known: &ConsensusEntry<O>| {
            let last = O::as_proposed(operation, &known.operation)?;
            Some(Fact::ProposalTookEffect {
                id: OperationId { transaction, number: known.number },
                last,
                executed,
            })
        };
        let proposed = Some(self.record.consensus_of(transaction))
            .filter(|_| !self.record.is_older(transaction))
            .and_then(|mut all| all.find_map(as_proposed));
        proposed.unwrap_or_else(|| {
            let operation = operation.clone();
            Fact::InconsistentRecorded { transaction, operation, executed }
        })
    }

    /// Runs an inconsistent operation that f + 1 replicas hold, and confirms, also if it had run before (T8). One that has
    /// not arrived yet cannot have run: silence makes the proposer send both again.
    pub fn on_finalize_inconsistent<H: Host<O>>(&mut self, from: Address, id: OperationId, host: &mut H) {
        if !self.is_answering() {
            return;
        }
        let Some(known) = self.record.inconsistent(id.transaction) else { return };
        if !known.executed {
            host.protocol().execute_inconsistent(id.transaction, &known.operation);
            host.persist(Fact::InconsistentExecuted(id.transaction));
            self.record.mark_executed(id.transaction);
        }
        assert!(self.record.is_executed(id.transaction), "{id} is confirmed and has not run");
        host.send(from, Message::Confirm { id, view: self.view, verdict: None, finalized: false });
    }

    /// Gives this replica's verdict, the same one whenever it is asked again.
    pub fn on_propose_consensus<H: Host<O>>(
        &mut self,
        from: Address,
        id: OperationId,
        operation: O::Consensus,
        host: &mut H,
    ) {
        if let Some(Answer { verdict, finalized, .. }) = self.answer_consensus(id, operation, host) {
            host.send(from, Message::ConsensusReply { id, view: self.view, verdict, finalized });
        }
    }

    /// The answer of this replica to a consensus operation, now recorded; none while it is silent. For a protocol whose
    /// replies carry more than the verdict, which sends them itself, after what this persists.
    pub fn answer_consensus<H: Host<O>>(
        &mut self,
        id: OperationId,
        operation: O::Consensus,
        host: &mut H,
    ) -> Option<Answer<O::Verdict>> {
        if !self.is_answering() {
            return None;
        }
        if let Some(settled) = self.record.inconsistent(id.transaction)
            && let Some(verdict) = host.protocol().verdict_after(id, &operation, settled)
        {
            return Some(Answer { verdict, finalized: true, is_new: false });
        }
        if let Some(known) = self.record.consensus(id) {
            let (verdict, finalized) = (known.verdict.clone(), known.state.is_finalized());
            return Some(Answer { verdict, finalized, is_new: false });
        }
        let verdict = host.protocol().execute_consensus(id, &operation);
        host.persist(Fact::ConsensusRecorded { id, operation: operation.clone(), verdict: verdict.clone() });
        let entry = ConsensusEntry {
            number: id.number,
            operation,
            verdict: verdict.clone(),
            state: State::Tentative,
        };
        self.record.record_consensus(id.transaction, entry);
        let recorded = self.record.consensus(id).map(|known| &known.verdict);
        assert!(recorded == Some(&verdict), "{verdict:?} is answered to {id}, and {recorded:?} is recorded");
        Some(Answer { verdict, finalized: false, is_new: true })
    }

    /// Makes a verdict final if it was decided in this view and nothing of an equal or greater ballot stands against
    /// it; tells in any case what the record holds (T5, T8).
    pub fn on_finalize_consensus<H: Host<O>>(
        &mut self,
        from: Address,
        id: OperationId,
        verdict: O::Verdict,
        view: View,
        ballot: Ballot,
        host: &mut H,
    ) {
        if !self.is_answering() {
            return;
        }
        let known = self.record.consensus(id);
        if self.makes(Mistake::ConfirmsOnce) && known.is_none_or(|known| known.state.is_finalized()) {
            return;
        }
        if self.makes(Mistake::FinalizeOverwrites) {
            return self.overwrite_consensus(from, id, verdict, view, ballot, host);
        }
        if view == self.view
            && let Some(known) = known
        {
            let accepts = match known.state {
                State::Tentative => true,
                // An operation that a view change or a coordinator has settled is settled alike for a later coordinator that has seen
                // it; only a verdict that never reached f + 1 replicas can be overruled.
                State::Finalized(earlier) => earlier < ballot && known.verdict != verdict,
            };
            // Late news of an operation that ended below the floor: only a refusal of a late proposal is recorded here. Nor
            // may anything become favourable where this replica refuses: it has told already what can take effect there.
            let timestamp = O::consensus_timestamp(&known.operation);
            let is_told = timestamp < host.protocol().bounds().refusal && !O::is_favourable(&known.verdict);
            let is_late =
                O::is_favourable(&verdict) && (is_told || self.is_settled(id.transaction, timestamp));
            if accepts && !is_late {
                host.protocol().finalize_consensus(id, &known.operation, &verdict, false);
                host.persist(Fact::ConsensusFinalized { id, verdict: verdict.clone(), ballot });
                self.record.finalize_consensus(id, verdict, ballot);
                let state = self.record.consensus(id).map(|known| known.state);
                assert!(
                    state == Some(State::Finalized(ballot)),
                    "{id} was made final by {ballot:?} and is {state:?}"
                );
            }
        }
        let implied = || {
            self.record
                .inconsistent(id.transaction)
                .map(|known| H::Protocol::implied_verdict(&known.operation))
        };
        let (verdict, finalized) = match self.record.consensus(id) {
            Some(known) => (Some(known.verdict.clone()), known.state.is_finalized()),
            // The outcome is a fact, and so is what it implies.
            None => (implied(), true),
        };
        let finalized = finalized && verdict.is_some();
        host.send(from, Message::Confirm { id, view: self.view, verdict, finalized });
    }

    /// [`Mistake::FinalizeOverwrites`]: whatever a proposer says last stands, and it is told what it wants to hear.
    fn overwrite_consensus<H: Host<O>>(
        &mut self,
        from: Address,
        id: OperationId,
        verdict: O::Verdict,
        view: View,
        ballot: Ballot,
        host: &mut H,
    ) {
        if let Some(known) = self.record.consensus(id) {
            host.protocol().finalize_consensus(id, &known.operation, &verdict, false);
            host.persist(Fact::ConsensusFinalized { id, verdict: verdict.clone(), ballot });
            self.record.finalize_consensus(id, verdict.clone(), ballot);
        }
        host.send(from, Message::Confirm { id, view, verdict: Some(verdict), finalized: true });
    }

    /// A proposer has seen a greater view than this replica's. A replica is believed; a client is taken as a hint to
    /// ask the others, because a hostile one could name any number.
    pub fn on_higher_view<H: Host<O>>(&mut self, from: Address, view: View, host: &mut H) {
        if let Address::Replica(replica) = from
            && view == self.view
        {
            // The leader of the view has started it.
            return self.hear_again(replica.index, host);
        }
        if view <= self.view || self.status == Status::Retired || !self.believes(view, host) {
            return;
        }
        match from {
            // The others are there already. A replica that was down needs more than that view's base, which it would
            // get by joining: it begins the next, and comes back current.
            Address::Replica(_) if self.status == Status::ViewChanging && self.restarted => {
                self.enter_useful(self.useful_after(view), host);
            }
            Address::Replica(_) if self.status != Status::Recovering => {
                self.enter_useful(self.useful(view), host);
            }
            Address::Replica(_) => {}
            Address::Client(_) => {
                for other in self.others() {
                    host.send_to_replica(other, Message::StartViewChange { view: self.view });
                }
            }
        }
    }
}
