//! Faults that strike from time to time: crashes, partitions, pauses, clocks that jump.
//!
//! Misfortunes of single messages, skew and drift are set up once and last; what is here happens at instants, and most of
//! it ends by itself after a while.
//!
//! | file | role |
//! |---|---|
//! | `links` | what goes wrong between nodes |
//! | `clocks` | what goes wrong with physical clocks |
//! | `processes` | crashes, restarts, pauses, upgrades |
//! | `disks` | what goes wrong with disks |
//! | `recoveries` | what goes wrong while others settle a transaction; view changes for no reason |
//! | `aims` | which node a fault strikes that waits for a moment; which links are starved |

mod aims;
mod clocks;
mod disks;
mod links;
mod processes;
mod recoveries;

use std::time::Duration;

use quorate_core::{Instant, Random};

use crate::cluster::{Alarm, Cluster};
use crate::fault::{Fault, FaultCounts};
use crate::system::{Far, Hostile, System};
use crate::world::disk::{Condition, Crash, Decay};

/// Something that the injector does at an instant.
#[derive(Clone, Debug)]
pub enum Strike {
    /// A fault strikes, and will again.
    Hit(Fault),
    /// A fault strikes because another has, in time to make it worse.
    Follow(Fault),
    /// A fault that strikes in several steps goes on.
    Next(Step),
    /// An effect of a fault ends.
    End(Ending),
}

/// A step of a fault that takes several.
#[derive(Clone, Debug)]
pub enum Step {
    /// Links fail or come back.
    Flap {
        /// The links.
        links: Vec<(usize, usize)>,
        /// True if they are cut.
        cut: bool,
        /// How long each state lasts.
        period: Duration,
        /// How often the state still changes.
        left: u32,
    },
    /// A clock jumps from one error to the other.
    Strobe {
        /// The node of the clock.
        node: usize,
        /// The errors, the next one first.
        errors: [i64; 2],
        /// How often it still jumps.
        left: u32,
    },
    /// A node that has just been restarted crashes again.
    Storm {
        /// The node.
        node: usize,
        /// How often it still crashes.
        left: u32,
    },
    /// A node is restarted, and then the one after it.
    Roll(usize),
    /// A node that stops in good order goes on with it, and is restarted once nothing is left to wait for.
    Drain {
        /// The node.
        node: usize,
        /// When it is restarted at the latest.
        until: Instant,
    },
    /// The replica that settles a transaction is looked for, to crash it.
    Hunt {
        /// How often it is looked for before the hunt is given up.
        left: u32,
    },
    /// A transaction that is being prepared is looked for, to have it taken over.
    Duel {
        /// How often one is looked for.
        left: u32,
    },
    /// A node that is at what faults are aimed at is looked for.
    Aim {
        /// The fault that is to strike it.
        fault: Fault,
        /// How often one is looked for.
        left: u32,
    },
    /// Other links are starved than before.
    Starve {
        /// How often they still change.
        left: u32,
    },
}

/// How an effect of a fault ends.
#[derive(Clone, Debug)]
pub enum Ending {
    /// A node restarts.
    Restart(usize),
    /// Links carry messages again.
    Mend(Vec<(usize, usize)>),
    /// The messages of a node take their usual time again.
    Spike(usize),
    /// A clock runs again.
    Thaw(usize),
    /// A clock that was far off is set right.
    Near(usize),
    /// A node is as fast as usual again.
    Processor(usize),
    /// Syncs take their usual time again.
    Disk(usize),
    /// A disk works again.
    Condition(usize),
    /// A new incarnation of a client starts.
    Client(usize),
}

/// The requests of the injector to the owner of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The client in this slot vanishes, sooner or later.
    DoomClient(usize),
    /// The client in this slot vanishes now.
    CrashClient(usize),
    /// A new one starts in this slot.
    StartClient(usize),
}

/// Injects the faults of a scenario.
#[derive(Debug)]
pub struct Injector<S: System> {
    random: Random,
    /// False once everything has been healed: from then on nothing strikes.
    active: bool,
    /// How often each fault struck.
    pub counts: FaultCounts,
    /// Which faults struck while a transaction was open.
    pub overlapped: [bool; Fault::ALL.len()],
    /// Clocks that are far off, and by how much they were moved.
    far: Vec<(usize, i64)>,
    /// Before that no further clock leaps: what the last one has read may still be on its way.
    next_leap: Instant,
    /// How long outages last, as a share of the usual.
    brevity: f64,
    hostile: S::Hostile,
    /// The same where clients need rights, and it has none.
    intruder: Option<S::Hostile>,
}

/// No fault strikes before: every replica has begun its life by then.
const QUIET_START: Duration = Duration::from_millis(300);

impl<S: System> Injector<S> {
    /// Sets up what lasts, and the first strike of everything else.
    pub fn new(cluster: &mut Cluster<S>, mut random: Random) -> Self {
        let mut injector: Injector<S> = Injector {
            hostile: S::Hostile::new(random.fork()),
            intruder: None,
            random,
            active: true,
            counts: FaultCounts::default(),
            overlapped: [false; Fault::ALL.len()],
            far: Vec::new(),
            next_leap: Instant::START,
            brevity: cluster.scenario.swarm.as_ref().map_or(1.0, |swarm| swarm.brevity),
        };
        if cluster.users.is_some() {
            injector.intruder = Some(S::Hostile::new(Random::stream(cluster.scenario.seed, "intruder")));
            cluster.trust(injector.hostile().id());
        }
        injector.begin_to_starve(cluster);
        cluster.world.network().misfortunes = cluster.scenario.misfortunes;
        for fault in cluster.scenario.faults.clone() {
            match fault {
                Fault::Loss
                | Fault::Duplication
                | Fault::LateDuplicates
                | Fault::Reordering
                | Fault::LateMessages
                | Fault::CorruptedFrames => {}
                Fault::ClockSkew | Fault::ClockDrift => injector.counts.add(fault),
                Fault::Overload => {
                    injector.counts.add(fault);
                    injector.crowd(cluster);
                }
                // Strikes when all others have.
                Fault::HealthyCore => {}
                // Last, and are counted when a message is refused, and when a replica begins.
                Fault::LowMarks | Fault::LowMemory => {}
                _ => injector.schedule(cluster, fault, QUIET_START),
            }
        }
        injector
    }

    /// A generator of its own for what follows the faults.
    pub fn fork(&mut self) -> Random {
        self.random.fork()
    }

    /// True if the clock of a node is far off now.
    pub fn is_far(&self, node: usize) -> bool {
        self.far.iter().any(|(far, _)| *far == node)
    }

    /// The hostile client.
    pub fn hostile(&self) -> &S::Hostile {
        &self.hostile
    }

    /// Nothing strikes any more, and clocks that were far off are right again. Gives the clients that have to be replaced
    /// for that.
    pub fn stop(&mut self, cluster: &mut Cluster<S>) -> Vec<usize> {
        self.active = false;
        let far: Vec<usize> = self.far.iter().map(|(node, _)| *node).collect();
        far.into_iter().filter_map(|node| self.set_right(cluster, node)).collect()
    }

    fn schedule(&mut self, cluster: &mut Cluster<S>, fault: Fault, not_before: Duration) {
        let share = match fault {
            // A client has many worst moments, and what it costs is soon made up for.
            Fault::ClientCrashes => 0.3,
            Fault::RecoveryDuels => 0.1,
            Fault::HostileClients => 0.05,
            Fault::ViewChanges | Fault::Buggify => 0.15,
            Fault::Rights => 0.2,
            _ => 1.0,
        };
        let interval = cluster.scenario.strike_interval.mul_f64(share * (0.1 + 1.9 * self.random.unit()));
        let swarm = cluster.scenario.swarm.as_ref();
        let interval =
            swarm.map_or(interval, |swarm| swarm.interval(fault, interval, cluster.scenario.round_trip()));
        cluster.world.set_alarm(not_before + interval, Alarm::Strike(Strike::Hit(fault)));
    }

    /// Lets something strike, or end.
    pub fn strike(&mut self, strike: Strike, cluster: &mut Cluster<S>, open: bool) -> Option<Request> {
        match strike {
            Strike::Hit(_) | Strike::Follow(_) | Strike::Next(_) if !self.active => None,
            Strike::Hit(fault) => {
                self.schedule(cluster, fault, Duration::ZERO);
                if self.waits_for_its_moment(fault, cluster) {
                    return None;
                }
                self.hit_and_note(fault, cluster, open)
            }
            Strike::Follow(fault) => self.hit_and_note(fault, cluster, open),
            Strike::Next(Step::Aim { fault, left }) => {
                if self.aims(fault, left, cluster) {
                    self.hit_and_note(fault, cluster, open)
                } else {
                    None
                }
            }
            Strike::Next(step) => self.step(step, cluster, open),
            Strike::End(ending) => self.end(ending, cluster),
        }
    }

    fn hit_and_note(&mut self, fault: Fault, cluster: &mut Cluster<S>, open: bool) -> Option<Request> {
        let (struck, request) = self.hit(fault, cluster);
        if struck {
            self.note(fault, open);
        }
        request
    }

    /// A fault strikes; `open` says whether it meets an open transaction.
    pub(crate) fn note(&mut self, fault: Fault, open: bool) {
        self.counts.add(fault);
        self.overlapped[fault.index()] |= open;
    }

    /// Lets a fault strike; false if it could not without going beyond what must be survived, or has only been prepared.
    fn hit(&mut self, fault: Fault, cluster: &mut Cluster<S>) -> (bool, Option<Request>) {
        let servers = cluster.scenario.server_nodes;
        let clients = cluster.scenario.clients;
        let node = self.random.index(servers + clients);
        let server = self.random.index(servers);
        let (node, server) = self.aimed_at(cluster).map_or((node, server), |aimed| (aimed, aimed));
        let struck = match fault {
            Fault::DelaySpikes => self.spike(cluster, node),
            Fault::Partitions => self.partition(cluster, node),
            Fault::OneWayPartitions => self.partition_one_way(cluster, node, servers + clients),
            Fault::PartialPartitions => self.partition_partially(cluster),
            Fault::RingPartitions => self.partition_into_ring(cluster),
            Fault::FlappingLinks => self.flap(cluster, node),
            Fault::SiteOutages => self.cut_site_off(cluster),
            Fault::ClockJumps => self.jump(cluster, node),
            Fault::ClockStrobes => self.strobe(cluster, node),
            Fault::FrozenClocks => self.freeze(cluster, node),
            Fault::FarClocks => self.move_far(cluster),
            Fault::ClockLeaps => self.leap(cluster),
            Fault::NodeCrashes => {
                let crash = if self.random.chance(0.5) { Crash::Process } else { Crash::Power };
                self.may_crash(cluster, server) && self.crash(cluster, server, crash)
            }
            Fault::RestartStorms => {
                let left = self.random.between(2, 8) as u32;
                self.storm(cluster, server, left)
            }
            Fault::RollingRestarts => {
                self.roll(cluster, 0);
                true
            }
            Fault::EmptyDisks => cluster.may_lose(server) && self.lose_disk(cluster, server),
            Fault::Amnesia => cluster.forget(server, &mut self.random),
            Fault::PowerLoss => {
                for node in 0..servers {
                    self.crash(cluster, node, Crash::Power);
                }
                true
            }
            Fault::ClientCrashes => {
                return (true, Some(Request::DoomClient(self.random.index(clients))));
            }
            Fault::RecoveryCrashes => return (false, Some(self.begin_hunt(cluster))),
            Fault::RecoveryDuels => self.await_duel(cluster, 40),
            Fault::Pauses => {
                let [low, high] =
                    [20, 4_000].map(|millis| Duration::from_millis(millis).mul_f64(self.brevity));
                self.pause(cluster, node, low, high)
            }
            Fault::LongPauses => {
                let timeout = S::recovery_timeout(&cluster.scenario.settings);
                self.pause(cluster, node, timeout, 3 * timeout)
            }
            Fault::SlowNodes => self.slow_node(cluster, node),
            Fault::SlowDisks => self.slow_disks(cluster, server),
            Fault::TornWrites => self.tear(cluster, server),
            Fault::BitRot => self.decay(cluster, server, Decay::BitRot),
            Fault::MisdirectedWrites => self.decay(cluster, server, Decay::Misdirected),
            Fault::WrongDisks => self.confuse_disks(cluster, server),
            Fault::FullDisks => self.disturb_disk(cluster, server, Condition::Full),
            Fault::FailingDisks => self.disturb_disk(cluster, server, Condition::Fails),
            Fault::FailedSyncs => self.disturb_disk(cluster, server, Condition::FailsToSync),
            Fault::HostileClients => {
                self.hostile.attack(cluster);
                true
            }
            Fault::ViewChanges | Fault::Buggify => self.change_view(cluster, server, Far::Next),
            Fault::ForgedViews => self.forge_view(cluster, server),
            // Counted when an epoch is defined.
            Fault::Membership => {
                cluster.begin_change();
                false
            }
            Fault::SiteLoss => cluster.lose_site(&mut self.random),
            Fault::ShardLoss => cluster.lose_shard(),
            Fault::AcceptedLoss => cluster.lose_more_than_survives(),
            Fault::FullLinks => self.stall(cluster, node),
            Fault::Rights => match &mut self.intruder {
                Some(intruder) if self.random.chance(0.5) => {
                    intruder.attack(cluster);
                    true
                }
                _ => cluster.change_rights(),
            },
            Fault::MixedVersions => return self.upgrade_next(cluster),
            Fault::Loss
            | Fault::Duplication
            | Fault::LateDuplicates
            | Fault::Reordering
            | Fault::LateMessages
            | Fault::CorruptedFrames
            | Fault::ClockSkew
            | Fault::ClockDrift
            | Fault::HealthyCore
            | Fault::LowMarks
            | Fault::LowMemory
            | Fault::Overload => false,
        };
        (struck, None)
    }

    fn step(&mut self, step: Step, cluster: &mut Cluster<S>, open: bool) -> Option<Request> {
        let struck = match step {
            Step::Flap { links, cut, period, left } => {
                self.go_on_flapping(cluster, links, cut, period, left);
                None
            }
            Step::Strobe { node, errors, left } => {
                self.go_on_strobing(cluster, node, errors, left);
                None
            }
            Step::Storm { node, left } => self.storm(cluster, node, left).then_some(Fault::RestartStorms),
            Step::Roll(node) => {
                self.roll(cluster, node);
                None
            }
            Step::Drain { node, until } => self.drain(cluster, node, until).then_some(Fault::RollingRestarts),
            Step::Hunt { left } => self.hunt(cluster, left).then_some(Fault::RecoveryCrashes),
            Step::Duel { left } => self.await_duel(cluster, left).then_some(Fault::RecoveryDuels),
            Step::Starve { left } => {
                self.go_on_starving(cluster, left);
                None
            }
            Step::Aim { .. } => None,
        };
        if let Some(fault) = struck {
            self.note(fault, open);
        }
        None
    }

    fn end(&mut self, ending: Ending, cluster: &mut Cluster<S>) -> Option<Request> {
        match ending {
            Ending::Restart(node) => cluster.restart_node(node),
            Ending::Mend(links) => {
                for (from, to) in links {
                    cluster.world.network().mend(from, to);
                }
            }
            Ending::Spike(node) => cluster.world.network().set_spike(node, Duration::ZERO),
            Ending::Thaw(node) => cluster.world.clock(node).thaw(),
            Ending::Near(node) => return self.set_right(cluster, node).map(Request::CrashClient),
            Ending::Disk(node) => {
                cluster.world.set_sync_time(node, cluster.scenario.sync_time);
            }
            Ending::Processor(node) => cluster.world.set_service_time(node, Duration::ZERO),
            Ending::Condition(node) => cluster.set_disk_condition(node, Condition::Works),
            Ending::Client(slot) => return Some(Request::StartClient(slot)),
        }
        None
    }

    /// A duration between the bounds. Short ones are likelier: they hit more different moments.
    fn duration(&mut self, low: Duration, high: Duration) -> Duration {
        let share = self.random.unit() * self.random.unit();
        low + (high - low).mul_f64(share)
    }

    fn next_after(&mut self, cluster: &mut Cluster<S>, low: Duration, high: Duration, step: Step) {
        let after = self.duration(low, high);
        cluster.world.set_alarm(after, Alarm::Strike(Strike::Next(step)));
    }

    fn end_after(
        &mut self,
        cluster: &mut Cluster<S>,
        low_millis: u64,
        high_millis: u64,
        ending: Ending,
    ) -> bool {
        let after = self.duration(Duration::from_millis(low_millis), Duration::from_millis(high_millis));
        let after = if self.brevity < 1.0 { after.mul_f64(self.brevity) } else { after };
        cluster.world.set_alarm(after, Alarm::Strike(Strike::End(ending)));
        true
    }
}
