//! From an address to a [`Database`].

use std::sync::Arc;
use std::time::Duration;

use quorate_core::ClientId;
use quorate_runtime::clock::Clock;
use quorate_runtime::transport::{self, Transport, TurnWaker};
use quorate_wire::Peer;
use tokio::sync::Notify;

use crate::coordinators::Coordinators;
use crate::database::{Database, Shared};
use crate::directory::{Directory, site_named};
use crate::discover::{Discovered, discover};
use crate::error::{Error, Result};
use crate::host::{Attempt, ClientHost};
use crate::options::Options;
use crate::places::{Places, keep_current};
use crate::seen::Kept;
use crate::session::Session;

/// Once a majority of the nodes is connected, how long to wait for the others.
const STRAGGLERS: Duration = Duration::from_secs(1);

/// The port of a node where an address names none.
pub const DEFAULT_PORT: u16 = 7400;

/// One or several addresses, each `host:port`, or `host` for the port [`DEFAULT_PORT`]; any node of the cluster will do, and several are asked
/// in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses(Vec<String>);

impl From<&str> for Addresses {
    /// Addresses separated by commas.
    fn from(text: &str) -> Self {
        Addresses(text.split(',').map(|address| address.trim().to_owned()).collect())
    }
}

impl From<String> for Addresses {
    fn from(text: String) -> Self {
        Addresses::from(text.as_str())
    }
}

impl From<&String> for Addresses {
    fn from(text: &String) -> Self {
        Addresses::from(text.as_str())
    }
}

impl From<Vec<String>> for Addresses {
    fn from(addresses: Vec<String>) -> Self {
        Addresses(addresses)
    }
}

impl<A: AsRef<str>> From<&[A]> for Addresses {
    fn from(addresses: &[A]) -> Self {
        Addresses(addresses.iter().map(|address| address.as_ref().to_owned()).collect())
    }
}

impl<A: AsRef<str>, const N: usize> From<[A; N]> for Addresses {
    fn from(addresses: [A; N]) -> Self {
        Addresses::from(addresses.as_slice())
    }
}

/// An address with its port.
fn with_port(address: &str) -> String {
    let (colons, is_bracketed) = (address.matches(':').count(), address.starts_with('['));
    match colons {
        0 => format!("{address}:{DEFAULT_PORT}"),
        _ if is_bracketed && address.ends_with(']') => format!("{address}:{DEFAULT_PORT}"),
        1 => address.to_owned(),
        _ if is_bracketed => address.to_owned(),
        // An IPv6 address without brackets has no room for a port.
        _ => format!("[{address}]:{DEFAULT_PORT}"),
    }
}

/// Connects to the cluster that any of these addresses belongs to, with the default [`Options`].
///
/// ```no_run
/// # async fn example() -> quorate::Result<()> {
/// let db = quorate::connect("127.0.0.1:7400").await?;
/// let accounts = db.keyspace("accounts").await?;
/// # drop(accounts);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Connect`] if no address answers, [`Error::Handshake`] if one answers, but not as a server of this version.
pub async fn connect(addresses: impl Into<Addresses>) -> Result<Database> {
    connect_with(addresses, Options::default()).await
}

/// As [`connect`], with options.
///
/// # Errors
/// As [`connect`], and [`Invalid::NoSuchSite`](crate::Invalid::NoSuchSite) if the cluster has no such site.
pub async fn connect_with(addresses: impl Into<Addresses>, options: Options) -> Result<Database> {
    let addresses: Vec<String> = addresses.into().0.iter().map(|address| with_port(address)).collect();
    let client = new_client()?;
    let site = options.site.clone().unwrap_or_default();
    let tls = options.tls();
    let Discovered { cluster, directory } = discover(
        &addresses,
        (client, &site, options.credential.as_ref()),
        options.connect_timeout,
        tls.as_ref(),
    )
    .await?;
    let topology = directory.topology;
    let site_id = options.site.as_ref().map(|site| site_named(&topology, site)).transpose()?;

    let (settled, stale) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let coordinators = Coordinators::new(options.coordinator(client));
    let host = ClientHost::new(client, coordinators, &topology, Arc::clone(&settled), Arc::clone(&stale));
    let mut transport_options = transport::Options::new(cluster, Peer::Client(client), site.clone());
    transport_options.dials_each_event_loop = true;
    transport_options.delays = options.delays.clone().map(Arc::new);
    transport_options.tls = tls;
    transport_options.credential = options.credential.clone();
    transport_options.handshake_timeout = options.connect_timeout;
    let clock = Clock::start();
    let (transport, _) = Transport::start(host, transport_options, clock, TurnWaker::default());
    transport.with(|host, turn| host.start(turn));
    let places = Places::new((site_id, site), topology.clone(), Arc::clone(&stale));
    places.dial(&transport, &topology);
    wait_for_nodes(&transport, &settled, options.connect_timeout).await;
    let attempts = transport.with(|host, _| host.attempts());
    places.measure(topology, &options, &attempts);
    if !attempts.iter().any(|attempt| matches!(attempt, Attempt::Reached(_))) {
        transport.abandon();
        return Err(unreachable(&places.directory(), &attempts));
    }
    let session =
        Session::new(client, options.open_transactions_max, options.commits_in_flight_max, transport.clone());
    let system = Arc::new(directory.system);
    let shared = Arc::new(Shared {
        session,
        options,
        places,
        indexes: Default::default(),
        probabilities: Default::default(),
        kept: Kept::default(),
        system: Arc::clone(&system),
    });
    tokio::spawn(keep_current(Arc::downgrade(&shared), transport.clone(), Arc::clone(&system), stale));
    Ok(Database::new(shared, transport, system))
}

/// Waits until every node was reached or could not be; not for long once a majority is reached.
async fn wait_for_nodes(transport: &Transport<ClientHost>, settled: &Notify, timeout: Duration) {
    let mut deadline = tokio::time::Instant::now() + timeout;
    loop {
        let attempts = transport.with(|host, _| host.attempts());
        if !attempts.contains(&Attempt::Open) {
            return;
        }
        let reached = attempts.iter().filter(|attempt| matches!(attempt, Attempt::Reached(_))).count();
        if reached * 2 > attempts.len() {
            deadline = deadline.min(tokio::time::Instant::now() + STRAGGLERS);
        }
        if tokio::time::timeout_at(deadline, settled.notified()).await.is_err() {
            return;
        }
    }
}

fn unreachable(directory: &Directory, attempts: &[Attempt]) -> Error {
    let reason = |attempt: &Attempt| match attempt {
        Attempt::Failed(reason) => reason.clone(),
        Attempt::Open | Attempt::Reached(_) => "no answer in time".to_owned(),
    };
    let nodes = directory.topology().nodes.iter().zip(attempts).filter(|(node, _)| !node.is_forgotten());
    Error::Connect { tried: nodes.map(|(node, at)| (node.address.clone(), reason(at))).collect() }
}

/// A name that no client has had before.
fn new_client() -> Result<ClientId> {
    loop {
        let drawn = getrandom::u64().map_err(|error| {
            Error::application(format!("the operating system gives no random numbers ({error})"))
        })?;
        if drawn != 0 {
            return Ok(ClientId(drawn));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_port_has_the_usual_one() {
        for (address, whole) in [
            ("localhost", "localhost:7400"),
            ("localhost:7", "localhost:7"),
            ("10.0.0.1", "10.0.0.1:7400"),
            ("::1", "[::1]:7400"),
            ("[::1]", "[::1]:7400"),
            ("[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(with_port(address), whole);
        }
    }

    #[test]
    fn addresses_come_in_many_shapes() {
        let expected = Addresses(vec!["a:1".to_owned(), "b:2".to_owned()]);
        assert_eq!(Addresses::from("a:1, b:2"), expected);
        assert_eq!(Addresses::from("a:1,b:2".to_owned()), expected);
        assert_eq!(Addresses::from(["a:1", "b:2"]), expected);
        assert_eq!(Addresses::from(vec!["a:1".to_owned(), "b:2".to_owned()]), expected);
        assert_eq!(Addresses::from("a:1"), Addresses(vec!["a:1".to_owned()]));
    }

    #[test]
    fn clients_have_names_of_their_own() {
        assert_ne!(new_client().unwrap(), new_client().unwrap());
    }
}
