//! The classes of one-round transactions (section 2).

/// How much the participants of a transaction have to agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// It changes nothing anywhere: a snapshot of the shards that take part in it.
    ReadOnly,
    /// Every participant executes its part whatever happens at the others, and would refuse it if any of them would. All that one
    /// shard alone takes part in is of this class, too.
    Independent,
    /// It is executed if all participants vote for it, and nowhere if one votes against it.
    Coordinated,
}
