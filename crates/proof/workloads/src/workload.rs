//! The workloads by name, with their parameters.

use quorate_core::{Key, Random};

use crate::hotspot::{self, Hotspot, Spots};
use crate::key::numbered;
use crate::lists::{Lists, Mix};
use crate::operation::Plan;
use crate::social::{self, Place, profile};
use crate::zipf::{Distribution, Popularity};
use crate::{counters, retwis, retwis_psi, rmw, waltsocial, writes, ycsb_t};

/// Which workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkloadKind {
    /// See [`rmw`].
    Rmw,
    /// See [`writes`].
    Writes,
    /// See [`retwis`].
    Retwis,
    /// See [`ycsb_t`].
    YcsbT,
    /// See [`lists`](crate::lists).
    Lists,
    /// See [`counters`].
    Counters,
    /// See [`waltsocial`].
    WaltSocial,
    /// See [`retwis_psi`].
    RetwisPsi,
    /// See [`hotspot`].
    Hotspot,
}

impl WorkloadKind {
    /// Every workload.
    pub const ALL: [WorkloadKind; 9] = [
        WorkloadKind::Rmw,
        WorkloadKind::Writes,
        WorkloadKind::Retwis,
        WorkloadKind::YcsbT,
        WorkloadKind::Lists,
        WorkloadKind::Counters,
        WorkloadKind::WaltSocial,
        WorkloadKind::RetwisPsi,
        WorkloadKind::Hotspot,
    ];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            WorkloadKind::Rmw => "rmw",
            WorkloadKind::Writes => "writes",
            WorkloadKind::Retwis => "retwis",
            WorkloadKind::YcsbT => "ycsb-t",
            WorkloadKind::Lists => "lists",
            WorkloadKind::Counters => "counters",
            WorkloadKind::WaltSocial => "waltsocial",
            WorkloadKind::RetwisPsi => "retwis-psi",
            WorkloadKind::Hotspot => "hotspot",
        }
    }

    /// The work of its transactions, in a sentence.
    pub const fn what(self) -> &'static str {
        match self {
            WorkloadKind::Rmw => "reads one key and writes it",
            WorkloadKind::Writes => "writes one key, and reads nothing",
            WorkloadKind::Retwis => "a social network: 5% add user, 15% follow, 30% post, 50% timeline",
            WorkloadKind::YcsbT => "a closed economy: 90% read an account, 10% move money between two",
            WorkloadKind::Lists => {
                "provokes conflicts that a checker can judge: appends, registers, scans, absent keys"
            }
            WorkloadKind::Counters => "increments one counter, or two (--two), each time in one batch",
            WorkloadKind::WaltSocial => {
                "Walter's social network over counting sets: --mix mix1, mix2 or one of its transactions"
            }
            WorkloadKind::RetwisPsi => {
                "a Twitter clone over counting sets: --mix mixed (85% status, 7.5% post, 7.5% follow) or one of these"
            }
            WorkloadKind::Hotspot => {
                "reads and updates ten keys, 90% of them hot: --mix high-local, low, high-remote or high contention"
            }
        }
    }

    /// True if it changes counting sets, which only `parallel-snapshot` keyspaces have.
    pub const fn needs_sets(self) -> bool {
        matches!(self, WorkloadKind::WaltSocial | WorkloadKind::RetwisPsi)
    }

    /// The names of its mixes, the one that is measured first at the beginning; none if it has one mix alone.
    pub fn mixes(self) -> Vec<&'static str> {
        match self {
            WorkloadKind::WaltSocial => {
                let actions = waltsocial::Action::ALL.map(waltsocial::Action::name);
                ["mix1", "mix2", EVERYTHING].into_iter().chain(actions).collect()
            }
            WorkloadKind::RetwisPsi => {
                let actions = retwis_psi::Action::ALL.map(retwis_psi::Action::name);
                ["mixed", EVERYTHING].into_iter().chain(actions).collect()
            }
            WorkloadKind::Hotspot => hotspot::mixes(),
            _ => Vec::new(),
        }
    }
}

/// The mix in which there is some of each transaction.
pub const EVERYTHING: &str = "everything";

quorate_core::names!(WorkloadKind, "workload");

/// The size and shape of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Which workload.
    pub kind: WorkloadKind,
    /// How many keys there are; for `lists`, in each generation; for social networks over sets, how many users; for `hotspot`, in each of the two ranges of
    /// a shard.
    pub keys: u64,
    /// How popular they are.
    pub popularity: Popularity,
    /// Written values have at least this many bytes.
    pub value_bytes_min: usize,
    /// True if the history will be judged: then no register is written that was not read. `lists` is always judged.
    pub judged: bool,
    /// `lists` only: after so many transactions of one client the next generation of keys begins.
    pub generation_transactions: u64,
    /// `lists` only: how often there is which transaction.
    pub mix: Mix,
    /// `lists` only: of which kinds transactions are, see [`KINDS`](crate::lists::KINDS); of all if none is named.
    pub only: Vec<&'static str>,
    /// `counters` only: so many of a hundred transactions are about two counters.
    pub two_percent: u64,
    /// `hotspot` only: how many keys a transaction has, and where.
    pub hotspot: Hotspot,
    /// Of those that have several mixes: which one, see [`WorkloadKind::mixes`].
    pub shares: &'static str,
    /// Where the client stands: which users of a social network over sets it serves, which keys of `rmw` and `writes` it takes, and at which shards the
    /// transactions of `hotspot` are at home.
    pub place: Place,
}

impl Parameters {
    /// The defaults of a workload: a million keys and 100-byte values for benchmarks, a dozen keys for `lists`.
    pub fn new(kind: WorkloadKind) -> Self {
        let (keys, popularity, value_bytes_min) = match kind {
            WorkloadKind::Rmw | WorkloadKind::Writes => (1_000_000, Popularity::Uniform, 100),
            WorkloadKind::Retwis => (1_000_000, Popularity::Zipf(0.6), 100),
            WorkloadKind::YcsbT => (1_000_000, Popularity::Zipf(0.99), 100),
            WorkloadKind::Lists => (12, Popularity::Zipf(0.6), 0),
            // The paper's micro-benchmark has few: what it measures is agreement.
            WorkloadKind::Counters => (10_000, Popularity::Uniform, 0),
            WorkloadKind::Hotspot => (1_000_000, Popularity::Uniform, 100),
            // The paper's 400,000 and 500,000 take long to be populated.
            WorkloadKind::WaltSocial | WorkloadKind::RetwisPsi => (10_000, Popularity::Uniform, 100),
        };
        Parameters {
            kind,
            keys,
            popularity,
            value_bytes_min,
            judged: false,
            generation_transactions: 50,
            mix: Mix::Broad,
            only: Vec::new(),
            two_percent: 0,
            hotspot: Hotspot::default(),
            shares: kind.mixes().first().copied().unwrap_or_default(),
            place: Place::default(),
        }
    }

    /// How many keys there are in each generation, over all ranges and shards.
    pub fn keys_in_all(&self) -> u64 {
        match self.kind {
            WorkloadKind::Hotspot => self.keys.saturating_mul(2 * self.place.homes.count() as u64),
            _ => self.keys,
        }
    }

    /// Lists grow to about 60 elements before their generation ends if so many clients run at the same pace: an average
    /// transaction appends to one list.
    pub fn for_clients(mut self, clients: u64) -> Self {
        self.generation_transactions = (60 * self.keys / clients.max(1)).max(1);
        self
    }
}

/// The transactions of one client.
#[derive(Clone, Debug)]
pub struct Workload {
    parameters: Parameters,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    Numbered(Distribution),
    Lists(Lists),
    WaltSocial(Social<waltsocial::Action>),
    RetwisPsi(Social<retwis_psi::Action>),
    Hotspot(Spots),
}

/// Users, and how often they do what.
#[derive(Clone, Debug)]
struct Social<A> {
    users: Distribution,
    shares: Vec<(A, u64)>,
}

impl<A: Copy> Social<A> {
    fn new(users: u64, popularity: Popularity, shares: Option<Vec<(A, u64)>>) -> Self {
        let shares = shares.expect("a workload is asked for one of its mixes");
        Social { users: Distribution::new(users, popularity), shares }
    }

    fn draw(&self, random: &mut Random) -> A {
        social::draw_of(&self.shares, random)
    }
}

impl Workload {
    /// The workload with these parameters. Too few keys are raised to the fewest that it needs.
    ///
    /// # Panics
    /// If it has several mixes, and none that is called as the parameters say.
    pub fn new(parameters: Parameters) -> Self {
        let numbered = |keys| Shape::Numbered(Distribution::new(keys, parameters.popularity));
        let shape = match parameters.kind {
            WorkloadKind::Rmw | WorkloadKind::Writes => numbered(parameters.keys.max(1)),
            WorkloadKind::Retwis => numbered(parameters.keys.max(retwis::KEYS_MIN)),
            WorkloadKind::YcsbT => numbered(parameters.keys.max(ycsb_t::KEYS_MIN)),
            WorkloadKind::Counters => numbered(parameters.keys.max(counters::KEYS_MIN)),
            WorkloadKind::WaltSocial => Shape::WaltSocial(Social::new(
                parameters.keys.max(waltsocial::USERS_MIN),
                parameters.popularity,
                waltsocial::shares(parameters.shares),
            )),
            WorkloadKind::RetwisPsi => Shape::RetwisPsi(Social::new(
                parameters.keys.max(retwis_psi::USERS_MIN),
                parameters.popularity,
                retwis_psi::shares(parameters.shares),
            )),
            WorkloadKind::Hotspot => Shape::Hotspot(Spots::new(
                parameters.hotspot,
                parameters.place.homes.count(),
                parameters.keys,
                parameters.shares,
            )),
            WorkloadKind::Lists => {
                let Parameters { keys, popularity, generation_transactions, mix, .. } = parameters;
                let lists = Lists::new(keys, popularity, generation_transactions, mix);
                Shape::Lists(lists.of_kinds(parameters.only.clone()))
            }
        };
        Workload { parameters, shape }
    }

    /// The parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The next transaction.
    pub fn draw(&mut self, random: &mut Random) -> Plan {
        let Parameters { place, judged, .. } = &self.parameters;
        match (&mut self.shape, self.parameters.kind) {
            (Shape::Lists(lists), _) => lists.draw(random),
            (Shape::WaltSocial(social), _) => {
                waltsocial::draw(social.draw(random), &social.users, place, *judged, random)
            }
            (Shape::RetwisPsi(social), _) => {
                retwis_psi::draw(social.draw(random), &social.users, place, *judged, random)
            }
            (Shape::Hotspot(spots), _) => spots.draw(place, random),
            (Shape::Numbered(keys), WorkloadKind::Retwis) => {
                retwis::draw(keys, self.parameters.judged, random)
            }
            (Shape::Numbered(keys), WorkloadKind::YcsbT) => ycsb_t::draw(keys, random),
            (Shape::Numbered(keys), WorkloadKind::Counters) => {
                counters::draw(keys, self.parameters.two_percent, self.parameters.judged, random)
            }
            (Shape::Numbered(keys), WorkloadKind::Writes) => writes::draw(keys, place, random),
            (Shape::Numbered(keys), _) => rmw::draw(keys, place, random),
        }
    }

    /// How many generations of keys this client has touched or may touch next.
    pub fn generations(&self) -> u64 {
        match &self.shape {
            Shape::Numbered(_) | Shape::WaltSocial(_) | Shape::RetwisPsi(_) | Shape::Hotspot(_) => 1,
            Shape::Lists(lists) => lists.generation() + 2,
        }
    }

    /// Every key of a generation, ascending. Large for the workloads over numbered keys.
    pub fn universe(&self, generation: u64) -> Vec<Key> {
        match &self.shape {
            Shape::Numbered(keys) => (0..keys.count()).map(numbered).collect(),
            Shape::Lists(lists) => lists.universe(generation),
            Shape::WaltSocial(social) => profiles(&social.users),
            Shape::RetwisPsi(social) => profiles(&social.users),
            Shape::Hotspot(spots) => spots.universe(),
        }
    }

    /// Every counting set of a generation, ascending.
    pub fn sets(&self, generation: u64) -> Vec<Key> {
        match &self.shape {
            Shape::Numbered(_) | Shape::Hotspot(_) => Vec::new(),
            Shape::Lists(lists) => lists.sets(generation),
            Shape::WaltSocial(social) => sets(&social.users, waltsocial::sets_of),
            Shape::RetwisPsi(social) => sets(&social.users, retwis_psi::sets_of),
        }
    }

    /// How the elements of a set are read that names objects: with so many of these.
    pub fn objects_max(&self) -> u32 {
        if self.parameters.kind.needs_sets() { u32::MAX } else { 0 }
    }
}

fn profiles(users: &Distribution) -> Vec<Key> {
    let mut profiles: Vec<Key> = (0..users.count()).map(profile).collect();
    profiles.sort_unstable();
    profiles
}

fn sets(users: &Distribution, of_user: impl Fn(u64) -> Vec<Key>) -> Vec<Key> {
    let mut sets: Vec<Key> = (0..users.count()).flat_map(of_user).collect();
    sets.sort_unstable();
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_unknown_ones_explained() {
        for kind in WorkloadKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let error = "ycsb".parse::<WorkloadKind>().unwrap_err().to_string();
        assert!(
            error.contains("ycsb")
                && error.contains(
                    "rmw, writes, retwis, ycsb-t, lists, counters, waltsocial, retwis-psi, hotspot"
                ),
            "{error}"
        );
    }

    #[test]
    fn the_same_seed_draws_the_same_transactions() {
        for kind in WorkloadKind::ALL {
            let draw = |seed| {
                let mut workload = Workload::new(Parameters::new(kind));
                let mut random = Random::new(seed);
                (0..100).map(|_| workload.draw(&mut random)).collect::<Vec<_>>()
            };
            assert_eq!(draw(1), draw(1), "{kind}");
            assert_ne!(draw(1), draw(2), "{kind}");
        }
    }

    #[test]
    fn tiny_parameters_are_raised_to_what_the_workload_needs() {
        for kind in WorkloadKind::ALL {
            let parameters = Parameters { keys: 0, judged: true, ..Parameters::new(kind) };
            let mut workload = Workload::new(parameters);
            let mut random = Random::new(1);
            for _ in 0..200 {
                assert!(workload.draw(&mut random).is_judgeable());
            }
            assert!(!workload.universe(0).is_empty() && workload.generations() >= 1);
        }
    }

    #[test]
    fn lists_stay_short_whatever_the_number_of_clients() {
        for clients in [1, 8, 1_000] {
            let parameters = Parameters::new(WorkloadKind::Lists).for_clients(clients);
            let appends_per_generation = parameters.generation_transactions * clients;
            assert!((parameters.keys..=120 * parameters.keys).contains(&appends_per_generation), "{clients}");
        }
    }
}
