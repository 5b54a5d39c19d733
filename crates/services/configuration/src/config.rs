//! The configuration of machines: their identities, how long they wait, and how much there may be.

use std::time::Duration;

use quorate_core::{ClientId, Members, ReplicaId, ShardId};

use crate::rules::Rules;

/// How much there may be. The state that entries lead to depends on this, so it must be the same at every replica of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The sum of the lengths of all keys and values.
    pub bytes_max: usize,
    /// Leases of all clients.
    pub leases_max: usize,
    /// Leases of one client.
    pub leases_of_client_max: usize,
    /// So many changes are kept for watches,
    pub changes_max: usize,
    /// as long as they take no more than about so many bytes.
    pub changes_bytes_max: usize,
    /// So many results are kept of each client,
    pub results_max: u64,
    /// and of so many clients.
    pub clients_max: usize,
}

impl Limits {
    /// Those of servers.
    pub const DEFAULT: Limits = Limits {
        bytes_max: 256 * 1024 * 1024,
        leases_max: 100_000,
        leases_of_client_max: 10_000,
        changes_max: 10_000,
        changes_bytes_max: 64 * 1024 * 1024,
        results_max: 1_024,
        clients_max: 1_000,
    };
}

/// The most keys in one answer, as clients ask for it and as servers give it.
const SCAN_PAGE_MAX: u32 = 1_000;

/// Roughly how many bytes a server puts into one answer, or one page of its state.
const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// The most watches that a server serves, and those of one client.
const WATCHES_MAX: usize = 100_000;
const WATCHES_OF_CLIENT_MAX: usize = 1_000;

/// The most requests that wait at a server for one kind of thing.
const WAITING_MAX: usize = 100_000;

/// The configuration of a replica.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// Which replica this is.
    pub replica: ReplicaId,
    /// [`Rules::SOUND`] outside tests.
    pub rules: Rules,
    /// How much there may be.
    pub limits: Limits,
    /// By how much time may pass faster or slower elsewhere, in millionths.
    pub rate_error_ppm: u32,
    /// The shortest and the longest that a lease may last.
    pub lease_duration: (Duration, Duration),
    /// How often the leader looks for leases that have ended, and every replica for watches that nobody renews.
    pub attention_interval: Duration,
    /// A watch that is not renewed for so long ends.
    pub watch_timeout: Duration,
    /// The most watches of all clients.
    pub watches_max: usize,
    /// The most watches of one client.
    pub watches_of_client_max: usize,
    /// The most requests that wait for something to become stable or to be confirmed.
    pub waiting_max: usize,
    /// The most keys in one answer.
    pub scan_page_max: usize,
    /// Roughly how many bytes go into one answer, or one page of the state.
    pub page_bytes_max: usize,
}

impl ReplicaConfig {
    /// The configuration of `replica` with the defaults that servers use.
    pub fn new(replica: ReplicaId) -> Self {
        ReplicaConfig {
            replica,
            rules: Rules::SOUND,
            limits: Limits::DEFAULT,
            rate_error_ppm: 10_000,
            lease_duration: (Duration::from_millis(100), Duration::from_secs(3_600)),
            attention_interval: Duration::from_millis(500),
            watch_timeout: Duration::from_secs(30),
            watches_max: WATCHES_MAX,
            watches_of_client_max: WATCHES_OF_CLIENT_MAX,
            waiting_max: WAITING_MAX,
            scan_page_max: SCAN_PAGE_MAX as usize,
            page_bytes_max: PAGE_BYTES_MAX,
        }
    }

    /// A span that is surely no shorter elsewhere: nobody who began to count earlier still counts after it.
    pub(crate) fn at_least(&self, span: Duration) -> Duration {
        span + rate_error(span, self.rate_error_ppm)
    }
}

/// By how much a span may be wrong.
pub(crate) fn rate_error(span: Duration, ppm: u32) -> Duration {
    span.mul_f64(f64::from(ppm) / 1e6)
}

/// The configuration of a subscriber.
#[derive(Clone, Debug)]
pub struct SubscriberConfig {
    /// The client incarnation: random, never used before.
    pub client: ClientId,
    /// [`Rules::SOUND`] outside tests.
    pub rules: Rules,
    /// The group, and who its replicas are, as far as is known at first.
    pub group: (ShardId, Members),
    /// Questions are numbered from here on: another machine that speaks in the same name needs numbers of its own.
    pub requests_from: u64,
    /// By how much time may pass faster or slower elsewhere, in millionths.
    pub rate_error_ppm: u32,
    /// How long to wait for an answer before another replica is asked; of a write or a watch it doubles with each repetition, up to eight times that.
    pub resend_timeout: Duration,
    /// How often a watch is renewed; less than half of what replicas wait for.
    pub watch_interval: Duration,
    /// The most keys in one page when a range is read.
    pub scan_page_max: u32,
}

impl SubscriberConfig {
    /// The configuration of `client` with the defaults that servers use.
    pub fn new(client: ClientId, group: (ShardId, Members)) -> Self {
        SubscriberConfig {
            client,
            rules: Rules::SOUND,
            group,
            requests_from: 0,
            rate_error_ppm: 10_000,
            resend_timeout: Duration::from_millis(1_000),
            watch_interval: Duration::from_secs(5),
            scan_page_max: SCAN_PAGE_MAX,
        }
    }
}

/// The configuration of a coordinator.
#[derive(Clone, Debug)]
pub struct CoordinatorConfig {
    /// The client incarnation: random, never used before.
    pub client: ClientId,
    /// How long to wait for a reply to a read before another replica is asked; doubles with each repetition, up to eight times that.
    pub read_timeout: Duration,
    /// How long to wait before anything else is sent again; doubles in the same way.
    pub resend_timeout: Duration,
    /// After the client has been told "unknown", how long the coordinator goes on trying by itself.
    pub abandon_after: Duration,
    /// The most keys in one page of a scan.
    pub scan_page_max: u32,
}

impl CoordinatorConfig {
    /// The configuration of `client` with the defaults that the client library uses.
    pub fn new(client: ClientId) -> Self {
        CoordinatorConfig {
            client,
            read_timeout: Duration::from_millis(500),
            resend_timeout: Duration::from_millis(1_000),
            abandon_after: Duration::from_secs(10),
            scan_page_max: SCAN_PAGE_MAX,
        }
    }
}
