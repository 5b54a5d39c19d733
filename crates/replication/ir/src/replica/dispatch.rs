//! Which message of a view change means what.

use quorate_core::ReplicaIndex;

use super::{Host, Replica};
use crate::Operations;
use crate::message::Message;

impl<O: Operations> Replica<O> {
    /// A message of a view change, from another replica that takes part in it. Proposals and replies to them are none, and are
    /// passed over.
    pub fn on_view_message<H: Host<O>>(&mut self, from: ReplicaIndex, message: Message<O>, host: &mut H) {
        match message {
            Message::StartViewChange { view } => self.on_start_view_change(from, view, host),
            Message::DoViewChange {
                view,
                last_normal,
                lineage,
                part,
                page,
                outline,
                supplement,
                floor,
                complete,
                lives,
            } => self.on_do_view_change(
                from,
                view,
                last_normal,
                lineage,
                part,
                page,
                outline,
                supplement,
                floor,
                complete,
                &lives,
                host,
            ),
            Message::StartView { view, since, part, page, outline, supplement, floor, state, state_to } => {
                let state = state.map(|state| (state, state_to));
                self.on_start_view(view, since, part, page, outline, supplement, floor, state, host);
            }
            Message::StateWanted { view, series, after } => {
                self.on_state_wanted(from, view, series, after, host);
            }
            Message::StatePage { view, series, after, state, to } => {
                self.on_state_page(view, series, after, state, to, host);
            }
            Message::PartsMissing { view, series, missing } => {
                self.on_parts_missing(from, view, series, &missing, host);
            }
            Message::Arrived => self.on_arrived(from, host),
            Message::ViewQuery { nonce, life } => self.on_view_query(from, nonce, life, host),
            Message::ViewQueryReply { nonce, view, lost, life } => {
                self.on_view_query_reply(from, nonce, view, lost, life, host);
            }
            Message::ProposeInconsistent { .. }
            | Message::ProposeConsensus { .. }
            | Message::InconsistentReply { .. }
            | Message::ConsensusReply { .. }
            | Message::FinalizeInconsistent { .. }
            | Message::FinalizeConsensus { .. }
            | Message::Confirm { .. }
            | Message::HigherView { .. } => {}
        }
    }
}
