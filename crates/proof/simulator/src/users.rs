//! Users with rights, and the operator that gives them and takes them away while transactions are open.
//!
//! Each client logs in as the user of its place. The operator changes one user after the other in the catalogue, of which each node has a copy: a node hears of a change in its
//! own time, so that nodes disagree for a while. Once faults end every user may coordinate, and all nodes know it.
//!
//! | right of a user | a node that knows it takes |
//! |---|---|
//! | coordinates | everything |
//! | reads | what only reads, and ends transactions of the client itself that write nothing |
//! | nothing, or the user is disabled | nothing |
//!
//! The judgement does not ask what a single node has decided. It goes by the whole: from when on no node knows of a right that a client would need, nothing that the
//! client begins may be acknowledged that needs it, nor be known to a replica as committed; no read may be answered, and nothing be held for it (`Users::is_barred`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorate_access::{Access, Claim, Grant, Login, Proof, Right, User, user_key};
use quorate_codec::encode;
use quorate_core::command::Outcome;
use quorate_core::hash::FixedMap;
use quorate_core::hosted::Holdings;
use quorate_core::{ClientId, Instant, Random, TransactionId};

use crate::cluster::{Alarm, Cluster};
use crate::hosts::HostPlant;
use crate::system::System;
use crate::world::rights::{Mistake, Rights};

/// A node that is down or stands still looks for changes again after this time.
const LOOKS_AGAIN: Duration = Duration::from_millis(50);

/// How users are given rights in one scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Giving {
    /// The share of users that may coordinate, at first and whenever one is changed.
    pub coordinate: f64,
    /// So long a node takes at most to hear of a change.
    pub delay_max: Duration,
}

impl Giving {
    /// Draws it. Each order of magnitude of the delay is as likely, from one that no transaction sees to one that outlasts most.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let (low, high) = (Duration::from_millis(10), 400.0_f64);
        Giving { coordinate: 0.35 + 0.45 * random.unit(), delay_max: low.mul_f64(high.powf(random.unit())) }
    }
}

/// The right of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// To coordinate.
    Coordinate,
    /// To read.
    Read,
    /// None.
    Nothing,
    /// It would be to coordinate, and the user is disabled.
    Disabled,
}

impl Holds {
    fn draw(random: &mut Random, coordinate: f64) -> Self {
        match random.chance(coordinate) {
            true => Holds::Coordinate,
            false => [Holds::Read, Holds::Read, Holds::Nothing, Holds::Disabled][random.index(4)],
        }
    }

    /// True if it gives a claim, of the two that clients here make.
    fn gives(self, claim: Claim) -> bool {
        match self {
            Holds::Coordinate => true,
            Holds::Read => claim == Claim::Read,
            Holds::Nothing | Holds::Disabled => false,
        }
    }
}

/// A state of the catalogue.
#[derive(Debug)]
struct Version {
    /// The right of each user, by its place.
    holds: Vec<Holds>,
    access: Arc<Access>,
}

impl Version {
    fn new(holds: Vec<Holds>, keyspace: &str) -> Self {
        let user = |(place, holds): (usize, &Holds)| {
            let grant = |right| vec![Grant::new([right], Some(keyspace))];
            let name = name(place);
            User {
                certificates: vec![name.clone()],
                grants: match holds {
                    Holds::Coordinate | Holds::Disabled => grant(Right::Coordinate),
                    Holds::Read => grant(Right::Read),
                    Holds::Nothing => Vec::new(),
                },
                is_disabled: *holds == Holds::Disabled,
                ..User::new(&name)
            }
        };
        let users = holds.iter().enumerate().map(user);
        let entries: Vec<_> = users.map(|user| (user_key(&user.name), encode(&user))).collect();
        match Access::read(entries.iter().map(|(key, value)| (key, value))) {
            Ok(access) => Version { holds, access: Arc::new(access) },
            Err(error) => unreachable!("an operator writes sound users: {error}"),
        }
    }
}

/// The user of the clients in a place.
fn name(place: usize) -> String {
    format!("user{place}")
}

/// The users of a simulation, and what each node knows of them.
#[derive(Debug)]
pub(crate) struct Users {
    random: Random,
    giving: Giving,
    keyspace: String,
    /// The states of the catalogue, in order.
    versions: Vec<Version>,
    /// Which of them each node knows.
    known: Vec<usize>,
    /// The places of clients.
    places: FixedMap<ClientId, usize>,
    /// Per user, since when no node has known of a right to what each claim is about; none if one does.
    barred: Vec<BTreeMap<Claim, Instant>>,
    /// When transactions have begun.
    begun: FixedMap<TransactionId, Instant>,
    /// Those that write and that clients have asked to commit.
    writing: Vec<TransactionId>,
    is_over: bool,
}

/// The claims that clients make here.
const CLAIMS: [Claim; 2] = [Claim::Read, Claim::Coordinate];

impl Users {
    /// As many users as there are places, the last of which may always coordinate; each node knows all of them.
    fn new(seed: u64, giving: Giving, keyspace: &str, (places, nodes): (usize, usize)) -> Self {
        let mut random = Random::stream(seed, "users");
        let mut holds: Vec<Holds> =
            (0..places).map(|_| Holds::draw(&mut random, giving.coordinate)).collect();
        holds[places - 1] = Holds::Coordinate;
        let mut users = Users {
            random,
            giving,
            keyspace: keyspace.to_owned(),
            versions: vec![Version::new(holds, keyspace)],
            known: vec![0; nodes],
            places: FixedMap::default(),
            barred: vec![BTreeMap::new(); places],
            begun: FixedMap::default(),
            writing: Vec::new(),
            is_over: false,
        };
        users.note_barred(Instant::START);
        users
    }

    fn latest(&self) -> &Version {
        &self.versions[self.versions.len() - 1]
    }

    /// The operator changes a user; gives how long each node takes to hear of it.
    fn change(&mut self) -> Vec<Duration> {
        let mut holds = self.latest().holds.clone();
        let place = self.random.index(holds.len() - 1);
        // Something has to change.
        while holds[place] == self.latest().holds[place] {
            holds[place] = Holds::draw(&mut self.random, self.giving.coordinate);
        }
        self.versions.push(Version::new(holds, &self.keyspace));
        let random = &mut self.random;
        let delay_max = self.giving.delay_max;
        self.known.iter().map(|_| delay_max.mul_f64(random.unit() * random.unit())).collect()
    }

    /// A node hears of a state of the catalogue; gives it if the node did not know it, or a later one.
    fn hear(&mut self, node: usize, version: usize, now: Instant) -> Option<Arc<Access>> {
        if self.known[node] >= version {
            return None;
        }
        self.known[node] = version;
        self.note_barred(now);
        Some(Arc::clone(&self.versions[version].access))
    }

    /// Every user may coordinate from now on, and all nodes know it.
    fn end(&mut self, now: Instant) -> Arc<Access> {
        let holds = vec![Holds::Coordinate; self.barred.len()];
        self.versions.push(Version::new(holds, &self.keyspace));
        self.known.fill(self.versions.len() - 1);
        self.is_over = true;
        self.note_barred(now);
        Arc::clone(&self.latest().access)
    }

    /// Notes which rights no node knows of any more.
    fn note_barred(&mut self, now: Instant) {
        let Users { versions, known, barred, .. } = self;
        for (place, barred) in barred.iter_mut().enumerate() {
            for claim in CLAIMS {
                if known.iter().any(|version| versions[*version].holds[place].gives(claim)) {
                    barred.remove(&claim);
                } else {
                    barred.entry(claim).or_insert(now);
                }
            }
        }
    }

    /// A transaction of a client begins.
    fn note_begun(&mut self, transaction: TransactionId, now: Instant) {
        self.begun.insert(transaction, now);
    }

    /// True if, since a transaction began, no node has known of a right of its client to this.
    fn is_barred(&self, transaction: TransactionId, claim: Claim) -> bool {
        let place = self.places.get(&transaction.client);
        let since = place.and_then(|place| self.barred[*place].get(&claim));
        let began = self.begun.get(&transaction);
        since.zip(began).is_some_and(|(since, began)| since <= began)
    }
}

/// A node hears of a state of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    node: usize,
    version: usize,
}

impl<S: System> Cluster<S> {
    /// Users for the clients of a scenario and for its auditor, if they need rights.
    pub(crate) fn set_up_users(&mut self) {
        let Some(giving) = self.scenario.hosts.rights else { return };
        let (places, nodes) = (self.scenario.clients + 1, self.scenario.server_nodes);
        let users = Users::new(self.scenario.seed, giving, &self.keyspace().name, (places, nodes));
        let mistake = match self.scenario.host_plant {
            Some(HostPlant::ReaderCoordinates) => Some(Mistake::ReaderCoordinates),
            Some(HostPlant::SettlerNeedsRight) => Some(Mistake::SettlerNeedsRight),
            Some(HostPlant::ClientBelieved) => Some(Mistake::ClientBelieved),
            Some(HostPlant::StandingKept) => Some(Mistake::StandingKept),
            _ => None,
        };
        self.world.set_rights(Rights::new(
            self.keyspace().name.clone(),
            nodes,
            &users.latest().access,
            mistake,
        ));
        self.users = Some(users);
    }

    /// The client in a place logs in as the user of the place.
    pub(crate) fn log_in(&mut self, client: ClientId, place: usize) {
        if let (Some(users), Some(rights)) = (&mut self.users, self.world.rights()) {
            users.places.insert(client, place);
            let user = name(place);
            rights.log_in(client, Login { proof: Proof::Certificate(user.clone()), user });
        }
    }

    /// A client that is no user's may do everything: its faults are others.
    pub(crate) fn trust(&mut self, client: ClientId) {
        if let Some(rights) = self.world.rights() {
            rights.trust(client);
        }
    }

    /// The operator changes the right of a user. False if there are none.
    pub(crate) fn change_rights(&mut self) -> bool {
        let Some(users) = &mut self.users else { return false };
        let delays = users.change();
        let (version, changed) = (users.versions.len() - 1, format!("{:?}", users.latest().holds));
        self.world.note(|| format!("users from now on: {changed}"));
        for (node, after) in delays.into_iter().enumerate() {
            self.world.set_alarm(after, Alarm::Heard(Heard { node, version }));
        }
        true
    }

    /// A node hears of a change, if it is up; else it hears of it later.
    pub(crate) fn hear_of_users(&mut self, heard: Heard) {
        let Heard { node, version } = heard;
        if self.users.as_ref().is_none_or(|users| users.is_over) {
            return;
        }
        if !self.is_up(node) || self.world.is_paused(node) {
            return self.world.set_alarm(LOOKS_AGAIN, Alarm::Heard(heard));
        }
        let now = self.world.now();
        let access = self.users.as_mut().and_then(|users| users.hear(node, version, now));
        if let (Some(access), Some(rights)) = (access, self.world.rights()) {
            rights.learn(node, &access);
            self.world.note(|| format!("node {node} knows state {version} of the users"));
        }
    }

    /// Every user may coordinate again, for good.
    pub(crate) fn give_all_rights(&mut self) {
        let now = self.world.now();
        if let (Some(users), Some(rights)) = (&mut self.users, self.world.rights()) {
            let access = users.end(now);
            (0..users.known.len()).for_each(|node| rights.learn(node, &access));
        }
    }

    /// A transaction of a client begins.
    pub(crate) fn note_transaction(&mut self, transaction: TransactionId) {
        let now = self.world.now();
        if let Some(users) = &mut self.users {
            users.note_begun(transaction, now);
        }
    }

    /// A client asks a transaction that writes to commit.
    pub(crate) fn note_writes(&mut self, transaction: TransactionId) {
        if let Some(users) = &mut self.users {
            users.writing.push(transaction);
        }
    }

    /// True if, since a transaction began, no node has known of a right of its client to this.
    pub(crate) fn is_barred(&self, transaction: TransactionId, claim: Claim) -> bool {
        self.users.as_ref().is_some_and(|users| users.is_barred(transaction, claim))
    }

    /// Messages that nodes have taken and that nobody may have said, and what replicas hold or know to be committed of clients that no node has known of a right of, in words.
    pub(crate) fn usurped(&mut self) -> Vec<String> {
        let Some(rights) = self.world.rights() else { return Vec::new() };
        let mut usurped = rights.take_wrong();
        let writing = self.users.iter().flat_map(|users| &users.writing);
        let barred: Vec<TransactionId> =
            writing.copied().filter(|id| self.is_barred(*id, Claim::Coordinate)).collect();
        for server in 0..self.world.servers() {
            let Some(replica) = self.world.server(server) else { continue };
            let name = self.replica(server);
            let held = replica.held();
            let without_any = held.iter().filter(|held| self.is_barred(held.id, Claim::Read));
            usurped.extend(
                without_any
                    .map(|held| format!("{name} holds {}, whose client had no right at any node", held.id)),
            );
            let has_committed =
                |id: &&TransactionId| matches!(replica.outcome(**id), Some(Outcome::Committed(_)));
            let committed = barred.iter().filter(has_committed);
            usurped.extend(committed.map(|id| {
                format!("{name} has committed {id}, and no node knew of a right of its client to that")
            }));
        }
        usurped
    }

    /// The messages that were not taken, for a report.
    pub(crate) fn untaken(&mut self) -> Vec<(&'static str, u64)> {
        let Some(rights) = self.world.rights() else { return Vec::new() };
        let counts = rights.counts;
        vec![
            ("messages denied for want of a right", counts.denied),
            ("messages passed over for want of a right", counts.passed_over),
            ("messages of clients that none says", counts.unsaid),
            ("messages taken without their hints", counts.without_hints),
        ]
    }
}

#[cfg(test)]
mod tests {
    use quorate_access::{Standing, Visitor};
    use quorate_core::ClockTime;

    use super::*;

    fn users(coordinate: f64) -> Users {
        let giving = Giving { coordinate, delay_max: Duration::from_secs(1) };
        Users::new(1, giving, "simulated", (3, 2))
    }

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(7), sequence, attempt: 0 }
    }

    #[test]
    fn a_user_has_at_a_node_the_rights_that_are_judged() {
        let all = [Holds::Coordinate, Holds::Read, Holds::Nothing, Holds::Disabled];
        let version = Version::new(all.to_vec(), "simulated");
        for (place, holds) in all.into_iter().enumerate() {
            let login = Login { user: name(place), proof: Proof::Certificate(name(place)) };
            let (visitor, now) = (Visitor::User(&login), ClockTime::default());
            let standing = version.access.standing(visitor, "simulated", now);
            for claim in CLAIMS {
                assert_eq!(standing.allows(claim), holds.gives(claim), "{holds:?} {claim:?}");
            }
            assert_eq!(version.access.standing(visitor, "another", now), Standing::default());
        }
    }

    #[test]
    fn a_client_is_barred_once_no_node_knows_of_its_right_and_until_one_does() {
        let mut users = users(1.0);
        users.places.insert(ClientId(7), 0);
        let write = |users: &mut Users, holds| {
            users.versions.push(Version::new(vec![holds, Holds::Coordinate, Holds::Coordinate], "simulated"));
        };
        write(&mut users, Holds::Read);
        write(&mut users, Holds::Nothing);
        write(&mut users, Holds::Coordinate);
        users.note_begun(id(1), at(10));
        assert!(users.hear(0, 1, at(20)).is_some());
        users.note_begun(id(2), at(20));
        assert!(!users.is_barred(id(2), Claim::Coordinate), "another node still knows of it");
        assert!(users.hear(1, 2, at(30)).is_some());
        users.note_begun(id(3), at(30));
        let barred = |users: &Users, claim| [1, 2, 3].map(|number| users.is_barred(id(number), claim));
        assert_eq!(barred(&users, Claim::Coordinate), [false, false, true], "they had begun before");
        assert_eq!(barred(&users, Claim::Read), [false; 3], "a node knows of it");
        assert!(users.hear(1, 1, at(40)).is_none(), "an older state is passed over");
        assert!(users.hear(0, 2, at(40)).is_some());
        users.note_begun(id(4), at(50));
        assert!(users.is_barred(id(4), Claim::Read) && !users.is_barred(id(3), Claim::Read));
        assert!(users.hear(1, 3, at(60)).is_some());
        assert!(!users.is_barred(id(4), Claim::Read) && !users.is_barred(id(3), Claim::Coordinate));
        assert!(
            !users.is_barred(TransactionId { client: ClientId(8), ..id(4) }, Claim::Read),
            "it is no user's"
        );
    }

    #[test]
    fn each_change_is_one_and_leaves_the_auditor_alone_and_in_the_end_all_may_coordinate() {
        let mut users = users(0.5);
        for _ in 0..50 {
            let before = users.latest().holds.clone();
            assert_eq!(users.change().len(), 2, "each node hears of it");
            let differ = before.iter().zip(&users.latest().holds).filter(|(one, other)| one != other);
            assert_eq!((differ.count(), users.latest().holds[2]), (1, Holds::Coordinate));
        }
        let heard = users.versions.len() - 1;
        users.end(at(100));
        assert!(users.hear(0, heard, at(200)).is_none(), "that was before");
        assert!(users.latest().holds.iter().all(|holds| *holds == Holds::Coordinate));
    }
}
