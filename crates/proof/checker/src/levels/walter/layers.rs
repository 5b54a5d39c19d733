//! One topological order per site, over edges that all sites share and edges of their own.

use crate::dependencies::{Chain, Edge, EdgeKind};
use crate::graph::{Graph, Successors, TopologicalOrder};
use crate::history::{KeyId, Site};
use crate::levels::acyclic::Layout;
use crate::levels::search::Model;
use crate::levels::walter::Walter;
use crate::mutants::{self, Mutant};

/// The edges of all sites, and for each site its own ones.
pub(super) struct Layers<'w, 'a> {
    walter: &'w Walter<'a>,
    common: Graph,
    own: Vec<Graph>,
}

/// The graph of one site.
#[derive(Debug, Clone, Copy)]
struct Layer<'l> {
    common: &'l Graph,
    own: &'l Graph,
}

impl Successors for Layer<'_> {
    fn node_count(&self) -> usize {
        self.own.node_count()
    }

    fn successors(&self, node: u32) -> [&[u32]; 2] {
        let is_common = (node as usize) < self.common.node_count();
        [if is_common { self.common.targets_of(node) } else { &[] }, self.own.targets_of(node)]
    }
}

impl<'w, 'a> Layers<'w, 'a> {
    /// Gathers the edges. Fails with a site whose graph has a cycle.
    pub(super) fn new(walter: &'w Walter<'a>) -> Result<Self, Site> {
        let known = &walter.known;
        let txn_count = walter.history.txn_count();
        let common = Graph::gather(txn_count, 2, known.node_count, |emit| {
            known.visit(&[], &mut |edge| {
                if walter.local_site(&edge).is_none() {
                    emit(edge);
                }
            });
        });
        let own = (0..walter.site_count() as u32).map(Site).map(|site| {
            let mut barriers = Vec::new();
            let node_count = walter.barriers(Some(site), &mut barriers);
            Graph::gather(txn_count, 2, node_count, |emit| {
                barriers.iter().for_each(|&edge| emit(edge));
                known.visit(&[], &mut |edge| {
                    if walter.local_site(&edge) == Some(site) {
                        emit(edge);
                    }
                });
            })
        });
        let layers = Layers { walter, own: own.collect(), common };
        match (0..layers.own.len()).find(|&site| layers.order(site).is_none()) {
            Some(site) => Err(Site(site as u32)),
            None => Ok(layers),
        }
    }

    fn order(&self, site: usize) -> Option<TopologicalOrder<Layer<'_>>> {
        let layer = Layer { common: &self.common, own: &self.own[site] };
        let known = &self.walter.known;
        TopologicalOrder::new(layer, |node| known.priority(node), |node| known.layout.second(node))
    }

    /// The orders of all sites, to which choices can be added.
    pub(super) fn model(&self) -> Sites<'_> {
        let txns = (0..).zip(self.walter.history.txns()).zip(&self.walter.dependencies.fates);
        let mut locals = vec![Vec::new(); self.own.len()];
        for ((txn, record), _) in txns.filter(|(_, fate)| fate.is_effective()) {
            if let Some(site) = record.site {
                locals[site.0 as usize].push(txn);
            }
        }
        Sites {
            homes: self.walter.history.txns().iter().map(|txn| txn.site.map_or(0, |site| site.0)).collect(),
            locals,
            layout: self.walter.known.layout,
            orders: (0..self.own.len()).filter_map(|site| self.order(site)).collect(),
            log: Vec::new(),
        }
    }
}

/// The orders at all sites.
pub(super) struct Sites<'l> {
    homes: Vec<u32>,
    /// Per site its transactions.
    locals: Vec<Vec<u32>>,
    layout: Layout,
    orders: Vec<TopologicalOrder<Layer<'l>>>,
    /// Per addition, how many edges each site had before.
    log: Vec<Vec<usize>>,
}

impl Sites<'_> {
    /// Orders the snapshots of every site, one after another, each as late as it fits. False if one fits
    /// nowhere.
    pub(super) fn order_snapshots(&mut self) -> bool {
        (0..self.orders.len()).all(|site| self.order_snapshots_of(site))
    }

    fn order_snapshots_of(&mut self, site: usize) -> bool {
        if mutants::is_planted(Mutant::LeavesSnapshotsApart) {
            return true;
        }
        let mut locals = std::mem::take(&mut self.locals[site]);
        locals.sort_by_key(|&txn| self.orders[site].position(txn));
        let edge = |from, to| [Edge { from, to, key: KeyId(0), kind: EdgeKind::Snapshot }];
        let mut chain: Vec<u32> = Vec::with_capacity(locals.len());
        let mut is_ordered = true;
        for &txn in &locals {
            let mut place = chain.len();
            while place > 0 && !self.try_add(&edge(chain[place - 1], txn)) {
                place -= 1;
            }
            if place < chain.len() && !self.try_add(&edge(txn, chain[place])) {
                is_ordered = false;
                break;
            }
            chain.insert(place, txn);
        }
        self.locals[site] = locals;
        is_ordered
    }

    /// Adds an edge at one site.
    fn add_at(&mut self, site: usize, edge: Edge) -> bool {
        let edge = if edge.kind == EdgeKind::Snapshot { edge } else { self.layout.translate(edge) };
        self.orders[site].try_add(edge.from, edge.to)
    }
}

impl Model for Sites<'_> {
    fn try_add(&mut self, edges: &[Edge]) -> bool {
        let mark = self.log.len();
        self.log.push(self.orders.iter().map(TopologicalOrder::added).collect());
        let fits = edges.iter().all(|&edge| match edge.kind {
            EdgeKind::AntiDependency => self.add_at(self.homes[edge.from as usize] as usize, edge),
            _ => (0..self.orders.len()).all(|site| self.add_at(site, edge)),
        });
        if !fits {
            self.undo(mark);
        }
        fits
    }

    fn mark(&self) -> usize {
        self.log.len()
    }

    fn undo(&mut self, mark: usize) {
        if let Some(added) = self.log.get(mark) {
            self.orders.iter_mut().zip(added).for_each(|(order, &added)| order.undo(added));
        }
        self.log.truncate(mark);
    }

    fn place(&self, chain: &Chain) -> u32 {
        let Some(first) = chain.first else { return 0 };
        let home = self.homes[first.index()] as usize;
        self.orders[home].position(self.layout.commit(first.0))
    }

    fn steps(&self) -> u64 {
        self.orders.iter().map(TopologicalOrder::walked).sum()
    }
}
