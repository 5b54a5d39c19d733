//! Doors: to a real cluster, and to none.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use quorate_gateway::{Gateway, Limits, Options};
use quorate_http::Http;
use quorate_runtime::ports::free_listeners;
use quorate_server::{Config, Initialise, Server, Sockets};

/// Opens a door to a cluster at these addresses.
pub(crate) fn open(addresses: Vec<String>, limits: Limits) -> (Gateway, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let door = listener.local_addr().unwrap();
    let http: Arc<dyn quorate_gateway::Door> = Arc::new(Http::new());
    let options = Options { limits, ..Options::new(addresses) };
    (Gateway::start(options, vec![(listener, http)]).unwrap(), door)
}

/// Three nodes, and a door.
pub(crate) struct Cluster {
    pub(crate) servers: Vec<Server>,
    _gateway: Gateway,
    _directory: tempfile::TempDir,
    pub(crate) addresses: Vec<String>,
    pub(crate) door: SocketAddr,
}

impl Cluster {
    pub(crate) fn start(limits: Limits) -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        let listeners = free_listeners(3).unwrap();
        let addresses: Vec<String> =
            listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
        let config = |node: usize| {
            let data = directory.path().join(format!("node-{node}"));
            let mut text = format!(
                "node = {node}\ndata_directory = {data:?}\nsites = [\"a\", \"b\", \"c\"]\n[cluster]\nname = \"test\"\nid = 99\n"
            );
            for (site, address) in ["a", "b", "c"].iter().zip(&addresses) {
                text.push_str(&format!("[[nodes]]\nsite = \"{site}\"\naddress = \"{address}\"\n"));
            }
            Config::parse(&text).unwrap()
        };
        let start = |(node, listener)| {
            let sockets = Sockets { node: Some(listener), http: None };
            Server::start_with(config(node), Initialise::New, sockets).unwrap()
        };
        let servers = listeners.into_iter().enumerate().map(start).collect();
        let (gateway, door) = open(addresses.clone(), limits);
        Cluster { servers, _gateway: gateway, _directory: directory, addresses, door }
    }
}
