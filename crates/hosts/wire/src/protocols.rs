//! The protocols whose messages travel and whose records are stored: one row for each.
//!
//! The systems that others are compared with are there with the feature `rivals`. Without it their numbers are left free.

use std::fmt::Debug;

use quorate_codec::field::Nested;
use quorate_codec::{OneOf, Wire, alternatives};
use quorate_core::caption::{Caption, Captioned};
use quorate_log::Fact;
use quorate_log::member::{Item, Said};

/// A replica of a serializable keyspace, as far as its entries, pages and messages go: they are the same whichever procedures it has.
pub type Serializable = quorate_granola::Replica<quorate_serializable_shard::Shard>;

/// Something that is done with the types of every protocol.
pub trait EachProtocol {
    /// With its messages.
    fn message<M: Wire + Clone + Debug + PartialEq + 'static>(&mut self);

    /// With its records.
    fn record<R: OneOf + Wire + Clone + Debug + PartialEq + 'static>(&mut self);
}

macro_rules! protocols {
    ($($(#[$doc:meta])* $([$condition:meta])? $number:literal $name:ident: $message:ty, $record:ty;)+) => {
        /// A message of one of the protocols.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum ProtocolMessage {
            $($(#[$doc])* $(#[cfg($condition)])? $name($message),)+
        }

        $(
            $(#[cfg($condition)])?
            impl From<$message> for ProtocolMessage {
                fn from(message: $message) -> Self {
                    ProtocolMessage::$name(message)
                }
            }

            $(#[cfg($condition)])?
            impl TryFrom<ProtocolMessage> for $message {
                type Error = ProtocolMessage;

                fn try_from(message: ProtocolMessage) -> Result<Self, ProtocolMessage> {
                    match message {
                        ProtocolMessage::$name(message) => Ok(message),
                        other => Err(other),
                    }
                }
            }
        )+

        impl Captioned for ProtocolMessage {
            fn caption(&self) -> Option<Caption> {
                match self {
                    $($(#[cfg($condition)])? ProtocolMessage::$name(message) => message.caption(),)+
                }
            }
        }

        alternatives!(ProtocolMessage, "ProtocolMessage", fields { $($(#[cfg($condition)])? $number $name: Nested,)+ });

        /// Does something with the types of each protocol, in the order of their numbers.
        pub fn each_protocol(work: &mut impl EachProtocol) {
            $(
                $(#[cfg($condition)])?
                {
                    work.message::<$message>();
                    work.record::<$record>();
                }
            )+
        }
    };
}

protocols! {
    /// A message of TAPIR.
    1 Tapir: quorate_tapir::Message, quorate_tapir::Record;
    /// A message of a comparison system that stands on a replicated log.
    [feature = "rivals"]
    2 Baseline: Said<quorate_baselines::Replica>, Fact<Item<quorate_baselines::Replica>>;
    /// A message of the configuration service.
    3 Configuration: Said<quorate_configuration::Replica>, Fact<Item<quorate_configuration::Replica>>;
    /// A message of the quorum store without transactions.
    [feature = "rivals"]
    4 QwStore: quorate_qwstore::Message, quorate_qwstore::Record;
    /// A message of Granola.
    5 Granola: Said<Serializable>, Fact<Item<Serializable>>;
    /// A message of Walter.
    6 Walter: Said<quorate_walter::Replica>, Fact<Item<quorate_walter::Replica>>;
    /// A message of STR.
    7 Str: Said<quorate_str::Replica>, Fact<Item<quorate_str::Replica>>;
}
