//! Every mistake that can be planted is noticed.

use std::panic::catch_unwind;

use super::{Habits, clocks, extremes, leases, members, recovery, schedules};
use crate::{Plant, Rules};

/// Where a plant is noticed.
enum Hunt {
    /// Among so many random schedules.
    Schedules(u64),
    /// The same, where few have patience.
    Hasty(u64),
    /// The same, while the group changes.
    Changes(u64),
    /// The same, while replicas that join are killed.
    Arrivals(u64),
    /// In this story: messages would have to come so late, and at such a time, that six thousand random schedules do not.
    Story(fn(Rules)),
}

fn hunt(plant: Plant) -> Hunt {
    match plant {
        Plant::OwnLogBegins => Hunt::Schedules(10),
        Plant::LeaseFromAnswer => Hunt::Story(leases::outlast_with_a_late_answer),
        Plant::OkBeforeSync => Hunt::Schedules(400),
        Plant::RecoveringVotes => Hunt::Schedules(50),
        Plant::LivesForgotten => Hunt::Story(recovery::lose_with_a_late_offer),
        Plant::SnapshotWithoutEnd => Hunt::Schedules(10),
        Plant::UnstableTruncated => Hunt::Schedules(10),
        Plant::ReadsBeforeAll => Hunt::Schedules(100),
        Plant::EpochBeginsEarly => Hunt::Changes(30),
        Plant::RestartEndsPromise => Hunt::Hasty(1_500),
        Plant::RestartedLeaderGoesOn => Hunt::Schedules(20),
        Plant::PromiseIgnored => Hunt::Schedules(100),
        Plant::NewMemberVotes => Hunt::Changes(20),
        Plant::HandedOverToOne => Hunt::Changes(1_000),
        Plant::WaitsInVain => Hunt::Arrivals(60),
        Plant::AnyViewBelieved => Hunt::Story(extremes::withstand),
        Plant::OwnClockCounts => Hunt::Story(clocks::go_by_the_majority),
        Plant::OffClockLeads => Hunt::Story(clocks::hand_over),
    }
}

#[test]
fn every_plant_is_noticed() {
    for plant in Plant::ALL {
        let rules = Rules::planted(plant);
        let any = |seeds: u64, run: fn(u64, Rules)| {
            (1..=seeds).find(|seed| catch_unwind(|| run(*seed, rules)).is_err())
        };
        let noticed = match hunt(plant) {
            Hunt::Schedules(seeds) => any(seeds, |seed, rules| {
                schedules::run(seed, rules, Habits::COMMON);
            }),
            Hunt::Hasty(seeds) => any(seeds, |seed, rules| {
                schedules::run(seed, rules, Habits::HASTY);
            }),
            Hunt::Changes(seeds) => any(seeds, |seed, rules| {
                members::run_with_changes(seed, rules);
            }),
            Hunt::Arrivals(seeds) => any(seeds, |seed, rules| {
                members::arrivals::run(seed, rules);
            }),
            Hunt::Story(story) => catch_unwind(|| story(rules)).err().map(|_| 1),
        };
        println!("{plant:?}: {noticed:?}");
        assert!(noticed.is_some(), "nothing notices {plant:?}");
    }
}
