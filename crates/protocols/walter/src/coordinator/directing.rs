//! Which replica of the local site a transaction is directed to while leaders change.

use quorate_coordinator::soon;
use quorate_core::{Context, Instant, ReplicaId, ReplicaIndex, TransactionId};

use super::{Coordinator, Open, Out};
use crate::reasons;

/// So often a transaction follows from one replica to the one that it names, before it waits: while leaders change, replicas may name each other.
const REDIRECTS_MAX: u32 = 3;

/// The replica of the local site that was asked for a transaction last.
#[derive(Debug, Default)]
pub(super) struct Directed {
    /// The replica.
    pub(super) to: ReplicaIndex,
    /// How many replicas have named another one since it was waited for the last time.
    redirects: u32,
    /// When it is asked again because it is about to lead; none if that is not known.
    pub(super) again_at: Option<Instant>,
}

impl Directed {
    /// It is time to ask again: the names that were told before are out of date.
    pub(super) fn anew(&mut self) {
        (self.redirects, self.again_at) = (0, None);
    }
}

impl Coordinator {
    /// A replica that was asked does not lead, and names the one that does.
    pub(super) fn on_not_leading(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        leader: ReplicaIndex,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let is_news = self.leaders.redirect(from, leader);
        if is_news && self.ask_milestones_again(id, context, outbox) && !self.transactions.contains_key(&id) {
            return;
        }
        let is_soon = self.leaders.is_soon(from);
        let is_asked = |open: &&mut Open| open.home == from.shard && open.directed.to == from.index;
        match self.transactions.get_mut(&id).filter(is_asked) {
            Some(open) if is_soon || open.directed.redirects == REDIRECTS_MAX => {
                let at = context.now + soon(self.config.resend_timeout);
                open.directed.again_at = Some(at);
                self.transactions.wake_at(id, at);
            }
            // The client may have heard it before, from an answer to another transaction: this one is sent on as well.
            Some(open) => {
                open.directed.redirects += 1;
                let redirects = open.directed.redirects;
                assert!(redirects <= REDIRECTS_MAX, "{id} was sent on {redirects} times without a pause");
                self.ask_home_again(id, context, outbox);
            }
            // Another site that was asked for copies.
            None if is_news => self.send_again(id, context, outbox),
            None => outbox.ignored(reasons::KNOWN),
        }
    }
}
