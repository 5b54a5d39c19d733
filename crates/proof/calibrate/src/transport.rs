//! The costs of sending and receiving: the real transport over loopback, between two threads that do nothing else.
//!
//! Each has a core of its own: a thread that wakes one of another core has to interrupt it, which costs more than all the rest.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quorate_cluster::Failure;
use quorate_core::{Address, ClientId, Epoch, Key, NodeId, ReplicaId, Timestamp, TransactionId};
use quorate_runtime::transport::{Counters, Options, Remote, Target, TurnWaker, Violation};
use quorate_runtime::{Clock, Host, LinkId, Transport, Turn};
use quorate_simulator::world::costs::Cost;
use quorate_tapir::Message;
use quorate_wire::{Envelope, Packet, Peer, ProtocolMessage};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};

use super::fit::fit;
use super::machines::codec;
use super::on_this_thread;
use crate::processors::{thread_cpu_time, thread_sleeps};

/// For so long each way of speaking is measured.
const MEASURED: Duration = Duration::from_millis(120);

/// How many connections, how many messages at once over each, and how large their values are.
const WAYS: [(usize, usize, usize); 14] = [
    (1, 1, 0),
    (1, 4, 0),
    (1, 16, 0),
    (1, 64, 0),
    (1, 1, 1_024),
    (1, 8, 1_024),
    (1, 4, 4_096),
    (4, 1, 0),
    (4, 4, 0),
    (4, 16, 0),
    (4, 4, 1_024),
    (8, 1, 0),
    (8, 1, 256),
    (8, 8, 64),
];

/// The result of the measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) wake_ns: f64,
    pub(super) read_ns: f64,
    pub(super) write_ns: f64,
    pub(super) received: Cost,
    pub(super) sent: Cost,
    pub(super) error: f64,
    /// From one process to another and awake there, beside what either does; in nanoseconds.
    pub(super) hop_ns: f64,
}

/// One end of the connections.
struct End {
    links: Vec<LinkId>,
    /// How this end asks again whenever it was answered, if it does: connections, messages, bytes.
    way: Option<(usize, usize, usize)>,
    /// How many messages of the present round have come.
    received: usize,
    rounds: u64,
    up: watch::Sender<usize>,
}

impl End {
    /// Says so many messages over so many links.
    fn say(&self, turn: &mut Turn<'_>) {
        let Some((links, messages, bytes)) = self.way else { return };
        for link in self.links.iter().take(links) {
            for _ in 0..messages {
                turn.send(*link, &packet(links * messages, bytes));
            }
        }
    }
}

impl Host for End {
    fn on_link_up(&mut self, link: LinkId, _: &Remote, _: &mut Turn<'_>) {
        self.links.push(link);
        self.up.send_replace(self.links.len());
    }

    fn on_link_down(&mut self, link: LinkId, _: &Remote, _: &str, _: &mut Turn<'_>) {
        self.links.retain(|known| *known != link);
        self.up.send_replace(self.links.len());
    }

    fn on_packet(&mut self, link: LinkId, packet: Packet, turn: &mut Turn<'_>) -> Result<(), Violation> {
        let Packet::Envelope(Envelope { message: ProtocolMessage::Tapir(message), .. }) = packet else {
            return Ok(());
        };
        match message {
            // The other end asks; the size of a round travels in the message.
            Message::ReadReply { transaction, .. } => {
                self.received += 1;
                if self.received == transaction.sequence as usize {
                    self.received = 0;
                    turn.send(link, &answer());
                }
            }
            _ => {
                self.rounds += 1;
                self.say(turn);
            }
        }
        Ok(())
    }

    fn on_turn_end(&mut self, _: &mut Turn<'_>) {}

    fn next_deadline(&mut self) -> Option<quorate_core::Instant> {
        None
    }
}

/// How far an end has come.
#[derive(Clone, Copy, Debug)]
struct Sample {
    cpu: Duration,
    /// How often the thread has gone to sleep.
    sleeps: u64,
    counters: Counters,
    rounds: u64,
    at: Instant,
}

impl Sample {
    /// Of the thread that this runs on.
    fn take(transport: &Transport<End>) -> Result<Sample, Failure> {
        let (counters, rounds) = transport.with(|end, turn| (turn.counters(), end.rounds));
        Ok(Sample { cpu: thread_cpu_time(), sleeps: thread_sleeps()?, counters, rounds, at: Instant::now() })
    }

    /// The counts since an earlier sample, and how many nanoseconds it took.
    fn since(&self, earlier: &Sample) -> (Vec<f64>, f64) {
        let (now, then) = (&self.counters, &earlier.counters);
        let counts = [
            self.sleeps - earlier.sleeps,
            now.socket_reads - then.socket_reads,
            now.socket_writes - then.socket_writes,
            now.messages_received - then.messages_received,
            now.bytes_received - then.bytes_received,
            now.messages_sent - then.messages_sent,
            now.bytes_sent - then.bytes_sent,
        ];
        (counts.map(|count| count as f64).to_vec(), (self.cpu - earlier.cpu).as_nanos() as f64)
    }
}

/// Measures both ends, each on a thread and a core of its own.
pub(super) fn measure() -> Result<Measured, Failure> {
    let (bound, address) = std::sync::mpsc::channel();
    let (ask, asked) = mpsc::unbounded_channel();
    let server = std::thread::spawn(move || {
        keep_to_core(1)?;
        serve(&bound, asked)
    });
    let asker = std::thread::spawn(move || {
        keep_to_core(0)?;
        let address = address.recv().map_err(|_| Failure::failed("a server cannot start"))?;
        on_this_thread(measure_against(address, &ask))?
    });
    let panicked = |_| Failure::failed("one end has panicked");
    let measured = asker.join().map_err(panicked)?;
    server.join().map_err(panicked)??;
    measured
}

/// Keeps this thread to one of the cores that it may use, counted from zero; to none if there are not so many.
fn keep_to_core(number: usize) -> Result<(), Failure> {
    let allowed = sched_getaffinity(None).map_err(Failure::failed)?;
    if let Some(core) = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).nth(number) {
        let mut only = CpuSet::new();
        only.set(core);
        sched_setaffinity(None, &only).map_err(Failure::failed)?;
    }
    Ok(())
}

/// The end that answers; tells how far it has come when it is asked.
fn serve(
    bound: &std::sync::mpsc::Sender<SocketAddr>,
    mut asked: mpsc::UnboundedReceiver<oneshot::Sender<Result<Sample, Failure>>>,
) -> Result<(), Failure> {
    on_this_thread(async move {
        let transport = start(Options::new(1, Peer::Node(NodeId(1)), ""));
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(Failure::failed)?;
        let address = listener.local_addr().map_err(Failure::failed)?;
        transport.listen(listener);
        // The measuring thread waits for it, or has failed and says so.
        let _ = bound.send(address);
        while let Some(reply) = asked.recv().await {
            let _ = reply.send(Sample::take(&transport));
        }
        transport.abandon();
        Ok(())
    })?
}

fn start(options: Options) -> Transport<End> {
    let end = End { links: Vec::new(), way: None, received: 0, rounds: 0, up: watch::channel(0).0 };
    Transport::start(end, options, Clock::start(), TurnWaker::default()).0
}

async fn measure_against(
    address: SocketAddr,
    ask: &mpsc::UnboundedSender<oneshot::Sender<Result<Sample, Failure>>>,
) -> Result<Measured, Failure> {
    let transport = start(Options::new(1, Peer::Client(ClientId(1)), ""));
    let links = WAYS.iter().map(|(links, _, _)| *links).max().unwrap_or(1);
    let target = || Target { address: address.to_string(), expect: None, event_loop: 0 };
    let dialled: Vec<_> = (0..links).map(|_| transport.dial(target())).collect();
    let mut up = transport.with(|end, _| end.up.subscribe());
    up.wait_for(|up| *up == links).await.map_err(Failure::failed)?;
    let theirs = async || {
        let (reply, sample) = oneshot::channel();
        ask.send(reply).map_err(Failure::failed)?;
        sample.await.map_err(Failure::failed)?
    };
    let mut samples = Vec::new();
    let mut hop_ns = 0.0;
    for way in WAYS {
        let before = (Sample::take(&transport)?, theirs().await?);
        transport.with(|end, turn| {
            end.way = Some(way);
            end.say(turn);
        });
        tokio::time::sleep(MEASURED).await;
        transport.with(|end, _| end.way = None);
        // The last round comes to its end.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let after = (Sample::take(&transport)?, theirs().await?);
        let (ours, theirs) = (after.0.since(&before.0), after.1.since(&before.1));
        if way == WAYS[0] {
            let rounds = (after.0.rounds - before.0.rounds).max(1) as f64;
            let elapsed = (MEASURED.as_nanos() as f64).min((after.0.at - before.0.at).as_nanos() as f64);
            hop_ns = ((elapsed - ours.1 - theirs.1) / rounds / 2.0).max(0.0);
        }
        samples.extend([ours, theirs]);
    }
    drop(dialled);
    transport.abandon();
    let found = fit(&samples);
    let [wake_ns, read_ns, write_ns, message_in, byte_in, message_out, byte_out] = found.costs[..] else {
        unreachable!("as many costs as counters");
    };
    // The cost of the bytes of messages is counted with the operations that they ask for.
    let [writing_ns, reading_ns] = codec(&packet(1, 0))?;
    Ok(Measured {
        wake_ns,
        read_ns,
        write_ns,
        received: Cost::new((message_in - reading_ns).max(0.0), byte_in),
        sent: Cost::new((message_out - writing_ns).max(0.0), byte_out),
        error: found.error,
        hop_ns,
    })
}

/// One message of a round of so many, with a value of so many bytes.
fn packet(round: usize, bytes: usize) -> Packet {
    let transaction = TransactionId { client: ClientId(1), sequence: round as u64, attempt: 0 };
    let value = (bytes > 0).then(|| vec![7; bytes].into());
    let key = Key::from("a key of a usual size");
    envelope(Message::ReadReply { transaction, key, version: Timestamp::ZERO, value })
}

/// The packet that ends a round.
fn answer() -> Packet {
    let transaction = TransactionId { client: ClientId(1), sequence: 1, attempt: 0 };
    envelope(Message::Read { transaction, key: Key::from("a key of a usual size") })
}

fn envelope(message: Message) -> Packet {
    let (from, to) = (Address::Client(ClientId(1)), Address::Replica(ReplicaId::default()));
    Packet::Envelope(Envelope { from, to, epoch: Epoch::FIRST, message: message.into() })
}
