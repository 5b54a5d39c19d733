//! The sites and nodes that are registered in the configuration, and what is to be written there of them.
//!
//! The first node that finds nothing there writes what its file says. From then on what is written counts, but for the address of
//! a node, which knows that best itself. Numbers are given away in order and never taken back.

use std::collections::BTreeMap;

use quorate_configuration::{Compare, ConditionalWrite, Put, Revision, Stored};
use quorate_core::topology::{Keyspace, Node, Topology};
use quorate_core::{Key, NodeId, SiteId, Value};
use quorate_wire::catalogue::{
    PROTOCOL_VERSION_KEY, encode_counter, group_key, node_key, node_range, site_key,
};
use quorate_wire::{ProtocolVersion, encode};

/// Copies of the two ranges.
#[derive(Clone, Copy)]
pub(crate) struct Registry<'a> {
    pub(crate) sites: &'a BTreeMap<Key, Stored>,
    pub(crate) nodes: &'a BTreeMap<Key, Stored>,
}

/// The outcome for an applicant that wants to be a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Joining {
    /// It is one: this address is registered.
    Known(NodeId),
    /// It will be this one once this is written.
    New(NodeId, ConditionalWrite),
}

impl Registry<'_> {
    /// The sites and nodes; none as long as nothing is registered, or as one copy is ahead of the other.
    pub(crate) fn topology(self) -> Option<Topology> {
        let mut topology = Topology::default();
        for (stored, id) in self.sites.values().zip(0..) {
            self.sites.contains_key(&site_key(SiteId(id))).then_some(())?;
            topology.sites.push(String::from_utf8_lossy(&stored.value).into_owned());
        }
        for (stored, id) in self.nodes.values().zip(0..) {
            let node: Node = quorate_wire::decode(&stored.value).ok()?;
            let is_next = node.id == NodeId(id) && usize::from(node.site.0) < topology.sites.len();
            topology.nodes.extend(is_next.then_some(Some(node))?);
        }
        (!topology.nodes.is_empty()).then_some(topology)
    }

    /// The write of a node whose file tells this of itself and the others; none if it is registered as it is.
    pub(crate) fn registration(
        self,
        told: &Topology,
        me: NodeId,
        system: &Keyspace,
        first_version: ProtocolVersion,
    ) -> Option<ConditionalWrite> {
        let own = told.nodes.get(usize::from(me.0))?;
        if self.nodes.is_empty() {
            return Some(bootstrap(told, system, first_version));
        }
        let stored = self.nodes.get(&node_key(me))?;
        let registered: Node = quorate_wire::decode(&stored.value).ok()?;
        // A node that was forgotten is no node any more, also if it has not heard so.
        (registered.address != own.address && !registered.is_forgotten()).then(|| ConditionalWrite {
            compares: vec![Compare::Key { key: node_key(me), changed: Some(stored.changed) }],
            puts: vec![put_node(&Node { address: own.address.clone(), ..registered })],
        })
    }

    /// Registers a node that is found at this address, in a site that may be new.
    ///
    /// # Errors
    /// Nothing is registered yet, or there are as many nodes as there can be, or this one stands elsewhere, or has the certificate of another one.
    pub(crate) fn join(
        self,
        site: &str,
        address: &str,
        certified: Option<NodeId>,
    ) -> Result<Joining, String> {
        let Some(topology) = self.topology() else {
            return Err("the nodes of this cluster have not registered yet: try again".to_owned());
        };
        if address.is_empty() {
            return Err("a node without an address cannot be found".to_owned());
        }
        let position = topology.sites.iter().position(|known| known == site);
        if let Some(known) = topology.nodes.iter().find(|known| known.address == address) {
            return match position {
                Some(position) if known.site == SiteId(position as u16) => {
                    named(known.id, certified).map(Joining::Known)
                }
                _ => Err(format!(
                    "{} is found at {address} already, in the site \"{}\"",
                    known.id,
                    topology.sites[usize::from(known.site.0)]
                )),
            };
        }
        let site_id = SiteId(position.unwrap_or(topology.sites.len()) as u16);
        let Ok(id) = u16::try_from(topology.nodes.len()).map(NodeId) else {
            return Err("there are as many nodes as there can be".to_owned());
        };
        named(id, certified)?;
        let absent = |key| Compare::Key { key, changed: None };
        let mut write = ConditionalWrite {
            compares: vec![absent(node_key(id))],
            puts: vec![put_node(&Node { id, site: site_id, address: address.to_owned() })],
        };
        if position.is_none() {
            write.compares.push(absent(site_key(site_id)));
            write.puts.push(put_site(site_id, site));
        }
        Ok(Joining::New(id, write))
    }
}

/// The node, if it is the one that its certificate names, or if it has none.
fn named(node: NodeId, certified: Option<NodeId>) -> Result<NodeId, String> {
    match certified.filter(|certified| *certified != node) {
        None => Ok(node),
        Some(other) => Err(format!(
            "it would be {node}, and its certificate is that of {other}: make one with `quorate certificates create-node {}`",
            node.0
        )),
    }
}

/// All that a file says, if nobody is registered, and the protocol version with which the cluster begins.
fn bootstrap(told: &Topology, system: &Keyspace, first_version: ProtocolVersion) -> ConditionalWrite {
    let shard = &system.shards[0];
    let mut puts = vec![Put { key: group_key(shard.id), value: Some(encode(shard)), lease: None }];
    // The first version is in force where none is written, as earlier programs leave it.
    puts.extend((first_version > ProtocolVersion::FIRST).then(|| Put {
        key: Key::from(PROTOCOL_VERSION_KEY),
        value: Some(encode_counter(first_version.0)),
        lease: None,
    }));
    puts.extend(told.nodes.iter().map(put_node));
    puts.extend(told.sites.iter().zip(0..).map(|(site, id)| put_site(SiteId(id), site)));
    // As the numbers in them are of one length, keys are in the order of their kinds.
    puts.sort_by(|one, other| one.key.cmp(&other.key));
    let nobody = Compare::Range { range: node_range(), after: Revision(u64::MAX), keys: 0 };
    ConditionalWrite { compares: vec![nobody], puts }
}

fn put_node(node: &Node) -> Put {
    Put { key: node_key(node.id), value: Some(encode(node)), lease: None }
}

fn put_site(id: SiteId, name: &str) -> Put {
    Put { key: site_key(id), value: Some(Value::copy_from_slice(name.as_bytes())), lease: None }
}

#[cfg(test)]
mod tests {
    use quorate_core::topology::Durability;
    use quorate_wire::Window;
    use quorate_wire::catalogue::{decode_protocol_version, validate_put};

    use super::*;
    use crate::config::system_keyspace;

    /// The keys of two ranges, with what they hold after some writes.
    #[derive(Default)]
    struct Map {
        sites: BTreeMap<Key, Stored>,
        nodes: BTreeMap<Key, Stored>,
        revision: u64,
    }

    impl Map {
        fn registry(&self) -> Registry<'_> {
            Registry { sites: &self.sites, nodes: &self.nodes }
        }

        fn write(&mut self, write: &ConditionalWrite) {
            assert!(write.puts.is_sorted_by(|one, next| one.key < next.key), "{write:?}");
            self.revision += 1;
            let revision = Revision(self.revision);
            for Put { key, value, lease } in &write.puts {
                validate_put(key, value.as_ref()).unwrap();
                let value = value.clone().unwrap();
                let stored = Stored { value, created: revision, changed: revision, lease: *lease };
                if node_range().contains(key) {
                    self.nodes.insert(key.clone(), stored);
                } else if key.as_slice().starts_with(b"site/") {
                    self.sites.insert(key.clone(), stored);
                }
            }
        }
    }

    fn told() -> Topology {
        let node = |id: u16| Node { id: NodeId(id), site: SiteId(id), address: format!("host{id}:7400") };
        Topology { sites: vec!["us".into(), "eu".into(), "asia".into()], nodes: (0..3).map(node).collect() }
    }

    fn registration(map: &Map, told: &Topology, me: u16) -> Option<ConditionalWrite> {
        registration_at(map, told, me, Window::OWN.newest)
    }

    fn registration_at(
        map: &Map,
        told: &Topology,
        me: u16,
        first: ProtocolVersion,
    ) -> Option<ConditionalWrite> {
        let system = system_keyspace((0..3).map(NodeId).collect(), Durability::Sync);
        map.registry().registration(told, NodeId(me), &system, first)
    }

    fn registered() -> Map {
        let mut map = Map::default();
        map.write(&registration(&map, &told(), 1).unwrap());
        map
    }

    #[test]
    fn the_first_writes_what_its_file_says_and_from_then_on_that_counts() {
        assert_eq!(Map::default().registry().topology(), None);
        let map = registered();
        assert_eq!(map.registry().topology(), Some(told()));
        assert_eq!(registration(&map, &told(), 0), None);
        let mut other = told();
        other.sites[0] = "moon".into();
        other.nodes[1].address = "elsewhere:1".into();
        assert_eq!(registration(&map, &other, 0), None, "what is said of others does not count");
    }

    #[test]
    fn a_cluster_begins_with_the_protocol_version_of_its_file() {
        let version = |first: ProtocolVersion| {
            let write = registration_at(&Map::default(), &told(), 0, first).unwrap();
            let mut puts = write.puts.into_iter();
            let put = puts.find(|put| put.key.as_slice() == PROTOCOL_VERSION_KEY)?;
            Some(decode_protocol_version(put.value.as_deref()).unwrap())
        };
        assert_eq!(version(Window::OWN.newest), Some(Window::OWN.newest));
        assert_eq!(version(ProtocolVersion::FIRST), None, "an earlier program would not have written it");
    }

    #[test]
    fn a_node_knows_best_where_it_is() {
        let mut map = registered();
        let mut moved = told();
        moved.nodes[2].address = "elsewhere:1".into();
        let write = registration(&map, &moved, 2).unwrap();
        let changed = Some(Revision(1));
        assert_eq!(write.compares, [Compare::Key { key: node_key(NodeId(2)), changed }]);
        map.write(&write);
        assert_eq!(map.registry().topology(), Some(moved.clone()));
        assert_eq!(registration(&map, &moved, 2), None);
    }

    #[test]
    fn who_was_forgotten_does_not_come_back_under_its_number() {
        let mut map = registered();
        let forgotten = Node { address: String::new(), ..told().nodes[1].clone() };
        map.write(&ConditionalWrite { compares: Vec::new(), puts: vec![put_node(&forgotten)] });
        let topology = map.registry().topology().unwrap();
        assert_eq!(topology.live_nodes().map(|node| node.id.0).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(registration(&map, &told(), 1), None);
        let joined = map.registry().join("eu", "host1:7400", None);
        assert!(matches!(joined, Ok(Joining::New(NodeId(3), _))), "{joined:?}");
        assert!(map.registry().join("eu", "", None).unwrap_err().contains("cannot be found"));
    }

    #[test]
    fn a_node_joins_as_the_one_that_its_certificate_names() {
        let mut map = registered();
        let refused = map.registry().join("us", "new:1", Some(NodeId(4))).unwrap_err();
        assert!(refused.contains("node3") && refused.contains("create-node 3"), "{refused}");
        let Joining::New(NodeId(3), write) = map.registry().join("us", "new:1", Some(NodeId(3))).unwrap()
        else {
            panic!("it is new")
        };
        map.write(&write);
        assert_eq!(map.registry().join("us", "new:1", Some(NodeId(3))), Ok(Joining::Known(NodeId(3))));
        assert!(map.registry().join("us", "new:1", Some(NodeId(1))).is_err(), "it has the place of another");
    }

    #[test]
    fn who_joins_gets_the_next_number_once() {
        let mut map = registered();
        assert!(Map::default().registry().join("us", "new:1", None).unwrap_err().contains("try again"));
        let Joining::New(NodeId(3), write) = map.registry().join("mars", "new:1", None).unwrap() else {
            panic!()
        };
        map.write(&write);
        assert_eq!(map.registry().join("mars", "new:1", None), Ok(Joining::Known(NodeId(3))));
        assert!(map.registry().join("us", "new:1", None).unwrap_err().contains("in the site \"mars\""));
        let Joining::New(NodeId(4), write) = map.registry().join("mars", "new:2", None).unwrap() else {
            panic!()
        };
        assert_eq!(write.puts.len(), 1, "its site is there");
        let topology = map.registry().topology().unwrap();
        assert_eq!((topology.sites.len(), topology.nodes[3].site), (4, SiteId(3)));
        // One copy is ahead of the other.
        map.sites.remove(&site_key(SiteId(3)));
        assert_eq!(map.registry().topology(), None);
    }
}
