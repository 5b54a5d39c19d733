//! Attics of simulated replicas: the code of servers ([`FileAttic`]), in files that are full, and cannot be read, now and then.
//!
//! A seed with `low-memory` draws how little memory replicas may take; often so little that every value is somewhere else. An attic
//! whose file works never fails: that is asserted whenever one does.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use quorate_core::attic::{Attic, AtticPlace, Guarded};
use quorate_core::hosted::{HostedReplica, Seat};
use quorate_core::{Random, Value};
use quorate_storage::{AtticBounds, FileAttic, LogFile};

use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::hosts::HostPlant;
use crate::system::System;

/// Attics write so little at once that most values are read from their files.
const GATHERED_BYTES: usize = 1;

/// How little memory replicas may take, and how their attics work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scarcity {
    /// The bytes of memory of a replica.
    pub memory_bytes: usize,
    /// With what probability a value is not taken, because the disk is full.
    pub refuses: f64,
    /// With what probability a value cannot be read.
    pub unreadable: f64,
}

/// The attics of a cluster, each in the latest life of its replica, by server.
#[derive(Debug, Default)]
pub(crate) struct Attics {
    attics: BTreeMap<usize, Arc<SimulatedAttic>>,
    /// True once faults have ended.
    work: bool,
    /// How many values were read in earlier lives, and how many of these a value has ended that could not be read.
    before: (u64, u64),
}

/// The attic of a replica, in one life of it.
#[derive(Debug)]
pub(crate) struct SimulatedAttic {
    attic: FileAttic<AtticFile>,
    file: AtticFile,
    /// With what probability a slot is used again at once, although its value is needed: a mistake.
    reuses: f64,
}

/// Its file. Clones are the same one.
#[derive(Clone, Debug)]
struct AtticFile(Arc<Guarded<FileState>>);

#[derive(Debug)]
struct FileState {
    bytes: Vec<u8>,
    scarcity: Scarcity,
    /// True while it may fail: a machine that is being built must not meet what its host cannot see yet.
    fails: bool,
    has_failed: bool,
    random: Random,
}

impl Scarcity {
    /// No memory, or what some keys take.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let some = random.between(500, 30_000) as usize;
        Scarcity {
            memory_bytes: if random.chance(0.6) { 0 } else { some },
            refuses: [0.0, 0.0, 0.02, 0.3][random.index(4)],
            unreadable: [0.0, 0.000_3, 0.003][random.index(3)],
        }
    }
}

impl Attics {
    /// The replica of a server is built: from now on its host looks whether it can read its values, and it may not be able to.
    pub(crate) fn note_built(&self, server: usize) {
        self.attics.get(&server).iter().for_each(|attic| attic.file.let_fail(!self.work));
    }

    /// How many values were read, and how many replicas have ended because one could not be.
    pub(crate) fn happened(&self) -> [(&'static str, u64); 2] {
        let (reads, failures) = self.attics.values().map(|attic| attic.happened()).fold(self.before, add);
        [("value read from an attic", reads), ("replica ended by a value that it could not read", failures)]
    }

    /// From now on every value can be read.
    pub(crate) fn work(&mut self) {
        self.work = true;
        self.attics.values().for_each(|attic| attic.file.let_fail(false));
    }
}

impl<S: System> Cluster<S> {
    /// The seat of a replica that is about to be built, with an empty attic where memory is low.
    pub(crate) fn with_attic(&mut self, server: usize, seat: &Seat) -> Seat {
        let scarcity = self.scenario.hosts.scarcity.filter(|_| S::Server::KEEPS_VALUES_IN_ATTICS);
        let Some(mut scarcity) = scarcity else { return seat.clone() };
        if !self.world.disk(server).is_kept() {
            // It would lose its records with the value, and its group more of them than it survives.
            scarcity.unreadable = 0.0;
        }
        let has = |plant| self.scenario.host_plant == Some(plant);
        let reuses = if has(HostPlant::SlotsReusedEarly) { 0.05 } else { 0.0 };
        let name = format!("attic {server} {}", self.world.incarnation(server));
        let attic = SimulatedAttic::new(scarcity, reuses, Random::stream(self.scenario.seed, &name));
        let attic = Arc::new(attic);
        let seen: Arc<dyn Attic> = attic.clone();
        let is_looked_at = !has(HostPlant::AtticBelieved);
        self.world.set_attic(server, is_looked_at.then(|| seen.clone()));
        self.world.network().injected.add(Fault::LowMemory);
        if let Some(earlier) = self.attics.attics.insert(server, attic) {
            self.attics.before = add(self.attics.before, earlier.happened());
        }
        Seat { attic: Some(seen), ..seat.clone() }
    }
}

impl SimulatedAttic {
    /// An empty attic, whose file works until it is [let fail](AtticFile::let_fail).
    pub(crate) fn new(scarcity: Scarcity, reuses: f64, random: Random) -> Self {
        let state = FileState { bytes: Vec::new(), scarcity, fails: false, has_failed: false, random };
        let file = AtticFile(Arc::new(Guarded::new(state)));
        let bounds = Arc::new(AtticBounds::new(scarcity.memory_bytes));
        SimulatedAttic { attic: FileAttic::new(file.clone(), bounds, GATHERED_BYTES), file, reuses }
    }

    fn happened(&self) -> (u64, u64) {
        (self.attic.status().reads, u64::from(self.attic.has_failed()))
    }
}

fn add(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    (one.0 + other.0, one.1 + other.1)
}

impl Attic for SimulatedAttic {
    fn memory_bytes(&self) -> usize {
        self.attic.memory_bytes()
    }

    fn put(&self, value: &[u8]) -> Option<AtticPlace> {
        let place = self.attic.put(value)?;
        let reuses = self.reuses > 0.0 && self.file.0.with(|state| state.random.chance(self.reuses));
        if reuses {
            self.attic.give_up(place);
            // Whatever comes next takes its place.
            self.attic.put(value);
        }
        Some(place)
    }

    fn value(&self, place: AtticPlace) -> Option<Value> {
        let value = self.attic.value(place);
        assert!(
            value.is_some() || self.file.0.with(|state| state.has_failed),
            "an attic has lost a value, and its file works"
        );
        value
    }

    fn give_up(&self, place: AtticPlace) {
        self.attic.give_up(place);
    }

    fn has_failed(&self) -> bool {
        self.attic.has_failed()
    }
}

impl AtticFile {
    /// From now on the file may be unreadable, or not any more.
    fn let_fail(&self, fails: bool) {
        self.0.with(|state| state.fails = fails);
    }
}

impl FileState {
    fn read_at(&mut self, offset: u64, bytes_max: u64) -> io::Result<Vec<u8>> {
        let from = (offset as usize).min(self.bytes.len());
        let to = (from + bytes_max as usize).min(self.bytes.len());
        let mut bytes = self.bytes[from..to].to_vec();
        if self.fails && self.random.chance(self.scarcity.unreadable) {
            self.has_failed = true;
            if self.random.chance(0.5) {
                return Err(io::Error::other("the disk does not answer"));
            }
            // In the header: what stands behind the value may be anything.
            bytes[self.random.index(8)] ^= 1 << self.random.below(8);
        }
        Ok(bytes)
    }

    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.random.chance(self.scarcity.refuses) {
            return Err(ErrorKind::StorageFull.into());
        }
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        if self.bytes.len() < to {
            self.bytes.resize(to, 0);
        }
        self.bytes[from..to].copy_from_slice(bytes);
        Ok(())
    }
}

impl LogFile for AtticFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.with(|state| state.bytes.len() as u64))
    }

    /// Fails, or reads a wrong bit.
    fn read_at(&self, offset: u64, bytes_max: u64) -> io::Result<Vec<u8>> {
        self.0.with(|state| state.read_at(offset, bytes_max))
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.with(|state| state.write_all_at(bytes, offset))
    }

    /// Nothing of it is ever needed after a crash.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCARCITY: Scarcity = Scarcity { memory_bytes: 0, refuses: 0.0, unreadable: 1.0 };

    #[test]
    fn an_attic_fails_only_while_its_file_may() {
        let attic = SimulatedAttic::new(SCARCITY, 0.0, Random::new(1));
        let place = attic.put(b"salt").unwrap();
        assert_eq!(attic.value(place).as_deref(), Some(&b"salt"[..]));
        for seed in 1..20 {
            let attic = SimulatedAttic::new(SCARCITY, 0.0, Random::new(seed));
            let place = attic.put(b"salt").unwrap();
            // It is written when the next one comes.
            attic.put(b"pepper").unwrap();
            attic.file.let_fail(true);
            assert_eq!((attic.value(place), attic.has_failed()), (None, true), "{seed}");
            attic.file.let_fail(false);
            assert!(attic.value(place).is_some() && attic.has_failed(), "it stays failed for its host");
        }
    }

    #[test]
    #[should_panic(expected = "its file works")]
    fn a_slot_that_is_used_again_early_is_noticed() {
        let attic = SimulatedAttic::new(SCARCITY, 1.0, Random::new(1));
        let place = attic.put(b"salt").unwrap();
        attic.value(place);
    }
}
