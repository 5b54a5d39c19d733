//! The states of replicas are compared at a position of the log, while more is appended.

use quorate_core::Timestamp;
use quorate_core::hosted::HostedReplica;
use quorate_core::log::Position;
use quorate_core::machine::Input;
use quorate_core::verify::{Answer, Digest, Furthest, Point, Progress, Request};

use super::list::Ask;
use super::{LIMITS, Node, World, calm};
use crate::Status;
use crate::replica::Boot;

fn at(position: u64) -> Request {
    Request {
        operator: 1,
        point: Some(Point::Position(Position(position))),
        path: Default::default(),
        page: None,
    }
}

fn asks(world: &mut World, index: usize, request: &Request) {
    let command = Node::verify(request.clone()).expect("a log can be compared");
    world.step(index, Input::Command(command));
}

fn progress(world: &World, index: usize, request: &Request) -> Progress {
    world.processes[index].member.as_ref().expect("it is up").verified(request).progress
}

fn digest(world: &World, index: usize, request: &Request) -> Digest {
    match progress(world, index, request) {
        Progress::Done { digest } => digest,
        other => panic!("r{index}: {other:?}"),
    }
}

/// Up to where a replica says that it is.
fn reached(world: &World, index: usize) -> Option<Point> {
    let where_are_you = Request { operator: 9, point: None, path: Default::default(), page: None };
    let answer = world.processes[index].member.as_ref().expect("it is up").verified(&where_are_you);
    answer.at
}

fn appends(world: &mut World, values: impl IntoIterator<Item = u64>) {
    for value in values {
        world.ask(0, Ask::Append(value));
    }
    world.pass(50);
}

#[test]
fn replicas_are_compared_as_they_are_at_one_position_whenever_each_reaches_it() {
    let mut world = calm(LIMITS);
    appends(&mut world, [1, 2]);
    let last = reached(&world, 0);
    assert_eq!(last, reached(&world, 1));
    let Some(Point::Position(Position(last))) = last else { panic!("{last:?}") };
    let (here, later) = (at(last), at(last + 2));
    // One is asked at once and stands there, the others are told of a position to come, and one of those comes late.
    asks(&mut world, 0, &here);
    asks(&mut world, 1, &later);
    asks(&mut world, 2, &later);
    assert_eq!(progress(&world, 1, &later), Progress::Waiting);
    assert!(matches!(progress(&world, 0, &here), Progress::Walking { items: 0 }));
    assert_eq!(progress(&world, 1, &here), Progress::Busy, "that is another question");
    world.pass(10);
    assert_eq!(digest(&world, 0, &here).items, 2);
    appends(&mut world, [3]);
    assert_eq!(progress(&world, 1, &later), Progress::Waiting, "not yet");
    appends(&mut world, [4, 5, 6]);
    asks(&mut world, 0, &later);
    assert_eq!(progress(&world, 0, &later), Progress::Passed, "it does not know any more what it held there");
    let (one, other) = (digest(&world, 1, &later), digest(&world, 2, &later));
    assert_eq!((one.items, &one), (4, &other), "what has come since is not in it");
    let own = at(last + 4);
    asks(&mut world, 0, &own);
    world.pass(10);
    assert_eq!(digest(&world, 0, &own).items, 6);
    assert_ne!(digest(&world, 0, &own).buckets, one.buckets);
}

#[test]
fn many_pages_are_read_a_few_at_a_time() {
    let mut world = calm(LIMITS);
    for first in (0..2_000).step_by(4) {
        world.ask(0, Ask::AppendMany(1 + 10 * first, 4));
        world.pass(2);
    }
    world.pass(200);
    let Some(Point::Position(Position(last))) = reached(&world, 0) else { panic!("it has come far") };
    let request = at(last);
    asks(&mut world, 0, &request);
    let mut walked = Vec::new();
    while let Progress::Walking { items } = progress(&world, 0, &request) {
        walked.push(items);
        world.tick();
    }
    walked.dedup();
    assert!(walked.len() > 2, "{walked:?}");
    assert!(digest(&world, 0, &request).items >= 2_000);
}

#[test]
fn only_positions_are_points_of_a_log() {
    let mut world = calm(LIMITS);
    let request = Request { point: Some(Point::Below(Timestamp::ZERO)), ..at(1) };
    asks(&mut world, 0, &request);
    assert_eq!(progress(&world, 0, &request), Progress::Passed);
}

/// Whether it holds what the others do is not for it to say.
#[test]
fn a_replica_that_learns_from_others_cannot_be_compared() {
    let mut world = calm(LIMITS);
    appends(&mut world, [1]);
    world.crash(1);
    let process = &mut world.processes[1];
    (process.records, process.durable, process.anchor) = (Vec::new(), 0, 0);
    process.truncations.clear();
    world.boot(1, Boot::Recover);
    let replica = world.processes[1].member.as_ref().expect("it is up").replica();
    assert_eq!(replica.status(), Status::Recovering);
    assert!(matches!(progress(&world, 1, &at(1)), Progress::Unable { .. }));
    assert_eq!(reached(&world, 1), None);
    world.pass(100);
    assert_eq!(reached(&world, 1), reached(&world, 0), "it has come back");
}

#[test]
fn a_replica_that_is_no_member_any_more_cannot_be_compared() {
    let mut world = calm(LIMITS).with_spares(1);
    appends(&mut world, [1]);
    let next = world.define([0, 1, 3].map(quorate_core::ReplicaIndex).to_vec());
    for index in 0..4 {
        world.step(index, Input::Command(crate::Part::Log(crate::LogCommand::ChangeGroup(next.clone()))));
    }
    world.pass(300);
    let status = |world: &World, index: usize| {
        world.processes[index].member.as_ref().expect("it is up").replica().status()
    };
    assert_eq!([0, 1, 2, 3].map(|index| status(&world, index)), {
        use Status::{Normal, Retired};
        [Normal, Normal, Retired, Normal]
    });
    assert!(matches!(progress(&world, 2, &at(1)), Progress::Unable { .. }));
    let request = {
        let Some(Point::Position(position)) = reached(&world, 3) else { panic!("it is a member") };
        at(position.0)
    };
    for index in [0, 3] {
        asks(&mut world, index, &request);
    }
    world.pass(10);
    assert_eq!(digest(&world, 0, &request), digest(&world, 3, &request));
}

/// An acknowledged entry is in the logs of a majority. A replica that has restarted has applied less than it had.
#[test]
fn a_reader_is_told_how_long_a_log_is_and_not_what_was_applied() {
    let mut world = calm(LIMITS);
    appends(&mut world, [1, 2]);
    let log = |world: &World, index: usize| {
        let answer = world.processes[index].member.as_ref().expect("it is up").verified(&Furthest::request());
        assert_eq!(answer.progress, Progress::Idle);
        answer.at
    };
    let all = reached(&world, 0);
    assert_eq!((log(&world, 0), log(&world, 1)), (all, all));
    for index in 0..3 {
        world.crash(index);
    }
    for index in 0..3 {
        world.boot(index, Boot::Initialise);
    }
    assert!([0, 1, 2].iter().any(|index| reached(&world, *index) < all), "nobody has applied it again");
    let mut furthest = Furthest::new(3);
    for index in [1, 2] {
        let at = log(&world, index);
        furthest.note(&Answer { at, progress: Progress::Idle });
    }
    assert_eq!(furthest.position().map(Point::Position), all);
}

#[test]
fn one_that_reads_is_content_with_a_later_position_and_sees_what_is_there_then() {
    let mut world = calm(LIMITS);
    appends(&mut world, [1, 2]);
    let Some(Point::Position(Position(last))) = reached(&world, 0) else { panic!("it has come far") };
    let reading = |position: u64, page: u64| Request { page: Some(page), ..at(position) };
    // This one is passed at once, and the other one is still to come.
    let (passed, ahead) = (reading(last - 1, 0), reading(last + 1, 0));
    asks(&mut world, 0, &passed);
    asks(&mut world, 1, &ahead);
    assert_eq!(progress(&world, 1, &ahead), Progress::Waiting);
    appends(&mut world, [3]);
    world.pass(10);
    let items = |world: &World, index: usize, request: &Request| match progress(world, index, request) {
        Progress::Page { items, is_last: true } => items,
        other => panic!("r{index}: {other:?}"),
    };
    let (one, other) = (items(&world, 0, &passed), items(&world, 1, &ahead));
    assert_eq!((one.len(), other.len()), (2, 3));
    assert!(one.iter().all(|item| other.contains(item)));
    let timestamp = Request { point: Some(Point::Below(Timestamp::ZERO)), ..reading(1, 0) };
    asks(&mut world, 0, &timestamp);
    assert_eq!(progress(&world, 0, &timestamp), Progress::Passed, "this machine has no timestamps");
}
