//! Which new work is refused while the node is overloaded or about to stop.
//!
//! Only what begins or extends a transaction can be refused: reads and scans above a high mark, prepares above twice the
//! mark, because a transaction that has read deserves to finish before others begin. Commits, aborts, recovery and view
//! changes free what is held, so they always pass; so does everything that comes from replicas. The keyspace of the catalogue has marks
//! several times as high: an administrator has to get through when clients do not.

use quorate_configuration::Message as Configuration;
use quorate_core::hosted::Urgency;
use quorate_log::Part;
use quorate_wire::catalogue::validate_put;
use quorate_wire::{DecodeError, ProtocolMessage};

use crate::Limits;

/// The mistake in a write to the catalogue, if a message is one and makes one.
pub(crate) fn refusal_of_write(message: &ProtocolMessage) -> Option<DecodeError> {
    let ProtocolMessage::Configuration(Part::Own(Configuration::Write { write, .. })) = message else {
        return None;
    };
    write.puts.iter().find_map(|put| validate_put(&put.key, put.value.as_ref()).err())
}

/// How many times as high the marks are for the keyspace of the catalogue.
const ADMINISTRATION: usize = 4;

/// How full things are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// The bytes that wait to be sent, over all connections.
    pub(crate) queued_bytes: usize,
    /// The transactions that the replica holds prepared; where it executes them in turn, with the requests that wait for theirs.
    pub(crate) prepared: usize,
    /// Those of them that are of the client that sends the message.
    pub(crate) client_prepared: usize,
    /// The bytes of the replica that wait for the disk.
    pub(crate) log_lag_bytes: u64,
    /// The replica is one of the keyspace of the catalogue.
    pub(crate) is_administration: bool,
}

/// Whose doing it is that a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The node or the replica has too much to do, for all clients together.
    All,
    /// This client has too much under way at the replica, and others are served.
    Client,
}

impl Load {
    /// Why a message of this urgency is to be refused, if it is.
    pub(crate) fn refuses(self, urgency: Urgency, limits: &Limits) -> Option<Cause> {
        let administration = if self.is_administration { ADMINISTRATION } else { 1 };
        let times = administration
            * match urgency {
                Urgency::Early => 1,
                Urgency::Prepare => 2,
                Urgency::Always => return None,
            };
        let is_above = self.queued_bytes > times * limits.queued_bytes_high
            || self.prepared > times * limits.prepared_high
            || self.log_lag_bytes > times as u64 * limits.log_lag_bytes_high;
        match self.client_prepared > times * limits.client_prepared_high {
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
        let limits = Limits {
            queued_bytes_high: 10,
            prepared_high: 10,
            client_prepared_high: 5,
            log_lag_bytes_high: 10,
            ..Limits::default()
        };
        let load = |queued_bytes, prepared, log_lag_bytes| Load {
            queued_bytes,
            prepared,
            client_prepared: 0,
            log_lag_bytes,
            is_administration: false,
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
        ];
        for (load, early, prepare) in table {
            assert_eq!(load.refuses(Urgency::Early, &limits), early, "{load:?}");
            assert_eq!(load.refuses(Urgency::Prepare, &limits), prepare, "{load:?}");
            assert_eq!(load.refuses(Urgency::Always, &limits), None, "{load:?}");
        }
    }
}
