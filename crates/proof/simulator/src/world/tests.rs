//! The world with a toy protocol: a server that counts durably, and a client that asks it to.

use std::convert::Infallible;

use quorate_core::machine::PersistToken;
use quorate_core::{ClientId, Context, Input, Outbox, ReplicaId};

use bytes::{Buf, BufMut};

use super::costs::{Batching, Cost, Operation};
use super::network::Misfortunes;
use super::steps::Moment;
use super::trace::TraceText;
use super::*;

#[derive(Clone, Debug, PartialEq)]
enum Message {
    Count,
    Counted(u64),
    /// Tells what is counted and not yet durable: sent unordered.
    Gossip(u64),
}

struct Counter {
    count: u64,
    told_durable: u64,
}

impl Machine for Counter {
    type Message = Message;
    type Timer = ();
    type Record = u64;
    type Command = Infallible;
    type Event = u64;
    type Config = ();

    fn restore((): (), records: impl IntoIterator<Item = u64>) -> Self {
        Counter { count: records.into_iter().last().unwrap_or(0), told_durable: 0 }
    }

    fn step(
        &mut self,
        _: &mut Context<'_>,
        input: Input<Message, (), Infallible>,
        outbox: &mut Outbox<Message, (), u64, u64>,
    ) {
        match input {
            Input::Message { from, message: Message::Count, .. } => {
                self.count += 1;
                outbox.send_unordered(from, Message::Gossip(self.count));
                outbox.persist_and_notify(self.count, PersistToken(self.count));
                outbox.send(from, Message::Counted(self.count));
                outbox.emit(self.count);
            }
            Input::Persisted(token) => self.told_durable = token.0,
            _ => {}
        }
    }
}

struct Asker {
    server: Address,
}

impl Machine for Asker {
    type Message = Message;
    type Timer = u8;
    type Record = Infallible;
    type Command = ();
    type Event = Message;
    type Config = Address;

    fn restore(server: Address, _: impl IntoIterator<Item = Infallible>) -> Self {
        Asker { server }
    }

    fn step(
        &mut self,
        context: &mut Context<'_>,
        input: Input<Message, u8, ()>,
        outbox: &mut Outbox<Message, u8, Infallible, Message>,
    ) {
        match input {
            Input::Start => {
                outbox.set_timer(1, Duration::from_millis(500));
                outbox.set_timer(1, Duration::from_millis(900));
                outbox.set_timer(2, Duration::from_millis(1));
                outbox.cancel_timer(2);
            }
            Input::Command(()) => outbox.send(self.server, Message::Count),
            Input::Message { message, .. } => outbox.emit(message),
            Input::Timer(1) => outbox.emit(Message::Gossip(context.now.as_nanos())),
            Input::Timer(_) | Input::Persisted(_) => unreachable!(),
        }
    }
}

struct Toy;

impl Protocol for Toy {
    type Message = Message;
    type Server = Counter;
    type Client = Asker;
    type Witness = ();
    type Later = ();

    fn name(message: &Message) -> String {
        first_word(message)
    }

    fn coordinates(message: &Message) -> bool {
        matches!(message, Message::Count)
    }

    fn digest(message: &Message, hash: &mut TraceHash) {
        match message {
            Message::Count => hash.fold(1),
            Message::Counted(count) => hash.fold(count + 2),
            Message::Gossip(count) => hash.fold(count << 32),
        }
    }

    fn carry(envelope: Envelope<Message>) -> Envelope<Message> {
        envelope
    }

    fn damage(_: &Envelope<Message>, _: &mut Random) {}

    fn size(_: &Envelope<Message>) -> usize {
        100
    }

    fn work(_: Option<&Counter>, message: &Message) -> Work {
        match message {
            Message::Count => Work::new(Operation::Prepare, 1),
            Message::Counted(_) | Message::Gossip(_) => Work::new(Operation::Reply, 1),
        }
    }

    fn command_work((): &()) -> Work {
        Work::new(Operation::Command, 1)
    }

    fn encode_record(_: Epoch, record: &u64, out: &mut BytesMut) {
        out.put_u64(*record);
    }

    fn decode_record(mut bytes: &[u8]) -> u64 {
        bytes.get_u64()
    }
}

/// Where the server's records go.
#[derive(Clone, Copy)]
enum Medium {
    Disk,
    Memory,
}

const SERVER: usize = 0;
const CLIENT: usize = 0;

/// A server on node 0, whose syncs take 5 ms, and a client on node 1, 10 ms away.
fn world(medium: Medium, seed: u64) -> World<Toy, &'static str> {
    traced_world(medium, seed, None)
}

fn traced_world(medium: Medium, seed: u64, text: Option<TraceText>) -> World<Toy, &'static str> {
    let network = Network::new(2, 0.0, Random::new(seed), |_, _| Duration::from_millis(10));
    let clocks = vec![PhysicalClock::default(), PhysicalClock::default()];
    let mut world = World::new(network, clocks, Random::new(seed + 1), Trace::new(text));
    let address = Address::Replica(ReplicaId::default());
    let disk = match medium {
        Medium::Disk => Disk::new(1, ReplicaId::default(), Random::new(seed)),
        Medium::Memory => Disk::memory(),
    };
    world.add_server(address, 0, disk);
    assert_eq!(world.open_disk(SERVER).unwrap(), [0; 0]);
    world.set_sync_time(0, SyncTime::between(Duration::from_millis(5), Duration::from_millis(5)));
    world.boot_server(SERVER, Counter::restore((), []));
    world.add_client(Address::Client(ClientId(1)), 1, Asker::restore(address, []));
    world
}

fn millis(count: u64) -> Instant {
    Instant::from_nanos(count * 1_000_000)
}

/// Runs until the limit and returns what was emitted, with whole milliseconds.
fn run(world: &mut World<Toy, &'static str>, limit: Instant) -> Vec<(u64, String)> {
    let mut told = Vec::new();
    while let Some(happening) = world.advance(limit) {
        let at = world.now().as_nanos() / 1_000_000;
        told.push(match happening {
            Happening::Server(_, count) => (at, format!("server {count}")),
            Happening::Unheard(_, count) => (at, format!("unheard {count}")),
            Happening::Client(_, message) => (at, format!("client {message:?}")),
            Happening::Stopped(server) => (at, format!("server {server} stopped")),
            Happening::Denied(denied) => (at, format!("{denied:?}")),
            Happening::Busy(client) => (at, format!("client {client} is told that a node is busy")),
            Happening::Fenced(node, _) => (at, format!("node {node} is fenced")),
            Happening::Crashed(party, crash) => (at, format!("{party:?} crashed: {crash:?}")),
            Happening::Alarm(alarm) => (at, format!("alarm {alarm}")),
        });
    }
    told
}

fn told(list: &[(u64, &str)]) -> Vec<(u64, String)> {
    list.iter().map(|(at, what)| (*at, (*what).to_owned())).collect()
}

#[test]
fn replies_and_events_wait_for_the_disk_and_unordered_messages_do_not() {
    let mut world = world(Medium::Disk, 1);
    world.command(CLIENT, ());
    let expected = [(15, "server 1"), (20, "client Gossip(1)"), (25, "client Counted(1)")];
    assert_eq!(run(&mut world, millis(100)), told(&expected));
    assert_eq!(world.server(SERVER).unwrap().told_durable, 1);
}

#[test]
fn in_memory_nothing_waits() {
    let mut world = world(Medium::Memory, 1);
    world.command(CLIENT, ());
    let expected = [(10, "server 1"), (20, "client Gossip(1)"), (20, "client Counted(1)")];
    assert_eq!(run(&mut world, millis(100)), told(&expected));
    assert_eq!(world.server(SERVER).unwrap().told_durable, 1);
    world.crash_server(SERVER, Crash::Process);
    assert!(world.open_disk(SERVER).unwrap().is_empty());
}

#[test]
fn a_crash_before_the_sync_ends_keeps_the_reply_back() {
    let mut world = world(Medium::Disk, 1);
    world.command(CLIENT, ());
    assert!(run(&mut world, millis(12)).is_empty());
    world.crash_server(SERVER, Crash::Power);
    assert!(world.server(SERVER).is_none());
    let durable = world.open_disk(SERVER).unwrap();
    world.boot_server(SERVER, Counter::restore((), durable));
    assert_eq!(run(&mut world, millis(100)), told(&[(12, "unheard 1"), (20, "client Gossip(1)")]));
}

#[test]
fn what_was_durable_survives_a_crash_but_not_a_wipe() {
    let mut world = world(Medium::Disk, 1);
    for _ in 0..3 {
        world.command(CLIENT, ());
    }
    run(&mut world, millis(100));
    world.crash_server(SERVER, Crash::Power);
    assert_eq!(world.open_disk(SERVER).unwrap(), [1, 2, 3]);
    world.replace_disk(SERVER);
    assert!(world.open_disk(SERVER).unwrap().is_empty());
}

/// Nothing is acknowledged that the disk has refused, and the machine ends.
#[test]
fn a_machine_ends_when_its_disk_fails() {
    for condition in [Condition::Fails, Condition::FailsToSync] {
        let mut world = world(Medium::Disk, 1);
        world.set_disk_condition(SERVER, condition);
        world.command(CLIENT, ());
        let stopped = if condition == Condition::Fails { 10 } else { 15 };
        let expected = [(stopped, "unheard 1"), (stopped, "server 0 stopped"), (20, "client Gossip(1)")];
        assert_eq!(run(&mut world, millis(100)), told(&expected));
        assert!(world.server(SERVER).is_none());
        assert_eq!(world.open_disk(SERVER).is_ok(), condition == Condition::FailsToSync);
        world.set_disk_condition(SERVER, Condition::Works);
        let durable = world.open_disk(SERVER).unwrap();
        world.boot_server(SERVER, Counter::restore((), durable));
        world.command(CLIENT, ());
        assert!(run(&mut world, millis(200)).iter().any(|(_, what)| what.starts_with("client Counted")));
    }
}

#[test]
fn messages_to_a_machine_that_is_down_are_lost() {
    let mut world = world(Medium::Disk, 1);
    world.crash_server(SERVER, Crash::Power);
    world.command(CLIENT, ());
    assert!(run(&mut world, millis(100)).is_empty());
    world.crash_client(CLIENT, 0.0);
    assert!(world.client(CLIENT).is_none());
    assert!(run(&mut world, millis(2_000)).is_empty(), "its timer died with it");
}

#[test]
fn a_timer_that_is_set_again_moves_and_a_cancelled_one_is_silent() {
    let mut world = world(Medium::Disk, 1);
    assert_eq!(run(&mut world, millis(2_000)), told(&[(900, "client Gossip(900000000)")]));
    assert_eq!(world.now(), millis(2_000), "time reaches the limit even if nothing happens");
}

#[test]
fn a_paused_node_gets_everything_when_it_resumes_in_order() {
    let mut world = world(Medium::Memory, 1);
    world.pause(0, millis(500));
    for _ in 0..2 {
        world.command(CLIENT, ());
    }
    let told_by_server: Vec<_> =
        run(&mut world, millis(800)).into_iter().filter(|(_, what)| what.starts_with("server")).collect();
    assert_eq!(told_by_server, told(&[(500, "server 1"), (500, "server 2")]));
}

#[test]
fn alarms_go_off_in_order() {
    let mut world = world(Medium::Memory, 1);
    world.set_alarm(Duration::from_millis(7), "second");
    world.set_alarm(Duration::from_millis(3), "first");
    assert_eq!(run(&mut world, millis(8)), told(&[(3, "alarm first"), (7, "alarm second")]));
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_one_does_not() {
    let trace = |seed| {
        let text = TraceText::default();
        let mut world = traced_world(Medium::Disk, seed, Some(text.clone()));
        world.network().misfortunes = Misfortunes {
            loss: 0.2,
            duplication: 0.2,
            reordering: 0.2,
            late: 0.1,
            late_duplicate: 0.1,
            corruption: 0.0,
        };
        for _ in 0..100 {
            world.command(CLIENT, ());
        }
        run(&mut world, Instant::from_nanos(1 << 40));
        (world.trace_hash(), text.take())
    };
    assert_eq!(trace(3), trace(3));
    assert_ne!(trace(3).0, trace(4).0);
    assert!(trace(3).1.contains("✗ lost"), "losses are struck out in the trace");
}

#[test]
fn what_a_vanished_client_has_sent_arrives_unless_it_is_silenced() {
    for (silenced, arrivals) in [(0.0, 20..=20), (0.5, 1..=19), (1.0, 0..=0)] {
        let mut world = world(Medium::Memory, 1);
        for _ in 0..20 {
            world.command(CLIENT, ());
        }
        world.crash_client(CLIENT, silenced);
        let arrived = run(&mut world, millis(100)).len();
        assert!(arrivals.contains(&arrived), "{arrived} of 20 arrived, silenced {silenced}");
    }
}

/// The connection is lost, and with it what is under way behind the damage. A new one takes its place.
#[test]
fn a_damaged_message_takes_the_connection_with_it() {
    let mut world = world(Medium::Memory, 1);
    world.network().misfortunes.corruption = 1.0;
    world.command(CLIENT, ());
    world.network().misfortunes.corruption = 0.0;
    world.command(CLIENT, ());
    assert!(run(&mut world, millis(30)).is_empty());
    world.command(CLIENT, ());
    assert_eq!(run(&mut world, millis(45)), told(&[(40, "server 1")]));
}

/// One input after the other: a queue forms, and what is served leaves at the end of its service.
#[test]
fn a_slow_processor_serves_one_message_after_the_other() {
    let mut world = world(Medium::Memory, 1);
    world.set_service_time(0, Duration::from_millis(7));
    world.command(CLIENT, ());
    world.command(CLIENT, ());
    let served: Vec<_> =
        run(&mut world, millis(100)).into_iter().filter(|(_, what)| what.starts_with("server")).collect();
    assert_eq!(served, told(&[(17, "server 1"), (24, "server 2")]));
    world.set_service_time(0, Duration::ZERO);
    world.command(CLIENT, ());
    assert!(run(&mut world, millis(200)).contains(&(110, "server 3".to_owned())));
}

/// The steps of a server that counts once: what is said unordered, the record, its sync, what waits for it.
#[test]
fn a_machine_crashes_at_the_step_at_which_it_is_to() {
    let crashed = |step, crash| {
        let mut world = world(Medium::Disk, 1);
        world.count_steps(Some(Steps::new([(step, crash)], false)));
        world.command(CLIENT, ());
        let told = run(&mut world, millis(100)).into_iter().map(|(_, what)| what).collect::<Vec<_>>();
        let records = world.open_disk(SERVER).map(|records| records.len());
        (told.join(", "), records.unwrap_or_default())
    };
    let table = [
        (0, Crash::Process, "Client(0) crashed: Process", 0),
        (1, Crash::Process, "Client(0) crashed: Process, server 1", 1),
        (2, Crash::Process, "Server(0) crashed: Process", 0),
        (3, Crash::Process, "Server(0) crashed: Process, client Gossip(1)", 0),
        // Before the record is appended, before it is synced, after that, and before and after the reply.
        (4, Crash::Process, "Server(0) crashed: Process, client Gossip(1)", 0),
        (5, Crash::Process, "unheard 1, Server(0) crashed: Process, client Gossip(1)", 1),
        (6, Crash::Process, "unheard 1, Server(0) crashed: Process, client Gossip(1)", 1),
        (6, Crash::Power, "unheard 1, Server(0) crashed: Power, client Gossip(1)", 1),
        (7, Crash::Power, "unheard 1, Server(0) crashed: Power, client Gossip(1)", 1),
        (8, Crash::Power, "unheard 1, Server(0) crashed: Power, client Gossip(1), client Counted(1)", 1),
    ];
    for (step, crash, told, records) in table {
        assert_eq!(crashed(step, crash), (told.to_owned(), records), "step {step}");
    }
}

#[test]
fn steps_are_noted_and_those_that_make_no_difference_are_known() {
    let mut world = world(Medium::Disk, 1);
    world.count_steps(Some(Steps::new([], true)));
    world.command(CLIENT, ());
    world.command(CLIENT, ());
    run(&mut world, millis(100));
    let steps = world.count_steps(None).unwrap().into_noted();
    let of_client: Vec<_> = steps.iter().filter(|step| step.party == Party::Client(CLIENT)).collect();
    assert_eq!(of_client.len(), 4);
    assert!(of_client.iter().all(|step| step.what == "Count" && step.coordinates));
    assert!(of_client[2].repeats(of_client[1]), "before the second message is after the first");
    assert!(!of_client[1].repeats(of_client[0]) && !of_client[3].repeats(of_client[2]));
    let appends = steps.iter().filter(|step| step.moment == Moment::BeforeAppend);
    assert_eq!(appends.count(), 2);
}

/// Operations that cost whole milliseconds, so that what happens when can be written down.
fn costs(batching: Batching) -> Arc<Costs> {
    let mut operations = [Cost::default(); Operation::ALL.len()];
    operations[Operation::Prepare as usize] = Cost::new(1e6, 2e6);
    Arc::new(Costs {
        batching,
        wake_ns: 0.0,
        read_ns: 4e6,
        write_ns: 1e6,
        received: Cost::new(0.0, 1e4),
        sent: Cost::new(0.0, 5e3),
        appended: Cost::default(),
        sync_ns: 0.0,
        operations,
    })
}

fn told_by_client(world: &mut World<Toy, &'static str>, until: u64) -> Vec<(u64, String)> {
    let happenings = run(world, millis(until)).into_iter();
    happenings.filter(|(_, what)| what.starts_with("client Counted")).collect()
}

/// Reading 4, taking in 1, preparing 3; then two messages of 1 + 0.5 each, of which the second is the one that counts.
#[test]
fn work_takes_its_time_and_what_is_said_departs_when_it_is_written() {
    let mut world = world(Medium::Memory, 1);
    world.set_costs(0, costs(Batching::None));
    world.command(CLIENT, ());
    world.command(CLIENT, ());
    assert_eq!(
        told_by_client(&mut world, 100),
        told(&[(31, "client Counted(1)"), (42, "client Counted(2)")])
    );
    assert_eq!(world.processor_time(0), Duration::from_millis(22));
}

/// The second and the third arrive while the first is served, so that they are read together, in 4 + 2 · (1 + 3), and
/// answered together, in 1 + 4 · 0.5.
#[test]
fn a_turn_takes_all_that_has_arrived_and_writes_once_to_each_peer() {
    let mut world = world(Medium::Memory, 1);
    world.set_costs(0, costs(Batching::Turns));
    for at in 1..=3 {
        world.command(CLIENT, ());
        run(&mut world, millis(at));
    }
    let answered = [(30, "client Counted(1)"), (45, "client Counted(2)"), (45, "client Counted(3)")];
    assert_eq!(told_by_client(&mut world, 100), told(&answered));
    assert_eq!(world.processor_time(0), Duration::from_millis(10 + 15));
}

/// The records that a turn has persisted are synced together.
#[test]
fn a_turn_ends_with_one_sync() {
    let mut world = world(Medium::Disk, 1);
    world.set_costs(0, costs(Batching::Turns));
    for at in 1..=3 {
        world.command(CLIENT, ());
        run(&mut world, millis(at));
    }
    let counted: Vec<u64> = told_by_client(&mut world, 200).into_iter().map(|(at, _)| at).collect();
    assert!(counted[0] < counted[1] && counted[1] == counted[2], "{counted:?}");
}

/// The first comes to a processor that sleeps, and the second to one that is busy until then.
#[test]
fn a_processor_is_woken_once_for_turns_that_follow_each_other() {
    let mut world = world(Medium::Memory, 1);
    world.set_costs(0, Arc::new(Costs { wake_ns: 7e6, ..Costs::clone(&costs(Batching::None)) }));
    world.command(CLIENT, ());
    world.command(CLIENT, ());
    let answered = told_by_client(&mut world, 100);
    assert_eq!(answered, told(&[(38, "client Counted(1)"), (49, "client Counted(2)")]));
    world.command(CLIENT, ());
    assert_eq!(told_by_client(&mut world, 200), told(&[(138, "client Counted(3)")]));
    assert_eq!(world.processor_time(0), Duration::from_millis(3 * 11 + 2 * 7));
}

/// A machine that waits for a disk waits for the thread that has it synced as well, and no other machine does, as long as there is a core.
#[test]
fn syncs_take_processors_their_time_beside_the_event_loop() {
    let answered = |medium, sync_ns, cores, commands| {
        let mut world = world(medium, 1);
        world.set_sync_time(0, SyncTime::between(Duration::ZERO, Duration::ZERO));
        world.set_costs(0, Arc::new(Costs { sync_ns, ..Costs::clone(&costs(Batching::None)) }));
        if let Some(cores) = cores {
            world.share_cores([0], cores);
        }
        (0..commands).for_each(|_| world.command(CLIENT, ()));
        let answered: Vec<u64> = told_by_client(&mut world, 200).into_iter().map(|(at, _)| at).collect();
        (answered, world.processor_time(0).as_millis())
    };
    let (free, worked) = answered(Medium::Disk, 0.0, None, 1);
    let (costly, worked_more) = answered(Medium::Disk, 9e6, None, 1);
    // For 2 of 9 ms the event loop is still busy with what did not wait for the disk.
    assert_eq!((costly[0] - free[0], worked_more - worked), (9 - 2, 9));
    assert_eq!(answered(Medium::Memory, 9e6, None, 1), answered(Medium::Memory, 0.0, None, 1));
    // The first is synced while the second is counted, unless there is one core for both.
    let two = |sync_ns, cores| answered(Medium::Disk, sync_ns, cores, 2).0;
    assert_eq!(two(9e6, None)[0], two(0.0, None)[0]);
    assert_eq!(two(9e6, Some(2)), two(9e6, None));
    assert!(two(9e6, Some(1))[0] > two(9e6, None)[0]);
}

/// Nodes 0 and 1, which begin at the same time again and again.
#[test]
fn syncs_that_begin_while_a_shared_disk_is_busy_take_as_long() {
    let longest_of = |shares| {
        let mut world = world(Medium::Disk, 1);
        for node in [0, 1] {
            world.set_sync_time(node, SyncTime::between(Duration::ZERO, Duration::from_millis(100)));
        }
        if shares {
            world.share_disk([0, 1]);
        }
        let mut all = Vec::new();
        for _ in 0..50 {
            let [one, other] = [0, 1].map(|node| world.fabric.sync_time(node, 0));
            assert!(!shares || one == other, "{one:?} {other:?}");
            all.push(one.max(other));
            world.fabric.now = world.fabric.now + Duration::from_millis(100);
        }
        assert!(all.iter().any(|took| *took != all[0]), "each time anew");
        all.iter().sum::<Duration>() / 50
    };
    assert!(longest_of(true) < longest_of(false).mul_f64(0.9));
}

/// A closed loop of many: as much is served as the processor can, and the rest of the time is spent in its queue.
#[test]
fn a_processor_saturates_at_what_its_work_costs_and_latency_rises_with_the_queue() {
    let served = |askers: u64| {
        let mut world = world(Medium::Memory, 1);
        world.set_costs(0, costs(Batching::None));
        let mut asked: VecDeque<Instant> = (0..askers).map(|_| Instant::START).collect();
        (0..askers).for_each(|_| world.command(CLIENT, ()));
        let (mut answers, mut latency) = (0, Duration::ZERO);
        while let Some(happening) = world.advance(millis(60_000)) {
            if let Happening::Client(_, Message::Counted(_)) = happening {
                answers += 1;
                latency = world.now() - asked.pop_front().unwrap();
                asked.push_back(world.now());
                world.command(CLIENT, ());
            }
        }
        (answers, (latency.as_secs_f64() * 1e3).round() as u64)
    };
    // Each takes the processor 11 ms, and 20 ms on its way: 60 s suffice for 5 452, the first of which comes at 31 ms.
    assert_eq!(served(1), (60_000 / 31, 31));
    assert_eq!(served(3), (5_452, 33));
    assert_eq!(served(30), (5_452, 330));
}

#[test]
fn processors_that_share_a_core_wait_for_it() {
    let mut world = world(Medium::Memory, 1);
    world.set_costs(0, costs(Batching::None));
    world.set_costs(1, costs(Batching::None));
    world.share_cores([0, 1], 1);
    let mut apart = self::world(Medium::Memory, 1);
    apart.set_costs(0, costs(Batching::None));
    apart.set_costs(1, costs(Batching::None));
    for world in [&mut world, &mut apart] {
        (0..20).for_each(|_| world.command(CLIENT, ()));
    }
    let took_and_worked = |world: &mut World<Toy, &'static str>| {
        let took = told_by_client(world, 800).last().map(|(at, _)| *at).unwrap();
        (took, (world.processor_time(0) + world.processor_time(1)).as_millis() as u64)
    };
    let (took, worked) = took_and_worked(&mut world);
    assert!(took >= worked, "{took} {worked}");
    let (took, worked) = took_and_worked(&mut apart);
    assert!(took < worked, "{took} {worked}");
}

/// Two that always have something to do share a core: each is woken once for many turns.
#[test]
fn a_processor_keeps_its_core_for_several_turns() {
    const WAKE: Duration = Duration::from_micros(1);
    let worked = |wake: Duration| {
        let mut world = world(Medium::Memory, 1);
        let costs = Costs { wake_ns: wake.as_nanos() as f64, ..costs(Batching::None).times(0.02) };
        let costs = Arc::new(costs);
        for node in [0, 1] {
            world.set_costs(node, Arc::clone(&costs));
        }
        world.share_cores([0, 1], 1);
        for round in 1..=20 {
            (0..40).for_each(|_| world.command(CLIENT, ()));
            run(&mut world, millis(10 * round));
        }
        run(&mut world, millis(2_000));
        world.processor_time(0) + world.processor_time(1)
    };
    let wakes = (worked(WAKE) - worked(Duration::ZERO)).as_nanos() / WAKE.as_nanos();
    // 800 commands, 800 questions and twice as many answers are a turn each.
    assert!((10..800).contains(&wakes), "{wakes}");
}
