//! All objects whose ids are in a set (section 6): the elements of a set, and the registers whose keys they are, in one round trip.
//!
//! The transaction sees its own changes of the set and its own writes. A register whose key it has added to the set itself, and has not written, is
//! asked for in a second request, at the same snapshot; so is one that is not at the client's site.

use std::collections::BTreeMap;

use quorate_core::command::{Event, Member, SetAnswer};
use quorate_core::transaction::LimitExceeded;
use quorate_core::{Context, Key, KeyRange, Timestamp, TransactionId, Value};

use super::execution::Completes;
use super::sets::Page;
use super::{Coordinator, Out};
use crate::histories::Count;
use crate::message::{self, Found, Wanted};
use crate::vector::VersionNumber;

/// Registers by their keys, as a snapshot holds them.
type Registers = BTreeMap<Key, (Option<VersionNumber>, Option<Value>)>;

/// Members of which registers are missing.
#[derive(Debug)]
pub(super) struct Assembly {
    set: Key,
    /// In the order that was asked for, with the counts.
    members: Vec<Member>,
    rest: Option<KeyRange>,
}

/// The counts of members, and those of their registers that are known.
pub(super) fn divide(set: &Key, members: Vec<message::Member>) -> (Vec<Count>, Registers) {
    let (mut counts, mut registers) = (Vec::with_capacity(members.len()), Registers::new());
    for message::Member { element, count, is_elsewhere, version, value } in members {
        counts.push(Count { set: set.clone(), element: element.clone(), count });
        if !is_elsewhere {
            registers.insert(element, (version, value));
        }
    }
    (counts, registers)
}

impl Coordinator {
    /// A snapshot has these members.
    ///
    /// # Errors
    /// The transaction would be too large.
    pub(super) fn take_members(
        &mut self,
        id: TransactionId,
        set: Key,
        page: Page,
        mut registers: Registers,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> Result<(), LimitExceeded> {
        let Some(execution) = self.execution(id) else { return Ok(()) };
        let (counts, rest) = execution.sets.merge(&set, page);
        let (mut members, mut missing) = (Vec::with_capacity(counts.len()), Vec::new());
        for (element, count) in counts {
            let value = match registers.remove(&element) {
                Some((version, value)) => {
                    let version = version.map_or(Timestamp::ZERO, VersionNumber::timestamp);
                    execution.buffer.read(&element, version, value)?
                }
                None => execution.buffer.value(&element).unwrap_or_else(|| {
                    missing.push(Wanted::Register(element.clone()));
                    None
                }),
            };
            members.push(Member { element, count, value });
        }
        if missing.is_empty() {
            outbox.emit(Event::Set { transaction: id, answer: SetAnswer::Members { set, members, rest } });
        } else {
            let completes = Completes::Members(Assembly { set, members, rest });
            self.want_for(id, missing, Some(completes), context, outbox);
        }
        Ok(())
    }

    /// A snapshot has the registers that were missing.
    ///
    /// # Errors
    /// The transaction would be too large.
    pub(super) fn complete(
        &mut self,
        id: TransactionId,
        assembly: Assembly,
        answers: impl Iterator<Item = (Wanted, Found)>,
        outbox: &mut Out,
    ) -> Result<(), LimitExceeded> {
        let Some(execution) = self.execution(id) else { return Ok(()) };
        let Assembly { set, mut members, rest } = assembly;
        for (wanted, found) in answers {
            let (Wanted::Register(key), Found::Register { version, value }) = (wanted, found) else {
                continue;
            };
            let version = version.map_or(Timestamp::ZERO, VersionNumber::timestamp);
            let value = execution.buffer.read(&key, version, value)?;
            if let Some(member) = members.iter_mut().find(|member| member.element == key) {
                member.value = value;
            }
        }
        outbox.emit(Event::Set { transaction: id, answer: SetAnswer::Members { set, members, rest } });
        Ok(())
    }
}
