//! Objects that are not at the client's site are read at one that has them, at the snapshot of the client's site (Walter, section 5.3).
//!
//! ```text
//!   READ ─► the site of the client: elsewhere, and what was added to it there ─► READ-COPY at the nearest site that has it ─► COPY-REPLY
//!                                                                                └─ silent ─► READ-COPY at the next one
//! ```
//!
//! The answers of two sites about a set are merged by version: a change that was made at the client's site counts if the other site had not received it. The client's site is
//! asked first, and never again: what it says later may lack changes that have reached all sites since, and an earlier answer of another site lacks
//! these, too (W4).

use std::collections::{BTreeMap, BTreeSet};

use quorate_coordinator::finish;
use quorate_core::command::{End, Failure, Invalid, ReplicasError};
use quorate_core::{Context, Instant, Key, ReplicaId, ShardId, TransactionId};

use super::execution::Pending;
use super::{Coordinator, Open, Out, Phase};
use crate::container::Replicas;
use crate::histories::{Count, Read};
use crate::message::{Change, Found, Member, Message, Wanted};
use crate::reasons;
use crate::rules::{Plant, Rules};
use crate::vector::LocalSite;

/// The parts of one read that the client's site has not got.
#[derive(Debug)]
pub(super) struct Copies {
    /// The answers of the client's site, and of other sites since.
    pub(super) found: Vec<Found>,
    /// The questions that are not answered.
    asked: Vec<Asked>,
}

/// A question to one of some sites.
#[derive(Debug)]
struct Asked {
    /// Tells the questions of a transaction apart.
    request: u32,
    /// The sites that can answer, the nearest first.
    sites: Vec<ShardId>,
    /// Which of them is asked.
    at: usize,
    /// The objects, by their places among those that were asked for together.
    objects: Vec<usize>,
    sent_at: Instant,
}

impl Asked {
    fn site(&self) -> ShardId {
        self.sites[self.at % self.sites.len()]
    }
}

impl Copies {
    /// Since when an answer is waited for.
    fn waits_since(&self) -> Option<Instant> {
        self.asked.iter().map(|asked| asked.sent_at).min()
    }
}

impl Open {
    /// True if a site is asked something for this transaction.
    pub(super) fn asks(&self, shard: ShardId) -> bool {
        let Phase::Executing(execution) = &self.phase else { return self.home == shard };
        self.home == shard || execution.asked().any(|asked| asked.sites.contains(&shard))
    }
}

impl super::execution::Execution {
    fn asked(&self) -> impl Iterator<Item = &Asked> {
        self.pending.iter().filter_map(|pending| pending.copies.as_ref()).flat_map(|copies| &copies.asked)
    }

    fn asked_mut(&mut self) -> impl Iterator<Item = (&Vec<Wanted>, &mut Asked)> {
        self.pending.iter_mut().flat_map(|Pending { wanted, copies, .. }| {
            let wanted = &*wanted;
            copies
                .iter_mut()
                .flat_map(move |copies| copies.asked.iter_mut().map(move |asked| (wanted, asked)))
        })
    }

    /// The sites that are asked for objects which the client's has not got.
    pub(super) fn sites_asked(&self) -> Vec<ShardId> {
        self.asked().map(Asked::site).collect()
    }
}

impl Coordinator {
    /// The client's site has answered a read: asks other sites for what it has not got. False if it has all of it.
    pub(super) fn read_copies(
        &mut self,
        id: TransactionId,
        request: u32,
        found: &[Found],
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> bool {
        let mut questions: Vec<(Vec<LocalSite>, Vec<usize>)> = Vec::new();
        for (object, found) in found.iter().enumerate() {
            match found {
                Found::Elsewhere { sites, .. } => {
                    match questions.iter_mut().find(|(known, _)| known == sites) {
                        Some((_, objects)) => objects.push(object),
                        None => questions.push((sites.clone(), vec![object])),
                    }
                }
                Found::Range { elsewhere, .. } => {
                    questions
                        .extend(elsewhere.iter().map(|Replicas { sites }| (sites.clone(), vec![object])));
                }
                _ => {}
            }
        }
        if questions.is_empty() {
            return false;
        }
        if questions.iter().any(|(sites, _)| sites.is_empty()) {
            self.fail(id, Failure::Invalid(Invalid::Replicas(ReplicasError::Lost)), outbox);
            return true;
        }
        let Some(execution) = self.execution(id) else { return true };
        let is_range = found.iter().any(|found| matches!(found, Found::Range { .. }));
        let nearest = |sites: Vec<LocalSite>| execution.nearest(&sites);
        let mut asked: Vec<(Vec<ShardId>, Vec<usize>)> =
            questions.into_iter().map(|(sites, objects)| (nearest(sites), objects)).collect();
        if is_range {
            asked = few_sites(asked);
        }
        if asked.iter().any(|(sites, _)| sites.is_empty()) {
            // The client knows of none of them, or has heard that they were taken out.
            self.fail(id, Failure::Unavailable { missing: Vec::new() }, outbox);
            return true;
        }
        let Some(execution) = self.execution(id) else { return true };
        let before = execution.requests;
        let mut all = Vec::new();
        for (sites, objects) in asked {
            execution.requests += 1;
            all.push(Asked { request: execution.requests, sites, at: 0, objects, sent_at: context.now });
        }
        if let Some(pending) = execution.pending.iter_mut().find(|pending| pending.request == request) {
            pending.copies = Some(Copies { found: found.to_vec(), asked: all });
        }
        // Those of earlier reads are on their way, each with a time of its own.
        self.send_copies(id, |asked| asked.request > before, context.now, outbox);
        self.transactions.wake_at(id, context.now + self.config.resend_timeout);
        true
    }

    /// Sends questions.
    fn send_copies(
        &mut self,
        id: TransactionId,
        is_meant: impl Fn(&Asked) -> bool,
        now: Instant,
        outbox: &mut Out,
    ) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        let home = open.home;
        let Phase::Executing(execution) = &mut open.phase else { return };
        let Some(home) = execution.site(home) else { return };
        let Some(snapshot) = execution.snapshot.clone() else { return };
        for (wanted, asked) in execution.asked_mut().filter(|(_, asked)| is_meant(asked)) {
            asked.sent_at = now;
            let wanted = asked.objects.iter().map(|object| elsewhere(&wanted[*object])).collect();
            let (request, snapshot) = (asked.request, snapshot.clone());
            let message = Message::ReadCopy { transaction: id, request, snapshot, home, wanted };
            outbox.send(self.leaders.leader(asked.site()), message);
        }
    }

    /// Sends all questions again to the sites that are asked now.
    pub(super) fn send_copies_again(&mut self, id: TransactionId, now: Instant, outbox: &mut Out) {
        self.send_copies(id, |_| true, now, outbox);
    }

    /// Asks the next site where one is silent. Gives when to look again.
    pub(super) fn attend_copies(
        &mut self,
        id: TransactionId,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> Option<Instant> {
        let timeout = self.config.resend_timeout;
        let merges_stale = self.config.rules.has(Plant::StaleCopyMerged);
        let leaders = &mut self.leaders;
        let Phase::Executing(execution) = &mut self.transactions.get_mut(&id)?.phase else { return None };
        // Each question is looked at before a leader is suspected: several may be on their way to one replica, which is suspected once.
        let mut silent = BTreeSet::new();
        for (_, asked) in execution.asked_mut() {
            let is_silent = context.now - asked.sent_at >= timeout;
            if is_silent || !leaders.is_reachable(leaders.leader(asked.site())) {
                silent.insert(asked.site());
                asked.at += 1;
                // It is late by now, and is sent below.
                asked.sent_at = Instant::START;
            }
        }
        silent.iter().for_each(|site| leaders.suspect(*site));
        if !silent.is_empty() {
            self.send_copies(id, |asked| asked.sent_at == Instant::START, context.now, outbox);
            if merges_stale {
                self.forget_sent(id);
                self.send_reads(id, context.now, outbox);
            }
        }
        let since = self
            .execution(id)?
            .pending
            .iter()
            .filter_map(|pending| pending.copies.as_ref()?.waits_since())
            .min()?;
        Some(since + timeout)
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_copy_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        request: u32,
        included: u64,
        found: Vec<Found>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let rules = self.config.rules;
        let Some(execution) = self.execution(id) else { return outbox.ignored(reasons::NOT_OPEN) };
        let is_it = |asked: &Asked| asked.request == request && asked.sites.contains(&from.shard);
        let place = execution
            .pending
            .iter()
            .enumerate()
            .find_map(|(at, pending)| Some((at, pending.copies.as_ref()?.asked.iter().position(is_it)?)));
        let Some((at, question)) = place else { return outbox.ignored(reasons::KNOWN) };
        let Pending { wanted, copies: Some(copies), .. } = &mut execution.pending[at] else { return };
        if copies.asked[question].objects.len() != found.len() {
            return outbox.ignored(reasons::MALFORMED);
        }
        let mut merged = Vec::new();
        for (object, theirs) in copies.asked[question].objects.iter().zip(found) {
            let Some(both) = merge(&wanted[*object], &copies.found[*object], theirs, included, rules) else {
                return outbox.ignored(reasons::MALFORMED);
            };
            merged.push((*object, both));
        }
        copies.asked.swap_remove(question);
        for (object, both) in merged {
            copies.found[object] = both;
        }
        let is_complete = copies.asked.is_empty();
        self.leaders.note_leading(from);
        if is_complete {
            self.end_read(id, at, context, outbox);
        }
    }

    /// All sites have answered a read.
    fn end_read(&mut self, id: TransactionId, at: usize, context: &Context<'_>, outbox: &mut Out) {
        let Some(execution) = self.execution(id) else { return };
        let Pending { wanted, copies, completes, .. } = execution.pending.swap_remove(at);
        let found = copies.map(|copies| copies.found).unwrap_or_default();
        if self.take_all(id, (wanted, completes), found, context, outbox) {
            self.commit_if_read(id, context, outbox);
        }
    }

    /// The client has waited long enough for reads.
    pub(super) fn give_up_reads(&mut self, id: TransactionId, open: &Open, outbox: &mut Out) {
        let Phase::Executing(execution) = &open.phase else { return };
        let asked = execution.sites_asked();
        let silent = if asked.is_empty() { vec![open.home] } else { asked };
        let missing = silent.into_iter().map(|shard| self.leaders.leader(shard)).collect();
        finish(outbox, id, Err(Failure::Unavailable { missing }));
    }
}

/// As few sites as the nearest first allow, so that each question is answered by one of them.
fn few_sites(questions: Vec<(Vec<ShardId>, Vec<usize>)>) -> Vec<(Vec<ShardId>, Vec<usize>)> {
    let mut few: Vec<(Vec<ShardId>, Vec<usize>)> = Vec::new();
    for (sites, objects) in questions {
        let both = |known: &[ShardId]| -> Vec<ShardId> {
            known.iter().copied().filter(|site| sites.contains(site)).collect()
        };
        let shared = few.iter_mut().find(|(known, _)| !both(known).is_empty());
        match shared {
            Some((known, _)) => *known = both(known),
            None => few.push((sites, objects)),
        }
    }
    few
}

/// The question to another site. The registers that elements name are asked for at the client's site, which knows where they are.
fn elsewhere(wanted: &Wanted) -> Wanted {
    match wanted {
        Wanted::Members { set, range, from, limit } => {
            Wanted::Elements { set: set.clone(), range: range.clone(), from: *from, limit: *limit }
        }
        _ => wanted.clone(),
    }
}

/// The answers of the client's site and of another one in one; none if that makes no sense.
fn merge(wanted: &Wanted, ours: &Found, theirs: Found, included: u64, rules: Rules) -> Option<Found> {
    // By version: what the other site has received stands in its answer.
    let is_missing = |change: &&Change| change.seqno > included || rules.has(Plant::OwnChangesCountTwice);
    match (wanted, ours, theirs) {
        (Wanted::Register(_), Found::Elsewhere { .. }, found @ Found::Register { .. }) => Some(found),
        (Wanted::Count { .. }, Found::Elsewhere { own, .. }, Found::Count(count)) => {
            let missing: i64 = own.iter().filter(is_missing).map(|change| i64::from(change.by)).sum();
            Some(Found::Count(count + missing))
        }
        (
            Wanted::Elements { set, from, .. },
            Found::Elsewhere { own, .. },
            Found::Elements { counts, is_cut },
        ) => {
            let counts = merge_counts(set, *from, own.iter().filter(is_missing), counts, is_cut);
            Some(Found::Elements { counts, is_cut })
        }
        (
            Wanted::Members { set, from, .. },
            Found::Elsewhere { own, .. },
            Found::Elements { counts, is_cut },
        ) => {
            let counts = merge_counts(set, *from, own.iter().filter(is_missing), counts, is_cut);
            let member = |Count { element, count, .. }| Member {
                element,
                count,
                is_elsewhere: true,
                version: None,
                value: None,
            };
            Some(Found::Members { members: counts.into_iter().map(member).collect(), is_cut })
        }
        (
            Wanted::Range(..),
            Found::Range { entries, next, .. },
            Found::Range { entries: others, next: end, .. },
        ) => Some(merge_ranges((entries.clone(), next.clone()), (others, end))),
        _ => None,
    }
}

/// A page of a set with changes that it lacks, as far as the page goes. A count that has become zero stays, because the last one says how far that is.
fn merge_counts<'a>(
    set: &Key,
    from: End,
    missing: impl Iterator<Item = &'a Change>,
    counts: Vec<Count>,
    is_cut: bool,
) -> Vec<Count> {
    let last = counts.last().map(|count| count.element.clone()).filter(|_| is_cut);
    let is_covered = |element: &Key| {
        last.as_ref().is_none_or(|last| match from {
            End::Least => element <= last,
            End::Greatest => element >= last,
        })
    };
    let mut merged: BTreeMap<Key, i64> =
        counts.into_iter().map(|count| (count.element, count.count)).collect();
    for change in missing.filter(|change| is_covered(&change.element)) {
        *merged.entry(change.element.clone()).or_default() += i64::from(change.by);
    }
    let count = |(element, count)| Count { set: set.clone(), element, count };
    match from {
        End::Least => merged.into_iter().map(count).collect(),
        End::Greatest => merged.into_iter().rev().map(count).collect(),
    }
}

/// Two pages of one snapshot as one: what both cover. A register that both have is the same in both.
fn merge_ranges(ours: (Vec<Read>, Option<Key>), theirs: (Vec<Read>, Option<Key>)) -> Found {
    let next = [ours.1, theirs.1].into_iter().flatten().min();
    let is_covered = |read: &Read| next.as_ref().is_none_or(|next| read.key < *next);
    let both = ours.0.into_iter().chain(theirs.0).filter(is_covered);
    let both: BTreeMap<Key, Read> = both.map(|read| (read.key.clone(), read)).collect();
    Found::Range { entries: both.into_values().collect(), next, elsewhere: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::VersionNumber;
    use quorate_core::Value;

    fn change(seqno: u64, element: &str, by: i32) -> Change {
        Change { seqno, element: Key::from(element), by }
    }

    fn count(element: &str, count: i64) -> Count {
        Count { set: Key::from("s"), element: Key::from(element), count }
    }

    fn told(counts: &[Count]) -> String {
        let told = counts
            .iter()
            .map(|count| format!("{}{:+}", String::from_utf8_lossy(&count.element), count.count));
        told.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_change_counts_once_whichever_site_has_it() {
        let wanted = Wanted::Count { set: Key::from("s"), element: Key::from("x") };
        let ours =
            Found::Elsewhere { sites: vec![LocalSite(1)], own: vec![change(3, "x", 1), change(5, "x", 1)] };
        for (rules, included, expected) in [
            (Rules::SOUND, 2, 9),
            (Rules::SOUND, 3, 8),
            (Rules::SOUND, 5, 7),
            (Rules::planted(Plant::OwnChangesCountTwice), 5, 9),
        ] {
            assert_eq!(
                merge(&wanted, &ours, Found::Count(7), included, rules),
                Some(Found::Count(expected)),
                "{included}"
            );
        }
        assert_eq!(
            merge(&wanted, &ours, Found::Elements { counts: vec![], is_cut: false }, 2, Rules::SOUND),
            None
        );
    }

    #[test]
    fn a_page_of_a_set_gets_the_changes_that_it_covers() {
        let own = [change(1, "a", 1), change(2, "b", -1), change(2, "d", 1)];
        for (from, is_cut, counts, expected) in [
            (End::Least, true, vec![count("b", 1), count("c", 1)], "a+1 b+0 c+1"),
            (End::Least, true, vec![count("b", 1)], "a+1 b+0"),
            (End::Least, false, vec![count("b", 1)], "a+1 b+0 d+1"),
            (End::Greatest, true, vec![count("c", 1), count("b", 1)], "d+1 c+1 b+0"),
            (End::Greatest, false, vec![], "d+1 b-1 a+1"),
        ] {
            assert_eq!(told(&merge_counts(&Key::from("s"), from, own.iter(), counts, is_cut)), expected);
        }
    }

    #[test]
    fn pages_of_a_range_cover_what_both_cover() {
        let read = |key: &str| Read {
            key: Key::from(key),
            version: VersionNumber { site: LocalSite(0), seqno: 1 },
            value: Value::from_static(b"v"),
        };
        let page = |keys: &[&str], next: Option<&str>| {
            (keys.iter().map(|key| read(key)).collect(), next.map(Key::from))
        };
        let both = merge_ranges(page(&["a", "c", "e"], None), page(&["b", "c"], Some("d")));
        let entries = ["a", "b", "c"].map(read).to_vec();
        assert_eq!(both, Found::Range { entries, next: Some(Key::from("d")), elsewhere: vec![] });
    }

    #[test]
    fn questions_share_a_site() {
        let sites = |ids: &[u32]| ids.iter().copied().map(ShardId).collect::<Vec<_>>();
        let questions = vec![(sites(&[1, 2]), vec![0]), (sites(&[2, 3]), vec![0]), (sites(&[3]), vec![0])];
        assert_eq!(few_sites(questions), [(sites(&[2]), vec![0]), (sites(&[3]), vec![0])]);
    }
}
