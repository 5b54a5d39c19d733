//! Why a machine of this protocol drops what it is told. Each is said to [`Outbox::ignored`](quorate_core::Outbox::ignored), from where
//! traces and golden scripts have it.

/// A message for clients has come to a replica.
pub(crate) const CLIENTS_ONLY: &str = "only clients are told so";
/// A message for replicas has come to a client.
pub(crate) const REPLICAS_ONLY: &str = "only replicas are told so";
/// A message for participants has come to the group that coordinates.
pub(crate) const PARTICIPANTS_ONLY: &str = "only participants are told so";
/// A message for the group that coordinates has come to a participant.
pub(crate) const COORDINATING_ONLY: &str = "only the group that coordinates is told so";
/// A client says what only replicas may say.
pub(crate) const CLIENT: &str = "said by a client";
/// A client asks under the name of another, or a group that does not coordinate asks.
pub(crate) const FOREIGN: &str = "asked in the name of another client";
/// The participants are not sorted, not of the keyspace, too few, or without the receiver or the sender.
pub(crate) const PARTICIPANTS: &str = "these cannot be the participants";
/// An entry of the log could not hold the operation.
pub(crate) const TOO_LARGE: &str = "operation too large";
/// The receiver does not lead, and what only leaders do is not done.
pub(crate) const NOT_LEADING: &str = "this replica does not lead";
/// The transaction is accepted, or its refusal is on its way: there will be an answer.
pub(crate) const UNDER_WAY: &str = "under way already";
/// The vote of the sender's shard is known, and it does not ask for that of this one.
pub(crate) const VOTE_KNOWN: &str = "this vote is known";
/// All participants have voted for the transaction, so nothing else can become of it.
pub(crate) const DATED: &str = "all have voted for it";
/// The transaction has ended here, and the sender does not ask how.
pub(crate) const ENDED: &str = "it has ended here";
/// Nothing waits under this name: it has ended, or never began.
pub(crate) const NOT_OPEN: &str = "nothing waits under this name";
/// That another says so is noted, and believed once this replica surely leads.
pub(crate) const NOTED: &str = "noted already";
/// As many votes on transactions are kept that nobody has asked for as may be.
pub(crate) const STRANGERS: &str = "too many votes on what nobody has asked for";
/// Once a shard is lost as far as the log says, its votes come too late (section 5.4).
pub(crate) const LOST: &str = "its shard is lost";
/// As far as the log of this shard says, the other is not lost: its vote may still come.
pub(crate) const NOT_LOST: &str = "the shard is not lost here";
/// An operator declares lost what is so already.
pub(crate) const LOST_ALREADY: &str = "the shard is lost already";
/// Only another shard of the keyspace can be declared lost.
pub(crate) const NO_OTHER_SHARD: &str = "no other shard of the keyspace";
/// A participant that has taken over votes for what it has not executed: its answer follows.
pub(crate) const NO_ANSWER_YET: &str = "voted for without an answer yet";
/// The sender is not taken for the leader, or names itself.
pub(crate) const NO_NEWS: &str = "no news of its leader";
/// The client has gone on to another attempt of the transaction.
pub(crate) const OTHER_ATTEMPT: &str = "another attempt than the open one";
/// The attempt was refused, and the next has not begun.
pub(crate) const ATTEMPT_OVER: &str = "this attempt is over";
/// The client has followed from one replica to the next often enough, and waits for its time-out.
pub(crate) const REDIRECTED_OFTEN: &str = "redirected too often";
/// Memberships are in this epoch, or a later one, as far as the replica knows.
pub(crate) const EPOCH_KNOWN: &str = "an epoch that is known";
