//! The identity of a machine and how long it waits.

use std::time::Duration;

use quorate_core::hosted::Boot;
use quorate_core::{ClientId, Epoch, GroupSize, ReplicaId};

use crate::rules::Rules;

/// The parts that a replica is built from beside its records.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// Which replica this is.
    pub replica: ReplicaId,
    /// The size of its group.
    pub group: GroupSize,
    /// The membership that it belongs to: it answers no message under another.
    pub epoch: Epoch,
    /// The way to begin without records.
    pub boot: Boot,
    /// The rules: [`Rules::SOUND`] outside tests.
    pub rules: Rules,
    /// A timestamp further ahead of the local clock than this is not recorded.
    pub timestamp_ahead_max: Duration,
    /// How long a view change may take before the next view is tried.
    pub view_change_timeout: Duration,
    /// Roughly how many bytes go into one message between replicas.
    pub page_bytes_max: usize,
    /// The most keys, live or deleted, in one reply to a scan.
    pub scan_page_max: usize,
    /// How often a replica looks whether there is something to compare, to collect or to write down again.
    pub sweep_interval: Duration,
    /// How often replicas compare what they hold and look for a new floor, below which records and old versions are collected.
    pub floor_interval: Duration,
    /// How far the floor stays behind the clock, as long as the puts above it have no more bytes than [`ReplicaConfig::floor_bytes_max`].
    pub floor_lag: Duration,
    /// So many bytes of puts are kept above the floor,
    pub floor_bytes_max: usize,
    /// which stays so far behind the clock in any case. A put that takes longer to arrive is refused, and put anew.
    pub floor_lag_min: Duration,
    /// So long a search for a floor waits for replicas that do not answer before f + 1 go on without them.
    pub floor_patience: Duration,
    /// The most puts in one page of what replicas compare, and the most that one round of collection looks at.
    pub floor_page_max: usize,
    /// The log is shortened after so many records at the earliest.
    pub snapshot_records_min: u64,
}

impl ReplicaConfig {
    /// The configuration of `replica` with the defaults that servers use.
    pub fn new(replica: ReplicaId, group: GroupSize, boot: Boot) -> Self {
        ReplicaConfig {
            replica,
            group,
            epoch: Epoch::FIRST,
            boot,
            rules: Rules::SOUND,
            timestamp_ahead_max: Duration::from_secs(60),
            view_change_timeout: Duration::from_millis(1_000),
            page_bytes_max: 4 * 1024 * 1024,
            scan_page_max: 1_000,
            sweep_interval: Duration::from_millis(500),
            floor_interval: Duration::from_secs(5),
            floor_lag: Duration::from_secs(10),
            floor_bytes_max: 32 * 1024 * 1024,
            floor_lag_min: Duration::from_secs(1),
            floor_patience: Duration::from_secs(8),
            floor_page_max: 4_096,
            snapshot_records_min: 100_000,
        }
    }
}

/// The parts that a coordinator is built from.
#[derive(Clone, Debug)]
pub struct CoordinatorConfig {
    /// The client incarnation: random, never used before.
    pub client: ClientId,
    /// The rules; only the simulator ever plants a bug here.
    pub rules: Rules,
    /// How long to wait for a reply to a read before another replica is asked.
    pub read_timeout: Duration,
    /// How long to wait for replicas that have not answered a put before it is sent to them again; if f + 1 have recorded it
    /// by then, they are not waited for any longer.
    pub resend_timeout: Duration,
    /// After the client has been told "unknown", how long the coordinator goes on trying by itself.
    pub abandon_after: Duration,
    /// The most keys in one page of a scan.
    pub scan_page_max: u32,
    /// True if a transaction's next put is sent only once the one before is complete, as the paper's client does it.
    pub puts_in_turn: bool,
}

impl CoordinatorConfig {
    /// The configuration of `client` with the defaults that the client library uses.
    pub fn new(client: ClientId) -> Self {
        CoordinatorConfig {
            client,
            rules: Rules::SOUND,
            read_timeout: Duration::from_millis(500),
            resend_timeout: Duration::from_millis(1_000),
            abandon_after: Duration::from_secs(10),
            scan_page_max: 1_000,
            puts_in_turn: false,
        }
    }
}
