//! A cluster whose nodes have certificates: users are served, and each peer speaks for itself only.

use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate::{Certificates, Database, Error, Isolation, KeyspaceOptions, NodeId, Options};
use quorate_certificates::create::{Authority, Validity, paths};
use quorate_runtime::ports::free_listeners;
use quorate_server::{Config, Initialise, Server, Sockets};

use crate::support::{increment, until};

/// Three nodes with certificates, and their authority.
pub(crate) struct Secured {
    directory: tempfile::TempDir,
    authority: Authority,
    pub(crate) addresses: Vec<String>,
    pub(crate) servers: Vec<Server>,
}

fn validity() -> Validity {
    Validity::days(2).unwrap()
}

impl Secured {
    pub(crate) fn start() -> Secured {
        let directory = tempfile::tempdir().unwrap();
        let (authority, made) = Authority::make("tests", validity()).unwrap();
        made.write(directory.path(), "ca", false).unwrap();
        std::fs::write(directory.path().join("revoked.txt"), "").unwrap();
        let listeners = free_listeners(3).unwrap();
        let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
        let mut cluster = Secured { directory, authority, addresses, servers: Vec::new() };
        for (node, listener) in listeners.into_iter().enumerate() {
            cluster.make_node(node as u16);
            let config = Config::parse(&cluster.text(node, node as u16)).unwrap();
            let sockets = Sockets { node: Some(listener), http: None };
            cluster.servers.push(Server::start_with(config, Initialise::New, sockets).unwrap());
        }
        cluster
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    fn make_node(&self, number: u16) {
        let made = self.authority.node("shop", NodeId(number), &[], validity()).unwrap();
        made.write(self.path(), &format!("node-{number}"), true).unwrap();
    }

    /// The file of a node, with the certificate of this one.
    fn text(&self, node: usize, certificate: u16) -> String {
        let data = self.path().join(format!("data-{node}"));
        let mut text = format!("node = {node}\ndata_directory = {data:?}\nsites = [\"a\", \"b\", \"c\"]\n");
        text.push_str("[cluster]\nname = \"shop\"\nid = 99\n");
        text.push_str(&self.section(certificate));
        for (site, address) in ["a", "b", "c"].iter().zip(&self.addresses) {
            text.push_str(&format!("[[nodes]]\nsite = \"{site}\"\naddress = \"{address}\"\n"));
        }
        text
    }

    fn section(&self, certificate: u16) -> String {
        let ((ca, _), (certificate, key)) =
            (paths(self.path(), "ca"), paths(self.path(), &format!("node-{certificate}")));
        let revoked = self.path().join("revoked.txt");
        format!("[tls]\nca = {ca:?}\ncertificate = {certificate:?}\nkey = {key:?}\nrevoked = {revoked:?}\n")
    }

    pub(crate) fn files(&self, stem: &str) -> [PathBuf; 3] {
        let (certificate, key) = paths(self.path(), stem);
        [paths(self.path(), "ca").0, certificate, key]
    }

    pub(crate) fn user(&self, name: &str) -> Options {
        let made = self.authority.user("shop", name, validity()).unwrap();
        made.write(self.path(), name, true).unwrap();
        let [ca, certificate, key] = self.files(name);
        let certificates = Some(Certificates::load(ca, certificate, key).unwrap());
        Options { certificates, deadline: Duration::from_secs(30), ..Options::default() }
    }

    pub(crate) async fn connect(&self, options: Options) -> Result<Database, Error> {
        quorate::connect_with(self.addresses.as_slice(), options).await
    }
}

#[tokio::test]
async fn transactions_of_a_user_commit_while_certificates_are_renewed() {
    let cluster = Secured::start();
    let alice = cluster.user("alice");
    let db = cluster.connect(alice.clone()).await.unwrap();
    let keyspace = db.create_keyspace("accounts", KeyspaceOptions::new(Isolation::Strict)).await.unwrap();
    assert_eq!(increment(&keyspace, "visits").await.unwrap(), 1);
    let valid_until = |node: usize| cluster.servers[node].status().security.valid_until;
    let status = cluster.servers[0].status();
    assert_eq!((status.security.transport, status.misattributed_messages), ("tls", 0));
    assert_eq!(status.security.identity.as_deref(), Some("quorate://shop/node/0"));
    assert!(
        status.problems.iter().any(|problem| problem.contains("ends at")),
        "two days are left: {:?}",
        status.problems
    );
    // Each node has certificates that are valid for longer from now on.
    for node in 0..3 {
        let made = cluster.authority.node("shop", NodeId(node), &[], Validity::days(90).unwrap()).unwrap();
        made.write(cluster.path(), &format!("node-{node}"), true).unwrap();
    }
    let before = valid_until(0);
    let mut count = 1;
    while (0..3).any(|node| valid_until(node) == before) {
        count += 1;
        assert_eq!(increment(&keyspace, "visits").await.unwrap(), count);
    }
    until("no problem is left", || cluster.servers[0].status().problems.is_empty()).await;
    // And new connections are made by them.
    let again = cluster.connect(alice).await.unwrap();
    let keyspace = again.keyspace("accounts").await.unwrap();
    assert_eq!(increment(&keyspace, "visits").await.unwrap(), count + 1);
}

#[tokio::test]
async fn peers_that_are_no_users_of_the_cluster_are_told_why() {
    let cluster = Secured::start();
    let reason = cluster.connect(Options::default()).await.unwrap_err().to_string();
    assert!(reason.contains("speaks TLS only"), "{reason}");
    // The certificate of a node is none of a client.
    let [ca, certificate, key] = cluster.files("node-1");
    let refused = Certificates::load(&ca, certificate, key).unwrap_err().to_string();
    assert!(
        refused.contains("node-1.crt") && refused.contains("needs the certificate of a user"),
        "{refused}"
    );
    // Nodes that say so refuse a user that is revoked, also where it is connected already.
    let mallory = cluster.user("mallory");
    let db = cluster.connect(mallory.clone()).await.unwrap();
    let [_, certificate, _] = cluster.files("mallory");
    let shown = quorate_certificates::read_certificates(&certificate).unwrap();
    let serial = quorate_certificates::Certificate::read(&shown[0]).unwrap().serial;
    std::fs::write(cluster.path().join("revoked.txt"), serial).unwrap();
    until("nodes have refused it", || {
        cluster.servers.iter().all(|server| server.status().transport.refused_certificates > 0)
    })
    .await;
    drop(db);
    let reason = cluster.connect(mallory).await.unwrap_err().to_string();
    assert!(reason.contains("was revoked"), "{reason}");
    assert!(cluster.connect(cluster.user("alice")).await.is_ok(), "others are served");
}

#[tokio::test]
async fn a_node_starts_with_its_own_certificate_only() {
    let cluster = Secured::start();
    let other = Config::parse(&cluster.text(1, 2)).unwrap();
    let refused = Server::start(other, Initialise::No).unwrap_err().to_string();
    assert!(refused.contains("certificate of node2") && refused.contains("node1"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_joins_under_the_number_that_its_certificate_has() {
    let cluster = Secured::start();
    let db = cluster.connect(cluster.user("alice")).await.unwrap();
    // Nodes are registered once the catalogue can be written.
    db.create_keyspace("accounts", KeyspaceOptions::new(Isolation::Strict)).await.unwrap();
    let join = |number: u16| {
        cluster.make_node(number);
        let listener = free_listeners(1).unwrap().remove(0);
        let (address, data) = (listener.local_addr().unwrap(), cluster.path().join("data-new"));
        let text = format!(
            "data_directory = {data:?}\nsites = [\"d\"]\n[cluster]\nname = \"shop\"\nid = 99\njoin = [{:?}]\n{}[[nodes]]\nsite = \"d\"\naddress = \"{address}\"\n",
            cluster.addresses[0],
            cluster.section(number),
        );
        let sockets = Sockets { node: Some(listener), http: None };
        Server::start_with(Config::parse(&text).unwrap(), Initialise::New, sockets)
    };
    let refused = join(7).unwrap_err().to_string();
    assert!(refused.contains("would be node3") && refused.contains("create-node 3"), "{refused}");
    let joined = join(3).unwrap();
    let is_connected = || joined.status().peers.iter().filter(|peer| peer.connected).count() == 3;
    until("it is connected to the others", is_connected).await;
    assert_eq!(joined.status().node, 3);
}
