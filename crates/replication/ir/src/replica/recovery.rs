//! Coming back without a record (T23).
//!
//! ```text
//!   which life is this?       → all others   f + 1 know of earlier lives: this is the next
//!   this is it; which view?   → all others   f + 1 have noted the life, durably, and tell their views
//!                                            go on to the view after the greatest, as any replica that is behind
//! ```
//!
//! *Why lives are counted.* The replica has forgotten what it has said. It may have tried views that nobody else has heard of, and
//! have handed over its record to the leader of one; that message may still be on its way. If the replica now took part in an
//! earlier view, operations could succeed that the message lacks, and the leader, taking it for the word of this replica, would
//! lose them ("Recovering Shared Objects Without Stable Storage", Michael et al., 2017, shows it for the published protocols).
//! So each replica has a number of its life, and a record that was handed over counts only if nobody among the f + 1 that a leader hears
//! knows of a later life of its sender. A replica that has lost its record is not among the other f, and f + 1 of the others have noted the
//! life before it takes part in anything: one of the f has. Either that one told of the leader's view, or of a later one, so that
//! the replica has taken part in nothing below; or it has noted the life before it handed over its own record, and says so.

use std::collections::BTreeMap;

use quorate_core::bound::{is_believable_life, reasons};
use quorate_core::{ReplicaIndex, View};

use super::{Fact, Host, Replica, Status};
use crate::message::Message;
use crate::{Mistake, Operations};

/// The question of a replica without its record to the others.
#[derive(Debug)]
pub(super) struct Query {
    nonce: u64,
    /// The life that the others are to note; zero until it is known which one this is.
    life: u64,
    answers: BTreeMap<ReplicaIndex, Answer>,
    /// The latest life of which each of the others has told, also before this question.
    told: BTreeMap<ReplicaIndex, u64>,
}

#[derive(Debug)]
struct Answer {
    view: View,
    lost: bool,
    life: u64,
}

impl Query {
    pub(super) fn new(nonce: u64, life: u64) -> Self {
        Query { nonce, life, answers: BTreeMap::new(), told: BTreeMap::new() }
    }

    /// The question about the next life, by a replica that remembers what it was told.
    fn after(query: &Query, nonce: u64, life: u64) -> Self {
        Query { told: query.told.clone(), ..Query::new(nonce, life) }
    }
}

impl<O: Operations> Replica<O> {
    /// Asks the others what a replica must know to come back without its record, or asks them again.
    pub(super) fn send_view_query<H: Host<O>>(&mut self, host: &mut H) {
        // A repeated query keeps its nonce and what it was told: on slow links the answers to the first arrive after it was
        // repeated. A replica that had lost its record then may have it back by now.
        assert!(self.status == Status::Recovering, "{:?} asks which life it is", self.status);
        let query = self.change.query.take();
        self.change.forget();
        let mut query = query.unwrap_or_else(|| Query::new(host.nonce(), 0));
        query.answers.retain(|_, answer| !answer.lost);
        let (nonce, life) = (query.nonce, query.life);
        self.change.query = Some(query);
        for other in self.others() {
            host.send_to_replica(other, Message::ViewQuery { nonce, life });
        }
        host.set_view_change_timer(self.attempt_timeout());
    }

    /// A replica without its record asks where this one is.
    pub fn on_view_query<H: Host<O>>(&mut self, from: ReplicaIndex, nonce: u64, life: u64, host: &mut H) {
        let lost = self.status == Status::Recovering;
        if !is_believable_life(self.life_of(from), life) {
            return host.ignored(reasons::LIFE);
        }
        if !lost {
            self.note_life(from, life, host);
        }
        let known = self.life_of(from);
        let forgets = self.makes(Mistake::ForgetsLives);
        assert!(
            lost || forgets || known >= life,
            "life {life} of {from:?} was to be noted, and {known} is the latest known"
        );
        host.send_to_replica(from, Message::ViewQueryReply { nonce, view: self.view, lost, life: known });
    }

    /// Another replica tells its view, and of which life of this one it knows.
    pub fn on_view_query_reply<H: Host<O>>(
        &mut self,
        from: ReplicaIndex,
        nonce: u64,
        view: View,
        lost: bool,
        life: u64,
        host: &mut H,
    ) {
        let is_member = from != self.me && self.group.contains(from);
        let forgets = self.makes(Mistake::ForgetsLives);
        let Some(query) = self.change.query.as_mut().filter(|query| query.nonce == nonce && is_member) else {
            return;
        };
        if !self.view.may_go_to(view, self.succession.present.since) {
            return host.ignored(reasons::VIEW);
        }
        if !is_believable_life(query.life, life) {
            return host.ignored(reasons::LIFE);
        }
        query.answers.insert(from, Answer { view, lost, life });
        query.told.insert(from, life);
        assert!(
            query.answers.len() < self.group.replicas(),
            "{} others have answered in a group of {}",
            query.answers.len(),
            self.group.replicas()
        );
        let lost = 1 + query.answers.values().filter(|answer| answer.lost).count();
        let asked = query.life;
        let counts = |answer: &&Answer| !answer.lost && (answer.life >= asked || forgets);
        let known: Vec<&Answer> = query.answers.values().filter(counts).collect();
        let told = known.iter().map(|answer| (answer.view, answer.life));
        let greatest = told.reduce(|one, other| (one.0.max(other.0), one.1.max(other.1)));
        let is_enough = known.len() >= self.group.majority();
        if lost > self.group.failures() {
            host.on_lost(lost);
        }
        let Some((view, life)) = greatest.filter(|_| is_enough) else { return };
        if asked == 0 || life > asked {
            // One that has noted a later life than this would not let this one count.
            let life = life.max(self.life_of(self.me)) + 1;
            assert!(life > asked, "life {life} follows {asked}");
            self.note_life(self.me, life, host);
            assert!(self.life_of(self.me) == life, "life {life} has begun, and is not noted");
            self.change.query =
                self.change.query.as_ref().map(|query| Query::after(query, host.nonce(), life));
            self.send_view_query(host);
            return;
        }
        self.change.query = None;
        let mut view = view.max(self.view).next().map(|view| view.max(View::first_of(self.since())));
        // Those before the members may be gone, and it would follow nobody who passes over them.
        let passes_over = |leader| leader == self.me || !self.group.contains(leader);
        while let Some(passed) = view.filter(|view| passes_over(self.leader_of(*view))) {
            view = passed.next();
        }
        self.enter_useful(view, host);
    }

    /// The life that follows those of which the other members know; none as long as some of them have not been heard, or if this replica has not lost
    /// its record.
    pub fn next_life(&self) -> Option<u64> {
        let own = self.life_of(self.me);
        let Some(query) = self.change.query.as_ref().filter(|_| self.status == Status::Recovering) else {
            // Those that have let it come back know of no later life than this one.
            return (self.status == Status::Recovering).then_some(own + 1);
        };
        let is_heard = |member: ReplicaIndex| member == self.me || query.told.contains_key(&member);
        let latest = query.told.values().copied().fold(own, u64::max);
        self.group.iter().all(is_heard).then_some(latest + 1)
    }

    /// The latest life of a replica that is known here.
    pub(super) fn life_of(&self, replica: ReplicaIndex) -> u64 {
        self.lives.get(&replica).copied().unwrap_or(0)
    }

    /// Notes, durably, that earlier lives of a replica are over, and drops what it has handed over in them.
    fn note_life<H: Host<O>>(&mut self, replica: ReplicaIndex, life: u64, host: &mut H) {
        let forgets = replica != self.me && self.makes(Mistake::ForgetsLives);
        if life > self.life_of(replica) && !forgets {
            self.lives.insert(replica, life);
            host.persist(Fact::LifeNoted { replica, life });
            self.change.forget_contribution(replica);
        }
    }

    /// True if another replica may know of such lives.
    pub(super) fn believes_lives(&self, lives: &BTreeMap<ReplicaIndex, u64>) -> bool {
        lives.iter().all(|(replica, life)| is_believable_life(self.life_of(*replica), *life))
    }

    /// Notes what another replica knows of the others.
    pub(super) fn note_lives<H: Host<O>>(&mut self, lives: &BTreeMap<ReplicaIndex, u64>, host: &mut H) {
        let me = self.me;
        for (replica, life) in lives.iter().filter(|(replica, _)| **replica != me) {
            self.note_life(*replica, *life, host);
        }
    }
}
