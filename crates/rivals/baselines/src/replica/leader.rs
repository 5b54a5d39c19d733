//! The state that only the leader knows, and loses with its leadership: nothing here is needed to tell what has been promised.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use quorate_core::log::Confirmation;
use quorate_core::{Address, Instant, ShardId, Timestamp, TransactionId, View};
use quorate_store::{PreparedSet, ReadLocks};

use super::coordinate::Coordinations;
use super::recovery::Inquiry;
use super::state::{Proposal, State};
use super::timestamps::TimestampSource;
use crate::message::Message;

/// The volatile state of a leader.
#[derive(Debug)]
pub(super) struct Leader {
    pub(super) view: View,
    /// PREPARED is appended and not yet stable. Holds what it holds all the same.
    pub(super) in_flight: PreparedSet,
    /// PREPARED is appended and not yet stable, and commits when it is: no other shard takes part. Every later entry comes
    /// after it, and is lost if it is lost. So it holds nothing, and is in the way only of what has read older versions.
    pub(super) committing: PreparedSet,
    /// When what is in flight or committing was proposed, and who is to hear of it.
    pub(super) in_flight_proposals: BTreeMap<TransactionId, (Proposal, Address)>,
    /// REFUSED is appended and not yet stable; the addresses that wait for that.
    pub(super) refusing: BTreeMap<TransactionId, BTreeSet<Address>>,
    /// DECIDED is appended and not yet stable.
    pub(super) deciding: BTreeSet<TransactionId>,
    /// The locks of transactions that are not prepared: they lose them with the view.
    pub(super) locks: ReadLocks,
    /// The messages that wait for the outcome of a transaction: they are looked at again then.
    pub(super) blocked: BTreeMap<TransactionId, Vec<(Address, Message)>>,
    /// The greatest timestamp that was prepared, committed or given away.
    pub(super) last: Timestamp,
    /// Answers that leave once it is known that this replica still led when they were made.
    pub(super) unconfirmed: VecDeque<(Confirmation, Address, Message)>,
    pub(super) inquiries: BTreeMap<TransactionId, Inquiry>,
    /// The shards that take part in what is remembered here, and their floors as far as they were heard.
    pub(super) neighbours: BTreeMap<ShardId, Timestamp>,
    /// Which replica of each of them is asked next: any of them will do.
    pub(super) floor_round: usize,
    pub(super) floor_due: Instant,
    /// FLOOR is appended and not yet stable, with this floor: a transaction that is prepared below it now would come after it.
    pub(super) next_floor: Option<Timestamp>,
    pub(super) source: TimestampSource,
    /// The transactions that this replica coordinates, if its group does that.
    pub(super) coordinations: Coordinations,
}

impl Leader {
    pub(super) fn new(view: View, state: &State) -> Self {
        let prepared = state.prepared.ids();
        let prepared = prepared.iter().filter_map(|id| state.prepared.entry(*id));
        let prepared = prepared.flat_map(|held| &held.transaction.participants);
        let ended = state.all_ended().flat_map(|(_, ended)| &ended.participants);
        Leader {
            view,
            in_flight: PreparedSet::new(),
            committing: PreparedSet::new(),
            in_flight_proposals: BTreeMap::new(),
            refusing: BTreeMap::new(),
            deciding: BTreeSet::new(),
            locks: ReadLocks::new(),
            blocked: BTreeMap::new(),
            last: state.last,
            unconfirmed: VecDeque::new(),
            inquiries: BTreeMap::new(),
            neighbours: prepared.chain(ended).map(|shard| (*shard, Timestamp::ZERO)).collect(),
            floor_round: 0,
            floor_due: Instant::START,
            next_floor: None,
            source: TimestampSource::default(),
            coordinations: Coordinations::default(),
        }
    }

    /// How many requests wait for something.
    pub(super) fn waiting(&self) -> usize {
        self.in_flight.len()
            + self.committing.len()
            + self.refusing.len()
            + self.deciding.len()
            + self.blocked.values().map(Vec::len).sum::<usize>()
            + self.unconfirmed.len()
            + self.inquiries.len()
            + self.source.waiting()
            + self.coordinations.len()
    }

    /// A transaction is not to be prepared any more.
    pub(super) fn unblock(&mut self, id: TransactionId) {
        let is_of_it =
            |message: &Message| matches!(message, Message::Prepare { transaction, .. } if *transaction == id);
        self.blocked.retain(|_, waiting| {
            waiting.retain(|(_, message)| !is_of_it(message));
            !waiting.is_empty()
        });
    }

    /// True if PREPARED is appended and not yet stable.
    pub(super) fn is_in_flight(&self, id: TransactionId) -> bool {
        self.in_flight_proposals.contains_key(&id)
    }

    /// Other shards take part in what is remembered here from now on.
    pub(super) fn note_neighbours(&mut self, participants: &[ShardId]) {
        for shard in participants {
            self.neighbours.entry(*shard).or_default();
        }
    }
}
