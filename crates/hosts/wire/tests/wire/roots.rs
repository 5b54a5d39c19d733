//! The messages from which all others are reached.

use std::fmt::Debug;

use bytes::BytesMut;
use quorate_access::{Role, Token, User};
use quorate_core::Epoch;
use quorate_core::topology::{Keyspace, Node, Shard};
use quorate_serializable_shard::{Answer, Operation, Refusal};
use quorate_wire::catalogue::{Deployment, Dropped};
use quorate_wire::{
    DecodeError, EachProtocol, Packet, Wire, decode, decode_record, each_protocol, encode, encode_record,
};

/// A message that stands by itself: in a frame, in a log, as a value of the catalogue, or as bytes in another message.
pub(crate) struct Root {
    /// Its name in the schema.
    pub(crate) name: String,
    /// Reads it and writes it again, with every assertion that holds of all types.
    pub(crate) again: fn(&[u8]) -> Result<Vec<u8>, DecodeError>,
}

/// The messages and records of the protocols.
#[derive(Default)]
struct OfProtocols {
    messages: Vec<Root>,
    records: Vec<Root>,
}

impl EachProtocol for OfProtocols {
    fn message<M: Wire + Clone + Debug + PartialEq + 'static>(&mut self) {
        self.messages.push(message::<M>());
    }

    fn record<R: Wire + Clone + Debug + PartialEq + 'static>(&mut self) {
        self.records.push(record::<R>());
    }
}

fn of_protocols() -> OfProtocols {
    let mut found = OfProtocols::default();
    each_protocol(&mut found);
    found
}

/// Those that travel, and parts of them which a packet holds too seldom.
pub(crate) fn messages() -> Vec<Root> {
    let others = [message::<Packet>(), message::<quorate_core::verify::Answer>()];
    of_protocols().messages.into_iter().chain(others).collect()
}

/// Those of logs.
pub(crate) fn records() -> Vec<Root> {
    of_protocols().records
}

/// Those of the catalogue.
pub(crate) fn values() -> Vec<Root> {
    vec![
        message::<Keyspace>(),
        message::<Node>(),
        message::<Shard>(),
        message::<Deployment>(),
        message::<Dropped>(),
        message::<User>(),
        message::<Role>(),
        message::<Token>(),
    ]
}

/// Those that stand as bytes in messages: what shards of serializable keyspaces are asked, and what they answer.
pub(crate) fn operations() -> Vec<Root> {
    vec![message::<Operation>(), message::<Answer>(), message::<Refusal>()]
}

/// All of them.
pub(crate) fn all() -> Vec<Root> {
    messages().into_iter().chain(records()).chain(values()).chain(operations()).collect()
}

fn message<T: Wire + Debug + PartialEq>() -> Root {
    Root { name: T::name(), again: message_again::<T> }
}

fn message_again<T: Wire + Debug + PartialEq>(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let message: T = decode(bytes)?;
    let again = encode(&message);
    assert_eq!(again.len(), message.encoded_len(), "it is as long as it announced");
    assert_eq!(decode(&again), Ok(message), "it is read back");
    Ok(again.to_vec())
}

fn record<R: Wire + Debug + PartialEq>() -> Root {
    Root { name: R::name(), again: record_again::<R> }
}

fn record_again<R: Wire + Debug + PartialEq>(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let (epoch, record): (Epoch, R) = decode_record(bytes)?;
    let mut again = BytesMut::new();
    encode_record(epoch, &record, &mut again);
    assert!(!again.is_empty(), "a log cannot hold an empty record");
    assert!(epoch != Epoch::FIRST || again.len() == record.encoded_len(), "the first epoch costs nothing");
    assert_eq!(decode_record(&again), Ok((epoch, record)), "it is read back");
    Ok(again.to_vec())
}
