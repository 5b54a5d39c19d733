//! Numbers at the ends of their ranges, said by a replica: the group goes on, and each replica restarts from what it has kept.

use std::collections::BTreeMap;

use quorate_core::log::Position;
use quorate_core::{ClockTime, Epoch, GroupSize, ReplicaIndex, View};

use super::World;
use crate::message::Offer;
use crate::replica::Beginning;
use crate::{Entry, Membership, Message, Rules, Run, Shape};

const EXTREMES: [u64; 4] = [u64::MAX, i64::MAX as u64, u32::MAX as u64, i32::MAX as u64];

/// Every kind of message, with one number in all its places but those that would make it another's.
fn messages(number: u64) -> Vec<(Epoch, Message<u64>)> {
    let (view, position) = (View(number), Position(number));
    let clock = Some(ClockTime::from_micros(number));
    let group = GroupSize::new(3).unwrap();
    let membership = Membership::first(group);
    let shape =
        || Shape { base: Position(0), runs: vec![Run { view: View(0), first: Position(1) }], last: position };
    let lives = || (0..3).map(|index| (ReplicaIndex(index), number)).collect::<BTreeMap<_, _>>();
    let beginning = || Beginning { membership: membership.clone(), base: Position::START, view: View(0) };
    let entries = |view| vec![Entry { view, payload: 77 }];
    let mut all = Vec::new();
    for view in [view, View(0), View(1), View(2)] {
        let offer = |last_normal, lives| Offer { last_normal, shape: shape(), stable: position, lives };
        all.extend([
            Message::Prepare {
                view,
                after: position,
                entries: entries(view),
                stable: Position(0),
                beat: number,
                clock,
            },
            Message::Prepare {
                view,
                after: position,
                entries: Vec::new(),
                stable: position,
                beat: number,
                clock,
            },
            Message::PrepareOk { view, upto: position, beat: number, clock },
            Message::StartViewChange { view, entered: false },
            Message::StartViewChange { view, entered: true },
            Message::DoViewChange { view, offer: offer(View(number), BTreeMap::new()), clock },
            Message::DoViewChange { view, offer: Offer { lives: lives(), ..Offer::default() }, clock },
            Message::StartView { view, shape: Shape::default(), stable: position, beginning: beginning() },
            Message::Fetch { view, after: position, upto: position },
            Message::Fetch { view, after: position, upto: Position(0) },
            Message::Fetched { view, after: position, entries: entries(view) },
            Message::FromState { view, base: position, base_view: view, page: number, state: None },
            Message::FetchState { view, base: position, page: number },
            Message::LifeNoted { life: number, view },
            Message::Join { view },
        ]);
    }
    all.extend([
        Message::WhichLife { nonce: number },
        Message::KnownLife { nonce: number, life: number },
        Message::NewLife { life: number },
    ]);
    let mut said: Vec<(Epoch, Message<u64>)> =
        all.into_iter().map(|message| (message.view().map_or(Epoch::FIRST, View::epoch), message)).collect();
    let first_epoch: Vec<_> = said.iter().map(|(_, message)| (Epoch::FIRST, message.clone())).collect();
    said.extend(first_epoch);
    let epoch = Epoch(number as u32);
    let members = [0, 1, 2].map(ReplicaIndex).to_vec();
    let begun = Membership::new(epoch, members).expect("a group");
    said.push((epoch, Message::EpochBegun { membership: begun, shape: Shape::default() }));
    said.push((epoch, Message::EpochStarted));
    said
}

/// Each replica hears it from each other; then all restart, twice, and serve.
pub(super) fn withstand(rules: Rules) {
    for number in EXTREMES {
        let mut world = World::calm_with(3, rules);
        for (epoch, message) in messages(number) {
            for (to, from) in [(0, 1), (1, 0), (1, 2), (2, 0)] {
                world.step(to, |replica, step| {
                    replica.on_message(ReplicaIndex(from), epoch, message.clone(), step);
                });
            }
        }
        // The second time, whatever a replica has been driven to must have something that follows.
        for _ in 0..2 {
            for index in 0..3 {
                world.sync(index);
            }
            for index in 0..3 {
                world.crash(index);
            }
            world.heal();
        }
    }
}

#[test]
fn a_group_withstands_numbers_at_the_ends_of_their_ranges() {
    withstand(Rules::SOUND);
}
