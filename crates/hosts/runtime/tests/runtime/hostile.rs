//! Peers that break the rules lose their own connection, with a reason, and nothing else happens.

use std::time::Duration;

use quorate_core::{Address, ClientId, Epoch, NodeId};
use quorate_runtime::transport::Options;
use quorate_tapir::Message;
use quorate_wire::{Envelope, Hello, Packet, Peer};

use crate::harness::{
    REPLICA, Raw, Seen, blocking, client, client_options, envelope, frame, hello, node, node_options,
};

/// Lets `misbehave` loose on a node while a well-behaved client is connected, which must not notice.
async fn while_another_is_served(misbehave: impl FnOnce(&mut dyn FnMut(bool) -> Raw) + Send + 'static) {
    let server = node(node_options()).await;
    let address = server.address;
    blocking(move || {
        let mut bystander = Raw::introduced(address);
        bystander.assert_served(1);
        misbehave(&mut |introduced| {
            if introduced { Raw::introduced(address) } else { Raw::connect(address) }
        });
        bystander.assert_served(2);
    })
    .await;
}

#[tokio::test]
async fn garbage_is_answered_with_goodbye() {
    while_another_is_served(|connect| {
        for introduced in [false, true] {
            let mut raw = connect(introduced);
            raw.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let reason = raw.goodbye();
            assert!(reason.contains("exceeds the limit"), "{reason}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_damaged_frame_is_refused() {
    while_another_is_served(|connect| {
        let mut raw = connect(true);
        let mut bytes = frame(&[envelope(1)]);
        *bytes.last_mut().unwrap() ^= 1;
        raw.write(&bytes);
        assert!(raw.goodbye().contains("CRC"));
    })
    .await;
}

#[tokio::test]
async fn another_version_is_told_so() {
    while_another_is_served(|connect| {
        let mut raw = connect(false);
        let mut bytes = frame(&[hello()]);
        bytes[8] = 9;
        let crc = crc32fast::hash(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        raw.write(&bytes);
        let reason = raw.goodbye();
        assert!(reason.contains("version 9") && reason.contains("version 1"), "{reason}");
    })
    .await;
}

/// A frame of these packets.
fn frame_of(packets: &[&[u8]]) -> Vec<u8> {
    let mut body = vec![1];
    for packet in packets {
        body.extend_from_slice(&[0x0a, packet.len() as u8]);
        body.extend_from_slice(packet);
    }
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

/// While versions are mixed, a message of a kind that this version does not know is as good as lost, and nothing else is.
#[tokio::test]
async fn what_a_later_version_says_is_passed_over_and_answered() {
    let mut server = node(node_options()).await;
    let address = server.address;
    let outdated = Envelope {
        from: Address::Client(ClientId(9)),
        to: REPLICA,
        epoch: Epoch::FIRST,
        message: Message::Outdated.into(),
    };
    let known = quorate_wire::encode(&Packet::Envelope(outdated));
    let message = quorate_wire::encode(&Message::Outdated);
    let at = known.windows(message.len()).rposition(|bytes| bytes == &message[..]).expect("it is in there");
    let mut later_message = known.to_vec();
    // The message with the greatest number of all becomes one with a number beyond.
    later_message[at] += 1 << 3;
    // A packet with number 1,000, and nothing in it.
    let later_packet = [0xc2, 0x3e, 0];
    blocking(move || {
        let mut raw = Raw::introduced(address);
        for _ in 0..3 {
            let request = quorate_wire::encode(&envelope(0));
            raw.write(&frame_of(&[&later_message, &request, &later_packet]));
        }
        let unsupported = |message: &str| Packet::Unsupported { message: message.to_owned() };
        let mut packets = raw.read_many(5);
        packets.retain(|packet| !matches!(packet, Packet::Envelope(_)));
        assert_eq!(packets, [unsupported("tapir.Message"), unsupported("Packet")], "once for each");
        raw.write(&frame(&[unsupported("tapir.Message")]));
        raw.assert_served(1);
    })
    .await;
    let counters = server.transport.with(|_, turn| turn.counters());
    assert_eq!((counters.unsupported, counters.unsupported_by_peers, counters.violations), (6, 1, 0));
    assert!(matches!(server.next().await, Seen::Up(..)));
    let next = server.next().await;
    assert!(matches!(next, Seen::Down(_)), "the host notices nothing until the end, but {next:?}");
}

#[tokio::test]
async fn an_oversized_frame_is_refused_before_it_is_read() {
    while_another_is_served(|connect| {
        let mut raw = connect(true);
        raw.write(&[0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0, 1]);
        assert!(raw.goodbye().contains("exceeds the limit"));
        let mut raw = connect(false);
        raw.write(&[0, 0x20, 0, 0, 0, 0, 0, 0, 1]);
        assert!(raw.goodbye().contains("4096"), "strangers get less");
    })
    .await;
}

#[tokio::test]
async fn a_valid_frame_with_a_malformed_packet_is_refused() {
    while_another_is_served(|connect| {
        let mut raw = connect(true);
        // One packet of kind 1, an envelope, without any of its fields.
        let body = [1, 0x0a, 0x02, 0x0a, 0x00];
        let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
        bytes.extend_from_slice(&body);
        raw.write(&bytes);
        let reason = raw.goodbye();
        assert!(reason.contains("Envelope"), "{reason}");
    })
    .await;
}

#[tokio::test]
async fn the_first_packet_must_be_hello_and_the_only_hello() {
    while_another_is_served(|connect| {
        let mut raw = connect(false);
        raw.write(&frame(&[envelope(1)]));
        assert!(raw.goodbye().contains("hello"));
        let mut raw = connect(true);
        raw.write(&frame(&[hello()]));
        assert!(raw.goodbye().contains("second handshake"));
    })
    .await;
}

#[tokio::test]
async fn another_cluster_is_refused() {
    while_another_is_served(|connect| {
        for peer in [Peer::Client(ClientId(1)), Peer::Node(quorate_core::NodeId(2))] {
            let mut raw = connect(false);
            raw.write(&frame(&[Packet::Hello(Hello {
                cluster: 8,
                peer,
                site: String::new(),
                credential: None,
                event_loop: 0,
            })]));
            assert!(raw.goodbye().contains("cluster 8"));
        }
        let mut raw = connect(false);
        let anonymous = Hello {
            cluster: 0,
            peer: Peer::Node(quorate_core::NodeId(2)),
            site: String::new(),
            credential: None,
            event_loop: 0,
        };
        raw.write(&frame(&[Packet::Hello(anonymous)]));
        assert!(raw.goodbye().contains("cluster 0"), "only clients may not know the cluster");
    })
    .await;
}

#[tokio::test]
async fn what_the_host_rejects_closes_the_connection() {
    while_another_is_served(|connect| {
        let mut raw = connect(true);
        raw.write(&frame(&[Packet::StatusRequest]));
        assert!(raw.goodbye().contains("no status"));
    })
    .await;
}

#[tokio::test]
async fn silence_ends_the_handshake() {
    while_another_is_served(|connect| {
        let mut raw = connect(false);
        assert_eq!(raw.read(), None);
        let mut raw = connect(false);
        raw.write(&frame(&[hello()])[..5]);
        assert_eq!(raw.read(), None);
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_ends_within_a_frame_is_forgotten() {
    let server = node(node_options()).await;
    let address = server.address;
    blocking(move || {
        let mut raw = Raw::introduced(address);
        raw.write(&frame(&[envelope(1)])[..9]);
    })
    .await;
    while server.transport.with(|_, turn| turn.links_len()) > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_frame_that_does_not_end_is_not_waited_for() {
    let server = node(Options { stall_timeout: Duration::from_millis(50), ..node_options() }).await;
    let address = server.address;
    blocking(move || {
        let mut patient = Raw::introduced(address);
        let mut raw = Raw::introduced(address);
        raw.write(&frame(&[envelope(1)])[..9]);
        assert_eq!(raw.read(), None);
        patient.assert_served(1);
    })
    .await;
}

#[tokio::test]
async fn unfinished_frames_cannot_fill_the_memory() {
    let server = node(Options { unfinished_bytes_max: 1_000_000, ..node_options() }).await;
    let address = server.address;
    blocking(move || {
        let mut bystander = Raw::introduced(address);
        let begun = [&1_000_000u32.to_le_bytes()[..], &[0; 600_000]].concat();
        let mut first = Raw::introduced(address);
        first.write(&begun);
        let mut second = Raw::introduced(address);
        second.write(&begun);
        let (mut one, mut other) = (None, None);
        // Whichever came over the limit is closed; the other goes on.
        second.set_patience(Duration::from_millis(300));
        first.set_patience(Duration::from_millis(300));
        for (raw, closed) in [(&mut first, &mut one), (&mut second, &mut other)] {
            *closed = raw.try_goodbye();
        }
        let reasons: Vec<_> = one.into_iter().chain(other).collect();
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        assert!(reasons[0].contains("large frames"), "{reasons:?}");
        bystander.assert_served(1);
    })
    .await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected() {
    let mut server = node(Options { client_link_bytes_max: 100_000, ..node_options() }).await;
    let address = server.address;
    let raw = blocking(move || Raw::introduced(address)).await;
    let link = server.link_up().await;
    while server.transport.with(|_, turn| turn.links_len()) > 0 {
        server.transport.with(|_, turn| {
            for sequence in 0..100 {
                turn.send(link, &envelope(sequence));
            }
            assert!(turn.queued_bytes() < 110_000);
        });
        tokio::task::yield_now().await;
    }
    assert_eq!(server.transport.with(|_, turn| turn.counters().slow_readers), 1);
    assert_eq!(server.transport.with(|_, turn| turn.queued_bytes()), 0);
    drop(raw);
}

#[tokio::test]
async fn a_peer_that_reads_slowly_gets_everything() {
    let mut server = node(node_options()).await;
    let address = server.address;
    let raw = blocking(move || Raw::introduced(address)).await;
    let link = server.link_up().await;
    // More than the buffers of the sockets hold.
    const MESSAGES: u64 = 200_000;
    server.transport.with(|_, turn| (0..MESSAGES).for_each(|sequence| turn.send(link, &envelope(sequence))));
    blocking(move || {
        std::thread::sleep(Duration::from_millis(50));
        let mut raw = raw;
        raw.assert_receives(MESSAGES);
    })
    .await;
    assert_eq!(server.transport.with(|_, turn| turn.queued_bytes()), 0);
}

#[tokio::test]
async fn connections_beyond_the_maximum_are_refused_and_a_free_place_is_used_again() {
    let server = node(Options { connections_max: 1, ..node_options() }).await;
    let address = server.address;
    blocking(move || {
        let mut first = Raw::introduced(address);
        let mut second = Raw::connect(address);
        second.write(&frame(&[hello()]));
        let reason = second.goodbye();
        assert!(reason.contains("1 connections"), "{reason}");
        first.assert_served(1);
        drop(second);
        drop(first);
    })
    .await;
    let mut patient = client(client_options(1));
    let _dialled = patient.transport.dial(server.target());
    patient.link_up().await;
}

#[tokio::test]
async fn other_nodes_get_through_when_there_are_too_many_clients() {
    let server = node(Options { connections_max: 1, ..node_options() }).await;
    let address = server.address;
    blocking(move || {
        let _client = Raw::introduced(address);
        let mut other = Raw::connect(address);
        let cluster = match hello() {
            Packet::Hello(hello) => hello.cluster,
            other => panic!("no hello: {other:?}"),
        };
        let hello = Hello {
            cluster,
            peer: Peer::Node(NodeId(9)),
            site: String::new(),
            credential: None,
            event_loop: 0,
        };
        other.write(&frame(&[Packet::Hello(hello)]));
        assert!(matches!(other.read(), Some(Packet::Welcome(_))));
    })
    .await;
}
