//! Scripted attacks on real processes: what operators do at three in the morning, and what must come of it.
//!
//! Purpose: under crashes and partitions nothing acknowledged is lost; what loses data is a node that forgets, or is made to forget, and
//! is believed. Each attack is a short story that is told to a `Cluster`, with the words that a node has to say when it refuses, and
//! with the remedy that these words name. In the end everything serves, and everything that was acknowledged is read at every site.
//!
//! An attack has scenes, each with a cluster of its own; several are played at once.
//!
//! | file | role |
//! |---|---|
//! | `cluster` | the servers, and the words that attacks are told in |
//! | `ledger` | what was acknowledged, and whether it is there |
//! | every other file | an attack |

mod cluster;
mod dropped;
mod early_error;
mod full_disk;
mod huge_numbers;
mod killed_while_joining;
mod leaping_clock;
mod ledger;
mod lost_replica;
mod many_shards;
mod no_descriptors;
mod plain_initialise;
mod resize_restart;
mod rolled_back_disk;
mod swapped_replicas;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use quorate_cluster::Failure;
use quorate_core::topology::UnknownName;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use cluster::{Cluster, Setup};
pub use ledger::Counts;

/// How many scenes are played at once: they wait most of the time.
const AT_ONCE: usize = 6;

/// An attack.
#[derive(Debug)]
pub struct Attack {
    /// Its name.
    pub name: &'static str,
    /// The number of its mistake in the issue that describes them.
    pub item: u8,
    /// Its story, in a sentence.
    pub what: &'static str,
    scenes: &'static [Scene],
}

/// A story with a cluster of its own.
#[derive(Debug)]
struct Scene {
    name: &'static str,
    setup: Setup,
    play: Play,
}

/// How a scene goes. The cluster is prepared, and none of its nodes runs.
type Play = for<'a> fn(&'a mut Cluster) -> Playing<'a>;

/// A scene that is played.
type Playing<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;

/// Every attack.
pub const ATTACKS: &[&Attack] = &[
    &resize_restart::ATTACK,
    &plain_initialise::ATTACK,
    &lost_replica::ATTACK,
    &swapped_replicas::ATTACK,
    &rolled_back_disk::ATTACK,
    &killed_while_joining::ATTACK,
    &huge_numbers::ATTACK,
    &leaping_clock::ATTACK,
    &full_disk::ATTACK,
    &no_descriptors::ATTACK,
    &early_error::ATTACK,
    &many_shards::ATTACK,
    &dropped::ATTACK,
];

/// The attacks of a run.
#[derive(Clone, Debug)]
pub struct Attacks(Vec<&'static Attack>);

impl FromStr for Attacks {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        if text == "all" {
            return Ok(Attacks(ATTACKS.to_vec()));
        }
        let find = |name: &str| {
            let known = ATTACKS.iter().copied().find(|attack| attack.name == name.trim());
            known.ok_or_else(|| UnknownName {
                what: "attack",
                given: name.to_owned(),
                choices: ATTACKS.iter().map(|attack| attack.name).collect::<Vec<_>>().join(", "),
            })
        };
        text.split(',').map(find).collect::<Result<_, _>>().map(Attacks)
    }
}

/// The outcome of an attack.
#[derive(Debug)]
pub struct Attacked {
    /// The attack.
    pub attack: &'static Attack,
    /// Its scenes, by name.
    pub scenes: BTreeMap<&'static str, Ended>,
}

impl Attacked {
    /// True if nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.scenes.values().all(|ended| ended.troubles.is_empty())
    }
}

/// The outcome of a scene.
#[derive(Debug)]
pub struct Ended {
    /// The counts of its writes.
    pub counts: Counts,
    /// How long it took.
    pub seconds: f64,
    /// Everything that is wrong.
    pub troubles: Vec<String>,
    /// Why it could not be played on this machine, if it could not.
    pub skipped: Option<String>,
    /// The directory of logs and data, if they are kept.
    pub evidence: Option<PathBuf>,
}

impl Ended {
    /// The outcome in a word.
    pub fn word(&self) -> &'static str {
        match (&self.skipped, self.troubles.is_empty()) {
            (_, false) => "failed",
            (Some(_), true) => "skipped",
            (None, true) => "survived",
        }
    }
}

/// Plays every scene of these attacks on processes of this program, several at once, and tells of each scene that ends. Logs and data are
/// kept if something is wrong, or if `keep` is true.
///
/// # Errors
/// If a scene cannot be set up. Trouble in it is no error: it is part of the outcome.
pub async fn run(
    attacks: &Attacks,
    program: &Path,
    seed: u64,
    keep: bool,
    tell: &dyn Fn(&Attack, &str, &Ended),
) -> Result<Vec<Attacked>, Failure> {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut playing = JoinSet::new();
    for (index, attack) in attacks.0.iter().enumerate() {
        for scene in attack.scenes {
            let (places, program) = (Arc::clone(&places), program.to_owned());
            playing.spawn(async move {
                let _place = places.acquire_owned().await;
                (index, scene.name, play(scene, &program, seed, keep).await)
            });
        }
    }
    let start = |attack: &&'static Attack| Attacked { attack, scenes: BTreeMap::new() };
    let mut all: Vec<Attacked> = attacks.0.iter().map(start).collect();
    while let Some(played) = playing.join_next().await {
        let (index, name, ended) = played.map_err(|_| Failure::failed("an attack has panicked"))?;
        let ended = ended?;
        tell(all[index].attack, name, &ended);
        all[index].scenes.insert(name, ended);
    }
    Ok(all)
}

async fn play(scene: &Scene, program: &Path, seed: u64, keep: bool) -> Result<Ended, Failure> {
    let mut cluster = Cluster::prepare(program, scene.setup, seed, keep)?;
    let told = (scene.play)(&mut cluster).await;
    Ok(cluster.end(told).await)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn attacks_and_their_scenes_are_told_apart_by_name() {
        let names: BTreeSet<_> = ATTACKS.iter().map(|attack| attack.name).collect();
        assert_eq!(names.len(), ATTACKS.len());
        for attack in ATTACKS {
            let scenes: BTreeSet<_> = attack.scenes.iter().map(|scene| scene.name).collect();
            assert!(!scenes.is_empty() && scenes.len() == attack.scenes.len(), "{}", attack.name);
        }
        assert!("none-such".parse::<Attacks>().is_err());
        assert_eq!("all".parse::<Attacks>().map(|attacks| attacks.0.len()), Ok(ATTACKS.len()));
    }
}
