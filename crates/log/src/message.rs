//! What replicas say to each other.

use quorate_core::View;

use crate::entries::{Entry, Position, Shape};

/// What one replica says to another of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<P> {
    /// The leader of the view has appended this. Without entries it says that it is alive.
    Prepare {
        /// The view.
        view: View,
        /// The entries follow this position.
        after: Position,
        /// What was appended, in order.
        entries: Vec<Entry<P>>,
        /// Everything up to here is stable.
        stable: Position,
        /// Counts what the leader sends, so that an answer tells how old the leader's word is that it answers.
        beat: u64,
    },
    /// This replica holds the leader's log up to here, durably.
    PrepareOk {
        /// The view.
        view: View,
        /// The last position.
        upto: Position,
        /// The greatest beat that it has heard.
        beat: u64,
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
    /// To the leader of the next view: what this replica holds. From now on it takes nothing from earlier leaders.
    DoViewChange {
        /// The next view.
        view: View,
        /// The last view in which it took part.
        last_normal: View,
        /// What its log looks like.
        shape: Shape,
        /// Everything up to here is stable.
        stable: Position,
    },
    /// The view has begun, with a log of this shape. Who hears it fetches what it lacks, and takes part.
    StartView {
        /// The view.
        view: View,
        /// What the view began with.
        shape: Shape,
        /// Everything up to here is stable.
        stable: Position,
    },
    /// Whoever is asked gives entries of its log, if it knows of this view.
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
    /// This replica is in an earlier view than the receiver, or does not know what the present one began with.
    Join {
        /// The greatest view that it has heard of.
        view: View,
    },
}
