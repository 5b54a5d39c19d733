//! The events of a member.

use quorate_core::hosted::News;
use quorate_core::{Epoch, View};

/// An event that a member tells its host of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberEvent {
    /// It serves in this view.
    Normal {
        /// The view.
        view: View,
    },
    /// It is silent until this view, or a later one, has started.
    ViewChanging {
        /// The view.
        view: View,
    },
    /// A sender speaks under a later membership: the host of this replica should learn of it.
    Outdated {
        /// That membership.
        epoch: Epoch,
    },
    /// It is no member of its group any more, and nobody needs it: its host may delete it.
    Retired,
    /// So many replicas of the group have lost their records that the group cannot recover by itself: an operator must
    /// bring back the disk of one of them.
    Lost {
        /// How many have lost their records, this one included.
        lost: usize,
    },
}

impl MemberEvent {
    /// The news that it is to a host.
    pub fn news(&self) -> News {
        match *self {
            MemberEvent::Normal { view } => News::Normal(view),
            MemberEvent::ViewChanging { view } => News::ViewChanging(view),
            MemberEvent::Outdated { epoch } => News::Outdated(epoch),
            MemberEvent::Retired => News::Retired,
            MemberEvent::Lost { lost } => News::Lost(lost),
        }
    }
}
