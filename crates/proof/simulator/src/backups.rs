//! Backups beside the workload, while faults strike: all that the shards hold at one instant is read as `quorate backup create` reads it, by
//! [`quorate_core::verify::Reader`], and stands in the history as a transaction that has read every key. So it is judged like any other (I1): a backup of half a
//! transaction, of a write that is undone, or of two instants is an anomaly. Where sites have no common time, it says which transactions of each site it holds, and that is
//! judged, too (I2).
//!
//! Answers are lost, replicas restart, and a backup that loses its instant begins anew at another one. Backups of `serializable` keyspaces are read by transactions: see
//! [`crate::clients`].

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_checker::RecordedTxn;
use quorate_core::counter;
use quorate_core::hosted::HostedReplica;
use quorate_core::log::Position;
use quorate_core::topology::Isolation;
use quorate_core::verify::{
    Answer, Arrival, Furthest, Item, Pace, Point, Read, Reader, Request, Stored, position,
};
use quorate_core::{ClientId, Instant, Key, Random, ReplicaIndex, ShardId, Timestamp, Value};

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

/// Draws how much replicas look at and tell at a time. A replica with a few keys would tell all of them in one page, of one moment.
pub(crate) fn draw_pace(seed: u64) -> Pace {
    let mut random = Random::stream(seed, "pace of walks");
    let (turn_items, page_items) = ([1, 10, Pace::DEFAULT.turn_items], [1, 10, Pace::DEFAULT.page_items]);
    Pace { turn_items: turn_items[random.index(3)], page_items: page_items[random.index(3)] }
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
    /// A number that no other operator has.
    operator: u64,
    held: Held,
    at: At,
}

/// How far it is.
#[derive(Debug)]
enum At {
    /// The replicas of a local site are asked one after the other how far they are.
    Asking { site: ShardId, left: Vec<ReplicaIndex>, furthest: Furthest },
    /// Shards are read.
    Reading(Vec<ShardBackup>),
}

/// A shard that is read.
#[derive(Debug)]
struct ShardBackup {
    shard: ShardId,
    reader: Reader,
    is_whole: bool,
}

/// The content of a backup.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// The keys and their values.
    pub(crate) values: BTreeMap<Key, Value>,
    /// The counting sets, with the elements whose counts are not zero.
    pub(crate) sets: BTreeMap<Key, BTreeMap<Key, i64>>,
    /// Of one local site: which, by its place, and how many transactions of each site it holds.
    pub(crate) of_site: Option<(usize, Vec<u64>)>,
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
        // Those of what is frozen are taken by transactions. Hostile clients may tell each replica different writes.
        let is_read_so = S::ISOLATION != Isolation::Serializable;
        if !cluster.scenario.backups || !is_read_so || cluster.scenario.has(Fault::HostileClients) {
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
        let is_whole = match backup.go_on(&mut self.random, cluster) {
            Progress::UnderWay => return,
            Progress::Whole => true,
            Progress::Lost => false,
        };
        self.taken += u64::from(is_whole);
        self.lost += u64::from(!is_whole);
        if let Some(Backup { recorded, held, .. }) = self.current.take() {
            clients.end_backup(recorded, Some(held).filter(|_| is_whole), cluster);
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
    /// Chooses an instant, as the command does.
    fn begin<S: System>(
        number: u64,
        random: &mut Random,
        cluster: &mut Cluster<S>,
        clients: &mut Clients,
    ) -> Backup {
        // Operators that compare have small numbers.
        let operator = (1 << 32) + number;
        let (recorded, at) = if S::ISOLATION.stands_in_sites() {
            (clients.begin_backup(None, cluster), At::choose_site(random, cluster))
        } else {
            let slot = random.index(cluster.scenario.clients);
            let micros = cluster.client_clock(slot).as_micros() + 1;
            let recorded = clients.begin_backup(Some(micros), cluster);
            (recorded, At::below(micros, operator, random, cluster))
        };
        Backup { recorded, operator, held: Held::default(), at }
    }

    fn go_on<S: System>(&mut self, random: &mut Random, cluster: &mut Cluster<S>) -> Progress {
        match &mut self.at {
            At::Asking { site, left, furthest } => {
                let (site, operator) = (*site, self.operator);
                let Some(index) = left.pop() else {
                    let Some(position) = furthest.position() else { return Progress::Lost };
                    self.at = At::position(site, position, operator, random, cluster);
                    return Progress::UnderWay;
                };
                let answer = ask(site, index, &Furthest::request(), random, cluster);
                answer.iter().for_each(|answer| furthest.note(answer));
                Progress::UnderWay
            }
            At::Reading(shards) => {
                for shard in shards.iter_mut().filter(|shard| !shard.is_whole) {
                    if let Progress::Lost = shard.go_on(&mut self.held, random, cluster) {
                        return Progress::Lost;
                    }
                }
                if shards.iter().all(|shard| shard.is_whole) { Progress::Whole } else { Progress::UnderWay }
            }
        }
    }
}

impl At {
    /// At all shards, what lies below an instant.
    fn below<S: System>(micros: u64, operator: u64, random: &mut Random, cluster: &Cluster<S>) -> Self {
        let point = Point::Below(Timestamp { micros, client: ClientId::default() });
        let read = |shard| {
            // As the command does: see `quorate::Cut`.
            let arrival = match S::ISOLATION {
                Isolation::Strict => Arrival::Together,
                _ => Arrival::Alone,
            };
            let members = drawn_members(shard, random, cluster);
            let reader = Reader::new(operator, point, arrival, PATIENCE, members);
            ShardBackup { shard, reader, is_whole: false }
        };
        At::Reading(cluster.shards().into_iter().map(read).collect())
    }

    /// At a local site that is not lost, what its replicas have come to.
    fn choose_site<S: System>(random: &mut Random, cluster: &Cluster<S>) -> Self {
        let sites: Vec<ShardId> =
            cluster.shards().into_iter().filter(|shard| !cluster.losses.has_lost(*shard)).collect();
        let site = sites[random.index(sites.len())];
        let left = drawn_members(site, random, cluster);
        let furthest = Furthest::new(left.len());
        At::Asking { site, left, furthest }
    }

    /// At a site, what lies at a position, or a later one.
    fn position<S: System>(
        site: ShardId,
        position: Position,
        operator: u64,
        random: &mut Random,
        cluster: &Cluster<S>,
    ) -> Self {
        let members = drawn_members(site, random, cluster);
        let reader = Reader::new(operator, Point::Position(position), Arrival::Alone, PATIENCE, members);
        At::Reading(vec![ShardBackup { shard: site, reader, is_whole: false }])
    }
}

/// The replicas of a shard, in an order that is drawn.
fn drawn_members<S: System>(shard: ShardId, random: &mut Random, cluster: &Cluster<S>) -> Vec<ReplicaIndex> {
    let mut members: Vec<_> = cluster
        .members()
        .filter(|server| cluster.replica(*server).shard == shard)
        .map(|server| cluster.replica(server).index)
        .collect();
    random.shuffle(&mut members);
    members
}

/// Asks a replica, and gives its answer; nothing if it does not run, or the answer is lost.
fn ask<S: System>(
    shard: ShardId,
    index: ReplicaIndex,
    request: &Request,
    random: &mut Random,
    cluster: &mut Cluster<S>,
) -> Option<Answer> {
    let is_asked = |server: &usize| {
        let replica = cluster.replica(*server);
        replica.shard == shard && replica.index == index
    };
    let server = cluster.members().find(is_asked)?;
    let command = S::Server::verify(request.clone())?;
    cluster.world.server(server)?;
    cluster.world.command_server(server, command);
    let answer = cluster.world.server(server)?.verified(request);
    Some(answer).filter(|_| !random.chance(UNANSWERED))
}

impl ShardBackup {
    fn go_on<S: System>(
        &mut self,
        held: &mut Held,
        random: &mut Random,
        cluster: &mut Cluster<S>,
    ) -> Progress {
        let now = cluster.world.now();
        let asked = self.reader.next();
        let answer = asked.and_then(|(index, request)| ask(self.shard, index, &request, random, cluster));
        match self.reader.on_answer(answer.map(|answer| answer.progress), now) {
            Read::Page { items, is_last } => {
                let position = cluster.shards().iter().position(|shard| *shard == self.shard).unwrap_or(0);
                if !items.into_iter().all(|item| held.take::<S>(item, position)) {
                    return Progress::Lost;
                }
                self.is_whole = is_last;
                if is_last { Progress::Whole } else { Progress::UnderWay }
            }
            Read::Pause => Progress::UnderWay,
            Read::Lost { .. } => Progress::Lost,
        }
    }
}

impl Held {
    /// Takes an item of a shard in this place. False if it says that the shard does not have all of the keyspace.
    fn take<S: System>(&mut self, item: Stored, place: usize) -> bool {
        let is_of_site = S::ISOLATION.stands_in_sites();
        let Stored { space, key, stamps, value } = item;
        assert_eq!(space, Item::DATA, "{key:?} is nothing that a keyspace holds");
        match (&stamps[..], value) {
            (&[site, number, _], _) if is_of_site && key == position::KEY => {
                let (_, numbers) = self.of_site.get_or_insert_with(|| (place, Vec::new()));
                assert_eq!(site, numbers.len() as u64, "sites are told in their order");
                numbers.push(number);
            }
            // A container: its objects are at all sites, or at some.
            ([_, _, _], replicas) if is_of_site => return replicas.is_none(),
            (&[count], Some(element)) if is_of_site => {
                let elements = self.sets.entry(Key::from(&key[..])).or_default();
                if counter::is_counter(&key) {
                    // The value of a counter is the sum of the shares of sites.
                    *elements.entry(Key::copy_from_slice(counter::VALUE)).or_default() += count.cast_signed();
                } else {
                    let before = elements.insert(Key::from(&element[..]), count.cast_signed());
                    assert_eq!(before, None, "an element of {key:?} is told twice");
                }
            }
            ([_, _], value) => {
                self.values.extend(value.map(|value| (Key::from(&key[..]), Value::from(value))));
            }
            _ => panic!("{key:?} with {stamps:?} is nothing that a keyspace holds"),
        }
        true
    }
}
