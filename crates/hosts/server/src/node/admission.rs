//! Which messages of clients are no business of this node whatever its load. Under load [`quorate_core::admission`] decides, which the
//! simulator runs as well.

use quorate_configuration::Message as Configuration;
use quorate_log::Part;
use quorate_wire::catalogue::validate_put;
use quorate_wire::{DecodeError, ProtocolMessage};

/// The mistake in a write to the catalogue, if a message is one and makes one.
pub(crate) fn refusal_of_write(message: &ProtocolMessage) -> Option<DecodeError> {
    let ProtocolMessage::Configuration(Part::Own(Configuration::Write { write, .. })) = message else {
        return None;
    };
    write.puts.iter().find_map(|put| validate_put(&put.key, put.value.as_ref()).err())
}
