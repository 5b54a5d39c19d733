//! Keys that attempts read: one after the other, as their plans say, or before that all that they name at once.
//!
//! A key that was read at once counts when the plan comes to it: the coordinator is asked again then, and says the same.

use std::collections::BTreeSet;

use quorate_core::command::Command;
use quorate_core::{Key, Random, TransactionId, Value};

use super::{Clients, Work};
use crate::cluster::Cluster;
use crate::system::System;

/// So often an attempt reads the keys at once that its plan names, if there are several.
const AT_ONCE_PROBABILITY: f64 = 0.3;

/// The stream that draws which attempts do so.
pub(super) fn stream(seed: u64) -> Random {
    Random::stream(seed, "reads at once")
}

impl Clients {
    /// Asks for all keys at once that the plan of an attempt names, now and then. False if the attempt goes on with its first step.
    pub(super) fn read_at_once_perhaps<S: System>(
        &mut self,
        session: usize,
        cluster: &mut Cluster<S>,
    ) -> bool {
        let is_drawn = matches!(self.sessions[session].work, Work::Drawn);
        let client = self.slots[self.sessions[session].slot].client;
        let Some(attempt) = &mut self.sessions[session].attempt else { return false };
        let keys: BTreeSet<Key> = attempt.execution.plan().keys_named().into_iter().collect();
        let at_once = is_drawn && keys.len() >= 2 && self.reads_at_once.chance(AT_ONCE_PROBABILITY);
        let mut keys = if at_once { keys } else { BTreeSet::new() };
        keys.extend(self.indexing.lists().iter().cloned());
        if keys.is_empty() {
            return false;
        }
        attempt.awaited = keys.len();
        *self.happened.entry("several keys were read at once").or_default() += u64::from(at_once);
        let (transaction, keys) = (attempt.id, keys.into_iter().collect());
        cluster.world.command(client, Command::GetMany { transaction, keys });
        true
    }

    /// A coordinator has told what a key holds.
    pub(super) fn on_got<S: System>(
        &mut self,
        transaction: TransactionId,
        key: Key,
        value: Option<Value>,
        cluster: &mut Cluster<S>,
    ) {
        let Some(session) = self.session_of(transaction) else { return };
        self.nonsense.extend(self.puts.nonsense(transaction, &key, value.as_ref()));
        self.judge_answer(session, cluster);
        let Some(attempt) = &mut self.sessions[session].attempt else { return };
        if let Some(read_only) = &mut attempt.read_only {
            read_only.got.insert(key, value);
            return;
        }
        if attempt.awaited > 0 {
            attempt.awaited -= 1;
            if attempt.awaited == 0 {
                self.drive(session, cluster);
            }
            return;
        }
        if attempt.execution.reads_many() {
            if attempt.execution.got_one(key, value) {
                self.drive(session, cluster);
            }
            return;
        }
        if let Err(error) = attempt.execution.got(value) {
            self.nonsense.push(format!("{transaction} read {key:?}: {error}"));
            let client = self.slots[self.sessions[session].slot].client;
            cluster.world.command(client, Command::Abort { transaction });
            return;
        }
        self.drive(session, cluster);
    }
}
