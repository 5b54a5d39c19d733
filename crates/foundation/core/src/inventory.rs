//! How a replica begins, by what its node finds of it when it starts.
//!
//! A replica may begin empty exactly once in its life, when its group is created. Later, beginning empty would mean to forget
//! votes that others rely on. Two things make that "once" durable, and both are on disk before the replica says its first word:
//! the *mark*, in the directory of the replica, and the *inventory* of the node, beside all replicas. A replica that has its mark
//! has been here; a replica that is in the inventory has to be.
//!
//! | inventory | mark | log | durability | the replica begins |
//! |---|---|---|---|---|
//! | no | no | – | any | empty, if its group is new, else by learning everything; leftovers of a log are from before its first word |
//! | – | its own | there | sync | from its log, which may still be empty |
//! | – | its own | gone | sync | by learning everything: an operator has removed the log, as is advised for one that is damaged |
//! | – | its own | – | memory | by learning everything |
//! | yes | no | – | memory | by learning everything: it has nothing to lose |
//! | yes | no | – | sync | not at all: [`Missing::Directory`] |
//! | – | of another data directory | – | any | not at all: [`Missing::Foreign`] |
//! | – | unreadable | – | any | not at all: [`Missing::Damaged`] |
//!
//! In the last three cases it begins by learning everything if an operator has said that what is missing does not come back.

/// The content of the mark of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// There is none.
    None,
    /// It was written by this node, on this data directory.
    Own {
        /// True if the replica had to learn everything when the mark was written, as its group was there before.
        rejoins: bool,
    },
    /// It was written on another data directory.
    Foreign,
    /// It cannot be read.
    Damaged,
}

/// The traces of a replica that a node finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// True if the inventory names the replica.
    pub is_in_inventory: bool,
    /// Its mark.
    pub mark: Mark,
    /// True if its log is there.
    pub has_log: bool,
    /// True if it keeps one: its keyspace survives restarts of all replicas.
    pub keeps_log: bool,
}

/// With what a replica begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Empty: its group is being created, or its log is.
    Empty,
    /// From its log. One without a record begins empty, or by learning everything if `rejoins`.
    Log {
        /// True if the replica had to learn everything when the log was created.
        rejoins: bool,
    },
    /// By learning everything from its group.
    Rejoin,
    /// Not at all, before an operator acts.
    Refused(Missing),
}

/// Why a replica does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Its directory, or the mark in it, is gone.
    Directory,
    /// The directory in its place belongs to another data directory.
    Foreign,
    /// Its mark cannot be read.
    Damaged,
}

/// How a replica begins. `group_is_new` is known of one that is neither in the inventory nor has a mark; `given_up` is true if an
/// operator has said that what is missing does not come back.
pub fn decide_begin(found: Found, group_is_new: bool, given_up: bool) -> Begin {
    let missing = match found.mark {
        Mark::Own { rejoins } if found.keeps_log && found.has_log => return Begin::Log { rejoins },
        Mark::Own { .. } => return Begin::Rejoin,
        Mark::None if found.is_in_inventory && found.keeps_log => Missing::Directory,
        Mark::None if found.is_in_inventory || !group_is_new => return Begin::Rejoin,
        Mark::None => return Begin::Empty,
        Mark::Foreign => Missing::Foreign,
        Mark::Damaged => Missing::Damaged,
    };
    if given_up { Begin::Rejoin } else { Begin::Refused(missing) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Mark = Mark::None;
    const OWN: Mark = Mark::Own { rejoins: false };

    #[test]
    fn a_replica_begins_empty_only_as_part_of_a_new_group_that_the_inventory_does_not_know() {
        use Begin::{Empty, Log, Refused, Rejoin};
        #[rustfmt::skip]
        let table = [
            // inventory, mark, log, keeps one, group is new, given up
            (false, NONE, false, true, true, false, Empty),
            (false, NONE, true, true, true, false, Empty),
            (false, NONE, false, false, true, false, Empty),
            (false, NONE, false, true, false, false, Rejoin),
            (true, NONE, false, true, true, false, Refused(Missing::Directory)),
            (true, NONE, true, true, true, false, Refused(Missing::Directory)),
            (true, NONE, true, true, true, true, Rejoin),
            (true, NONE, false, false, true, false, Rejoin),
            (true, OWN, true, true, true, false, Log { rejoins: false }),
            (true, Mark::Own { rejoins: true }, true, true, true, false, Log { rejoins: true }),
            (false, OWN, true, true, true, false, Log { rejoins: false }),
            (true, OWN, false, true, true, false, Rejoin),
            (true, OWN, false, false, true, false, Rejoin),
            (true, Mark::Foreign, true, true, true, false, Refused(Missing::Foreign)),
            (false, Mark::Foreign, true, true, true, false, Refused(Missing::Foreign)),
            (true, Mark::Foreign, true, true, true, true, Rejoin),
            (true, Mark::Damaged, true, true, true, false, Refused(Missing::Damaged)),
            (true, Mark::Damaged, true, true, true, true, Rejoin),
        ];
        for (is_in_inventory, mark, has_log, keeps_log, group_is_new, given_up, expected) in table {
            let found = Found { is_in_inventory, mark, has_log, keeps_log };
            assert_eq!(
                decide_begin(found, group_is_new, given_up),
                expected,
                "{found:?} {group_is_new} {given_up}"
            );
        }
    }
}
