//! `quorate bench` at the sites of a `parallel-snapshot` keyspace: which of them are loaded, and the social networks that run there.
//!
//! ```text
//!   clients at site 1 ──► users and keys at home there      each site has a connection and a load of its own, and what they
//!   clients at site 2 ──► users and keys at home there      count is added up
//! ```

use clap::Args;
use quorate::{Database, Keyspace, Options, ShardId};
use quorate_load::{Load, PARTS_MAX, populate};
use quorate_workloads::social::{Homes, Place};
use quorate_workloads::{WorkloadKind, retwis_psi, waltsocial};

use crate::exit::Failure;
use crate::output::Progress;
use crate::parse::positive;

/// The options of social networks, and of `parallel-snapshot` keyspaces.
#[derive(Clone, Debug, Args)]
pub(super) struct SocialArguments {
    /// `waltsocial` and `retwis-psi` only: how many users there are.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(20..=10_000_000), conflicts_with = "keys")]
    pub(super) users: Option<u64>,
    /// How often there is which transaction. `waltsocial`: mix1 or mix2; `retwis-psi`: mixed; both: everything, or one transaction alone by its name.
    /// `hotspot`: how much contention there is: high-local, low, high-remote or high. `tpcc`: standard, A, B or C, or shares like 45/43/4/4/4.
    #[arg(long, value_name = "MIX")]
    pub(super) mix: Option<String>,
    /// `parallel-snapshot` only: in how many sites servers are started, each with --replicas nodes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=16), default_value = "1")]
    pub(super) sites: u64,
    /// `parallel-snapshot`: at how many of the sites there are clients; by default at all. `snapshot`: the same, of those of the replicas; by default at the
    /// nearest.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(super) loaded: Option<u64>,
    /// `parallel-snapshot` only: of a hundred transactions so many take any user, or any key of `rmw` and `writes`, or any home of `hotspot`; the others
    /// take those that are at home at the client's site.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(0..=100), default_value = "0")]
    pub(super) away: u64,
    /// `retwis-psi` only: run the same on the Redis at this address, which must be empty.
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["connect", "embedded", "isolation", "baseline", "history", "samples"])]
    pub(super) redis: Option<String>,
    /// With --redis: over how many connections.
    #[arg(long, value_name = "N", value_parser = positive, default_value = "4", requires = "redis")]
    pub(super) redis_connections: u64,
}

impl SocialArguments {
    /// The mix that is measured.
    ///
    /// # Errors
    /// The workload has no such mix.
    pub(super) fn mix(&self, workload: WorkloadKind) -> Result<&'static str, Failure> {
        let mixes = workload.mixes();
        match &self.mix {
            None => Ok(mixes.first().copied().unwrap_or_default()),
            Some(_) if mixes.is_empty() => Err(Failure::usage(format!("{workload} has one mix alone"))),
            Some(name) => mixes.iter().copied().find(|mix| mix == name).ok_or_else(|| {
                Failure::usage(format!("{workload} has no mix \"{name}\": choose among {}", mixes.join(", ")))
            }),
        }
    }

    /// Says what is asked for that means nothing together; `stands_in_sites` is true of a `parallel-snapshot` keyspace, and a `snapshot` keyspace has replicas in
    /// `places` sites.
    ///
    /// # Errors
    /// Something does.
    pub(super) fn validate(
        &self,
        workload: Option<WorkloadKind>,
        stands_in_sites: bool,
        places: Option<usize>,
    ) -> Result<(), Failure> {
        let is_social = workload.is_some_and(WorkloadKind::needs_sets);
        if let Some(workload) = workload {
            self.mix(workload)?;
        }
        if self.users.is_some() && !is_social {
            return Err(Failure::usage("--users is an option of waltsocial and retwis-psi"));
        }
        if is_social && !stands_in_sites {
            return Err(Failure::usage(
                "counting sets are in parallel-snapshot keyspaces only: leave out --isolation and --baseline",
            ));
        }
        if self.sites > 1 && !stands_in_sites {
            return Err(Failure::usage("--sites is an option of parallel-snapshot keyspaces"));
        }
        if self.loaded.is_some() && !stands_in_sites && places.is_none() {
            return Err(Failure::usage("--loaded is an option of snapshot and parallel-snapshot keyspaces"));
        }
        if self.away > 0 && !stands_in_sites {
            return Err(Failure::usage("--away is an option of parallel-snapshot keyspaces"));
        }
        let sites = places.map_or(self.sites, |places| places as u64);
        if self.loaded.is_some_and(|loaded| loaded > sites) {
            return Err(Failure::usage(format!("--loaded is about some of the {sites} sites")));
        }
        if self.redis.is_some() && workload != Some(WorkloadKind::RetwisPsi) {
            return Err(Failure::usage("--redis runs retwis-psi, and nothing else"));
        }
        Ok(())
    }
}

/// A site with clients of its own.
pub(super) struct Site {
    name: String,
    db: Database,
}

/// Connects to every site in which the cluster has nodes, the first ones to be loaded first.
///
/// # Errors
/// A connection fails.
pub(super) async fn connect(addresses: &str, db: &Database, options: &Options) -> Result<Vec<Site>, Failure> {
    let topology = db.topology();
    let has_nodes = |site: &usize| topology.live_nodes().any(|node| usize::from(node.site.0) == *site);
    let mut sites = Vec::new();
    for site in (0..topology.sites.len()).filter(has_nodes) {
        let name = topology.sites[site].clone();
        let options = Options { site: Some(name.clone()), ..options.clone() };
        sites.push(Site { db: quorate::connect_with(addresses, options).await?, name });
    }
    Ok(sites)
}

impl Site {
    pub(super) fn db(&self) -> &Database {
        &self.db
    }

    pub(super) async fn close(self) {
        self.db.close().await;
    }

    /// The keyspace as a client of this site has it.
    ///
    /// # Errors
    /// There is none.
    pub(super) async fn keyspace(&self, name: &str) -> Result<Keyspace, Failure> {
        Ok(self.db.keyspace(name).await?)
    }

    /// The shards that stand here.
    pub(super) fn shards_here(&self, keyspace: &Keyspace) -> Vec<ShardId> {
        let here = self.place(keyspace).here;
        here.into_iter().map(|position| keyspace.definition().shards[position].id).collect()
    }

    /// Which users and keys are at home here.
    fn place(&self, keyspace: &Keyspace) -> Place {
        let (definition, topology) = (keyspace.definition(), self.db.topology());
        let site_of = |node: &quorate::NodeId| {
            let node = topology.nodes.get(usize::from(node.0));
            node.and_then(|node| topology.sites.get(usize::from(node.site.0)))
        };
        let is_here = |position: &usize| {
            definition.shards[*position].replicas.iter().all(|node| site_of(node) == Some(&self.name))
        };
        let here = (0..definition.shards.len()).filter(is_here).collect();
        Place { homes: Homes::Hashed(definition.shards.len()), here, away: 0.0 }
    }

    /// This load as clients of this site run it, where all keys are as near.
    pub(super) fn load_anywhere(&self, keyspace: Keyspace, load: &Load) -> Load {
        Load { site: self.name.clone(), keyspace, ..load.clone() }
    }

    /// This load as clients of this site run it.
    pub(super) fn load(&self, keyspace: Keyspace, load: &Load, away: u64) -> Load {
        let mut parameters = load.parameters.clone();
        parameters.place = Place { away: away as f64 / 100.0, ..self.place(&keyspace) };
        Load { site: self.name.clone(), parameters, keyspace, ..load.clone() }
    }
}

/// Writes what every user has at first, from the site where the user is at home. Gives a number after which no value was drawn.
///
/// # Errors
/// A transaction fails.
pub(super) async fn populate_network(
    sites: &[Site],
    name: &str,
    load: &Load,
    progress: &Progress,
) -> Result<u64, Failure> {
    let (users, value_bytes_min) = (load.parameters.keys, load.parameters.value_bytes_min);
    progress.say(format!("writing what {users} users have at first"));
    let plan = match load.parameters.kind {
        WorkloadKind::RetwisPsi => retwis_psi::population,
        _ => waltsocial::population,
    };
    let mut drawn = 0;
    for (part, site) in (0..PARTS_MAX).zip(sites) {
        let keyspace = site.keyspace(name).await?;
        let place = site.place(&keyspace);
        let numbers = (0..users).filter(|user| place.here.contains(&place.homes.of(*user))).collect();
        let last = populate(&keyspace, part, numbers, move |user| plan(user, users), value_bytes_min).await?;
        drawn = drawn.max(last);
    }
    Ok(drawn)
}
