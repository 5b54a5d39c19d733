//! Whether a keyspace that is there is as one that is asked for.
//!
//! The question is which keyspace the same options would have made. How many replicas each shard has, and which sites hold it, are asked only if the
//! options say so: by default both follow from the sites of the cluster, which change.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use quorate_core::topology::{Keyspace as Definition, Shard, Speculation};
use quorate_core::{NodeId, SiteId};

use crate::catalogue::{KeyspaceOptions, default_replicas};
use crate::directory::Directory;
use crate::error::Invalid;

/// In words, each with what the keyspace has and what was asked for.
#[derive(Debug, Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare<T: PartialEq + Display>(&mut self, what: &str, found: T, wanted: T) {
        if found != wanted {
            self.0.push(format!("{what} {found}, not {wanted}"));
        }
    }
}

/// The differences of a keyspace from one that these options would have made, in words; none if it is as they say.
///
/// # Errors
/// The options name a site that there is not.
pub(crate) fn between(
    definition: &Definition,
    options: &KeyspaceOptions,
    directory: &Directory,
) -> Result<Vec<String>, Invalid> {
    let mut differences = Differences::default();
    differences.compare("isolation", definition.isolation, options.isolation);
    if !differences.0.is_empty() {
        // Most options mean nothing for another isolation.
        return Ok(differences.0);
    }
    let rival = definition.comparison.as_ref().map(|comparison| comparison.rival);
    differences.compare("baseline", or_none(rival), or_none(options.comparison));
    differences.compare("durability", definition.durability, options.durability);
    differences.compare("shards", shards(definition, directory), options.shards);
    places(&mut differences, definition, options, directory)?;
    let bound = |bound: Option<Duration>| bound.map_or("none".to_owned(), |bound| format!("{bound:?}"));
    differences.compare("clock bound", bound(definition.clock_bound), bound(options.clock_bound));
    speculations(
        &mut differences,
        definition.speculation.unwrap_or_default(),
        options.speculation.unwrap_or_default(),
    );
    let (found, wanted) =
        (definition.timestamping.unwrap_or_default(), options.timestamping.unwrap_or_default());
    differences.compare("order", found.order, wanted.order);
    let ahead = |ahead: Duration| format!("{ahead:?}");
    differences.compare("proposed again ahead by", ahead(found.retry_ahead), ahead(wanted.retry_ahead));
    differences.compare(
        "application",
        or_none(definition.application.as_ref()),
        or_none(options.application.as_ref()),
    );
    let (found, wanted) = (definition.retention.unwrap_or_default(), options.retention.unwrap_or_default());
    differences.compare("changes retained for", format!("{:?}", found.time), format!("{:?}", wanted.time));
    differences.compare("bytes of changes retained", found.bytes, wanted.bytes);
    let expiring = |expiring: bool| if expiring { "that may expire" } else { "that stay" };
    differences.compare("values", expiring(definition.expiring), expiring(options.expiring));
    Ok(differences.0)
}

fn or_none<T: Display>(option: Option<T>) -> String {
    option.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

/// Into how many shards the keys are divided; where groups stand in sites, at each site.
fn shards(definition: &Definition, directory: &Directory) -> usize {
    if !definition.isolation.stands_in_sites() || definition.comparison.is_some() {
        return definition.shards.len();
    }
    let stands = |shard: &Shard| shard.replicas.first().and_then(|node| site_of(directory, *node));
    let sites: Vec<Option<SiteId>> = definition.shards.iter().map(stands).collect();
    let at = |site: &Option<SiteId>| sites.iter().filter(|other| *other == site).count();
    sites.iter().map(at).max().unwrap_or_default()
}

fn site_of(directory: &Directory, node: NodeId) -> Option<SiteId> {
    directory.topology().nodes.get(usize::from(node.0)).map(|node| node.site)
}

/// How many replicas there are, and where, if the options say either.
fn places(
    differences: &mut Differences,
    definition: &Definition,
    options: &KeyspaceOptions,
    directory: &Directory,
) -> Result<(), Invalid> {
    let sites = directory.sites(&options.sites)?;
    let wanted = options.replicas.or_else(|| {
        (!options.sites.is_empty()).then(|| default_replicas(directory, options.isolation, &sites))
    });
    if let (Some(wanted), Some(shard)) = (wanted, definition.shards.first()) {
        differences.compare("replicas", shard.replicas.len(), wanted);
    }
    if options.sites.is_empty() {
        return Ok(());
    }
    let nodes = definition.shards.iter().flat_map(|shard| &shard.replicas);
    let found: BTreeSet<SiteId> = nodes.filter_map(|node| site_of(directory, *node)).collect();
    let wanted: BTreeSet<SiteId> = sites.into_iter().collect();
    // A shard with fewer replicas than there are sites leaves some out, unless each site has shards of its own.
    let fits = match definition.isolation.stands_in_sites() {
        true => found == wanted,
        false => found.is_subset(&wanted),
    };
    if !fits {
        let names = |sites: &BTreeSet<SiteId>| {
            let name = |site: &SiteId| directory.topology().sites.get(usize::from(site.0)).cloned();
            sites.iter().filter_map(name).collect::<Vec<_>>().join(", ")
        };
        differences.0.push(format!("sites {}, not {}", names(&found), names(&wanted)));
    }
    Ok(())
}

fn speculations(differences: &mut Differences, found: Speculation, wanted: Speculation) {
    let said = |is_so: bool| if is_so { "yes" } else { "no" };
    let chain = |speculation: Speculation| speculation.chain_max.unwrap_or(Speculation::CHAIN_MAX);
    differences.compare("variant", found.variant, wanted.variant);
    differences.compare("sessions in order:", said(found.orders_sessions), said(wanted.orders_sessions));
    differences.compare("chains of", chain(found), chain(wanted));
    differences.compare("tuner:", said(!found.untuned), said(!wanted.untuned));
    differences.compare("decisions", found.decisions, wanted.decisions);
    differences.compare("grants", found.grants, wanted.grants);
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::changes::Retention;
    use quorate_core::topology::{Durability, Isolation, Node, SpeculationVariant, Topology};
    use quorate_core::{KeyspaceId, ShardId};

    fn directory() -> Directory {
        let node = |id: u16| Node { id: NodeId(id), site: SiteId(id), address: format!("host{id}:7400") };
        let topology = Topology {
            sites: vec!["us".into(), "eu".into(), "asia".into()],
            nodes: (0..3).map(node).collect(),
        };
        Directory::new(topology, None, |_| None)
    }

    fn defined(options: &KeyspaceOptions, groups: &[&[u16]]) -> Definition {
        let shards = groups
            .iter()
            .zip(1..)
            .map(|(nodes, id)| Shard::new(ShardId(id), nodes.iter().copied().map(NodeId).collect()))
            .collect();
        Definition {
            clock_bound: options.clock_bound,
            speculation: options.speculation,
            retention: options.retention,
            expiring: options.expiring,
            ..Definition::new(KeyspaceId(1), "a", options.isolation, options.durability, shards)
        }
    }

    fn told(definition: &Definition, options: &KeyspaceOptions) -> String {
        between(definition, options, &directory()).unwrap().join("; ")
    }

    #[test]
    fn a_keyspace_is_as_the_options_say_that_made_it() {
        for isolation in [Isolation::Strict, Isolation::Serializable, Isolation::Snapshot] {
            let options = KeyspaceOptions::new(isolation);
            let mut definition = defined(&options, &[&[0, 1, 2]]);
            assert_eq!(told(&definition, &options), "");
            // Nothing was said of replicas, and of what is the default.
            definition.shards[0].replicas.pop();
            definition.speculation = (isolation == Isolation::Snapshot).then(Speculation::default);
            definition.retention = Some(Retention::default());
            assert_eq!(told(&definition, &options), "");
        }
        // Each site has as many shards as were asked for.
        let options = KeyspaceOptions::new(Isolation::ParallelSnapshot);
        assert_eq!(told(&defined(&options, &[&[0], &[1], &[2]]), &options), "");
        let two = KeyspaceOptions { shards: 2, ..options };
        assert_eq!(told(&defined(&two, &[&[0], &[1], &[2]]), &two), "shards 1, not 2");
    }

    #[test]
    fn every_difference_is_named() {
        let options = KeyspaceOptions::new(Isolation::Strict);
        let definition = defined(&options, &[&[0, 1, 2]]);
        let sites = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (wanted, difference) in [
            (KeyspaceOptions::new(Isolation::Snapshot), "isolation strict, not snapshot"),
            (
                KeyspaceOptions { durability: Durability::Memory, ..options.clone() },
                "durability sync, not memory",
            ),
            (KeyspaceOptions { shards: 2, ..options.clone() }, "shards 1, not 2"),
            (KeyspaceOptions { replicas: Some(1), ..options.clone() }, "replicas 3, not 1"),
            (
                KeyspaceOptions { sites: sites(&["us"]), ..options.clone() },
                "replicas 3, not 1; sites us, eu, asia, not us",
            ),
            (KeyspaceOptions { sites: sites(&["us", "eu", "asia"]), ..options.clone() }, ""),
            (
                KeyspaceOptions { clock_bound: Some(Duration::from_millis(5)), ..options.clone() },
                "clock bound none, not 5ms",
            ),
            (
                KeyspaceOptions {
                    retention: Some(Retention { time: Duration::from_secs(1), ..Retention::default() }),
                    ..options.clone()
                },
                "changes retained for 300s, not 1s",
            ),
            (KeyspaceOptions { expiring: true, ..options.clone() }, "values that stay, not that may expire"),
            (
                KeyspaceOptions { shards: 3, durability: Durability::Memory, ..options.clone() },
                "durability sync, not memory; shards 1, not 3",
            ),
        ] {
            assert_eq!(told(&definition, &wanted), difference);
        }
        let snapshot = KeyspaceOptions::new(Isolation::Snapshot);
        let planet = Speculation { variant: SpeculationVariant::Planet, ..Speculation::default() };
        let wanted = KeyspaceOptions { speculation: Some(planet), ..snapshot.clone() };
        let found = told(&defined(&snapshot, &[&[0, 1, 2]]), &wanted);
        assert_eq!(found, format!("variant {}, not planet", SpeculationVariant::default()));
        let nowhere = KeyspaceOptions { sites: sites(&["mars"]), ..options };
        assert!(matches!(between(&definition, &nowhere, &directory()), Err(Invalid::NoSuchSite { .. })));
    }
}
