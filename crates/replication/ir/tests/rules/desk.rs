//! The surroundings of a replica: what it is given and asks for.

use super::*;

/// The words, facts and requests of a replica.
#[derive(Debug, Default)]
pub(super) struct Desk {
    pub(super) ledger: Ledger,
    pub(super) sent: Vec<(Address, Message<Times>)>,
    pub(super) facts: Vec<Fact<Times>>,
    pub(super) lost: Vec<usize>,
    pub(super) nonces: u64,
    pub(super) ignored: Vec<&'static str>,
    /// When it wants to be woken, in milliseconds from the step; none if not at all.
    pub(super) timer: Option<u64>,
    /// The views in which it has begun to serve, and for which it has fallen silent.
    pub(super) normal: Vec<View>,
    pub(super) changing: Vec<View>,
    /// True if it is no member any more.
    pub(super) is_retired: bool,
}

pub(super) fn member(index: ReplicaIndex) -> Address {
    Address::Replica(ReplicaId { shard: ShardId(1), index })
}

impl Host<Times> for Desk {
    type Protocol = Ledger;

    fn protocol(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    fn send(&mut self, to: Address, message: Message<Times>) {
        self.sent.push((to, message));
    }

    fn send_to_replica(&mut self, to: ReplicaIndex, message: Message<Times>) {
        self.sent.push((member(to), message));
    }

    fn persist(&mut self, fact: Fact<Times>) {
        self.facts.push(fact);
    }

    fn anchor(&mut self) {}

    fn set_view_change_timer(&mut self, after: Duration) {
        self.timer = Some(after.as_millis() as u64);
    }

    fn cancel_view_change_timer(&mut self) {
        self.timer = None;
    }

    fn on_installing(&mut self) {}

    fn on_normal(&mut self, view: View) {
        self.normal.push(view);
    }

    fn on_view_changing(&mut self, view: View) {
        self.changing.push(view);
    }

    fn on_retired(&mut self) {
        self.is_retired = true;
    }

    fn on_lost(&mut self, lost: usize) {
        self.lost.push(lost);
    }

    fn nonce(&mut self) -> u64 {
        self.nonces += 1;
        self.nonces
    }

    fn ignored(&mut self, reason: &'static str) {
        self.ignored.push(reason);
    }
}
