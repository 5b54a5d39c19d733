//! The proposer's side of one operation: counts replies and knows when they suffice.
//!
//! Pure bookkeeping. It sends nothing; the coordinator that owns a call asks for its progress after each reply and acts.

use quorate_core::{Members, ReplicaIndex, View};

use crate::{Mistake, Operations};

/// A consensus operation on its way to a verdict.
#[derive(Clone, Debug)]
pub struct ConsensusCall<O: Operations> {
    group: Members,
    /// By the place of a replica in the group, as all that is counted here.
    replies: Vec<Option<Reply<O::Verdict>>>,
    finalizing: Option<Finalizing<O::Verdict>>,
    mistake: Option<Mistake>,
}

#[derive(Clone, Debug)]
struct Reply<V> {
    view: View,
    verdict: V,
    finalized: bool,
}

#[derive(Clone, Debug)]
struct Finalizing<V> {
    verdict: V,
    view: View,
    confirmed: Vec<bool>,
}

/// How far a consensus operation has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsensusProgress<V> {
    /// Too few replies of one view.
    Waiting,
    /// f + 1 replicas of one view have replied, but no fast quorum alike. More replies may still make one.
    Quorum {
        /// The view.
        view: View,
    },
    /// A replica of the greatest view already holds a final verdict: it must be finalized, and no other.
    Follow {
        /// The verdict.
        verdict: V,
        /// The view.
        view: View,
    },
    /// FINALIZE is under way.
    Finalizing,
    /// The verdict is final: a fast quorum gave it, or a majority holds it as final.
    Final {
        /// The verdict.
        verdict: V,
        /// The view in which it became final.
        view: View,
        /// True if a fast quorum gave it, so that nobody needed to be asked twice.
        fast: bool,
    },
}

impl<O: Operations> ConsensusCall<O> {
    /// A call to a group that has not replied yet.
    pub fn new(group: impl Into<Members>) -> Self {
        let group = group.into();
        ConsensusCall { group, replies: vec![None; group.replicas()], finalizing: None, mistake: None }
    }

    /// The same call with a planted mistake. For tests and the simulator only.
    pub fn with_mistake(self, mistake: Option<Mistake>) -> Self {
        ConsensusCall { mistake, ..self }
    }

    /// Takes a reply. A reply of a lower view than an earlier one of the same replica is late and ignored.
    pub fn on_reply(&mut self, from: ReplicaIndex, view: View, verdict: O::Verdict, finalized: bool) {
        let Some(slot) = self.group.position(from).map(|place| &mut self.replies[place]) else { return };
        if slot.as_ref().is_some_and(|known| known.view > view) {
            return;
        }
        *slot = Some(Reply { view, verdict, finalized });
        if self.mistake == Some(Mistake::MixesViews) {
            let greatest = self.view().unwrap_or(view);
            self.replies.iter_mut().flatten().for_each(|reply| reply.view = greatest);
        }
        self.leave_stale_view();
    }

    /// Takes a CONFIRM. One of another view or with another verdict tells what the replica holds instead.
    pub fn on_confirm(
        &mut self,
        from: ReplicaIndex,
        view: View,
        verdict: Option<O::Verdict>,
        finalized: bool,
    ) {
        let Some(index) = self.group.position(from) else { return };
        if let Some(finalizing) = &mut self.finalizing
            && (finalizing.view == view || self.mistake == Some(Mistake::MixesViews))
            && verdict.as_ref() == Some(&finalizing.verdict)
        {
            finalizing.confirmed[index] = true;
        } else if let Some(verdict) = verdict {
            if finalized {
                self.stop_finalizing_against(index, view, &verdict);
            }
            self.on_reply(from, view, verdict, finalized);
        } else if self.replies[index].as_ref().is_none_or(|known| known.view <= view) {
            // The replica does not know the operation, so it must be proposed to it again.
            self.replies[index] = None;
        }
    }

    /// A replica refuses what is being finalized, because another verdict is final there already: that one must be
    /// followed. Said once by each replica, so that two of them which contradict each other do not go on for ever.
    fn stop_finalizing_against(&mut self, index: usize, view: View, verdict: &O::Verdict) {
        let is_news = !self.replies[index]
            .as_ref()
            .is_some_and(|known| known.finalized && known.view == view && known.verdict == *verdict);
        if is_news && self.finalizing.as_ref().is_some_and(|finalizing| finalizing.view == view) {
            self.finalizing = None;
        }
    }

    /// A greater view has started: what was being finalized in the old one is proposed again.
    fn leave_stale_view(&mut self) {
        let view = self.view();
        if self.finalizing.as_ref().is_some_and(|finalizing| Some(finalizing.view) < view) {
            self.finalizing = None;
        }
    }

    /// The greatest view that has replied.
    pub fn view(&self) -> Option<View> {
        self.replies.iter().flatten().map(|reply| reply.view).max()
    }

    /// The verdicts given in the greatest view: only those count together (T20).
    pub fn verdicts(&self) -> impl Iterator<Item = &O::Verdict> + '_ {
        let view = self.view();
        self.replies
            .iter()
            .flatten()
            .filter(move |reply| Some(reply.view) == view)
            .map(|reply| &reply.verdict)
    }

    /// The replicas that gave this verdict in the greatest view.
    pub fn supporters<'a>(&'a self, verdict: &'a O::Verdict) -> impl Iterator<Item = ReplicaIndex> + 'a {
        let view = self.view();
        let agrees = move |reply: &Reply<O::Verdict>| Some(reply.view) == view && reply.verdict == *verdict;
        let replies = self.replies.iter().enumerate();
        replies
            .filter(move |(_, reply)| reply.as_ref().is_some_and(agrees))
            .map(|(place, _)| self.group.at(place))
    }

    /// The replicas that have not replied in the greatest view: the proposal must reach them again.
    pub fn missing(&self) -> impl Iterator<Item = ReplicaIndex> + '_ {
        let view = self.view();
        self.replies
            .iter()
            .enumerate()
            .filter(move |(_, reply)| reply.as_ref().is_none_or(|reply| Some(reply.view) < view))
            .map(|(place, _)| self.group.at(place))
    }

    /// The replicas whose reply shows that they lag behind the greatest view (T22).
    pub fn lagging(&self) -> impl Iterator<Item = ReplicaIndex> + '_ {
        let view = self.view();
        self.replies
            .iter()
            .enumerate()
            .filter(move |(_, reply)| reply.as_ref().is_some_and(|reply| Some(reply.view) < view))
            .map(|(place, _)| self.group.at(place))
    }

    /// Notes that FINALIZE with this verdict has been sent to the replicas of `view`.
    pub fn start_finalizing(&mut self, verdict: O::Verdict, view: View) {
        let under_way = self.finalizing.as_ref();
        assert!(
            under_way.is_none_or(|known| known.view < view || known.verdict == verdict),
            "{verdict:?} is to be final in {view:?} beside {:?}",
            under_way.map(|known| (known.view, &known.verdict))
        );
        assert!(self.view() == Some(view), "FINALIZE in {view:?}, and {:?} has answered", self.view());
        self.finalizing = Some(Finalizing { verdict, view, confirmed: vec![false; self.group.replicas()] });
    }

    /// The FINALIZE that is under way, and the replicas that have not confirmed it.
    pub fn unconfirmed(&self) -> Option<(&O::Verdict, View, impl Iterator<Item = ReplicaIndex> + '_)> {
        let finalizing = self.finalizing.as_ref()?;
        let missing = finalizing.confirmed.iter().enumerate().filter(|(_, confirmed)| !**confirmed);
        Some((&finalizing.verdict, finalizing.view, missing.map(|(place, _)| self.group.at(place))))
    }

    /// How many replies alike are final by themselves.
    fn fast_quorum(&self) -> usize {
        match self.mistake {
            Some(Mistake::MajoritiesAreFast) => self.group.majority(),
            _ => self.group.fast_quorum(),
        }
    }

    /// How far the operation has come.
    pub fn progress(&self) -> ConsensusProgress<O::Verdict> {
        if let Some(finalizing) = &self.finalizing {
            let (verdict, view) = (finalizing.verdict.clone(), finalizing.view);
            let confirmed = finalizing.confirmed.iter().filter(|confirmed| **confirmed).count();
            // Once FINALIZE is out, a fast quorum counts only if it says the same.
            let fast = self.alike(view, &verdict).count() >= self.fast_quorum();
            return if confirmed >= self.group.majority() || fast {
                ConsensusProgress::Final { verdict, view, fast }
            } else {
                ConsensusProgress::Finalizing
            };
        }
        let Some(view) = self.view() else { return ConsensusProgress::Waiting };
        let mut count = 0;
        for reply in self.replies.iter().flatten().filter(|reply| reply.view == view) {
            count += 1;
            let fast = self.alike(view, &reply.verdict).count() >= self.fast_quorum();
            let settled = || self.alike(view, &reply.verdict).filter(|other| other.finalized).count();
            if fast || settled() >= self.group.majority() {
                return ConsensusProgress::Final { verdict: reply.verdict.clone(), view, fast };
            }
        }
        if let Some(settled) =
            self.replies.iter().flatten().find(|reply| reply.view == view && reply.finalized)
        {
            return ConsensusProgress::Follow { verdict: settled.verdict.clone(), view };
        }
        if count >= self.group.majority() {
            ConsensusProgress::Quorum { view }
        } else {
            ConsensusProgress::Waiting
        }
    }

    /// The replies of a view with this verdict.
    fn alike<'a>(
        &'a self,
        view: View,
        verdict: &'a O::Verdict,
    ) -> impl Iterator<Item = &'a Reply<O::Verdict>> + 'a {
        self.replies.iter().flatten().filter(move |reply| reply.view == view && reply.verdict == *verdict)
    }
}

/// An inconsistent operation on its way into f + 1 records.
#[derive(Clone, Debug)]
pub struct InconsistentCall {
    group: Members,
    /// By the place of a replica in the group.
    recorded: Vec<Option<View>>,
}

impl InconsistentCall {
    /// A call to a group that has not replied yet.
    pub fn new(group: impl Into<Members>) -> Self {
        let group = group.into();
        InconsistentCall { group, recorded: vec![None; group.replicas()] }
    }

    /// Takes a reply or a CONFIRM of a replica that holds the operation.
    pub fn on_reply(&mut self, from: ReplicaIndex, view: View) {
        if let Some(slot) = self.group.position(from).map(|place| &mut self.recorded[place]) {
            *slot = (*slot).max(Some(view));
        }
    }

    /// True once f + 1 replicas of one view hold the operation: it will not be lost.
    pub fn is_successful(&self) -> bool {
        let in_view =
            |view: &View| self.recorded.iter().flatten().filter(|recorded| *recorded == view).count();
        self.recorded.iter().flatten().any(|view| in_view(view) >= self.group.majority())
    }

    /// The replicas to ask again: those that have not answered and, as long as no majority of one view has, those that
    /// answered in a view that others have left.
    pub fn missing(&self) -> impl Iterator<Item = ReplicaIndex> + '_ {
        let greatest =
            if self.is_successful() { None } else { self.recorded.iter().flatten().max().copied() };
        self.recorded
            .iter()
            .enumerate()
            .filter(move |(_, recorded)| recorded.is_none() || **recorded < greatest)
            .map(|(place, _)| self.group.at(place))
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::GroupSize;

    use super::*;

    #[test]
    fn replicas_that_answered_in_a_view_that_others_left_are_asked_again() {
        let group = GroupSize::new(5).expect("five is odd");
        let mut call = InconsistentCall::new(group);
        for (index, view) in [(0, 14), (1, 0), (2, 18), (3, 14), (4, 11)] {
            call.on_reply(ReplicaIndex(index), View(view));
        }
        assert!(!call.is_successful());
        assert_eq!(call.missing().map(|index| index.0).collect::<Vec<_>>(), [0, 1, 3, 4]);
        call.on_reply(ReplicaIndex(0), View(18));
        call.on_reply(ReplicaIndex(1), View(18));
        assert!(call.is_successful());
        assert_eq!(call.missing().count(), 0, "the others have answered, and that is enough");
    }
}
