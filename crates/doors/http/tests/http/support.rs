//! Doors: to a real cluster, and to none.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use quorate_cluster::ThreeNodes;
use quorate_gateway::{Gateway, Limits, Options};
use quorate_http::Http;

/// Opens a door to a cluster at these addresses.
pub(crate) fn open(
    addresses: Vec<String>,
    client: quorate::Options,
    limits: Limits,
) -> (Gateway, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let door = listener.local_addr().unwrap();
    let http: Arc<dyn quorate_gateway::Door> = Arc::new(Http::new());
    let options = Options { limits, client, ..Options::new(addresses) };
    (Gateway::start(options, vec![(listener, http)]).unwrap(), door)
}

/// Three nodes, and a door.
pub(crate) struct Cluster {
    // Before the nodes: it is a client of them.
    _gateway: Gateway,
    pub(crate) nodes: ThreeNodes,
    pub(crate) door: SocketAddr,
}

impl Cluster {
    pub(crate) fn start(limits: Limits) -> Cluster {
        Cluster::start_in(limits, ["a", "b", "c"], None)
    }

    /// One of three sites, as far apart as a matrix says.
    pub(crate) fn start_in(limits: Limits, sites: [&str; 3], matrix: Option<&str>) -> Cluster {
        let nodes = ThreeNodes::start_in(sites, matrix).unwrap();
        let (gateway, door) = open(nodes.addresses(), nodes.client().unwrap(), limits);
        Cluster { _gateway: gateway, nodes, door }
    }
}
