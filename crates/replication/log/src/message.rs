//! The messages between replicas.

use std::collections::BTreeMap;

use quorate_core::log::Position;
use quorate_core::{ClockTime, ReplicaIndex, View};

use crate::entries::{Entry, Shape};
use crate::replica::Beginning;
use crate::{Membership, Payload};

/// The log of a replica, as it would bring it into a view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The last view in which it took part.
    pub last_normal: View,
    /// The shape of its log.
    pub shape: Shape,
    /// Everything up to here is stable.
    pub stable: Position,
    /// The lives of replicas that have lost their disks, as far as it knows; its own among them.
    pub lives: BTreeMap<ReplicaIndex, u64>,
}

/// A message from one replica to another of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<P: Payload> {
    /// The leader of the view has appended this. Without entries it says that it is alive.
    Prepare {
        /// The view.
        view: View,
        /// The entries follow this position.
        after: Position,
        /// The appended entries, in order.
        entries: Vec<Entry<P>>,
        /// Everything up to here is stable.
        stable: Position,
        /// Counts what the leader sends, so that an answer tells how old the leader's word is that it answers.
        beat: u64,
        /// The reading of a majority of clocks that agree, as far as the leader knows; with beats only.
        clock: Option<ClockTime>,
    },
    /// This replica holds the leader's log up to here, durably.
    PrepareOk {
        /// The view.
        view: View,
        /// The last position.
        upto: Position,
        /// The greatest beat that it has heard.
        beat: u64,
        /// The reading of its clock; none if the replica is of an earlier version.
        clock: Option<ClockTime>,
    },
    /// The leader is silent: let us go on to this view. Nobody goes on before f + 1 want to, so that one replica that hears
    /// nothing does not disturb the others.
    StartViewChange {
        /// The next view.
        view: View,
        /// True if the sender has gone on, and cannot go back. It takes nothing from earlier leaders any more, so the
        /// others have to follow, even if their leader is well.
        entered: bool,
    },
    /// To the leader of the next view: the log that this replica holds. From now on it takes nothing from earlier leaders.
    DoViewChange {
        /// The next view.
        view: View,
        /// The log that the sender holds.
        offer: Offer,
        /// The reading of its clock; none if the replica is of an earlier version.
        clock: Option<ClockTime>,
    },
    /// The view has begun, with a log of this shape. A replica that hears it fetches the entries that it lacks, and takes part.
    StartView {
        /// The view.
        view: View,
        /// The shape of the log that the view began with.
        shape: Shape,
        /// Everything up to here is stable.
        stable: Position,
        /// With what its epoch began.
        beginning: Beginning,
    },
    /// The receiver is to give entries of its log, if it knows of this view.
    Fetch {
        /// The view for which they are wanted.
        view: View,
        /// Those after this position,
        after: Position,
        /// and up to this.
        upto: Position,
    },
    /// The answer: some of these entries, the first at least.
    Fetched {
        /// The view for which they were wanted.
        view: View,
        /// They follow this position.
        after: Position,
        /// The entries.
        entries: Vec<Entry<P>>,
    },
    /// The other answer: the wanted entries are forgotten. This is a page of what all entries up to `base` have led to.
    FromState {
        /// The view for which it is wanted.
        view: View,
        /// The position.
        base: Position,
        /// In which view the entry there was appended.
        base_view: View,
        /// The number of the page, from zero.
        page: u64,
        /// The page; none if there are no more.
        state: Option<P::Page>,
    },
    /// The next page of such a state, or the last once more.
    FetchState {
        /// The view for which it is wanted.
        view: View,
        /// The position.
        base: Position,
        /// The number of the page.
        page: u64,
    },
    /// This replica has lost its disk, and asks what is known of its earlier lives.
    WhichLife {
        /// Tells this question from others.
        nonce: u64,
    },
    /// The answer.
    KnownLife {
        /// The question's.
        nonce: u64,
        /// The latest life of who asks.
        life: u64,
    },
    /// Messages of this replica in earlier lives count no more.
    NewLife {
        /// This life.
        life: u64,
    },
    /// That is noted, durably.
    LifeNoted {
        /// The life.
        life: u64,
        /// In which view the sender is.
        view: View,
    },
    /// An epoch has begun: who its members are, and all entries before it. A replica that hears it, of either group, goes on
    /// to it once it has those.
    EpochBegun {
        /// Its members.
        membership: Membership,
        /// The shape of the log when the epoch before had ended.
        shape: Shape,
    },
    /// The sender has gone on, durably, to the epoch under which this is said.
    EpochStarted,
    /// This replica is in an earlier view than the receiver, or does not know what the present one began with.
    Join {
        /// The greatest view that it has heard of.
        view: View,
    },
}

impl<P: Payload> Message<P> {
    /// True if it is given to who has asked for it, also by who is no member any more.
    pub(crate) fn is_given(&self) -> bool {
        matches!(self, Message::Fetched { .. } | Message::FromState { .. })
    }

    /// True if it is said by who has lost its disk, or to it.
    pub(crate) fn is_of_lives(&self) -> bool {
        matches!(self, Message::WhichLife { .. } | Message::KnownLife { .. } | Message::NewLife { .. })
    }

    /// The view that it is about, if it is about one.
    pub fn view(&self) -> Option<View> {
        match self {
            Message::Prepare { view, .. }
            | Message::PrepareOk { view, .. }
            | Message::StartViewChange { view, .. }
            | Message::DoViewChange { view, .. }
            | Message::StartView { view, .. }
            | Message::Fetch { view, .. }
            | Message::Fetched { view, .. }
            | Message::FromState { view, .. }
            | Message::FetchState { view, .. }
            | Message::LifeNoted { view, .. }
            | Message::Join { view } => Some(*view),
            Message::WhichLife { .. }
            | Message::KnownLife { .. }
            | Message::NewLife { .. }
            | Message::EpochBegun { .. }
            | Message::EpochStarted => None,
        }
    }
}
