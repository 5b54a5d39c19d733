//! A host that answers every message with itself, and what tests need to talk to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use quorate_core::{
    Address, ClientId, Epoch, Instant, NodeId, ReplicaId, ReplicaIndex, ShardId, TransactionId,
};
use quorate_runtime::transport::{DialId, Options, Remote, Target, TurnWaker, Violation};
use quorate_runtime::{Clock, Host, LinkId, Transport, Turn};
use quorate_tapir::Message;
use quorate_wire::{Envelope, FrameReader, FrameWriter, Hello, Packet, Peer};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

pub(crate) const CLUSTER: u64 = 7;
pub(crate) const REPLICA: Address = Address::Replica(ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) });

/// An event that a host has seen.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a test keeps few of them")]
pub(crate) enum Seen {
    Up(LinkId, Peer),
    Down(String),
    DialFailed(String),
    Packet(Packet),
}

/// Answers messages and reports what it sees.
pub(crate) struct Echo {
    seen: mpsc::UnboundedSender<Seen>,
    answers: bool,
}

impl Echo {
    fn report(&self, seen: Seen) {
        // A test that has seen enough does not listen any more.
        let _ = self.seen.send(seen);
    }
}

impl Host for Echo {
    fn on_link_up(&mut self, link: LinkId, remote: &Remote, _: &mut Turn<'_>) {
        self.report(Seen::Up(link, remote.identity));
    }

    fn on_link_down(&mut self, _: LinkId, _: &Remote, reason: &str, _: &mut Turn<'_>) {
        self.report(Seen::Down(reason.to_owned()));
    }

    fn on_dial_failed(&mut self, _: DialId, _: &Target, reason: &str, _: &mut Turn<'_>) {
        self.report(Seen::DialFailed(reason.to_owned()));
    }

    fn on_packet(&mut self, link: LinkId, packet: Packet, turn: &mut Turn<'_>) -> Result<(), Violation> {
        match packet {
            Packet::Envelope(Envelope { from, to, epoch, message }) if self.answers => {
                turn.send(link, &Packet::Envelope(Envelope { from: to, to: from, epoch, message }));
            }
            Packet::StatusRequest => return Err(Violation("this host has no status".into())),
            packet => self.report(Seen::Packet(packet)),
        }
        Ok(())
    }

    fn on_turn_end(&mut self, _: &mut Turn<'_>) {}

    fn next_deadline(&mut self) -> Option<Instant> {
        None
    }
}

/// One process of a test.
pub(crate) struct Process {
    pub(crate) transport: Transport<Echo>,
    pub(crate) seen: mpsc::UnboundedReceiver<Seen>,
    pub(crate) address: SocketAddr,
}

/// Starts a node that listens and answers.
pub(crate) async fn node(options: Options) -> Process {
    let mut process = process(options, true);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    process.address = listener.local_addr().unwrap();
    process.transport.listen(listener);
    process
}

/// Starts a client, which collects what it is sent.
pub(crate) fn client(options: Options) -> Process {
    process(options, false)
}

fn process(options: Options, answers: bool) -> Process {
    let (sender, seen) = mpsc::unbounded_channel();
    let host = Echo { seen: sender, answers };
    let (transport, _) = Transport::start(host, options, Clock::start(), TurnWaker::default());
    Process { transport, seen, address: SocketAddr::from(([127, 0, 0, 1], 0)) }
}

impl Process {
    /// The next thing that the host has seen.
    pub(crate) async fn next(&mut self) -> Seen {
        tokio::time::timeout(Duration::from_secs(60), self.seen.recv())
            .await
            .expect("in time")
            .expect("running")
    }

    /// Waits for a link to come up, whatever fails before.
    pub(crate) async fn link_up(&mut self) -> LinkId {
        loop {
            if let Seen::Up(link, _) = self.next().await {
                return link;
            }
        }
    }

    pub(crate) fn target(&self) -> Target {
        Target { address: self.address.to_string(), expect: None, event_loop: 0 }
    }
}

pub(crate) fn node_options() -> Options {
    Options {
        handshake_timeout: Duration::from_millis(300),
        ..Options::new(CLUSTER, Peer::Node(NodeId(1)), "us")
    }
}

pub(crate) fn client_options(client: u64) -> Options {
    Options::new(0, Peer::Client(ClientId(client)), "europe")
}

/// A message whose transaction tells it from others.
pub(crate) fn envelope(sequence: u64) -> Packet {
    let transaction = TransactionId { client: ClientId(9), sequence, attempt: 0 };
    let message = Message::Read { transaction, key: "key".into() };
    Packet::Envelope(Envelope {
        from: Address::Client(ClientId(9)),
        to: REPLICA,
        epoch: Epoch::FIRST,
        message: message.into(),
    })
}

pub(crate) fn hello() -> Packet {
    Packet::Hello(Hello {
        cluster: CLUSTER,
        peer: Peer::Client(ClientId(9)),
        site: "us".into(),
        credential: None,
        event_loop: 0,
    })
}

pub(crate) fn frame(packets: &[Packet]) -> Vec<u8> {
    let mut frames = FrameWriter::new();
    for packet in packets {
        frames.push(packet).unwrap();
    }
    frames.take().to_vec()
}

/// A client made of a bare socket, so that it can misbehave. Lives on a thread of its own.
pub(crate) struct Raw {
    stream: TcpStream,
    frames: FrameReader,
}

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Raw {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Raw { stream, frames: FrameReader::new() }
    }

    /// Connects and completes the handshake.
    pub(crate) fn introduced(address: SocketAddr) -> Raw {
        let mut raw = Raw::connect(address);
        raw.write(&frame(&[hello()]));
        assert!(matches!(raw.read(), Some(Packet::Welcome(_))));
        raw
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next packet; none if the connection is closed.
    pub(crate) fn read(&mut self) -> Option<Packet> {
        loop {
            if let Some(mut packets) = self.frames.next_frame().unwrap() {
                return Some(packets.next().unwrap().unwrap());
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(length) => self.frames.feed(&bytes[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The next packets, so many, in whatever frames they come.
    pub(crate) fn read_many(&mut self, count: usize) -> Vec<Packet> {
        let mut packets = Vec::new();
        while packets.len() < count {
            if let Some(frame) = self.frames.next_frame().unwrap() {
                packets.extend(frame.map(Result::unwrap));
                continue;
            }
            let mut bytes = [0; 4096];
            let length = self.stream.read(&mut bytes).unwrap();
            assert!(length > 0, "closed after {packets:?}");
            self.frames.feed(&bytes[..length]);
        }
        packets
    }

    /// Gives up reading after this long.
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.stream.set_read_timeout(Some(patience)).unwrap();
    }

    /// Why the peer closes the connection; none if it does not.
    pub(crate) fn try_goodbye(&mut self) -> Option<String> {
        let mut bytes = [0; 4096];
        let length = self.stream.read(&mut bytes).ok()?;
        self.frames.feed(&bytes[..length]);
        match self.frames.next_frame().unwrap()?.next()? {
            Ok(Packet::Goodbye { reason }) => Some(reason),
            _ => None,
        }
    }

    /// Reads so many messages, which must be numbered from zero.
    pub(crate) fn assert_receives(&mut self, messages: u64) {
        let mut expected = 0;
        while expected < messages {
            if let Some(packets) = self.frames.next_frame().unwrap() {
                for packet in packets {
                    assert_eq!(packet.unwrap(), envelope(expected));
                    expected += 1;
                }
                continue;
            }
            let mut bytes = [0; 4096];
            let length = self.stream.read(&mut bytes).unwrap();
            assert!(length > 0, "closed after {expected} messages");
            self.frames.feed(&bytes[..length]);
        }
    }

    /// Why the peer closes the connection.
    pub(crate) fn goodbye(&mut self) -> String {
        match self.read() {
            Some(Packet::Goodbye { reason }) => {
                assert_eq!(self.read(), None, "the connection is closed after a goodbye");
                reason
            }
            other => panic!("no goodbye but {other:?}"),
        }
    }

    /// Asks something, to see whether this connection is served.
    pub(crate) fn assert_served(&mut self, sequence: u64) {
        self.write(&frame(&[envelope(sequence)]));
        match self.read() {
            Some(Packet::Envelope(answer)) => assert_eq!(answer.from, REPLICA),
            other => panic!("no answer but {other:?}"),
        }
    }
}

/// Runs blocking code beside the event loop.
pub(crate) async fn blocking<R: Send + 'static>(action: impl FnOnce() -> R + Send + 'static) -> R {
    tokio::task::spawn_blocking(action).await.unwrap()
}
