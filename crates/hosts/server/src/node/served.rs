//! The protocols whose replicas a node hosts: one row for each. Everything else goes through their port, [`HostedReplica`].

use std::time::Duration;

use quorate_configuration::Replica as Configuration;
use quorate_core::comparison::Rival;
use quorate_core::hosted::{Admission, Boot, HostedReplica};
use quorate_granola::Replica as Granola;
use quorate_log::Member;
use quorate_log::member::Config;
use quorate_qwstore::Replica as QwStore;
use quorate_serializable_library::{Hosted as Procedures, applications, is_linked};
use quorate_serializable_shard::ShardWith;
use quorate_str::Replica as Str;
use quorate_tapir::Replica as Tapir;
use quorate_walter::Replica as Walter;
use quorate_wire::{ProtocolMessage, Wire};

use super::building::Order;
use super::hosted::{Running, Runs};
use super::log::{LogError, Logs};
use crate::config::ContainerOptions;
use crate::data::{DataDirectory, Protocol};

/// A replica that a node can host: its messages go over connections, and its records into logs.
pub(crate) trait Served:
    HostedReplica<
        Message: Into<ProtocolMessage> + TryFrom<ProtocolMessage> + Send,
        Timer: Send,
        Record: Wire + Send,
        Event: Send,
    > + Send
    + 'static
{
}

impl<M> Served for M where
    M: HostedReplica<
            Message: Into<ProtocolMessage> + TryFrom<ProtocolMessage> + Send,
            Timer: Send,
            Record: Wire + Send,
            Event: Send,
        > + Send
        + 'static
{
}

/// A replica of a serializable keyspace, with the procedures of servers.
type Serializable = Granola<ShardWith<Procedures>>;

/// A replica of a comparison system on logs.
type Baseline = quorate_baselines::Replica;

/// So long a local site goes on after it has asked whether it was taken out. The others wait for a second longer.
const WALTER_LEASE: Duration = Duration::from_secs(12);

/// Builds a replica of the protocol that its keyspace is run by, with the limits and time-outs of servers.
pub(super) fn build(order: &Order, data: &DataDirectory, logs: &Logs) -> Result<Box<dyn Runs>, LogError> {
    let (id, group) = (order.placement.replica, order.placement.founders);
    let (boot, shards) = (Boot::Rejoin, Default::default());
    let retention = order.placement.retention.unwrap_or_default();
    match order.placement.protocol() {
        Protocol::Tapir => {
            let rules = quorate_tapir::Rules::of(order.placement.order().unwrap_or_default());
            let config = quorate_tapir::ReplicaConfig {
                rules,
                retention,
                ..quorate_tapir::ReplicaConfig::new(id, group, boot)
            };
            Running::<Tapir>::build(config, order, data, logs)
        }
        Protocol::Granola => {
            let application = linked(order.placement.application.as_deref())?;
            let config = quorate_granola::ReplicaConfig {
                application,
                retention,
                ..quorate_granola::ReplicaConfig::new(id, group, shards)
            };
            Running::<Member<Serializable>>::build(on_log(order, config), order, data, logs)
        }
        Protocol::Walter => {
            let ContainerOptions { move_window: window, move_writes_min: writes_min } = order.containers;
            let config = quorate_walter::ReplicaConfig {
                lease: Some(WALTER_LEASE),
                retention,
                moves: (!window.is_zero()).then_some(quorate_walter::Moves { window, writes_min }),
                ..quorate_walter::ReplicaConfig::new(id, group, shards)
            };
            Running::<Member<Walter>>::build(on_log(order, config), order, data, logs)
        }
        Protocol::Str => {
            let speculation = order.placement.speculation.unwrap_or_default();
            let config = quorate_str::ReplicaConfig {
                retention,
                ..quorate_str::ReplicaConfig::new(id, group, shards).speculating(speculation)
            };
            Running::<Member<Str>>::build(on_log(order, config), order, data, logs)
        }
        Protocol::Configuration => {
            let config = quorate_configuration::ReplicaConfig::new(id);
            Running::<Member<Configuration>>::build(on_log(order, config), order, data, logs)
        }
        Protocol::Comparison(Rival::OnLog(system)) => {
            let config = quorate_baselines::ReplicaConfig::new(id, group, shards, system);
            Running::<Member<Baseline>>::build(on_log(order, config), order, data, logs)
        }
        Protocol::Comparison(Rival::QwStore) => {
            let config = quorate_qwstore::ReplicaConfig::new(id, group, boot);
            Running::<QwStore>::build(config, order, data, logs)
        }
    }
}

/// The application of a keyspace, if this process is linked with it: without it a replica would come to other answers than the rest of its group.
fn linked(application: Option<&str>) -> Result<Option<String>, LogError> {
    match application {
        Some(name) if !is_linked(name) => {
            let known = applications();
            let linked = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Err(LogError::Application { name: name.to_owned(), linked })
        }
        application => Ok(application.map(str::to_owned)),
    }
}

/// The settings of a machine and of the log that it stands on.
fn on_log<C>(order: &Order, machine: C) -> Config<C> {
    let log = order.log;
    Config::unseated(log.timing, log.limits, log.snapshot_bytes, quorate_log::Rules::SOUND, machine)
}

/// How much a message of a client may be refused.
pub(super) fn admission(message: &ProtocolMessage) -> Admission {
    match message {
        ProtocolMessage::Tapir(message) => Tapir::admission(message),
        ProtocolMessage::Granola(message) => Member::<Serializable>::admission(message),
        ProtocolMessage::Walter(message) => Member::<Walter>::admission(message),
        ProtocolMessage::Str(message) => Member::<Str>::admission(message),
        ProtocolMessage::Configuration(message) => Member::<Configuration>::admission(message),
        ProtocolMessage::Baseline(message) => Member::<Baseline>::admission(message),
        ProtocolMessage::QwStore(message) => QwStore::admission(message),
    }
}

/// False if the transaction of a message of a client has written no value, or has only deleted.
pub(super) fn adds(message: &ProtocolMessage) -> bool {
    match message {
        ProtocolMessage::Tapir(message) => Tapir::adds(message),
        ProtocolMessage::Granola(message) => Member::<Serializable>::adds(message),
        ProtocolMessage::Walter(message) => Member::<Walter>::adds(message),
        ProtocolMessage::Str(message) => Member::<Str>::adds(message),
        ProtocolMessage::Configuration(message) => Member::<Configuration>::adds(message),
        ProtocolMessage::Baseline(message) => Member::<Baseline>::adds(message),
        ProtocolMessage::QwStore(message) => QwStore::adds(message),
    }
}
