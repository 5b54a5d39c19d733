//! Backups beside the workload, while faults strike: all that the shards hold at one instant is read as `quorate backup create` reads it, by
//! [`quorate_core::verify::Reader`], and stands in the history as a transaction that has read every key. So it is judged like any other (I1): a backup of half a
//! transaction, of a write that is undone, or of two instants is an anomaly.
//!
//! Answers are lost, replicas restart, and a backup that loses its instant begins anew at another one.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_checker::RecordedTxn;
use quorate_core::hosted::HostedReplica;
use quorate_core::topology::Isolation;
use quorate_core::verify::{Arrival, Item, Point, Read, Reader};
use quorate_core::{ClientId, Instant, Key, Random, ShardId, Timestamp, Value};

use crate::clients::Clients;
use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::system::System;

/// So often there are backups, where there can be.
const PROBABILITY: f64 = 0.25;

/// With this probability an answer is lost.
const UNANSWERED: f64 = 0.1;

/// Between two backups.
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// How long a shard is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// True if a seed of a system with backups has some. A bug of anything else is hunted as it always was.
pub(crate) fn has_backups<S: System>(seed: u64, plant: Option<&str>) -> bool {
    match plant {
        None => Random::stream(seed, "backups").chance(PROBABILITY),
        Some(id) => S::BACKUP_PLANTS.contains(&id),
    }
}

/// The backups of a cluster, one after the other.
#[derive(Debug)]
pub(crate) struct Backups {
    random: Random,
    current: Option<Backup>,
    rests_until: Instant,
    begun: u64,
    taken: u64,
    lost: u64,
}

/// A backup that is being taken.
#[derive(Debug)]
struct Backup {
    recorded: RecordedTxn,
    shards: Vec<ShardBackup>,
}

/// What was read of a shard.
#[derive(Debug)]
struct ShardBackup {
    shard: ShardId,
    reader: Reader,
    held: BTreeMap<Key, Value>,
    is_whole: bool,
}

/// How far a backup has come.
enum Progress {
    UnderWay,
    Whole,
    Lost,
}

impl Backups {
    /// The backups of a cluster, if the seed has some.
    pub(crate) fn new<S: System>(cluster: &Cluster<S>) -> Option<Backups> {
        // Hostile clients may tell each replica different writes.
        if !cluster.scenario.backups || cluster.scenario.has(Fault::HostileClients) {
            return None;
        }
        let random = Random::stream(cluster.scenario.seed, "what backups read");
        Some(Backups { random, current: None, rests_until: Instant::START, begun: 0, taken: 0, lost: 0 })
    }

    /// How many were taken, and how many came to nothing because a shard lost the instant or did not come to it.
    pub(crate) fn happened(&self) -> [(&'static str, u64); 2] {
        [("backups taken", self.taken), ("backups that lost their instant", self.lost)]
    }

    /// Goes on: the reader asks for a page of each shard.
    pub(crate) fn go_on<S: System>(&mut self, cluster: &mut Cluster<S>, clients: &mut Clients) {
        let now = cluster.world.now();
        if now < self.rests_until {
            return;
        }
        let backup = match &mut self.current {
            Some(backup) => backup,
            none => {
                self.begun += 1;
                none.insert(Backup::begin(self.begun, &mut self.random, cluster, clients))
            }
        };
        let ended = match backup.go_on(&mut self.random, cluster) {
            Progress::UnderWay => return,
            Progress::Whole => {
                self.taken += 1;
                self.current.take().map(|backup| (backup.recorded, Some(backup.held())))
            }
            Progress::Lost => {
                self.lost += 1;
                self.current.take().map(|backup| (backup.recorded, None))
            }
        };
        if let Some((recorded, held)) = ended {
            clients.end_backup(recorded, held.as_ref(), cluster);
        }
        self.rests_until = now + PAUSE_MAX.mul_f64(self.random.unit());
    }

    /// No more is read. A backup that is under way comes to nothing.
    pub(crate) fn end<S: System>(&mut self, cluster: &Cluster<S>, clients: &mut Clients) {
        if let Some(backup) = self.current.take() {
            clients.end_backup(backup.recorded, None, cluster);
        }
        self.rests_until = Instant::from_nanos(u64::MAX);
    }
}

impl Backup {
    /// Chooses an instant: by the clock of a client, as the command does.
    fn begin<S: System>(
        number: u64,
        random: &mut Random,
        cluster: &mut Cluster<S>,
        clients: &mut Clients,
    ) -> Backup {
        let slot = random.index(cluster.scenario.clients);
        let micros = cluster.client_clock(slot).as_micros() + 1;
        let recorded = clients.begin_backup(micros, cluster);
        let point = Point::Below(Timestamp { micros, client: ClientId::default() });
        // Operators that compare have small numbers.
        let operator = (1 << 32) + number;
        let shards = cluster.shards().into_iter().map(|shard| {
            let mut members: Vec<_> = cluster
                .members()
                .filter(|server| cluster.replica(*server).shard == shard)
                .map(|server| cluster.replica(server).index)
                .collect();
            random.shuffle(&mut members);
            // As the command does: see `quorate::Cut`.
            let arrival = match S::ISOLATION {
                Isolation::Strict => Arrival::Together,
                _ => Arrival::Alone,
            };
            let reader = Reader::new(operator, point, arrival, PATIENCE, members);
            ShardBackup { shard, reader, held: BTreeMap::new(), is_whole: false }
        });
        Backup { recorded, shards: shards.collect() }
    }

    fn go_on<S: System>(&mut self, random: &mut Random, cluster: &mut Cluster<S>) -> Progress {
        for shard in self.shards.iter_mut().filter(|shard| !shard.is_whole) {
            if let Progress::Lost = shard.go_on(random, cluster) {
                return Progress::Lost;
            }
        }
        if self.shards.iter().all(|shard| shard.is_whole) { Progress::Whole } else { Progress::UnderWay }
    }

    fn held(self) -> BTreeMap<Key, Value> {
        self.shards.into_iter().flat_map(|shard| shard.held).collect()
    }
}

impl ShardBackup {
    fn go_on<S: System>(&mut self, random: &mut Random, cluster: &mut Cluster<S>) -> Progress {
        let now = cluster.world.now();
        let asked = self.reader.next().and_then(|(index, request)| {
            let is_asked = |server: &usize| {
                let replica = cluster.replica(*server);
                replica.shard == self.shard && replica.index == index
            };
            Some((cluster.members().find(is_asked)?, request))
        });
        let answer = asked.and_then(|(server, request)| {
            let command = S::Server::verify(request.clone())?;
            cluster.world.server(server)?;
            cluster.world.command_server(server, command);
            Some(cluster.world.server(server)?.verified(&request).progress)
        });
        match self.reader.on_answer(answer.filter(|_| !random.chance(UNANSWERED)), now) {
            Read::Page { items, is_last } => {
                for item in items {
                    assert!(
                        item.space == Item::DATA && item.stamps.len() == 2,
                        "{item:?} is no key and value"
                    );
                    self.held.extend(item.value.map(|value| (Key::from(&item.key[..]), Value::from(value))));
                }
                self.is_whole = is_last;
                if is_last { Progress::Whole } else { Progress::UnderWay }
            }
            Read::Pause => Progress::UnderWay,
            Read::Lost { .. } => Progress::Lost,
        }
    }
}
