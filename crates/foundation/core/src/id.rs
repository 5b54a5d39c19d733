//! One newtype for every id, and who can send or receive a message.

use std::fmt;

macro_rules! id {
    ($(#[$meta:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{self}")
            }
        }
    };
}

id!(
    /// A site: a region or data centre, by its position in the topology.
    SiteId(u16),
    "site"
);
id!(
    /// A node: one server process, by its position in the topology.
    NodeId(u16),
    "node"
);
id!(
    /// A keyspace, unique in its cluster and never used again. Zero is the built-in catalogue.
    KeyspaceId(u32),
    "keyspace"
);
id!(
    /// A shard: one replication group of one keyspace. Unique in the cluster, over all keyspaces, and never used again.
    ShardId(u32),
    "shard"
);
id!(
    /// The name of a replica in its group, for as long as the group exists: as long as its replicas are those that it was
    /// created with, they are counted from zero.
    ReplicaIndex(u8),
    "r"
);
/// A view of a replication group: replicas that answer in the same view hold the same base record.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct View(pub u64);

impl fmt::Display for View {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.epoch() > Epoch::FIRST {
            write!(formatter, "{}", self.epoch())?;
        }
        write!(formatter, "v{}", self.within_epoch())
    }
}

impl fmt::Debug for View {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

id!(
    /// The membership of a keyspace: grows by one with every change of who its replicas are. Every message and every
    /// durable record carries it, so that nothing said under one membership counts under another.
    Epoch(u32),
    "e"
);
id!(
    /// Under which authority a coordinator acts on a transaction: zero for the coordinator that began it, a greater
    /// number for each backup coordinator that was elected since. (The TAPIR paper, section 5.2.2, calls it the
    /// coordinator-view number.)
    Ballot(u32),
    "b"
);

/// The views of an epoch begin at its number times this, so that they are greater than those of all earlier epochs.
const VIEWS_PER_EPOCH: u64 = 1 << 32;

impl View {
    /// The view that follows in the same epoch; none after the last. See [`bound`](crate::bound) on why there is one wherever
    /// others may have driven a replica.
    pub const fn next(self) -> Option<View> {
        if self.within_epoch() == VIEWS_PER_EPOCH - 1 { None } else { Some(View(self.0 + 1)) }
    }

    /// The first view of a group whose replicas are as they are since an epoch.
    pub const fn first_of(since: Epoch) -> View {
        View(since.0 as u64 * VIEWS_PER_EPOCH)
    }

    /// The epoch since which the replicas are as they are in this view.
    pub const fn epoch(self) -> Epoch {
        Epoch((self.0 / VIEWS_PER_EPOCH) as u32)
    }

    /// How many views of the epoch come before.
    pub const fn within_epoch(self) -> u64 {
        self.0 % VIEWS_PER_EPOCH
    }

    /// True if this is a view of an epoch.
    pub const fn is_of(self, epoch: Epoch) -> bool {
        self.epoch().0 == epoch.0
    }
}

impl Epoch {
    /// The membership that a keyspace is created with.
    pub const FIRST: Epoch = Epoch(0);
}

impl Ballot {
    /// The authority of the coordinator that began the transaction.
    pub const ORIGINAL: Ballot = Ballot(0);

    /// The next greater one. None that is [believed](Ballot::may_follow) is the last.
    pub const fn above(self) -> Ballot {
        Ballot(self.0.saturating_add(1))
    }
}

/// One incarnation of a client: drawn at random when a client starts, so that ids of an earlier life of the same
/// program are never used again. Zero is never drawn.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

impl fmt::Display for ClientId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "c{:x}", self.0)
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// One attempt of one transaction of one client.
///
/// The pair of client and sequence is what a user calls *the* transaction; each re-run of its closure is a further
/// attempt, and a new attempt starts only once the fate of the previous one is known.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId {
    /// The client incarnation that began it.
    pub client: ClientId,
    /// Counts the transactions of that incarnation.
    pub sequence: u64,
    /// Counts the attempts at this transaction, from zero.
    pub attempt: u32,
}

impl fmt::Display for TransactionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.client, self.sequence, self.attempt)
    }
}

impl fmt::Debug for TransactionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// One replica of one shard.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId {
    /// The shard that it holds.
    pub shard: ShardId,
    /// Its position in the group.
    pub index: ReplicaIndex,
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.shard, self.index)
    }
}

impl fmt::Debug for ReplicaId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// A machine that can send or receive a protocol message. An address names a role, not a place: the driver knows where each one is
/// hosted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// A replica of a shard.
    Replica(ReplicaId),
    /// A client, that is, the coordinator that runs inside it.
    Client(ClientId),
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Replica(replica) => write!(formatter, "{replica}"),
            Address::Client(client) => write!(formatter, "{client}"),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

impl From<ReplicaId> for Address {
    fn from(replica: ReplicaId) -> Self {
        Address::Replica(replica)
    }
}

impl From<ClientId> for Address {
    fn from(client: ClientId) -> Self {
        Address::Client(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_of_an_epoch_come_after_all_earlier_ones() {
        let first = View::first_of(Epoch(3));
        assert!(first > View(View::first_of(Epoch(2)).0 + 1_000_000));
        let second = first.next().expect("there are many");
        assert_eq!((first.epoch(), second.within_epoch()), (Epoch(3), 1));
        assert!(first.is_of(Epoch(3)) && View(first.0 + 1_000_000).is_of(Epoch(3)));
        assert_eq!(View(first.0 - 1).next(), None, "one more would be of the next epoch");
        assert!(!View(first.0 - 1).is_of(Epoch(3)) && !View::first_of(Epoch(4)).is_of(Epoch(3)));
        assert_eq!(View(7).epoch(), Epoch::FIRST);
        assert_eq!([View(7).to_string(), second.to_string()], ["v7", "e3v1"]);
    }
}
