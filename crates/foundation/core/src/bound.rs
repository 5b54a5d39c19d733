//! Numbers that others name: how far ahead of what a replica knows they may lie.
//!
//! Views, epochs, lives and positions only ever grow, and a replica that was away has to catch up with what the others have
//! come to. So it takes such numbers over from messages. One number near the end of its range would be the last: nothing could
//! follow it, on disk, at every replica that has heard it. Hence no number from outside is taken over without a bound, and
//! what has no successor is refused where it would be taken.
//!
//! | number | grows with | at most ahead | why so many |
//! |---|---|---|---|
//! | view | each view change, about one in a second at worst | 2²⁴ of an epoch's 2³², less as they are used up | half a year of one failing view a second |
//! | epoch | each change of a group's members, seconds at best | 2¹⁶ of 2³² | a change every minute for six weeks |
//! | life | each loss of a disk, or start | 2²⁰ of 2⁶⁴ | a start every second for twelve days |
//! | ballot | each election of a backup coordinator of one transaction, 2⁸ a round | 2²⁴ of 2³² | 65,536 rounds of one transaction |
//! | position | each entry of a log | none but an end at 2⁶⁰ | a state stands for any number of entries; a million entries a second reach that in 36,000 years |
//!
//! *Climbing.* A hostile or broken replica may send the greatest number that is believed again and again. Views come closer to
//! the half of their range by less than a hundredth of what is left each time, so that it takes thousands of messages, and from there on they grow by
//! [`VIEWS_AHEAD_MIN`] at a time, which takes 33 million more. The last [`VIEWS_RESERVED`] views of an epoch are never taken over, only entered by a
//! replica itself, one after the other: [`View::next`] has a value wherever somebody else has driven it. And with the next
//! change of the members views begin anew. Clients cannot do any of that: no view, epoch or life is taken over from them.

use crate::id::{Ballot, Epoch, View};
use crate::log::Position;

/// So many views every replica believes, however few are left: more than two rounds of the leaders of the largest group, twice.
pub const VIEWS_AHEAD_MIN: u64 = 64;

/// So many views at the end of an epoch are not taken over from others: twelve days of one a second.
pub const VIEWS_RESERVED: u64 = 1 << 20;

/// From this view on of an epoch few are believed at once.
const VIEWS_SPARED: u64 = 1 << 31;

/// Of the views that are left up to there, at most one of so many is believed.
const VIEWS_SHARE: u64 = 128;

/// So many epochs ahead of the present one are believed.
const EPOCHS_AHEAD_MAX: u32 = 1 << 16;

/// The last epochs are never taken over.
const EPOCH_MAX: u32 = u32::MAX - EPOCHS_AHEAD_MAX;

/// So many lives ahead of those that are known are believed.
const LIVES_AHEAD_MAX: u64 = 1 << 20;

/// And none above this.
const LIFE_MAX: u64 = 1 << 62;

/// So many ballots ahead of those that are known are believed.
const BALLOTS_AHEAD_MAX: u32 = 1 << 24;

/// And none above this: there is always one to outbid it.
const BALLOT_MAX: u32 = u32::MAX - BALLOTS_AHEAD_MAX;

/// No log is longer.
const POSITION_MAX: u64 = 1 << 60;

/// Why a number is not taken over: said where a message is dropped for it.
pub mod reasons {
    /// [`View::may_go_to`](crate::View::may_go_to) says no.
    pub const VIEW: &str = "view too far ahead";
    /// [`View::next`](crate::View::next) has none.
    pub const NO_VIEW_LEFT: &str = "no view of the epoch is left";
    /// [`Epoch::may_go_to`](crate::Epoch::may_go_to) says no.
    pub const EPOCH: &str = "epoch too far ahead";
    /// [`Ballot::may_follow`](crate::Ballot::may_follow) says no.
    pub const BALLOT: &str = "ballot too far ahead";
    /// [`is_believable_life`](super::is_believable_life) says no.
    pub const LIFE: &str = "life too far ahead";
    /// [`Position::is_believable`](crate::log::Position::is_believable) says no.
    pub const POSITION: &str = "position beyond any log";
}

impl View {
    /// The greatest number of a view within its epoch that is taken over from others.
    const NAMED_MAX: u64 = u32::MAX as u64 - VIEWS_RESERVED;

    /// How far ahead of this view another of the same epoch may lie.
    const fn ahead_max(within_epoch: u64) -> u64 {
        let share = VIEWS_SPARED.saturating_sub(within_epoch) / VIEWS_SHARE;
        if share > VIEWS_AHEAD_MIN { share } else { VIEWS_AHEAD_MIN }
    }

    /// True if a replica that is in this view, of a group whose members are as they are since an epoch, may go on to a view
    /// because another replica names it. Views that are not ahead may always be named: nothing is taken over.
    pub const fn may_go_to(self, named: View, since: Epoch) -> bool {
        if named.0 <= self.0 {
            return true;
        }
        let from = if self.epoch().0 == named.epoch().0 { self.within_epoch() } else { 0 };
        let to = named.within_epoch();
        named.epoch().0 <= since.0 && to <= Self::NAMED_MAX && to - from <= Self::ahead_max(from)
    }

    /// True if a replica may be in this view whose host knows of an epoch: what its records say if no number was ever taken
    /// over that should not have been. Its group may be a little ahead of the host.
    pub const fn is_sound(self, known: Epoch) -> bool {
        known.may_go_to(self.epoch()) && self.next().is_some()
    }
}

impl Epoch {
    /// True if a replica in this epoch may go on to another that a replica of its group names.
    pub const fn may_go_to(self, named: Epoch) -> bool {
        named.0 <= self.0 || (named.0 - self.0 <= EPOCHS_AHEAD_MAX && named.0 <= EPOCH_MAX)
    }
}

impl Ballot {
    /// True if a replica that knows of this ballot of a transaction may take over another that a replica names.
    pub const fn may_follow(self, named: Ballot) -> bool {
        named.0 <= self.0 || (named.0 - self.0 <= BALLOTS_AHEAD_MAX && named.0 <= BALLOT_MAX)
    }
}

impl Position {
    /// True if a log may come to be so long.
    pub const fn is_believable(self) -> bool {
        self.0 <= POSITION_MAX
    }
}

/// True if a life may be noted of which another replica tells, if this one is known.
pub const fn is_believable_life(known: u64, named: u64) -> bool {
    named <= known || (named - known <= LIVES_AHEAD_MAX && named <= LIFE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const E0: Epoch = Epoch::FIRST;
    const E1: Epoch = Epoch(1);

    #[test]
    fn views_are_believed_up_to_a_bound() {
        let first = View::first_of(E1).0;
        let table = [
            (0, 0, E0, true),
            (7, 3, E0, true),
            (0, 1 << 24, E0, true),
            (0, (1 << 24) + 1, E0, false),
            (5, (1 << 24) + 4, E0, true),
            (0, 1 << 31, E0, false),
            (0, u64::MAX, E0, false),
            (0, i64::MAX as u64, E0, false),
            (0, u64::from(u32::MAX), E0, false),
            // Of an epoch that has begun, counted from its first.
            (3, first, E1, true),
            (3, first + (1 << 24), E1, true),
            (3, first + (1 << 24) + 1, E1, false),
            (3, first, E0, false),
            // Where few are left.
            (1 << 31, (1 << 31) + 64, E0, true),
            (1 << 31, (1 << 31) + 65, E0, false),
            (View::NAMED_MAX - 1, View::NAMED_MAX, E0, true),
            (View::NAMED_MAX, View::NAMED_MAX + 1, E0, false),
            (u64::MAX, u64::MAX, E0, true),
        ];
        for (own, named, since, expected) in table {
            assert_eq!(View(own).may_go_to(View(named), since), expected, "{own} to {named} of {since}");
        }
    }

    #[test]
    fn a_hostile_replica_climbs_slowly_and_never_takes_the_last_views() {
        let mut view = View(0);
        let mut messages = 0_u64;
        while view.within_epoch() < VIEWS_SPARED - 2 * VIEWS_SHARE * VIEWS_AHEAD_MIN {
            view = View(view.0 + View::ahead_max(view.0));
            messages += 1;
        }
        assert!(messages > 1_000, "{messages} messages");
        let left = (View::NAMED_MAX - VIEWS_SPARED) / VIEWS_AHEAD_MIN;
        assert!(left > 33_000_000, "{left} messages more");
        let last = View(View::NAMED_MAX);
        assert!(last.next().is_some_and(|next| !last.may_go_to(next, E0)));
        assert_eq!(View(u64::from(u32::MAX)).next(), None, "the next would be of another epoch");
        assert_eq!(View(u64::MAX).next(), None);
    }

    #[test]
    fn epochs_ballots_lives_and_positions_are_believed_up_to_a_bound() {
        let epochs = [(0, 0, true), (5, 3, true), (0, 1 << 16, true), (0, (1 << 16) + 1, false)];
        for (known, named, expected) in epochs.into_iter().chain([(u32::MAX - 2, u32::MAX, false)]) {
            assert_eq!(Epoch(known).may_go_to(Epoch(named)), expected, "{known} to {named}");
        }
        let ballots = [(0, 0, true), (9, 2, true), (0, 1 << 24, true), (0, (1 << 24) + 1, false)];
        for (known, named, expected) in ballots.into_iter().chain([(u32::MAX - 2, u32::MAX, false)]) {
            assert_eq!(Ballot(known).may_follow(Ballot(named)), expected, "{known} to {named}");
        }
        let lives = [(0, 0, true), (9, 2, true), (0, 1 << 20, true), (0, (1 << 20) + 1, false)];
        for (known, named, expected) in lives.into_iter().chain([(u64::MAX - 1, u64::MAX, false)]) {
            assert_eq!(is_believable_life(known, named), expected, "{known} to {named}");
        }
        for number in [u64::MAX, i64::MAX as u64] {
            assert!(!Position(number).is_believable());
        }
        assert!(Position(1 << 60).is_believable());
    }

    #[test]
    fn records_are_sound_if_a_view_follows_theirs() {
        assert!(View(7).is_sound(E0) && View::first_of(E1).is_sound(E0) && View(7).is_sound(E1));
        assert!(!View::first_of(Epoch(u32::MAX)).is_sound(E1), "of an epoch that cannot have come");
        assert!(!View(u64::MAX).is_sound(E0) && !View(u64::from(u32::MAX)).is_sound(E0));
    }
}
