//! The work of nodes beside the machines that they run: what they refuse under load or for want of a right, how much waits for a link, which version they run.
//! And the mistakes that they could make there.
//!
//! | fault | what a seed draws |
//! |---|---|
//! | `low-marks` | the marks above which new work of clients is refused, each as low as a few transactions or none at all |
//! | `full-links` | how many bytes may wait for a link |
//! | `mixed-versions` | which nodes and clients run the later version at first |
//! | `low-memory` | how little memory replicas may take, and how the files work in which they keep the rest |
//! | `rights` | how many users may coordinate, and how long nodes take to hear of a change |

use quorate_core::Random;
use quorate_core::admission::Marks;

use crate::attic::Scarcity;
use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::system::System;
use crate::users::Giving;
use crate::world::admission::Gate;
use crate::world::versions::Versions;

mod plants {
    use quorate_core::rules::Hunt;

    quorate_core::plants! {
        LivesIgnored = "D1", "", Hunt::under(&["amnesia"]).of("strict"),
            "nodes believe one whose disk was rolled back, or that was initialised anew";
        MissingBeginsEmpty = "D2", "", Hunt::under(&["amnesia"]).of("strict"),
            "a replica whose directory is gone begins empty, as a full member";
        RefusesWhatFrees = "D3", "", Hunt::under(&["low-marks"]).of("strict"),
            "a node with too much to do refuses what frees that as well, and what replicas say";
        BusyTakenForAbort = "D4", "", Hunt::under(&["low-marks"]).of("strict"),
            "a client that is told that a node is busy says of what it is at that it has not happened";
        NotDialledAgain = "D5", "", Hunt::under(&["full-links"]).of("strict"),
            "a node does not connect again after a connection was lost because too much waited for it";
        UnknownRefused = "D6", "", Hunt::under(&["mixed-versions"]).of("strict"),
            "a node refuses a message in which there is something that it does not know";
        EpochsOverwritten = "D7", "", Hunt::under(&["membership"]).of("strict"),
            "an operator defines the next epoch although another one has defined it since the last was read";
        EpochsDefinedEarly = "D8", "", Hunt::under(&["membership", "partitions", "node-crashes"]).of("strict"),
            "an operator defines the next epoch before the groups have arrived in the present one";
        LossDeclaredToOne = "D9", "", Hunt::under(&["shard-loss", "partitions", "node-crashes"]).of("serializable"),
            "an operator takes a shard for declared lost once one of the others knows that";
        AllGoOnAsleep = "D10", "", Hunt::under(&["accepted-loss", "partitions", "node-crashes"]).of("strict"),
            "an operator that accepts a loss lets all replicas go on that have lost their records, and not only as many as a majority lacks";
        AtticBelieved = "D11", "", Hunt::under(&["low-memory"]).of("strict"),
            "a node lets a replica go on that could not read a value, and has something else in its place";
        SlotsReusedEarly = "D12", "", Hunt::under(&["low-memory"]).of("strict"),
            "a slot for a value that is not in memory is used again while the value is needed";
        ReaderCoordinates = "D13", "", Hunt::under(&["rights"]).of("strict"),
            "a node takes what only a coordinator may say from a client that may only read";
        SettlerNeedsRight = "D14", "", Hunt::under(&["rights"]).of("strict"),
            "a node asks replicas that settle a transaction for the right of a client, and so does not hear how it ends";
        ClientBelieved = "D15", "", Hunt::under(&["rights"]).of("strict"),
            "a node believes a client what only replicas say";
        StandingKept = "D16", "", Hunt::under(&["rights"]).of("strict"),
            "a node goes on to take what a client says once it has found that the client has the right";
    }
}

/// A known mistake of hosts. Servers have none of them.
pub use plants::Plant as HostPlant;

/// The settings of nodes beside their machines, in one scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hosts {
    /// The marks above which new work is refused; none if everything is admitted.
    pub marks: Option<Marks>,
    /// So many bytes may wait for a link; any number if not stated.
    pub link_bytes_max: Option<usize>,
    /// The share of nodes and clients that runs the later version at first; none if all run the same.
    pub later: Option<f64>,
    /// How little memory replicas may take; none if all of them keep everything in memory.
    pub scarcity: Option<Scarcity>,
    /// How users are given rights; none if every client may do everything.
    pub rights: Option<Giving>,
}

/// Marks that no node reaches.
const WITHOUT_MARKS: Marks = Marks {
    queued_bytes_high: usize::MAX,
    prepared_high: usize::MAX,
    client_prepared_high: usize::MAX,
    log_lag_bytes_high: u64::MAX,
};

/// So many bytes may wait for a link in seeds that bound it: from a few messages on, each order of magnitude as likely.
const LINK_BYTES: (f64, f64) = (1_000.0, 32_000.0);

impl Hosts {
    /// Draws the settings for these faults, where links carry so many bytes a second.
    pub(crate) fn draw(faults: &[Fault], bandwidth: Option<u64>, random: &mut Random) -> Self {
        let (mut marks, mut links, mut versions) = (random.fork(), random.fork(), random.fork());
        let (mut memory, mut rights) = (random.fork(), random.fork());
        let drawn = |fault, value| faults.contains(&fault).then_some(value);
        let (low, high) = LINK_BYTES;
        let link_bytes = low * (high / low).powf(links.unit());
        // A link that is merely slow must not be lost again and again: a second's worth may always wait.
        let link_bytes_max = (link_bytes as usize).max(bandwidth.unwrap_or_default() as usize);
        Hosts {
            marks: drawn(Fault::LowMarks, ()).map(|()| draw_marks(&mut marks)),
            link_bytes_max: drawn(Fault::FullLinks, ()).map(|()| link_bytes_max),
            later: drawn(Fault::MixedVersions, ()).map(|()| 0.6 * versions.unit()),
            scarcity: drawn(Fault::LowMemory, ()).map(|()| Scarcity::draw(&mut memory)),
            rights: drawn(Fault::Rights, ()).map(|()| Giving::draw(&mut rights)),
        }
    }
}

/// Each mark is low with even odds, and one of them is in any case.
fn draw_marks(random: &mut Random) -> Marks {
    let one = random.index(3);
    let mut is_low = |number: usize| random.chance(0.5) || number == one;
    let is_low = [is_low(0), is_low(1), is_low(2)];
    let mut few = |most: u64| random.between(1, most);
    let (prepared, client_prepared, log_lag, queued) = (few(6), few(3), few(8), few(16));
    Marks {
        // Where links are bounded too, some of what waits there counts.
        queued_bytes_high: 500 * queued as usize,
        prepared_high: if is_low[0] { prepared as usize } else { WITHOUT_MARKS.prepared_high },
        client_prepared_high: if is_low[1] {
            client_prepared as usize
        } else {
            WITHOUT_MARKS.client_prepared_high
        },
        log_lag_bytes_high: if is_low[2] { 250 * log_lag } else { WITHOUT_MARKS.log_lag_bytes_high },
    }
}

impl<S: System> Cluster<S> {
    /// Lets nodes refuse, bounds links, mixes versions and has users as the scenario has it.
    pub(crate) fn set_up_hosts(&mut self) {
        let Hosts { marks, link_bytes_max, later, scarcity: _, rights: _ } = self.scenario.hosts.clone();
        let has = |plant| self.scenario.host_plant == Some(plant);
        let (refuses_all, refuses_unknown) =
            (has(HostPlant::RefusesWhatFrees), has(HostPlant::UnknownRefused));
        let dials_again = !has(HostPlant::NotDialledAgain);
        if let Some(marks) = marks {
            self.world.set_gate(Gate { marks, refuses_all });
        }
        if let Some(bytes_max) = link_bytes_max {
            self.world.bound_links(bytes_max, dials_again);
        }
        if let Some(share) = later {
            let mut random = Random::stream(self.scenario.seed, "versions");
            let nodes = self.world.network().nodes();
            let later = (0..nodes).map(|_| random.chance(share)).collect();
            self.world.set_versions(Versions::new(later, refuses_unknown, random));
        }
        self.set_up_users();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(faults: &[Fault], bandwidth: Option<u64>) -> Vec<Hosts> {
        (1..=200).map(|seed| Hosts::draw(faults, bandwidth, &mut Random::new(seed))).collect()
    }

    #[test]
    fn each_fault_of_hosts_draws_its_own_and_changes_nothing_of_the_others() {
        let all = drawn(&Fault::HOSTS, None);
        assert!(drawn(&[Fault::Loss], None).iter().all(|hosts| *hosts == Hosts::default()));
        for (alone, all) in drawn(&[Fault::FullLinks], None).iter().zip(&all) {
            assert_eq!((alone.link_bytes_max, alone.marks, alone.later), (all.link_bytes_max, None, None));
        }
        for hosts in &all {
            assert!(hosts.marks.is_some() && hosts.later.is_some_and(|share| share <= 0.6));
            assert!(hosts.link_bytes_max.is_some_and(|bytes| (1_000..=32_000).contains(&bytes)));
            assert!(hosts.rights.is_some_and(|giving| (0.35..=0.8).contains(&giving.coordinate)));
        }
    }

    #[test]
    fn one_mark_at_least_is_low_and_each_is_in_some_seeds() {
        let marks: Vec<Marks> =
            drawn(&[Fault::LowMarks], None).into_iter().filter_map(|hosts| hosts.marks).collect();
        let low: Vec<[bool; 3]> = marks
            .iter()
            .map(|marks| {
                [marks.prepared_high < 10, marks.client_prepared_high < 10, marks.log_lag_bytes_high < 10_000]
            })
            .collect();
        assert!(low.iter().all(|low| low.contains(&true)));
        for mark in 0..3 {
            let count = low.iter().filter(|low| low[mark]).count();
            assert!((60..200).contains(&count), "mark {mark} is low in {count} of 200 seeds");
        }
    }

    #[test]
    fn a_slow_link_holds_what_it_carries_in_a_second() {
        let hosts = drawn(&[Fault::FullLinks], Some(500_000));
        assert!(hosts.iter().all(|hosts| hosts.link_bytes_max == Some(500_000)));
    }
}
