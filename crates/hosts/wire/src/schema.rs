//! Every message of the wire format as data, from which `docs/wire-format.proto` is written.

use quorate_codec::Wire;
use quorate_codec::field::ENTRIES_MAX;
use quorate_codec::scalar::Scalar;
use quorate_codec::schema::{Field, Kind, Label, Schema};
use quorate_core::Epoch;
use quorate_core::topology::{Keyspace, Node, Shard};
use quorate_log::Fact;
use quorate_log::member::Item;

use crate::catalogue::{Deployment, Dropped};
use crate::frame::PACKET_FIELD;
use crate::packet::{Packet, Serializable};
use crate::record::EPOCH_FIELD;

/// The payload of a frame, the records of replicas, the values of the catalogue, and the messages that they hold.
pub fn schema() -> Schema {
    let mut schema = Schema::new();
    schema.enter("Payload".to_owned(), None, payload, |_| Vec::new());
    record::<quorate_tapir::Record>(&mut schema);
    record::<quorate_qwstore::Record>(&mut schema);
    record::<Fact<Item<quorate_baselines::Replica>>>(&mut schema);
    record::<Fact<Item<quorate_configuration::Replica>>>(&mut schema);
    record::<Fact<Item<Serializable>>>(&mut schema);
    Keyspace::describe(&mut schema);
    Node::describe(&mut schema);
    Shard::describe(&mut schema);
    Deployment::describe(&mut schema);
    Dropped::describe(&mut schema);
    schema
}

fn payload(schema: &mut Schema) -> Vec<Field> {
    let kind = Packet::describe(schema);
    vec![Field { number: PACKET_FIELD, name: "packets", label: Label::Repeated { max: ENTRIES_MAX }, kind }]
}

/// A record has its epoch beside its alternatives.
fn record<R: Wire>(schema: &mut Schema) {
    R::describe(schema);
    let kind = Kind::Varint(Epoch::NUMBER);
    schema.add(&R::name(), Field { number: EPOCH_FIELD, name: "epoch", label: Label::Plain, kind });
}
