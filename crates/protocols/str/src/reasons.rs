//! Why a machine of this protocol drops what it is told. Each is said to [`Outbox::ignored`](quorate_core::Outbox::ignored), from where
//! traces and golden scripts have it.

/// A snapshot is named that lies further ahead than any that is let in.
pub(crate) const AHEAD: &str = "the snapshot is too far ahead";
/// A message for clients has come to a replica.
pub(crate) const CLIENTS_ONLY: &str = "only clients are told so";
/// A message for replicas has come to a client.
pub(crate) const REPLICAS_ONLY: &str = "only replicas are told so";
/// A message for homes has come to a replica of a shard.
pub(crate) const HOMES_ONLY: &str = "only homes are told so";
/// A consumer of changes asks the machine of a home.
pub(crate) const SHARDS_ONLY: &str = "only shards have changes";
/// A client says what only replicas may say, or a replica of a shard what only homes may say.
pub(crate) const NOT_ITS_PLACE: &str = "the sender has no say in this";
/// A client asks under the name of another.
pub(crate) const FOREIGN: &str = "asked in the name of another client";
/// No writes, too many, unsorted, or of another shard.
pub(crate) const MALFORMED: &str = "no coordinator sends this";
/// The sender speaks of another life, its own or the receiver's.
pub(crate) const OTHER_LIFE: &str = "said in another life";
/// The sender is not on the node of the receiver.
pub(crate) const OTHER_NODE: &str = "the sender is on another node";
/// The transaction is on its way, and there will be an answer.
pub(crate) const UNDER_WAY: &str = "under way already";
/// As many requests wait as may.
pub(crate) const TOO_MANY: &str = "too many requests wait";
/// The receiver does not lead, and what only leaders do is not done.
pub(crate) const NOT_LEADING: &str = "this replica does not lead";
/// The log takes nothing now: the group is about to go on with other replicas.
pub(crate) const LOG_CLOSED: &str = "the log takes nothing now";
/// Nothing waits under this name: it has ended, or never began.
pub(crate) const NOT_OPEN: &str = "nothing waits under this name";
/// It has ended here.
pub(crate) const ENDED: &str = "it has ended here";
/// A grant that covers the sender is on its way, or in force.
pub(crate) const GRANTED: &str = "granted already";
/// The sender is not granted snapshots in this keyspace: it does not lead.
pub(crate) const LEADERS_ALONE: &str = "leaders alone are granted snapshots";
/// The receiver has heard of this before, and it changes nothing.
pub(crate) const KNOWN: &str = "this is known";
/// Memberships are in this epoch, or a later one, as far as the replica knows.
pub(crate) const EPOCH_KNOWN: &str = "an epoch that is known";
/// The client has gone on to another attempt, or has been answered.
pub(crate) const ANSWERED: &str = "answered already";
/// The transaction is deciding, and nothing can abort it any more.
pub(crate) const DECIDING: &str = "its decision is on its way";
/// The session of the client has seen what is still to come, by the clocks of replicas: the client asks again.
pub(crate) const EARLY: &str = "its session is ahead of clocks";
/// No leader has told this node its time yet, and its clock may be wrong: the client asks again.
pub(crate) const UNCOMPARED: &str = "its node has compared its clock with none yet";
