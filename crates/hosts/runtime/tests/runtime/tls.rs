//! Connections that TLS secures: who is served, who is refused and told why, and what renewal does.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quorate_certificates::create::{Authority, Validity};
use quorate_certificates::{Date, Files, Purpose, Renewal, Trust};
use quorate_core::{ClientId, NodeId};
use quorate_runtime::conversation::{Conversation, Trouble};
use quorate_runtime::transport::{Options, Target};
use quorate_wire::{Hello, Packet, Peer};

use crate::harness::{
    CLUSTER, Process, Raw, Seen, blocking, client, envelope, frame, hello, node, node_options,
};

/// An authority with what it has signed.
struct Folder {
    directory: tempfile::TempDir,
    authority: Authority,
}

impl Folder {
    fn new() -> Folder {
        let directory = tempfile::tempdir().unwrap();
        let (authority, made) = Authority::make("tests", days(-1, 10)).unwrap();
        made.write(directory.path(), "ca", false).unwrap();
        std::fs::write(directory.path().join("revoked.txt"), "").unwrap();
        Folder { directory, authority }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn files(&self, stem: &str) -> Files {
        let file = |name: String| self.path().join(name);
        Files {
            ca: file("ca.crt".to_owned()),
            certificate: file(format!("{stem}.crt")),
            key: file(format!("{stem}.key")),
            revoked: Some(file("revoked.txt".to_owned())),
        }
    }

    fn write_node(&self, number: u16) -> Files {
        let made = self.authority.node("shop", NodeId(number), &[], days(-1, 5)).unwrap();
        let stem = format!("node-{number}");
        made.write(self.path(), &stem, true).unwrap();
        self.files(&stem)
    }

    fn node(&self, number: u16) -> Arc<Trust> {
        let purpose = Purpose::Node { cluster: "shop".to_owned(), node: Some(NodeId(number)) };
        Trust::load(self.write_node(number), purpose).unwrap()
    }

    fn user(&self, name: &str, validity: Validity) -> Arc<Trust> {
        self.user_of("shop", name, validity)
    }

    /// A user, whose certificate need not be good: a door looks at that of its clients, not at its own.
    fn user_of(&self, cluster: &str, name: &str, validity: Validity) -> Arc<Trust> {
        let made = self.authority.user(cluster, name, validity).unwrap();
        made.write(self.path(), name, true).unwrap();
        Trust::load(self.files(name), Purpose::Door { cluster: "shop".to_owned() }).unwrap()
    }
}

fn days(from: i64, to: i64) -> Validity {
    let now = Date::now().0;
    Validity::between(Date(now + from * 86_400), Date(now + to * 86_400)).unwrap()
}

async fn secured_node(trust: &Arc<Trust>) -> Process {
    node(Options { tls: Some(Arc::clone(trust)), ..node_options() }).await
}

fn client_with(number: u64, trust: &Arc<Trust>) -> Options {
    Options { tls: Some(Arc::clone(trust)), ..Options::new(0, Peer::Client(ClientId(number)), "europe") }
}

/// Says hello to a node as this peer, and gives why it is refused.
async fn refusal(server: &Process, trust: Option<&Arc<Trust>>, peer: Peer) -> String {
    let hello = Hello { cluster: CLUSTER, peer, site: String::new(), credential: None, event_loop: 0 };
    let begun = Conversation::begin(&server.address.to_string(), hello, trust).await;
    match begun {
        Err(Trouble::Refused(reason) | Trouble::Unreachable(reason)) => reason,
        Ok(_) => panic!("it is served"),
    }
}

/// Waits until a node has counted so many refusals, all of them because of certificates: it counts when a refused peer has had its time to read why.
async fn counted(server: &Process, refusals: u64) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let counters = server.transport.with(|_, turn| turn.counters());
        let counts = (counters.refused, counters.refused_by_certificate);
        if counts == (refusals, refusals) {
            return;
        }
        assert!(counts.0 <= refusals && Instant::now() < deadline, "{counts:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_user_is_served_and_messages_of_all_sizes_pass() {
    let folder = Folder::new();
    let mut server = secured_node(&folder.node(1)).await;
    let mut alice = client(client_with(9, &folder.user("alice", days(-1, 5))));
    let _dialled = alice.transport.dial(Target { expect: Some(NodeId(1)), ..server.target() });
    let link = alice.link_up().await;
    let accepted = server.link_up().await;
    let certified =
        server.transport.with(|_, turn| turn.remote(accepted).and_then(|remote| remote.certified.clone()));
    assert_eq!(
        certified.map(|certified| certified.identity.to_uri()).as_deref(),
        Some("quorate://shop/user/alice")
    );
    // More than the buffers of rustls and of the sockets hold.
    const MESSAGES: u64 = 50_000;
    alice.transport.with(|_, turn| (0..MESSAGES).for_each(|sequence| turn.send(link, &envelope(sequence))));
    let mut answers = 0;
    while answers < MESSAGES {
        match alice.next().await {
            Seen::Packet(Packet::Envelope(_)) => answers += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(alice.transport.with(|_, turn| turn.queued_bytes()), 0);
}

#[tokio::test]
async fn each_peer_speaks_for_the_identity_of_its_certificate_only() {
    let folder = Folder::new();
    let server = secured_node(&folder.node(1)).await;
    let (third, alice) = (folder.node(3), folder.user("alice", days(-1, 5)));
    let as_fourth = refusal(&server, Some(&third), Peer::Node(NodeId(4))).await;
    assert!(as_fourth.contains("node4") && as_fourth.contains("node3"), "{as_fourth}");
    let as_node = refusal(&server, Some(&alice), Peer::Node(NodeId(3))).await;
    assert!(as_node.contains("user alice"), "{as_node}");
    let hello = Hello {
        cluster: CLUSTER,
        peer: Peer::Node(NodeId(3)),
        site: String::new(),
        credential: None,
        event_loop: 0,
    };
    assert!(Conversation::begin(&server.address.to_string(), hello, Some(&third)).await.is_ok());
}

#[tokio::test]
async fn a_client_is_not_taken_over_by_another_user() {
    let folder = Folder::new();
    let server = secured_node(&folder.node(1)).await;
    let (alice, bob) = (folder.user("alice", days(-1, 5)), folder.user("bob", days(-1, 5)));
    let hello = || Hello {
        cluster: 0,
        peer: Peer::Client(ClientId(9)),
        site: String::new(),
        credential: None,
        event_loop: 0,
    };
    let address = server.address.to_string();
    let _held = Conversation::begin(&address, hello(), Some(&alice)).await.unwrap();
    while server.transport.with(|_, turn| turn.links_len()) == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let refused = refusal(&server, Some(&bob), Peer::Client(ClientId(9))).await;
    assert!(refused.contains("another user"), "{refused}");
    assert!(Conversation::begin(&address, hello(), Some(&alice)).await.is_ok(), "she may come again");
}

#[tokio::test]
async fn certificates_that_are_not_good_are_refused_in_words() {
    let folder = Folder::new();
    let server = secured_node(&folder.node(1)).await;
    let foreign = Folder::new();
    foreign.authority.user("shop", "eve", days(-1, 5)).unwrap().write(folder.path(), "eve", true).unwrap();
    let eve = Trust::load(folder.files("eve"), Purpose::Door { cluster: "shop".to_owned() }).unwrap();
    let revoked = folder.user("mallory", days(-1, 5));
    std::fs::write(folder.path().join("revoked.txt"), revoked.own().serial).unwrap();
    let trust = folder.node(1);
    let renewed = secured_node(&trust).await;
    let me = Peer::Client(ClientId(9));
    for (server, trust, expected) in [
        (&server, folder.user("old", days(-3, -2)), "expired at"),
        (&server, folder.user("young", days(2, 3)), "not valid before"),
        (&server, eve, "another authority"),
        (&server, folder.user_of("bank", "carol", days(-1, 5)), "another cluster"),
        (&renewed, revoked, "was revoked"),
    ] {
        let reason = refusal(server, Some(&trust), me).await;
        assert!(reason.contains(expected), "{reason}");
    }
    counted(&server, 4).await;
}

#[tokio::test]
async fn a_client_does_not_speak_with_a_server_that_is_no_node_of_its_cluster() {
    let folder = Folder::new();
    // It has the certificate of a user, and listens.
    let mallory = secured_node(&folder.user("mallory", days(-1, 5))).await;
    let alice = folder.user("alice", days(-1, 5));
    let reason = refusal(&mallory, Some(&alice), Peer::Client(ClientId(9))).await;
    assert!(reason.contains("not made for a node"), "{reason}");
    // A node that says that it is another one.
    let second = secured_node(&folder.node(2)).await;
    let reason = refusal(&second, Some(&alice), Peer::Client(ClientId(9))).await;
    assert!(reason.contains("node1") && reason.contains("node2"), "{reason}");
}

#[tokio::test]
async fn plain_text_and_tls_that_meet_are_told_apart_on_both_sides() {
    let folder = Folder::new();
    let (secured, plain) = (secured_node(&folder.node(1)).await, node(node_options()).await);
    let me = Peer::Client(ClientId(9));
    let reason = refusal(&secured, None, me).await;
    assert!(reason.contains("speaks TLS only"), "{reason}");
    let reason = refusal(&plain, Some(&folder.user("alice", days(-1, 5))), me).await;
    assert!(reason.contains("does not speak TLS"), "{reason}");
    for server in [&secured, &plain] {
        counted(server, 1).await;
    }
}

#[tokio::test]
async fn a_peer_that_closes_without_a_word_is_not_taken_for_one_in_plain_text() {
    let folder = Folder::new();
    for server in [secured_node(&folder.node(1)).await, node(node_options()).await] {
        drop(TcpStream::connect(server.address).unwrap());
        let deadline = Instant::now() + Duration::from_secs(20);
        let counters = loop {
            let counters = server.transport.with(|_, turn| turn.counters());
            if counters.refused > 0 {
                break counters;
            }
            assert!(Instant::now() < deadline, "the connection has not ended");
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        assert_eq!((counters.refused, counters.refused_by_certificate), (1, 0));
    }
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_not_waited_for_and_keeps_nobody_out() {
    let folder = Folder::new();
    let server = secured_node(&folder.node(1)).await;
    let address = server.address;
    let alice = folder.user("alice", days(-1, 5));
    let silent = blocking(move || {
        let mut silent = Vec::new();
        for number in 0..400u32 {
            let mut stream = TcpStream::connect(address).unwrap();
            // Nothing, the beginning of a record, and garbage behind one.
            match number % 4 {
                0 => {}
                1 => stream.write_all(&[0x16]).unwrap(),
                2 => stream.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).unwrap(),
                _ => stream.write_all(&[0x16, 0x03, 0x01, 0x00, 0x04, 9, 9, 9, 9]).unwrap(),
            }
            silent.push(stream);
        }
        silent
    })
    .await;
    let mut served = client(client_with(9, &alice));
    let begun = Instant::now();
    let _dialled = served.transport.dial(server.target());
    served.link_up().await;
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    blocking(move || {
        for mut stream in silent {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let mut rest = Vec::new();
            // Closed within the time for a handshake, with an alert or without.
            match stream.read_to_end(&mut rest) {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn strangers_in_plain_text_that_say_nothing_make_room_too() {
    let server =
        node(Options { handshake_timeout: Duration::from_secs(60), connections_max: 4, ..node_options() })
            .await;
    let address = server.address;
    blocking(move || {
        let silent: Vec<_> = (0..300).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut served = Raw::introduced(address);
        served.assert_served(1);
        drop(silent);
        served.write(&frame(&[hello()]));
    })
    .await;
}

/// The certificates of both sides are renewed again and again while messages pass and connections are made.
#[tokio::test]
async fn renewal_under_load_loses_nothing() {
    let folder = Folder::new();
    let trust = folder.node(1);
    let server = secured_node(&trust).await;
    let alice = folder.user("alice", days(-1, 5));
    let mut patient = client(client_with(9, &alice));
    let _dialled = patient.transport.dial(server.target());
    let link = patient.link_up().await;
    let mut serials = std::collections::BTreeSet::new();
    for round in 0..10u64 {
        folder.write_node(1);
        assert_eq!(trust.renew(), Renewal::Renewed);
        serials.insert(trust.own().serial);
        patient
            .transport
            .with(|_, turn| (0..100).for_each(|number| turn.send(link, &envelope(round * 100 + number))));
        let mut fresh = client(client_with(100 + round, &alice));
        let _fresh = fresh.transport.dial(server.target());
        fresh.link_up().await;
        for number in 0..100 {
            match patient.next().await {
                Seen::Packet(Packet::Envelope(answer)) => {
                    assert_eq!(
                        Packet::Envelope(answer.clone()),
                        answered(round * 100 + number),
                        "{answer:?}"
                    );
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(serials.len(), 10);
    assert_eq!(server.transport.with(|_, turn| turn.counters().refused), 0);
}

/// The answer of the echo to a message.
fn answered(sequence: u64) -> Packet {
    let Packet::Envelope(sent) = envelope(sequence) else { panic!("it is a message") };
    let (from, to) = (sent.to, sent.from);
    Packet::Envelope(quorate_wire::Envelope { from, to, ..sent })
}

#[tokio::test]
async fn a_connection_ends_when_its_certificate_is_revoked() {
    let folder = Folder::new();
    let trust = folder.node(1);
    let mut server = secured_node(&trust).await;
    let alice = folder.user("alice", days(-1, 5));
    let mut served = client(client_with(9, &alice));
    let _dialled = served.transport.dial(server.target());
    served.link_up().await;
    server.link_up().await;
    std::fs::write(folder.path().join("revoked.txt"), alice.own().serial).unwrap();
    assert_eq!(trust.renew(), Renewal::Renewed);
    match server.next().await {
        Seen::Down(reason) => assert!(reason.contains("was revoked"), "{reason}"),
        other => panic!("{other:?}"),
    }
    // The client tries again, and is told.
    loop {
        match served.next().await {
            Seen::DialFailed(reason) => {
                assert!(reason.contains("was revoked"), "{reason}");
                break;
            }
            Seen::Down(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_secured_connection_is_passed_on_to_another_event_loop() {
    let folder = Folder::new();
    let trust = folder.node(1);
    let of_two = || Options { event_loops: 2, tls: Some(Arc::clone(&trust)), ..node_options() };
    let (mut first, mut second) = (node(of_two()).await, node(of_two()).await);
    first.transport.share_connections(vec![second.transport.clone()]);
    let mut alice = client(client_with(9, &folder.user("alice", days(-1, 5))));
    let _dialled = alice.transport.dial(Target { event_loop: 1, ..first.target() });
    let link = alice.link_up().await;
    let accepted = second.link_up().await;
    let certified =
        second.transport.with(|_, turn| turn.remote(accepted).and_then(|remote| remote.certified.clone()));
    assert!(certified.is_some());
    // More than is encrypted at once.
    const MESSAGES: u64 = 5_000;
    alice.transport.with(|_, turn| (0..MESSAGES).for_each(|sequence| turn.send(link, &envelope(sequence))));
    for answer in 0..MESSAGES {
        let Seen::Packet(Packet::Envelope(_)) = alice.next().await else { panic!("{answer}") };
    }
    assert_eq!(first.transport.with(|_, turn| turn.links_len()), 0);
    second.transport.abandon();
    assert!(matches!(alice.next().await, Seen::Down(_)));
    drop(alice);
    assert!(first.seen.try_recv().is_err(), "the first event loop has nothing of it");
}
