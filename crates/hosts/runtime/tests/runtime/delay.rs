//! Emulated wide-area delay on real sockets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quorate_runtime::transport::Options;
use quorate_runtime::wan::Matrix;
use quorate_wire::Packet;

use crate::harness::{Seen, client, client_options, envelope, node, node_options};

fn matrix() -> Arc<Matrix> {
    let text = "sites = [\"us\", \"europe\"]\n[[link]]\nbetween = [\"us\", \"europe\"]\nround_trip_ms = 60\n";
    Arc::new(Matrix::parse("test", text).unwrap())
}

#[tokio::test]
async fn a_round_trip_takes_what_the_matrix_says_and_keeps_the_order() {
    let server = node(Options { delays: Some(matrix()), ..node_options() }).await;
    let mut client = client(Options { delays: Some(matrix()), ..client_options(1) });
    let _dialled = client.transport.dial(server.target());
    let link = client.link_up().await;
    let mut sent = Vec::new();
    for sequence in 0..10 {
        sent.push(Instant::now());
        client.transport.with(|_, turn| turn.send(link, &envelope(sequence)));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut shortest = Duration::MAX;
    for (sequence, sent) in (0..10).zip(sent) {
        let Seen::Packet(Packet::Envelope(answer)) = client.next().await else { panic!("no answer") };
        let Packet::Envelope(asked) = envelope(sequence) else { unreachable!() };
        assert_eq!(answer.message, asked.message);
        shortest = shortest.min(sent.elapsed());
    }
    assert!(shortest >= Duration::from_millis(60), "{shortest:?}");
    assert!(
        shortest < Duration::from_millis(120),
        "a machine that is busy is not so for all of them: {shortest:?}"
    );
}

#[tokio::test]
async fn within_a_site_nothing_is_delayed() {
    let server = node(Options { delays: Some(matrix()), ..node_options() }).await;
    let mut client = client(Options { delays: Some(matrix()), site: "us".into(), ..client_options(1) });
    let _dialled = client.transport.dial(server.target());
    let link = client.link_up().await;
    let mut shortest = Duration::MAX;
    for sequence in 0..20 {
        let begin = Instant::now();
        client.transport.with(|_, turn| turn.send(link, &envelope(sequence)));
        assert!(matches!(client.next().await, Seen::Packet(_)));
        shortest = shortest.min(begin.elapsed());
    }
    assert!(shortest < Duration::from_millis(30), "{shortest:?}");
}
