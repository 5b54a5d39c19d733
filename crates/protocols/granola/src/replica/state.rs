//! The state that the entries of the log have led to: the same at every replica that has applied as many.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use quorate_core::hash::FixedMap;
use quorate_core::log::divide;
use quorate_core::{ClockTime, ShardId, TransactionId};

use crate::application::{Answer, Application};
use crate::config::ReplicaConfig;
use crate::entry::{Body, Ended, Ending, Entry, Final, Outcome, Page, Pending, Refusal, Vote, Voted};
use crate::place::Place;
use crate::rules::{Plant, Rules};
use quorate_core::command::Class;

/// The replicated state of a shard.
#[derive(Debug)]
pub(super) struct State<A> {
    shard: ShardId,
    rules: Rules,
    pub(super) application: A,
    pub(super) pending: BTreeMap<TransactionId, Pending>,
    /// The pending transactions, in the order in which they will be executed if nothing comes in between.
    pub(super) queue: BTreeSet<Place>,
    pub(super) ended: FixedMap<TransactionId, Ended>,
    /// The transactions that have ended, by when they were sent first.
    pub(super) fading: BTreeSet<(ClockTime, TransactionId)>,
    /// No later leader proposes at or below.
    pub(super) ceiling: ClockTime,
    /// Nothing that was first sent below is accepted.
    pub(super) floor: ClockTime,
    /// Transactions that were first sent below are forgotten.
    pub(super) forgotten: ClockTime,
    /// The shards that are lost for good.
    pub(super) lost: BTreeSet<ShardId>,
    /// The last that was executed, and how many have ended, while this state was followed: not a part of it.
    executed: Place,
    pub(super) committed: u64,
    pub(super) refused: u64,
}

impl<A> State<A> {
    /// The state before the first entry.
    pub(super) fn before_all(shard: ShardId, application: A, rules: Rules) -> Self {
        State {
            shard,
            rules,
            application,
            pending: BTreeMap::new(),
            queue: BTreeSet::new(),
            ended: FixedMap::default(),
            fading: BTreeSet::new(),
            ceiling: ClockTime::default(),
            floor: ClockTime::default(),
            forgotten: ClockTime::default(),
            lost: BTreeSet::new(),
            executed: Place::default(),
            committed: 0,
            refused: 0,
        }
    }
}

impl<A: Application> State<A> {
    pub(super) fn new(shard: ShardId, mut application: A, rules: Rules) -> Self {
        if rules != Rules::SOUND {
            application.allow_disorder();
        }
        State::before_all(shard, application, rules)
    }

    /// The transactions that are accepted and not executed, as far as the log says, in the order of names.
    pub(super) fn pending(&self) -> impl ExactSizeIterator<Item = &Pending> {
        self.pending.values()
    }

    /// How a transaction has ended, as long as that is known.
    pub(super) fn ended(&self, id: TransactionId) -> Option<&Ended> {
        self.ended.get(&id)
    }

    /// Every transaction whose end is known, the oldest first.
    pub(super) fn all_ended(&self) -> impl Iterator<Item = (TransactionId, &Ended)> + '_ {
        self.fading.iter().map(|(_, id)| (*id, &self.ended[id]))
    }

    /// How many transactions there are whose end is known.
    pub(super) fn ended_len(&self) -> usize {
        self.ended.len()
    }

    /// How many have ended that may be forgotten.
    pub(super) fn overdue(&self) -> usize {
        self.fading.range(..(self.forgotten, TransactionId::default())).count()
    }

    /// Follows an entry. Of votes on one transaction the first counts.
    pub(super) fn apply(&mut self, entry: &Entry) {
        self.ceiling = self.ceiling.max(entry.ceiling);
        for ending in &entry.finals {
            self.finish(ending);
        }
        match &entry.body {
            Body::Voted(voted) => self.note_vote(voted),
            Body::Floor { floor, forgotten } => self.raise_floor(*floor, *forgotten),
            Body::Lost(shard) => {
                self.lost.insert(*shard);
            }
            Body::Nothing => {}
        }
    }

    fn note_vote(&mut self, voted: &Arc<Voted>) {
        let id = voted.transaction;
        let takes_part = voted.participants.binary_search(&self.shard).is_ok();
        assert!(takes_part, "{} votes on {id} and takes no part in it", self.shard);
        assert!(voted.class != Class::ReadOnly, "no vote on what only reads is durable (section 4.4): {id}");
        // The next leader proposes above the ceiling, and so above this (section 5.2).
        assert!(voted.proposed <= self.ceiling, "{id} is proposed above the ceiling {:?}", self.ceiling);
        if self.ended.contains_key(&id) || self.pending.contains_key(&id) {
            return;
        }
        match &voted.vote {
            Vote::Commit => {}
            Vote::Abort(reason) => {
                let refusal = Refusal { shard: self.shard, reason: reason.clone() };
                return self.end(voted, Outcome::Aborted(refusal));
            }
            Vote::Conflict => return self.end(voted, Outcome::Conflict),
        }
        let place = Place { timestamp: voted.proposed, transaction: id };
        self.hold(Pending { voted: voted.clone(), place, is_final: voted.participants.len() == 1 });
    }

    fn hold(&mut self, pending: Pending) {
        let id = pending.voted.transaction;
        assert!(pending.voted.vote == Vote::Commit, "{id} is voted against, and waits");
        assert!(pending.voted.operation.is_some(), "{id} is voted for without what it does here");
        assert!(pending.place.timestamp >= pending.voted.proposed, "{id} stands beneath its proposal");
        assert!(self.queue.insert(pending.place), "{} is taken by two", pending.place);
        assert!(self.pending.insert(id, pending).is_none(), "{id} waits twice");
    }

    /// A leader has noted where a transaction ends that was voted for in an earlier entry. The next leader may do so once more: it
    /// executes ahead of its log what has a timestamp there and was not executed yet.
    fn finish(&mut self, Final { transaction: id, ending }: &Final) {
        let id = *id;
        let Some(mut pending) = self.pending.remove(&id) else {
            let known = self.ended(id).map(|ended| &ended.outcome);
            let is_same = matches!((known, ending), (Some(Outcome::Committed { timestamp, .. }), Ending::Commit(at)) if timestamp == at);
            return assert!(is_same || self.rules != Rules::SOUND, "{id} has ended otherwise (I4)");
        };
        assert!(self.queue.remove(&pending.place), "{} waits without its place", pending.place);
        match ending {
            Ending::Commit(timestamp) => {
                // Its leader has executed it, and nothing is executed above a ceiling that is stable (section 5.2).
                assert!(*timestamp <= self.ceiling, "{id} was executed above the ceiling {:?}", self.ceiling);
                let is_same = !pending.is_final || pending.place.timestamp == *timestamp;
                assert!(is_same, "{} gets another timestamp (I4)", pending.place);
                pending.place.timestamp = *timestamp;
                pending.is_final = true;
                self.hold(pending);
            }
            Ending::Abort(refusal) => self.end(&pending.voted, Outcome::Aborted(refusal.clone())),
            Ending::Conflict => {
                // A transaction of several participants that has its timestamp has the votes of all, and may have been executed elsewhere.
                let may_end = !pending.is_final || pending.voted.participants.len() == 1;
                assert!(may_end, "{} is given up (I4)", pending.place);
                self.end(&pending.voted, Outcome::Conflict);
            }
        }
    }

    /// Executes what is next as long as it is certain what that is. A leader has executed it before, and gives the answer.
    pub(super) fn execute(&mut self, mut ahead: impl FnMut(TransactionId) -> Option<Answer>) {
        while let Some(place) = self.next() {
            let pending = self.pending.remove(&place.transaction).expect("what has a place waits");
            assert!(self.queue.remove(&place) && pending.place == place, "{place} is its only place");
            // I1: every replica executes in the serial order. Proposals lie above what any leader has executed (section 4.4).
            let is_next = place > self.executed || self.rules != Rules::SOUND;
            assert!(is_next, "{place} is executed after {}", self.executed);
            self.executed = place;
            let operation = pending.voted.operation.as_ref().expect("what waits was voted for");
            let answer = ahead(place.transaction).unwrap_or_else(|| {
                self.application.run(place, operation).expect("a replica that follows has locked nothing")
            });
            self.end(&pending.voted, Outcome::Committed { timestamp: place.timestamp, answer });
        }
    }

    /// The place of the next transaction, if it is certain.
    fn next(&self) -> Option<Place> {
        let is_final = |place: &Place| self.pending.get(&place.transaction).is_some_and(|it| it.is_final);
        if self.rules.has(Plant::ArrivalOrder) {
            return self.queue.iter().copied().find(is_final);
        }
        self.queue.first().copied().filter(is_final)
    }

    /// The last that was executed while this state was followed.
    pub(super) fn executed(&self) -> Place {
        self.executed
    }

    /// Nothing below changes any more, as far as the log says; nothing at all, if nothing is pending.
    pub(super) fn horizon(&self) -> Option<Place> {
        self.queue.first().copied()
    }

    fn end(&mut self, voted: &Voted, outcome: Outcome) {
        match outcome {
            Outcome::Committed { .. } => self.committed += 1,
            Outcome::Aborted(_) | Outcome::Conflict => self.refused += 1,
        }
        let participants = voted.participants.clone();
        self.remember(voted.transaction, Ended { outcome, participants, first: voted.first });
    }

    fn remember(&mut self, id: TransactionId, ended: Ended) {
        assert!(self.fading.insert((ended.first, id)), "{id} ends twice");
        // I4: a transaction has one outcome.
        assert!(self.ended.insert(id, ended).is_none(), "{id} ends twice");
    }

    fn raise_floor(&mut self, floor: ClockTime, forgotten: ClockTime) {
        self.floor = self.floor.max(floor);
        self.forgotten = self.forgotten.max(forgotten);
        // A transaction that is forgotten here could begin anew if it could still be accepted.
        assert!(self.forgotten <= self.floor, "{:?} is forgotten above {:?}", self.forgotten, self.floor);
        while let Some((first, id)) = self.fading.first().copied()
            && first < self.forgotten
        {
            self.fading.pop_first();
            assert!(self.ended.remove(&id).is_some(), "{id} fades, and has not ended");
        }
    }

    /// The state as the log says, to which nothing belongs that has run at this place or above.
    pub(super) fn freeze(&self, below: Option<Place>, page_bytes_max: usize) -> Frozen<A::Canonical> {
        const ENTRY_BYTES: usize = 64;
        let held = |pending: &Pending| {
            let operation = pending.voted.operation.as_ref().map_or(0, |operation| operation.len());
            (ENTRY_BYTES + operation, pending.clone())
        };
        let left = |(id, ended): (TransactionId, &Ended)| {
            let told = match &ended.outcome {
                Outcome::Committed { answer: Answer::Done(told) | Answer::Refused(told), .. } => told.len(),
                Outcome::Aborted(refusal) => refusal.reason.len(),
                Outcome::Conflict => 0,
            };
            (ENTRY_BYTES + told, (id, ended.clone()))
        };
        let (ceiling, floor, forgotten) = (self.ceiling, self.floor, self.forgotten);
        let lost = self.lost.iter().copied().collect();
        let mut pages = VecDeque::from([Page::Bounds { ceiling, floor, forgotten, lost }]);
        pages.extend(divide(self.pending().map(held), page_bytes_max).into_iter().map(Page::Pending));
        pages.extend(divide(self.all_ended().map(left), page_bytes_max).into_iter().map(Page::Ended));
        Frozen { pages, application: self.application.freeze(below), page_bytes_max }
    }

    /// The same without what is the protocol's own, in pages of about so many bytes.
    pub(super) fn freeze_data(&self, below: Option<Place>, page_bytes_max: usize) -> Frozen<A::Canonical> {
        Frozen { pages: VecDeque::new(), application: self.application.freeze(below), page_bytes_max }
    }

    /// The same, where the application is linked with what the keyspace names, and retains what it says.
    pub(super) fn linked(mut self, config: &ReplicaConfig) -> Self {
        self.application.retain(config.retention);
        if let Some(name) = &config.application {
            self.application.link(name);
        }
        self
    }

    /// The state that these pages hold.
    pub(super) fn from_pages(shard: ShardId, pages: Vec<Page<A::Page>>, rules: Rules) -> Self {
        let (of_application, others): (Vec<_>, Vec<_>) =
            pages.into_iter().partition(|page| matches!(page, Page::Application(_)));
        let of_application = of_application.into_iter().filter_map(|page| match page {
            Page::Application(page) => Some(page),
            Page::Pending(_) | Page::Ended(_) | Page::Bounds { .. } => None,
        });
        let of_application: Vec<A::Page> = of_application.collect();
        let is_silent = of_application.is_empty();
        let mut state = State::new(shard, A::from_pages(of_application), rules);
        if is_silent {
            state.application.forget_history();
        }
        for page in others {
            match page {
                Page::Application(_) => {}
                Page::Pending(page) => page.into_iter().for_each(|pending| state.hold(pending)),
                Page::Ended(page) => page.into_iter().for_each(|(id, ended)| state.remember(id, ended)),
                Page::Bounds { ceiling, floor, forgotten, lost } => {
                    (state.ceiling, state.floor, state.forgotten) = (ceiling, floor, forgotten);
                    state.lost = lost.into_iter().collect();
                }
            }
        }
        state
    }
}

/// The state as it was at one position: pages that are handed out one by one.
#[derive(Debug)]
pub struct Frozen<A: Application> {
    pages: VecDeque<Page<A::Page>>,
    application: A::Frozen,
    page_bytes_max: usize,
}

impl<A: Application> Frozen<A> {
    /// The next page; none if all were given.
    pub(super) fn next_page(&mut self) -> Option<Page<A::Page>> {
        self.pages
            .pop_front()
            .or_else(|| A::next_page(&mut self.application, self.page_bytes_max).map(Page::Application))
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::verify::{Digester, Item};
    use quorate_core::{ClientId, Value};

    use super::*;
    use crate::application::{Prepared, Read};

    /// An application that counts what runs.
    #[derive(Debug, Default)]
    struct Count(u64);

    impl Application for Count {
        type Page = u64;
        type Frozen = Option<u64>;
        type Canonical = Self;

        fn run(&mut self, _: Place, _: &Value) -> Option<Answer> {
            self.0 += 1;
            Some(Answer::Done(Value::from(self.0.to_string())))
        }

        fn read(&self, _: Place, _: &Value) -> Read {
            Read { answer: Answer::Done(Value::from(self.0.to_string())), locked_by: None }
        }

        fn prepare(&mut self, _: TransactionId, _: &Value) -> Prepared {
            Prepared::Conflict
        }

        fn force_prepare(&mut self, _: TransactionId, _: &Value) -> bool {
            false
        }

        fn commit(&mut self, place: Place) -> Answer {
            panic!("{place} was not prepared")
        }

        fn abort(&mut self, _: TransactionId) {}

        fn settle(&mut self, _: Option<Place>) {}

        fn rewind(&mut self, _: Place) {}

        fn freeze(&self, _: Option<Place>) -> Option<u64> {
            Some(self.0)
        }

        fn next_page(frozen: &mut Option<u64>, _: usize) -> Option<u64> {
            frozen.take()
        }

        fn digest(page: &u64, digester: &mut Digester) {
            digester.add(Item { space: Item::DATA, key: &[], stamps: &[*page], value: None });
        }

        fn from_pages(pages: Vec<u64>) -> Self {
            Count(pages.into_iter().sum())
        }
    }

    fn voted(vote: Vote, proposed: u64) -> Entry {
        let at = ClockTime::from_micros;
        let voted = Voted {
            transaction: TransactionId { client: ClientId(1), sequence: 1, attempt: 0 },
            class: Class::Independent,
            participants: vec![ShardId(1)],
            operation: Some(Value::from_static(b"count")),
            vote,
            proposed: at(proposed),
            first: at(1),
        };
        Entry { ceiling: at(proposed), finals: Vec::new(), body: Body::Voted(Arc::new(voted)) }
    }

    fn outcomes(entries: &[Entry]) -> (u64, Vec<Outcome>) {
        let mut state = State::new(ShardId(1), Count::default(), Rules::SOUND);
        for entry in entries {
            state.apply(entry);
            state.execute(|_| None);
        }
        (state.application.0, state.all_ended().map(|(_, ended)| ended.outcome.clone()).collect())
    }

    #[test]
    fn the_first_of_two_votes_counts() {
        let answer = Answer::Done(Value::from_static(b"1"));
        let once = Outcome::Committed { timestamp: ClockTime::from_micros(5), answer };
        let (commit, conflict) = (voted(Vote::Commit, 5), voted(Vote::Conflict, 6));
        assert_eq!(outcomes(&[commit.clone(), voted(Vote::Commit, 7), conflict.clone()]), (1, vec![once]));
        assert_eq!(outcomes(&[conflict, commit]), (0, vec![Outcome::Conflict]));
    }
}
