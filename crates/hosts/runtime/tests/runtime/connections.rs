//! Connections as they should be: made, used, broken, made again.

use std::time::Duration;

use quorate_core::NodeId;
use quorate_runtime::transport::{Options, Target};
use quorate_wire::{Packet, Peer};

use crate::harness::{
    Raw, Seen, blocking, client, client_options, envelope, frame, hello, node, node_options,
};

#[tokio::test]
async fn messages_of_one_turn_arrive_in_order_and_leave_in_few_writes() {
    let server = node(node_options()).await;
    let mut client = client(client_options(1));
    let _dialled = client.transport.dial(server.target());
    let link = client.link_up().await;
    // A few wait for the end of the turn; of many, the first ones do not.
    for (messages, writes) in [(100, 1..=1), (10_000, 2..=100)] {
        let before = client.transport.with(|_, turn| turn.counters());
        client.transport.with(|_, turn| {
            for sequence in 0..messages {
                turn.send(link, &envelope(sequence));
            }
        });
        for sequence in 0..messages {
            let Seen::Packet(Packet::Envelope(answer)) = client.next().await else { panic!("no answer") };
            let Packet::Envelope(asked) = envelope(sequence) else { unreachable!() };
            assert_eq!(answer.message, asked.message);
        }
        let counters = client.transport.with(|_, turn| turn.counters());
        assert_eq!(counters.messages_sent - before.messages_sent, messages);
        assert_eq!(counters.messages_received - before.messages_received, messages);
        assert!(writes.contains(&(counters.socket_writes - before.socket_writes)), "{counters:?}");
        assert_eq!(client.transport.with(|_, turn| turn.queued_bytes()), 0);
    }
}

#[tokio::test]
async fn a_peer_need_not_wait_for_the_welcome() {
    let server = node(node_options()).await;
    let address = server.address;
    blocking(move || {
        for frames in [frame(&[hello(), envelope(1)]), [frame(&[hello()]), frame(&[envelope(1)])].concat()] {
            let mut raw = Raw::connect(address);
            raw.write(&frames);
            assert!(matches!(raw.read(), Some(Packet::Welcome(_))));
            assert!(matches!(raw.read(), Some(Packet::Envelope(_))));
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_connects_again_when_the_node_comes_back() {
    let mut server = node(node_options()).await;
    let mut client = client(client_options(1));
    let _dialled = client.transport.dial(server.target());
    client.link_up().await;
    server.link_up().await;

    let address = server.address;
    server.transport.close("this node stops", Duration::from_secs(1)).await;
    let Seen::Down(reason) = client.next().await else { panic!("not down") };
    assert!(reason.contains("this node stops"), "{reason}");

    let (host_seen, listener) = loop {
        match tokio::net::TcpListener::bind(address).await {
            Ok(listener) => break (node(node_options()).await, listener),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    host_seen.transport.listen(listener);
    client.link_up().await;
}

#[tokio::test]
async fn a_dial_that_fails_says_why_and_is_repeated() {
    let mut client = client(client_options(1));
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let _dialled = client.transport.dial(Target { address: unused.to_string(), expect: None, event_loop: 0 });
    for _ in 0..3 {
        let Seen::DialFailed(reason) = client.next().await else { panic!("connected") };
        assert!(reason.contains("refused"), "{reason}");
    }
}

#[tokio::test]
async fn an_unexpected_node_or_cluster_is_not_accepted() {
    let server = node(node_options()).await;
    let mut first = client(client_options(1));
    let _dialled = first.transport.dial(Target { expect: Some(NodeId(5)), ..server.target() });
    let Seen::DialFailed(reason) = first.next().await else { panic!("connected") };
    assert!(reason.contains("node1"), "{reason}");

    let mut second = client(Options { cluster: 8, ..client_options(2) });
    let _dialled = second.transport.dial(server.target());
    let Seen::DialFailed(reason) = second.next().await else { panic!("connected") };
    assert!(reason.contains("cluster 7") && reason.contains("cluster 8"), "{reason}");
}

#[tokio::test]
async fn dropping_a_dial_closes_its_connection() {
    let mut server = node(node_options()).await;
    let mut client = client(client_options(1));
    let dialled = client.transport.dial(server.target());
    client.link_up().await;
    let Seen::Up(_, Peer::Client(_)) = server.next().await else { panic!("no client") };
    drop(dialled);
    assert!(matches!(client.next().await, Seen::Down(_)));
    assert!(matches!(server.next().await, Seen::Down(_)));
    assert_eq!(client.transport.with(|_, turn| turn.links_len()), 0);
}

#[tokio::test]
async fn abandoning_closes_at_once() {
    let mut server = node(node_options()).await;
    let mut client = client(client_options(1));
    let _dialled = client.transport.dial(server.target());
    client.link_up().await;
    server.link_up().await;
    server.transport.abandon();
    assert!(matches!(client.next().await, Seen::Down(_)));
    assert!(matches!(client.next().await, Seen::DialFailed(_)), "nobody listens any more");
}

#[tokio::test]
async fn a_connection_is_served_by_the_event_loop_that_it_leads_to() {
    let of_two = || Options { event_loops: 2, ..node_options() };
    let (mut first, mut second) = (node(of_two()).await, node(of_two()).await);
    first.transport.share_connections(vec![second.transport.clone()]);
    let mut client = client(Options { dials_each_event_loop: true, ..client_options(1) });
    let dialled = client.transport.dial(first.target());
    let links = [client.link_up().await, client.link_up().await];
    first.link_up().await;
    second.link_up().await;
    let event_loops = client.transport.with(|_, turn| {
        links.map(|link| turn.remote(link).map(|remote| (remote.event_loop, remote.event_loops)))
    });
    assert_eq!(event_loops, [Some((0, 2)), Some((1, 2))]);
    for (sequence, link) in (0..).zip(links) {
        client.transport.with(|_, turn| turn.send(link, &envelope(sequence)));
        assert!(matches!(client.next().await, Seen::Packet(Packet::Envelope(_))), "{sequence} is answered");
    }
    for process in [&first, &second] {
        assert_eq!(process.transport.with(|_, turn| turn.counters().messages_received), 1);
    }
    // They belong together, and end together.
    drop(dialled);
    assert!(matches!(first.next().await, Seen::Down(_)));
    assert!(matches!(second.next().await, Seen::Down(_)));
    assert_eq!(client.transport.with(|_, turn| turn.links_len()), 0);
}

#[tokio::test]
async fn an_event_loop_that_a_node_does_not_have_means_the_remainder() {
    let mut server = node(node_options()).await;
    let mut client = client(client_options(1));
    let _dialled = client.transport.dial(Target { event_loop: 5, ..server.target() });
    let link = client.link_up().await;
    server.link_up().await;
    let remote = client.transport.with(|_, turn| turn.remote(link).cloned()).unwrap();
    assert_eq!((remote.event_loop, remote.event_loops), (0, 1));
}
