//! The questions that the history leaves open: the order of versions that nobody read, and which updates a count saw.
//!
//! For any two chains of versions of a key, either the first one ends (its last writer and all readers of
//! that version) before the second one begins, or the other way round. A reader of a counting set saw an
//! update, or it did not. Each such question has two answers, and each answer is a list of edges. The search
//! first guesses: an order that follows the known dependencies, then the order in real time. If a guess fits the
//! [`Model`] of the level, that settles it. Otherwise it propagates: where one answer contradicts the model
//! the other one holds. Only then it decides and backtracks. A budget bounds it all, and running out of it is
//! said.

use crate::dependencies::{Chain, CountChoices, CountState, Edge, EdgeKind, OpenOrder};
use crate::history::KeyId;
use crate::mutants::{self, Mutant};

/// If the answers have more edges than this together, they are not searched.
pub(crate) const ANSWER_EDGES_MAX: usize = 100_000;
/// So many steps may be taken in one search.
const STEPS_MAX: u64 = 300_000_000;

/// The edges between transactions that a level adds to the known ones.
pub(crate) trait Model {
    /// Adds edges if the level can still hold with them; otherwise nothing changes.
    fn try_add(&mut self, edges: &[Edge]) -> bool;

    /// A point to return to.
    fn mark(&self) -> usize;

    /// Takes back what was added since.
    fn undo(&mut self, mark: usize);

    /// Where a chain is likely to stand among those of its key.
    fn place(&self, chain: &Chain) -> u32;

    /// The number of steps that were taken so far.
    fn steps(&self) -> u64;

    /// Whether edges could be added, without adding them.
    fn fits(&mut self, edges: &[Edge]) -> bool {
        let mark = self.mark();
        let fits = self.try_add(edges);
        if fits {
            self.undo(mark);
        }
        fits
    }
}

/// A question with two answers, each a list of edges. The more likely one comes first.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) key: KeyId,
    pub(crate) answers: [Vec<Edge>; 2],
}

/// The result of the search.
#[derive(Debug)]
pub(crate) enum Resolution {
    /// There are answers that fit.
    Settled,
    /// There are none.
    Contradiction(Contradiction),
    /// The search ended before it knew.
    GaveUp(String),
}

/// Why no answers fit.
#[derive(Debug)]
pub(crate) struct Contradiction {
    /// Edges that hold because their alternatives were ruled out before.
    pub(crate) forced: Vec<Edge>,
    pub(crate) cause: Cause,
}

/// The question or sum that cannot hold once all that is forced holds.
#[derive(Debug)]
pub(crate) enum Cause {
    /// Neither answer to this question fits.
    Choice(Choice),
    /// The sum at this position of the open counts cannot be reached.
    Sum(u32),
}

/// Edges that hold if `one` comes before `other`.
fn before(key: KeyId, one: &Chain, other: &Chain) -> Vec<Edge> {
    let Some(to) = other.first else { return Vec::new() };
    let edge = |from, kind| Edge { from, to: to.0, key, kind };
    let last = one.last.iter().map(|last| edge(last.0, EdgeKind::WriteOrder));
    let readers = one.readers.iter().filter(|&&reader| reader != to);
    last.chain(readers.map(|reader| edge(reader.0, EdgeKind::AntiDependency))).collect()
}

/// The edges of all open orders, if each is the one in real time.
pub(crate) fn edges_in_real_time(orders: &[OpenOrder]) -> Vec<Edge> {
    let mut edges = Vec::new();
    for order in orders {
        let mut chains: Vec<&Chain> = order.chains.iter().collect();
        chains.sort_by_key(|chain| chain.zone);
        edges.extend(chains.windows(2).flat_map(|pair| before(order.key, pair[0], pair[1])));
    }
    edges
}

/// Looks for answers to everything that is open with which the level holds.
pub(crate) fn resolve(model: &mut impl Model, orders: &[OpenOrder], counts: &CountChoices) -> Resolution {
    resolve_with(model, orders, counts, Vec::new())
}

/// As [`resolve`], with further questions.
pub(crate) fn resolve_with(
    model: &mut impl Model,
    orders: &[OpenOrder],
    counts: &CountChoices,
    further: Vec<Choice>,
) -> Resolution {
    let is_settled = mutants::is_planted(Mutant::SettlesEverything);
    if is_settled || further.is_empty() && guess(model, orders, counts) {
        return Resolution::Settled;
    }
    let edges = orders.iter().map(answer_edges).sum::<usize>() + further.len();
    if edges > ANSWER_EDGES_MAX {
        return Resolution::GaveUp(format!(
            "The order of {} blind writes is not known, and they are too many to search; record commit \
             timestamps, or use lists or read-modify-writes and end the run with reads of every key.",
            orders.iter().map(|order| order.chains.len()).sum::<usize>()
        ));
    }
    let mut choices = Vec::new();
    for OpenOrder { key, chains } in orders {
        for (at, one) in chains.iter().enumerate() {
            for other in &chains[at + 1..] {
                let mut answers = [before(*key, one, other), before(*key, other, one)];
                if one.zone > other.zone {
                    answers.swap(0, 1);
                }
                choices.push(Choice { key: *key, answers });
            }
        }
    }
    choices.extend(further);
    Search::new(model, choices, counts).run()
}

/// The number of edges in all answers about a key.
fn answer_edges(order: &OpenOrder) -> usize {
    let sources: usize = order.chains.iter().map(|chain| chain.readers.len() + 1).sum();
    sources * (order.chains.len() - 1)
}

/// Whether a likely order of each key fits, and a likely choice of updates. The answers that fit stay in the model, which is
/// otherwise left as it was.
pub(crate) fn guess(model: &mut impl Model, orders: &[OpenOrder], counts: &CountChoices) -> bool {
    guess_seen(model, orders, counts, || counts.guess())
}

/// As [`guess`], with a choice of updates of which nothing is known, either: what is wrong does not fit.
pub(crate) fn guess_seen(
    model: &mut impl Model,
    orders: &[OpenOrder],
    counts: &CountChoices,
    seen: impl Fn() -> Option<Vec<bool>>,
) -> bool {
    let mark = model.mark();
    let by_zone = |_: &_, chain: &Chain| chain.zone;
    let by_place = |model: &_, chain: &Chain| Model::place(model, chain);
    if guess_orders(model, orders, by_place) || guess_orders(model, orders, by_zone) {
        if counts.pairs.is_empty() {
            return true;
        }
        if let Some(seen) = seen() {
            let mut pairs = counts.pairs.iter().zip(seen);
            if pairs.all(|(pair, seen)| model.try_add(&[pair.edge(seen)])) {
                return true;
            }
        }
    }
    model.undo(mark);
    false
}

fn guess_orders<M: Model>(model: &mut M, orders: &[OpenOrder], place: impl Fn(&M, &Chain) -> u32) -> bool {
    let mark = model.mark();
    for order in orders {
        let mut chains: Vec<&Chain> = order.chains.iter().collect();
        chains.sort_by_key(|chain| place(model, chain));
        let is_placed = model.steps() <= STEPS_MAX
            && (add_in_order(model, order.key, &chains) || add_by_insertion(model, order.key, &chains));
        if !is_placed {
            model.undo(mark);
            return false;
        }
    }
    true
}

fn add_in_order(model: &mut impl Model, key: KeyId, chains: &[&Chain]) -> bool {
    let mark = model.mark();
    let fits = chains.windows(2).all(|pair| model.try_add(&before(key, pair[0], pair[1])));
    if !fits {
        model.undo(mark);
    }
    fits
}

/// Puts each chain as far back among those before it as it fits: few stand far from where they are likely to stand.
fn add_by_insertion(model: &mut impl Model, key: KeyId, chains: &[&Chain]) -> bool {
    let mark = model.mark();
    let mut placed: Vec<&Chain> = Vec::with_capacity(chains.len());
    for &chain in chains {
        let mut places = (0..=placed.len()).rev();
        let place = places.find(|&place| {
            let previous = place.checked_sub(1).map(|at| before(key, placed[at], chain));
            let next = placed.get(place).map(|next| before(key, chain, next));
            let edges: Vec<Edge> = previous.into_iter().chain(next).flatten().collect();
            model.steps() <= STEPS_MAX && model.try_add(&edges)
        });
        let Some(place) = place else {
            model.undo(mark);
            return false;
        };
        placed.insert(place, chain);
    }
    true
}

/// A choice that was made freely, with the state before.
struct Decision {
    question: usize,
    mark: usize,
    trail_len: usize,
    count_trail_len: usize,
}

/// The questions are the choices and then the pairs of counts; an answer is 0 or 1, of a pair *seen* or *not
/// seen*.
struct Search<'a, M> {
    model: &'a mut M,
    choices: Vec<Choice>,
    chosen: Vec<Option<usize>>,
    /// The choices that are made, in the order of making.
    trail: Vec<usize>,
    counts: &'a CountChoices,
    count_state: CountState<'a>,
    decisions: Vec<Decision>,
}

impl<'a, M: Model> Search<'a, M> {
    fn new(model: &'a mut M, choices: Vec<Choice>, counts: &'a CountChoices) -> Self {
        Search {
            model,
            chosen: vec![None; choices.len()],
            choices,
            trail: Vec::new(),
            counts,
            count_state: CountState::new(counts),
            decisions: Vec::new(),
        }
    }

    /// Invariant: the model holds with all that is chosen.
    fn run(mut self) -> Resolution {
        let mut conflict = self.start().err();
        loop {
            if conflict.is_none() {
                conflict = self.propagate().err();
            }
            if self.model.steps() > STEPS_MAX {
                return Resolution::GaveUp(
                    "The search for an order of writes that nobody read, or for the updates that counts saw, took too \
                     long; record commit timestamps, or end the run with reads of every key."
                        .to_string(),
                );
            }
            if let Some(cause) = conflict {
                let Some(decision) = self.decisions.pop() else {
                    return Resolution::Contradiction(Contradiction { forced: self.made(), cause });
                };
                self.undo(&decision);
                conflict = self.answer(decision.question, 1).err();
            } else if let Some(question) = self.first_open() {
                self.decisions.push(Decision {
                    question,
                    mark: self.model.mark(),
                    trail_len: self.trail.len(),
                    count_trail_len: self.count_state.trail().len(),
                });
                conflict = self.answer(question, 0).err();
            } else {
                return Resolution::Settled;
            }
        }
    }

    fn question_count(&self) -> usize {
        self.choices.len() + self.counts.pairs.len()
    }

    fn is_open(&self, question: usize) -> bool {
        match self.chosen.get(question) {
            Some(chosen) => chosen.is_none(),
            None => self.count_state.seen(question - self.choices.len()).is_none(),
        }
    }

    fn first_open(&self) -> Option<usize> {
        (0..self.question_count()).find(|&question| self.is_open(question))
    }

    /// The edges of an answer.
    fn edges(&self, question: usize, answer: usize) -> Vec<Edge> {
        match self.choices.get(question) {
            Some(choice) => choice.answers[answer].clone(),
            None => vec![self.counts.pairs[question - self.choices.len()].edge(answer == 0)],
        }
    }

    fn as_cause(&self, question: usize) -> Cause {
        let key = match self.choices.get(question) {
            Some(choice) => choice.key,
            None => self.counts.pairs[question - self.choices.len()].key,
        };
        Cause::Choice(Choice { key, answers: [self.edges(question, 0), self.edges(question, 1)] })
    }

    /// Chooses what the sums force before anything is chosen.
    fn start(&mut self) -> Result<(), Cause> {
        let settled = self.count_state.settle_all();
        self.follow_counts(0, settled)
    }

    /// Adds the edges of pairs that the sums forced since the count trail had this length.
    fn follow_counts(&mut self, from: usize, settled: Result<(), u32>) -> Result<(), Cause> {
        settled.map_err(Cause::Sum)?;
        for at in from..self.count_state.trail().len() {
            let pair = self.count_state.trail()[at] as usize;
            let seen = self.count_state.seen(pair).unwrap_or_default();
            if !self.model.try_add(&[self.counts.pairs[pair].edge(seen)]) {
                return Err(self.as_cause(self.choices.len() + pair));
            }
        }
        Ok(())
    }

    /// Gives an answer, and what the sums force with it.
    fn answer(&mut self, question: usize, answer: usize) -> Result<(), Cause> {
        if !self.model.try_add(&self.edges(question, answer)) {
            return Err(self.as_cause(question));
        }
        if question < self.choices.len() {
            self.chosen[question] = Some(answer);
            self.trail.push(question);
            return Ok(());
        }
        let pair = question - self.choices.len();
        self.count_state.choose(pair, answer == 0);
        let from = self.count_state.trail().len();
        let settled = self.count_state.settle(pair);
        self.follow_counts(from, settled)
    }

    /// Gives the answers that are forced, until no more are.
    fn propagate(&mut self) -> Result<(), Cause> {
        let mut changed = true;
        while changed && self.model.steps() <= STEPS_MAX {
            changed = false;
            for question in 0..self.question_count() {
                if !self.is_open(question) {
                    continue;
                }
                match [0, 1].map(|answer| self.model.fits(&self.edges(question, answer))) {
                    [true, true] => {}
                    [false, false] => return Err(self.as_cause(question)),
                    [first, _] => {
                        self.answer(question, usize::from(!first))?;
                        changed = true;
                    }
                }
            }
        }
        Ok(())
    }

    fn undo(&mut self, decision: &Decision) {
        self.model.undo(decision.mark);
        for question in self.trail.drain(decision.trail_len..) {
            self.chosen[question] = None;
        }
        self.count_state.undo(decision.count_trail_len);
    }

    /// The edges of all answers that are given.
    fn made(&self) -> Vec<Edge> {
        let made = self.trail.iter().filter_map(|&question| Some((question, self.chosen[question]?)));
        let mut edges: Vec<Edge> = made.flat_map(|(question, answer)| self.edges(question, answer)).collect();
        for &pair in self.count_state.trail() {
            let seen = self.count_state.seen(pair as usize).unwrap_or_default();
            edges.push(self.counts.pairs[pair as usize].edge(seen));
        }
        edges
    }
}
