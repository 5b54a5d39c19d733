//! Which messages of clients are refused while a node has too much to do.
//!
//! Only a message that begins or extends a transaction can be refused: reads and scans above a high mark, prepares above twice the
//! mark, because a transaction that has read deserves to finish before others begin. Commits, aborts, recovery and view
//! changes free what is held, so they always pass; so do requests that other shards wait for
//! ([`HostedReplica::is_awaited`](crate::hosted::HostedReplica::is_awaited)) and everything that comes from replicas. The keyspace of the catalogue has marks
//! several times as high: an administrator has to get through when clients do not.
//!
//! A refused message is as good as lost. Its client is told that the node is busy, and begins nothing for a while; it must not conclude
//! anything about transactions that are under way, of which other replicas may have taken the same message.

use crate::hosted::Urgency;

/// How many times as high the marks are for the keyspace of the catalogue.
const ADMINISTRATION: usize = 4;

/// The marks above which new work is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Of the bytes that wait to be sent, over all connections of the node.
    pub queued_bytes_high: usize,
    /// Of the transactions that one replica holds prepared.
    pub prepared_high: usize,
    /// Of those among them that one client has.
    pub client_prepared_high: usize,
    /// Of the bytes of one replica that wait for the disk.
    pub log_lag_bytes_high: u64,
}

/// How full things are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The bytes that wait to be sent, over all connections.
    pub queued_bytes: usize,
    /// The transactions that the replica holds prepared; where it executes them in turn, with the requests that wait for theirs.
    pub prepared: usize,
    /// Those of them that are of the client that sends the message.
    pub client_prepared: usize,
    /// The bytes of the replica that wait for the disk.
    pub log_lag_bytes: u64,
    /// The replica is one of the keyspace of the catalogue.
    pub is_administration: bool,
    /// The message wants to add to a key space that takes more memory than it may, and cannot take less
    /// ([`HostedReplica::exceeds_memory`](crate::hosted::HostedReplica::exceeds_memory)). A message that only deletes is none of them.
    pub exceeds_memory: bool,
}

/// The cause for which a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The node or the replica has too much to do, for all clients together.
    All,
    /// This client has too much under way at the replica, and others are served.
    Client,
}

impl Load {
    /// The cause for which a message of this urgency is to be refused; none if it is taken.
    pub fn refuses(self, urgency: Urgency, marks: &Marks) -> Option<Cause> {
        let administration = if self.is_administration { ADMINISTRATION } else { 1 };
        let times = administration
            * match urgency {
                Urgency::Early => 1,
                Urgency::Prepare => 2,
                Urgency::Always => return None,
            };
        let is_above = self.queued_bytes > times.saturating_mul(marks.queued_bytes_high)
            || self.prepared > times.saturating_mul(marks.prepared_high)
            || self.log_lag_bytes > (times as u64).saturating_mul(marks.log_lag_bytes_high);
        let is_above = is_above || self.exceeds_memory && urgency == Urgency::Prepare;
        match self.client_prepared > times.saturating_mul(marks.client_prepared_high) {
            _ if is_above => Some(Cause::All),
            true => Some(Cause::Client),
            false => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_as_a_table() {
        let marks = Marks {
            queued_bytes_high: 10,
            prepared_high: 10,
            client_prepared_high: 5,
            log_lag_bytes_high: 10,
        };
        let load = |queued_bytes, prepared, log_lag_bytes| Load {
            queued_bytes,
            prepared,
            client_prepared: 0,
            log_lag_bytes,
            ..Load::default()
        };
        let administration = |queued_bytes| Load { queued_bytes, is_administration: true, ..Load::default() };
        let of_client = |client_prepared| Load { client_prepared, ..Load::default() };
        let (all, client) = (Some(Cause::All), Some(Cause::Client));
        // load, reads, prepares
        let table = [
            (load(0, 0, 0), None, None),
            (load(10, 10, 10), None, None),
            (load(11, 0, 0), all, None),
            (load(0, 11, 0), all, None),
            (load(0, 0, 11), all, None),
            (load(21, 0, 0), all, all),
            (load(0, 21, 0), all, all),
            (load(0, 0, 21), all, all),
            (of_client(5), None, None),
            (of_client(6), client, None),
            (of_client(11), client, client),
            (Load { client_prepared: 11, ..load(11, 0, 0) }, all, client),
            (administration(40), None, None),
            (administration(41), all, None),
            (administration(81), all, all),
            (Load { exceeds_memory: true, ..Load::default() }, None, all),
        ];
        for (load, early, prepare) in table {
            assert_eq!(load.refuses(Urgency::Early, &marks), early, "{load:?}");
            assert_eq!(load.refuses(Urgency::Prepare, &marks), prepare, "{load:?}");
            assert_eq!(load.refuses(Urgency::Always, &marks), None, "{load:?}");
        }
    }

    #[test]
    fn marks_without_bound_refuse_nothing() {
        let marks = Marks {
            queued_bytes_high: usize::MAX,
            prepared_high: usize::MAX,
            client_prepared_high: usize::MAX,
            log_lag_bytes_high: u64::MAX,
        };
        let load = Load { queued_bytes: usize::MAX, prepared: usize::MAX, ..Load::default() };
        assert_eq!(load.refuses(Urgency::Early, &marks), None);
    }
}
