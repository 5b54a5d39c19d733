//! Why a machine of this protocol drops what it is told. Each is said to [`Outbox::ignored`](quorate_core::Outbox::ignored), from where
//! traces and golden scripts have it.

/// A message for clients has come to a replica.
pub(crate) const CLIENTS_ONLY: &str = "only clients are told so";
/// A message for replicas has come to a client.
pub(crate) const REPLICAS_ONLY: &str = "only replicas are told so";
/// A client says what only leaders of other sites may say.
pub(crate) const CLIENT: &str = "said by a client";
/// A client asks under the name of another.
pub(crate) const FOREIGN: &str = "asked in the name of another client";
/// No updates, too many, or keys that nobody may write.
pub(crate) const MALFORMED: &str = "no coordinator sends this";
/// The sender is of no other local site of the keyspace, or of one that was taken out.
pub(crate) const NO_SITE: &str = "the sender is no other local site";
/// This site was taken out, and says nothing any more.
pub(crate) const REMOVED: &str = "this site was removed";
/// A site has not said yet how far it had come.
pub(crate) const NOT_FROZEN: &str = "no site has said that there is so much";
/// A client asks for objects that have no replica here.
pub(crate) const NO_COPY: &str = "no replica of it is here";
/// The transaction is on its way, and there will be an answer.
pub(crate) const UNDER_WAY: &str = "under way already";
/// As many requests wait as may.
pub(crate) const TOO_MANY: &str = "too many requests wait";
/// The receiver does not lead, and what only leaders do is not done.
pub(crate) const NOT_LEADING: &str = "this replica does not lead";
/// Nothing waits under this name: it has ended, or never began.
pub(crate) const NOT_OPEN: &str = "nothing waits under this name";
/// A site is asked for a share of a counter that it lacks itself.
pub(crate) const LACKS_ITSELF: &str = "this site lacks a share itself";
/// A site is asked for a share of a counter, and has none.
pub(crate) const NO_SHARE: &str = "there is no share to give";
/// A site cannot be sure that it was not taken out.
pub(crate) const NO_LEASE: &str = "this site may have been removed";
/// A transaction is to come after one that was sent long ago.
pub(crate) const EARLIER_FORGOTTEN: &str = "the transaction that it comes after is forgotten";
/// A transaction is to come after one of another keyspace.
pub(crate) const OTHER_KEYSPACE: &str = "it is of another keyspace";
/// The votes are counted already, or the site has no vote.
pub(crate) const NO_VOTE: &str = "no vote is waited for";
/// The site is told again what it has said itself, or has been told.
pub(crate) const KNOWN: &str = "known already";
/// Nobody waits for the answer any more.
pub(crate) const UNASKED: &str = "no such question is open";
/// A site says that it has received what was never committed.
pub(crate) const NONSENSE: &str = "the sender cannot know that";
/// This site joins the others, and has not all that they have.
pub(crate) const JOINING: &str = "this site still joins";
/// The state that came lacks what others have forgotten.
pub(crate) const FORGOTTEN: &str = "this state lacks what others keep no more";
/// The log takes nothing now.
pub(crate) const LOG_CLOSED: &str = "the log takes no entry now";
