//! Which new work is refused while the node is overloaded or about to stop.
//!
//! Only what begins or extends a transaction can be refused: reads and scans above a high mark, prepares above twice the
//! mark, because a transaction that has read deserves to finish before others begin. Commits, aborts, recovery and view
//! changes free what is held, so they always pass; so does everything that comes from replicas.

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

/// How full things are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// The bytes that wait to be sent, over all connections.
    pub(crate) queued_bytes: usize,
    /// The transactions that the replica holds prepared.
    pub(crate) prepared: usize,
    /// Those of them that are of the client that sends the message.
    pub(crate) client_prepared: usize,
    /// The bytes of the replica that wait for the disk.
    pub(crate) log_lag_bytes: u64,
}

impl Load {
    /// True if a message of this urgency is to be taken in.
    pub(crate) fn admits(self, urgency: Urgency, limits: &Limits) -> bool {
        let times = match urgency {
            Urgency::Early => 1,
            Urgency::Prepare => 2,
            Urgency::Always => return true,
        };
        self.queued_bytes <= times * limits.queued_bytes_high
            && self.prepared <= times * limits.prepared_high
            && self.client_prepared <= times * limits.client_prepared_high
            && self.log_lag_bytes <= times as u64 * limits.log_lag_bytes_high
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
        };
        let of_client = |client_prepared| Load { client_prepared, ..Load::default() };
        // load, reads, prepares
        let table = [
            (load(0, 0, 0), true, true),
            (load(10, 10, 10), true, true),
            (load(11, 0, 0), false, true),
            (load(0, 11, 0), false, true),
            (load(0, 0, 11), false, true),
            (load(21, 0, 0), false, false),
            (load(0, 21, 0), false, false),
            (load(0, 0, 21), false, false),
            (of_client(5), true, true),
            (of_client(6), false, true),
            (of_client(11), false, false),
        ];
        for (load, early, prepare) in table {
            assert_eq!(load.admits(Urgency::Early, &limits), early, "{load:?}");
            assert_eq!(load.admits(Urgency::Prepare, &limits), prepare, "{load:?}");
            assert!(load.admits(Urgency::Always, &limits), "{load:?}");
        }
    }
}
