//! The events that a host hears of a replica of a log, and the commands that it gives it.

use quorate_core::command::Outcome;
use quorate_core::hosted::{
    Admission, Boot as Seating, Holdings, HostedOnLog, HostedReplica, News, Seat, StoredVersion, Urgency,
};
use quorate_core::machine::Input;
use quorate_core::{
    ClientId, ClockTime, Epoch, GroupSize, Groups, Key, Members, ReplicaIndex, ShardId, Timestamp,
    TransactionId, View,
};

use super::list::{Ask, List, Told};
use super::{Config, LIMITS, Node, TIMING, World, calm, id};
use crate::member::Item;
use crate::replica::Boot;
use crate::{LogCommand, LogEvent, Membership, Message, Part, Payload, Rules, Status};

impl HostedOnLog for List {
    const NEEDS_SHARDS: bool = false;
    const ACCEPTS_LOSS: bool = true;

    fn seated((): (), _: &Seat) {}

    fn prepared(&self) -> usize {
        2
    }

    fn record_len(&self) -> usize {
        self.values().len()
    }

    fn load(&self, client: Option<ClientId>) -> usize {
        client.map_or(7, |client| client.0 as usize)
    }

    fn is_idle(&self, leads: bool) -> bool {
        !leads || self.values().is_empty()
    }

    fn decided(&self) -> (u64, u64) {
        (self.values().len() as u64, 3)
    }

    fn change_groups(groups: &Groups) -> Option<Ask> {
        Some(Ask::ReadByLease(groups.epoch.0.into()))
    }

    fn admission(_: &Ask) -> Admission {
        Admission::of(Urgency::Early)
    }
}

impl Holdings for List {
    fn waiting(&self) -> usize {
        self.values().len()
    }

    fn settles(&self) -> bool {
        self.values().len() == 3
    }

    fn outcomes(&self) -> Vec<(TransactionId, Outcome)> {
        self.values().iter().map(|value| (transaction(*value), Outcome::Aborted)).collect()
    }

    fn floor(&self) -> Timestamp {
        Timestamp { micros: 4, client: ClientId(0) }
    }

    fn versions(&self) -> Vec<StoredVersion> {
        self.values().iter().map(|value| (Key::from(value.to_string()), Timestamp::ZERO, None)).collect()
    }

    fn recorded(&self) -> usize {
        self.values().len() + 1
    }
}

fn transaction(sequence: u64) -> TransactionId {
    TransactionId { client: ClientId(1), sequence, attempt: 0 }
}

fn groups() -> Groups {
    Groups::new(GroupSize::new(3).unwrap())
}

/// Shard 1 goes on with others.
fn changed() -> Groups {
    groups().next([(ShardId(1), Members::new([0, 1, 3].map(ReplicaIndex).to_vec()).unwrap())])
}

fn seat(groups: Groups, boot: Seating) -> Seat {
    Seat { replica: id(ReplicaIndex(1)), groups, shards: None, joined: Vec::new(), boot, attic: None }
}

#[test]
fn a_replica_takes_the_seat_that_its_host_gives_it() {
    let others = Membership::new(Epoch(1), [0, 1, 3].map(ReplicaIndex).to_vec()).unwrap();
    let first = Membership::first(GroupSize::new(3).unwrap());
    for (groups, seating, membership, boot) in [
        (groups(), Seating::Initialise, &first, Boot::Initialise),
        (groups(), Seating::Rejoin, &first, Boot::Recover),
        // A group that has changed before it began has begun elsewhere.
        (changed(), Seating::Initialise, &others, Boot::Join),
        (changed(), Seating::Rejoin, &others, Boot::Recover),
    ] {
        let config = Config::unseated(TIMING, LIMITS, 400, Rules::SOUND, ());
        let config = <Node as HostedReplica>::seated(config, &seat(groups, seating));
        assert_eq!((config.me, &config.membership, config.boot), (id(ReplicaIndex(1)), membership, boot));
        assert_eq!((config.timing, config.limits, config.snapshot_bytes), (TIMING, LIMITS, 400));
    }
}

#[test]
fn a_change_of_groups_is_told_to_the_log_if_its_own_is_another_and_to_the_machine() {
    let own = |epoch| Part::Own(Ask::ReadByLease(epoch));
    assert_eq!(Node::change_groups(&groups(), ShardId(1)), [own(0)]);
    let next = Membership::new(Epoch(1), [0, 1, 3].map(ReplicaIndex).to_vec()).unwrap();
    let told = Node::change_groups(&changed(), ShardId(1));
    assert_eq!(told, [Part::Log(LogCommand::ChangeGroup(next)), own(1)]);
    assert_eq!(Node::change_groups(&changed(), ShardId(2)), [own(1)], "that group goes on as it is");
}

#[test]
fn a_host_hears_of_all_that_an_operator_may_have_to_know() {
    let view = View(4);
    let table = [
        (LogEvent::Normal { view }, Some(News::Normal(view))),
        (LogEvent::ViewChanging { view }, Some(News::ViewChanging(view))),
        (LogEvent::Recovering, Some(News::Recovering)),
        (LogEvent::Lost { lost: 2 }, Some(News::Lost(2))),
        (LogEvent::Leading { view }, Some(News::Leading(view))),
        (LogEvent::HandedOver, Some(News::Retired)),
        (LogEvent::Clock { error_micros: Some(-9) }, Some(News::Clock(Some(-9)))),
        (LogEvent::Deposed, None),
        // Those that are left may still want what it holds.
        (LogEvent::Retired { epoch: Epoch(1) }, None),
    ];
    for (event, news) in table {
        assert_eq!(Node::news(&Part::Log(event)), news);
    }
    assert_eq!(Node::news(&Part::Own(Told::Read { number: 1, length: 2 })), None);
}

#[test]
fn a_host_is_told_how_a_replica_is() {
    let mut world = calm(LIMITS);
    let member = |world: &World, index: usize| {
        let member = world.processes[index].member.as_ref().expect("it is up");
        (
            member.health(),
            member.is_idle(),
            member.decided(),
            member.load(None),
            member.load(Some(ClientId(5))),
        )
    };
    assert!(member(&world, 0).1, "nothing has been asked for");
    world.ask(0, Ask::Append(1));
    world.pass(50);
    for index in [0, 1] {
        let (health, is_idle, decided, load, load_of_client) = member(&world, index);
        assert_eq!((health.status, health.view, health.leads), (Status::Normal, View(0), index == 0));
        assert_eq!((health.prepared, health.record_len, health.recoveries), (2, 1, 0));
        assert_eq!(health.clock_error_micros, None);
        assert_eq!((is_idle, decided, load, load_of_client), (index != 0, (1, 3), 7, 5));
    }
}

/// The log is what the machine stands on: to refuse its messages under load would end the load only with the group.
#[test]
fn what_a_log_says_is_always_admitted() {
    let log = Part::Log(Message::EpochStarted);
    assert_eq!(Node::admission(&log).urgency, Urgency::Always);
    assert_eq!(Node::admission(&Part::Own(Ask::Append(1))).urgency, Urgency::Early);
}

#[test]
fn a_leader_that_its_host_is_about_to_stop_gives_way() {
    let mut world = calm(LIMITS);
    world.pass(100);
    let give_way = Node::give_way().expect("a log has a leader");
    world.step(0, Input::Command(give_way));
    world.pass(100);
    let health = |index: usize| world.processes[index].member.as_ref().expect("it is up").health();
    assert_eq!([0, 1, 2].map(|index| health(index).leads), [false, true, false]);
}

#[test]
fn entries_are_alike_if_they_say_the_same() {
    let next = |epoch| Membership::new(Epoch(epoch), [0, 1, 3].map(ReplicaIndex).to_vec()).unwrap();
    let items = || [Item::<List>::Own(1), Item::Own(2), Item::NextGroup(next(1)), Item::NextGroup(next(2))];
    for (at, one) in items().iter().enumerate() {
        for (place, other) in items().iter().enumerate() {
            assert_eq!(one == other, at == place, "{one:?} and {other:?}");
        }
    }
    let [own, _, next_group, _] = items();
    assert_eq!((own.bytes(), next_group.bytes()), (8, 3));
    assert_eq!((own.next_group(), next_group.next_group()), (None, Some(&next(1))));
}

/// A log holds nothing of its own that users know.
#[test]
fn what_a_replica_holds_is_what_its_machine_holds() {
    let mut world = calm(LIMITS);
    let told = |world: &World| {
        let member = world.processes[1].member.as_ref().expect("it is up");
        let collected = [4, 5].map(|ended| member.has_collected(ClockTime::from_micros(ended)));
        let counts = [Holdings::waiting(member), member.recorded(), Holdings::version_count(member)];
        let known = (member.outcomes().len(), member.outcome(transaction(7)));
        (counts, known, collected, member.settles(), member.floor().micros, member.state_bytes() > 3 * 128)
    };
    let collected = [true, false];
    assert_eq!(told(&world), ([0, 1, 0], (0, None), collected, false, 4, false));
    for value in [7, 8] {
        world.ask(0, Ask::Append(value));
    }
    world.pass(200);
    // The leader of a list begins with an entry of its own.
    let known = (3, Some(Outcome::Aborted));
    assert_eq!(told(&world), ([3, 4, 3], known, collected, true, 4, true));
}
