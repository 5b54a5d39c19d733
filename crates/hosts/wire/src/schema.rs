//! Every message of the wire format as data, from which `docs/wire-format.proto` is written.

use quorate_access::{Role, Token, User};
use quorate_codec::field::ENTRIES_MAX;
use quorate_codec::scalar::Scalar;
use quorate_codec::schema::{Field, Kind, Label, Schema};
use quorate_codec::{OneOf, Wire};
use quorate_core::Epoch;
use quorate_core::topology::{Keyspace, Node, Shard};
use quorate_serializable_shard::{Answer, Operation, Refusal};

use crate::catalogue::{Deployment, Dropped};
use crate::frame::PACKET_FIELD;
use crate::packet::Packet;
use crate::protocols::{EachProtocol, each_protocol};
use crate::record::EPOCH_FIELD;

/// The payload of a frame, the records of replicas, the values of the catalogue, what shards of serializable keyspaces are asked
/// and answer, and the messages that all these hold.
pub fn schema() -> Schema {
    let mut schema = Schema::new();
    schema.enter("Payload".to_owned(), None, payload, |_| Vec::new());
    each_protocol(&mut Records(&mut schema));
    Keyspace::describe(&mut schema);
    Node::describe(&mut schema);
    Shard::describe(&mut schema);
    Deployment::describe(&mut schema);
    Dropped::describe(&mut schema);
    User::describe(&mut schema);
    Role::describe(&mut schema);
    Token::describe(&mut schema);
    Operation::describe(&mut schema);
    Answer::describe(&mut schema);
    Refusal::describe(&mut schema);
    schema
}

fn payload(schema: &mut Schema) -> Vec<Field> {
    let kind = Packet::describe(schema);
    vec![Field { number: PACKET_FIELD, name: "packets", label: Label::Repeated { max: ENTRIES_MAX }, kind }]
}

/// Enters the records of each protocol. A record has its epoch beside its alternatives.
struct Records<'a>(&'a mut Schema);

impl EachProtocol for Records<'_> {
    fn message<M: Wire>(&mut self) {}

    fn record<R: OneOf>(&mut self) {
        let kind = Kind::Varint(Epoch::NUMBER);
        let epoch = Field { number: EPOCH_FIELD, name: "epoch", label: Label::Plain, kind };
        self.0.enter(R::name(), None, |_| vec![epoch], R::alternatives);
    }
}
