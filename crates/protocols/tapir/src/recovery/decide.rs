//! The conclusions of a backup coordinator from what replicas know. Pure functions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_core::command::Outcome;
use quorate_core::{Ballot, Members, ReplicaIndex, ShardId, Timestamp, Transaction, View};

use crate::coordinator::decide_vote;
use crate::message::{RecordedVote, Vote};
use crate::rules::{Plant, Rules};

/// The answer of one replica when it promised.
#[derive(Clone, Debug)]
pub(super) struct ElectionReply {
    pub(super) view: View,
    pub(super) outcome: Option<Outcome>,
    pub(super) committed: Option<Arc<Transaction>>,
    pub(super) votes: Vec<RecordedVote>,
    pub(super) accepted: Option<(Ballot, Outcome)>,
    pub(super) settled: bool,
}

/// The answers of the replicas of one shard.
#[derive(Clone, Debug)]
pub(super) struct ShardReplies {
    group: Members,
    rules: Rules,
    /// Of each replica, by its place.
    replies: Vec<Option<ElectionReply>>,
}

/// The conclusion from the replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// Too few replies of one view in some shard.
    Wait,
    /// These are the shards that take part, as the client said that began the transaction: the machine that asked for the recovery
    /// did not know, or lied.
    Elsewhere(Vec<ShardId>),
    /// The votes of these shards leave the outcome open; more replies may tell, or a view change beyond the one named.
    Uncertain(Vec<(ShardId, View)>),
    /// A COMMIT or ABORT has been seen: it is a fact.
    Follow { outcome: Outcome, contents: BTreeMap<ShardId, Arc<Transaction>> },
    /// An earlier backup coordinator may have decided this.
    Adopt { outcome: Outcome, contents: BTreeMap<ShardId, Arc<Transaction>> },
    /// Every shard holds the transaction at this timestamp at f + 1 replicas; the prepare's number and view in each.
    Commit {
        timestamp: Timestamp,
        numbers: BTreeMap<ShardId, (u32, View)>,
        contents: BTreeMap<ShardId, Arc<Transaction>>,
    },
    /// At no timestamp can every shard have agreed.
    Abort,
    /// Every shard has collected what there was to know.
    Forgotten,
}

/// A prepare of the transaction: its timestamp, and the number of the operation, which is the same in every shard. A client
/// that lies may use one timestamp under two numbers; they are two prepares all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    timestamp: Timestamp,
    number: u32,
}

impl Candidate {
    fn of(vote: &RecordedVote) -> Self {
        Candidate { timestamp: vote.prepare.timestamp, number: vote.number }
    }
}

/// The support of one prepare by a shard's replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Support {
    /// f + 1 replicas hold the transaction there.
    Agreed,
    /// A majority does not, so no coordinator had or will get its agreement.
    Opposed,
    /// Neither, yet.
    Open,
}

impl ShardReplies {
    pub(super) fn new(group: impl Into<Members>, rules: Rules) -> Self {
        let group = group.into();
        ShardReplies { group, rules, replies: vec![None; group.replicas()] }
    }

    pub(super) fn add(&mut self, from: ReplicaIndex, reply: ElectionReply) {
        if let Some(place) = self.group.position(from) {
            self.replies[place] = Some(reply);
        }
    }

    /// True if one of the replicas has collected what there was to know of the transaction, or would have.
    pub(super) fn is_settled(&self) -> bool {
        self.replies.iter().flatten().any(|reply| reply.settled)
    }

    /// True if one of the replicas has collected what there was to know, and no other knows it.
    fn has_collected(&self) -> bool {
        self.is_settled() && !self.replies.iter().flatten().any(|reply| reply.outcome.is_some())
    }

    /// True if no reply tells anything of the transaction.
    pub(super) fn know_nothing(&self) -> bool {
        let tells = |reply: &ElectionReply| {
            reply.outcome.is_some() || reply.accepted.is_some() || !reply.votes.is_empty() || reply.settled
        };
        !self.replies.iter().flatten().any(tells)
    }

    fn view(&self) -> Option<View> {
        self.replies.iter().flatten().map(|reply| reply.view).max()
    }

    /// The replies of the greatest view: votes count only together.
    fn current(&self) -> impl Iterator<Item = &ElectionReply> + '_ {
        let view = self.view();
        self.replies.iter().flatten().filter(move |reply| Some(reply.view) == view)
    }

    fn votes(&self) -> impl Iterator<Item = &RecordedVote> + '_ {
        self.current().flat_map(|reply| &reply.votes)
    }

    fn contents(&self, timestamp: Timestamp) -> Option<Arc<Transaction>> {
        let committed = self.replies.iter().flatten().find_map(|reply| reply.committed.clone());
        let voted = || {
            let votes = self.replies.iter().flatten().flat_map(|reply| &reply.votes);
            votes
                .filter(|vote| vote.prepare.timestamp == timestamp)
                .map(|vote| vote.prepare.transaction.clone())
                .next()
        };
        committed.or_else(voted)
    }

    fn support(&self, candidate: Candidate) -> Support {
        let group = self.group.size();
        let at = |reply: &ElectionReply| -> Option<RecordedVote> {
            reply.votes.iter().find(|vote| Candidate::of(vote) == candidate).cloned()
        };
        if self.rules.has(Plant::RecoveryPicksVotes) {
            let votes: Vec<Vote> = self.current().filter_map(at).map(|recorded| recorded.vote).collect();
            let agrees = decide_vote(votes.iter(), group) == Vote::Ok;
            return if agrees { Support::Agreed } else { Support::Opposed };
        }
        let settled = self
            .current()
            .filter_map(at)
            .filter(|vote| vote.finalized.is_some())
            .max_by_key(|vote| vote.finalized);
        if settled.is_some_and(|vote| vote.vote != Vote::Ok) {
            return Support::Opposed;
        }
        let (mut agreed, mut opposed) = (0, 0);
        for reply in self.current() {
            match at(reply) {
                Some(vote) if vote.vote == Vote::Ok && vote.held => agreed += 1,
                // Its coordinator has given it up for a later prepare, so no view change brings the hold back.
                Some(_) if reply.votes.iter().any(|vote| vote.number > candidate.number) => opposed += 1,
                // Final, but the hold is elsewhere or a view change away: neither for nor against.
                Some(vote) if vote.vote == Vote::Ok && vote.finalized.is_some() => {}
                // No vote, a vote against, or a hold that a later prepare has displaced.
                _ => opposed += 1,
            }
        }
        assert!(
            agreed + opposed <= group.replicas(),
            "{agreed} are for {candidate:?} and {opposed} against, of {}",
            group.replicas()
        );
        if agreed >= group.majority() {
            Support::Agreed
        } else if opposed >= group.majority() {
            Support::Opposed
        } else {
            Support::Open
        }
    }
}

/// A transaction that is to be settled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case<'a> {
    pub(super) participants: &'a [ShardId],
    pub(super) backup: ShardId,
    /// True if a replica that holds the transaction named the participants: so the client that began it said itself.
    pub(super) trusted: bool,
    /// True if several elections have left the fate open. Of an honest client's transaction each shard would have told
    /// its contents by then, so a commit is followed: where it is known it is a fact, however it came about.
    pub(super) persists: bool,
}

/// Decides the fate of a transaction whose coordinator is silent.
///
/// A transaction that was reported committed has OK from a fast quorum, or OK made final at a majority, in every shard;
/// either shows in any majority of promises. One that was reported in conflict has a final vote against it at a majority
/// of one shard. Between these, what is decided here is what counts.
pub(super) fn decide_recovery(case: &Case<'_>, replies: &BTreeMap<ShardId, ShardReplies>) -> Finding {
    let Case { participants, backup, trusted, persists } = *case;
    let all = || replies.values().flat_map(|shard| shard.replies.iter().flatten());
    let said = participants_said(all());
    if let [elsewhere] = said[..]
        && elsewhere != participants
        && !trusted
    {
        return Finding::Elsewhere(elsewhere.to_vec());
    }
    // A shard that has no part in the transaction may have been made to abort it for itself. Whether it has, only votes
    // and commits at the shards that do can tell, and some show in every majority.
    let aborted = all().any(|reply| reply.outcome == Some(Outcome::Aborted));
    if aborted && trusted {
        return Finding::Follow { outcome: Outcome::Aborted, contents: BTreeMap::new() };
    }
    let is_complete = |known: &ShardReplies| known.current().count() >= known.group.majority();
    let complete = |shard: &ShardId| replies.get(shard).is_some_and(is_complete);
    if !participants.iter().all(complete) {
        return Finding::Wait;
    }
    if !trusted && said.is_empty() && participants.iter().any(|shard| replies[shard].has_collected()) {
        // The machine that asks may have named shards that have no part in it. The acts of one of those by itself, now or earlier, must
        // not be taken for the outcome of what another has committed and collected.
        return Finding::Forgotten;
    }
    if aborted {
        return Finding::Follow { outcome: Outcome::Aborted, contents: BTreeMap::new() };
    }
    let contents = |timestamp: Timestamp| -> Option<BTreeMap<ShardId, Arc<Transaction>>> {
        participants.iter().map(|shard| Some((*shard, replies[shard].contents(timestamp)?))).collect()
    };
    // A shard that has collected a commit needs not be told of it.
    let unsettled_contents = |timestamp: Timestamp| -> Option<BTreeMap<ShardId, Arc<Transaction>>> {
        let told = |shard: &&ShardId| {
            let known = &replies[shard];
            !known.is_settled() || known.contents(timestamp).is_some()
        };
        let content = |shard: &ShardId| Some((*shard, replies[shard].contents(timestamp)?));
        participants.iter().filter(told).map(content).collect()
    };
    // A shard that knows of no contents is told that it has an empty part: it would be asked for ever whether it knows the
    // outcome, and nobody could forget the transaction.
    let known_contents = |timestamp: Timestamp| -> BTreeMap<ShardId, Arc<Transaction>> {
        let empty =
            || Arc::new(Transaction { participants: participants.to_vec(), ..Transaction::default() });
        let known = |shard: &ShardId| match replies[shard].contents(timestamp) {
            Some(contents) => Some((*shard, contents)),
            None => (!replies[shard].is_settled()).then(|| (*shard, empty())),
        };
        participants.iter().filter_map(known).collect()
    };
    let uncertain = || {
        let views = participants.iter().filter_map(|shard| Some((*shard, replies[shard].view()?)));
        Finding::Uncertain(views.collect())
    };
    if let Some(outcome @ Outcome::Committed(timestamp)) = all().find_map(|reply| reply.outcome) {
        return match unsettled_contents(timestamp) {
            Some(contents) => Finding::Follow { outcome, contents },
            None if persists => Finding::Follow { outcome, contents: known_contents(timestamp) },
            None => uncertain(),
        };
    }
    if participants.iter().all(|shard| replies[shard].is_settled()) {
        return Finding::Forgotten;
    }
    let accepted = replies[&backup].replies.iter().flatten().filter_map(|reply| reply.accepted).max();
    match accepted {
        Some((_, Outcome::Aborted)) => {
            return Finding::Adopt { outcome: Outcome::Aborted, contents: BTreeMap::new() };
        }
        Some((_, outcome @ Outcome::Committed(timestamp))) => {
            return contents(timestamp)
                .map_or_else(uncertain, |contents| Finding::Adopt { outcome, contents });
        }
        None => {}
    }
    if said.iter().any(|said| *said != participants) {
        // The client contradicts itself, and breaks nothing but its own transaction; what it holds must become free.
        return Finding::Abort;
    }
    decide_by_votes(participants, replies, contents)
}

/// The lists of participants that prepares and commits carry: one, unless the client that began the transaction lies.
fn participants_said<'a>(replies: impl Iterator<Item = &'a ElectionReply>) -> Vec<&'a [ShardId]> {
    let mut said: Vec<&[ShardId]> = Vec::new();
    for reply in replies {
        let voted = reply.votes.iter().map(|vote| &vote.prepare.transaction);
        for transaction in voted.chain(&reply.committed) {
            if !said.contains(&transaction.participants.as_slice()) {
                said.push(&transaction.participants);
            }
        }
    }
    said
}

fn decide_by_votes(
    participants: &[ShardId],
    replies: &BTreeMap<ShardId, ShardReplies>,
    contents: impl Fn(Timestamp) -> Option<BTreeMap<ShardId, Arc<Transaction>>>,
) -> Finding {
    let candidates: BTreeSet<Candidate> = replies
        .values()
        .flat_map(ShardReplies::votes)
        .filter(|vote| vote.vote == Vote::Ok)
        .map(Candidate::of)
        .collect();
    let mut open = BTreeSet::new();
    for candidate in candidates {
        let Candidate { timestamp, number } = candidate;
        let support = |shard: &ShardId| replies[shard].support(candidate);
        let supports: Vec<(ShardId, Support)> =
            participants.iter().map(|shard| (*shard, support(shard))).collect();
        if supports.iter().any(|(_, support)| *support == Support::Opposed) {
            continue;
        }
        if supports.iter().all(|(_, support)| *support == Support::Agreed) {
            let numbers = participants.iter().map(|shard| Some((*shard, (number, replies[shard].view()?))));
            let numbers = numbers.collect::<Option<_>>();
            if let (Some(numbers), Some(contents)) = (numbers, contents(timestamp)) {
                return Finding::Commit { timestamp, numbers, contents };
            }
        }
        open.extend(
            supports.iter().filter(|(_, support)| *support == Support::Open).map(|(shard, _)| *shard),
        );
    }
    if open.is_empty() {
        return Finding::Abort;
    }
    Finding::Uncertain(open.into_iter().filter_map(|shard| Some((shard, replies[&shard].view()?))).collect())
}

#[cfg(test)]
mod tests {
    use quorate_core::{ClientId, GroupSize};

    use super::*;
    use crate::message::Prepare;

    const PARTICIPANTS: [ShardId; 2] = [ShardId(0), ShardId(1)];

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    /// One letter a replica: `.` silent, `-` no vote, `O` OK and held, `o` OK but displaced, `F` final OK and held, `f`
    /// final OK without a hold, `g` the same and a further prepare in its place, `A` ABORT, `H` the same although it is held, `X` final ABORT, `G` and `Y`
    /// final OK and ABORT of a backup coordinator, `n` the further prepare alone, `C` committed, `R` aborted, `s` settled; all at timestamp 10.
    fn shard(text: &str, participants: &[ShardId]) -> ShardReplies {
        let contents =
            Arc::new(Transaction { participants: participants.to_vec(), ..Transaction::default() });
        let mut shard = ShardReplies::new(GroupSize::new(text.len()).unwrap(), Rules::EXCLUSIVE);
        for (index, letter) in text.chars().enumerate() {
            let vote = |vote, finalized: bool, held| RecordedVote {
                number: 1,
                prepare: Prepare { transaction: contents.clone(), timestamp: at(10), first: None },
                vote,
                finalized: finalized.then_some(Ballot::ORIGINAL),
                held,
            };
            let (outcome, votes) = match letter {
                '.' => continue,
                '-' | 's' => (None, vec![]),
                'O' => (None, vec![vote(Vote::Ok, false, true)]),
                'o' => (None, vec![vote(Vote::Ok, false, false)]),
                'F' => (None, vec![vote(Vote::Ok, true, true)]),
                'f' => (None, vec![vote(Vote::Ok, true, false)]),
                'A' => (None, vec![vote(Vote::Abort, false, false)]),
                'H' => (None, vec![vote(Vote::Abort, false, true)]),
                'g' => (None, vec![vote(Vote::Ok, true, false), further(vote(Vote::Ok, false, true))]),
                'X' => (None, vec![vote(Vote::Abort, true, false)]),
                'G' => (None, vec![later(vote(Vote::Ok, true, true))]),
                'Y' => (None, vec![later(vote(Vote::Abort, true, false))]),
                'n' => (None, vec![further(vote(Vote::Ok, false, true))]),
                'C' => (Some(Outcome::Committed(at(10))), vec![]),
                'R' => (Some(Outcome::Aborted), vec![]),
                _ => panic!("no such reply: {letter}"),
            };
            let committed = (letter == 'C').then(|| contents.clone());
            let settled = letter == 's';
            let reply = ElectionReply { view: View(3), outcome, committed, votes, accepted: None, settled };
            shard.add(ReplicaIndex(index as u8), reply);
        }
        shard
    }

    /// The same vote, made final by a backup coordinator.
    fn later(vote: RecordedVote) -> RecordedVote {
        RecordedVote { finalized: Some(Ballot(3)), ..vote }
    }

    /// The same vote on the next prepare of the transaction.
    fn further(vote: RecordedVote) -> RecordedVote {
        let prepare = Prepare { timestamp: at(20), first: Some(at(10)), ..vote.prepare };
        RecordedVote { number: 2, prepare, ..vote }
    }

    fn finding(shards: &[&str]) -> &'static str {
        let participants: Vec<ShardId> = (0..shards.len() as u32).map(ShardId).collect();
        let replies: BTreeMap<ShardId, ShardReplies> = shards
            .iter()
            .enumerate()
            .map(|(index, text)| (ShardId(index as u32), shard(text, &participants)))
            .collect();
        let case = Case { participants: &participants, backup: ShardId(0), trusted: true, persists: false };
        match decide_recovery(&case, &replies) {
            Finding::Wait => "wait",
            Finding::Elsewhere(_) => "elsewhere",
            Finding::Uncertain(_) => "uncertain",
            Finding::Follow { outcome: Outcome::Aborted, .. } => "follow abort",
            Finding::Follow { .. } => "follow commit",
            Finding::Adopt { .. } => "adopt",
            Finding::Commit { .. } => "commit",
            Finding::Abort => "abort",
            Finding::Forgotten => "forgotten",
        }
    }

    #[test]
    fn findings_as_a_table() {
        let table: &[(&[&str], &str)] = &[
            (&["O.."], "wait"),
            (&["OO."], "commit"),
            (&["ss.", "ss."], "forgotten"),
            (&["sO.", "-s."], "forgotten"),
            (&["ss.", "OO."], "abort"),
            (&["ss.", "CO."], "follow commit"),
            (&["ss.", "s.."], "wait"),
            (&["OOA"], "commit"),
            (&["OA."], "uncertain"),
            (&["O-."], "uncertain"),
            (&["O--"], "abort"),
            (&["--."], "abort"),
            (&["OOX"], "abort"),
            (&["OX."], "abort"),
            (&["Ff."], "uncertain"),
            (&["oO."], "uncertain"),
            (&["FF."], "commit"),
            (&["FF.", "fF."], "uncertain"),
            (&["FF.", "gg."], "abort"),
            (&["gg.", "gg."], "commit"),
            (&["FF.", "gf."], "uncertain"),
            (&["OO.", "OO."], "commit"),
            (&["OO.", "--."], "abort"),
            (&["OO.", "O-."], "uncertain"),
            (&["OO.", "O.."], "wait"),
            (&["CO.", "OO."], "follow commit"),
            (&["C..", "--."], "wait"),
            (&["R..", "..."], "follow abort"),
            (&["OOO.."], "commit"),
            (&["OO-.."], "uncertain"),
            (&["OO---"], "abort"),
            // A hold that a later prepare has displaced speaks against the earlier one, and none for another.
            (&["Ooo"], "abort"),
            (&["On."], "uncertain"),
            // The vote that was made final last counts.
            (&["FFY"], "abort"),
            (&["GGX"], "commit"),
            (&["GXX"], "abort"),
            (&["HHO"], "abort"),
            (&["OHH", "OO."], "abort"),
            (&["GAA"], "abort"),
            (&["Gff"], "uncertain"),
            // One shard that is against it is enough, whatever another may still say.
            (&["AA.", "OA."], "abort"),
        ];
        for (shards, expected) in table {
            assert_eq!(finding(shards), *expected, "{shards:?}");
        }
    }

    #[test]
    fn contents_are_those_of_the_prepare_at_the_timestamp() {
        let mut replies = shard("nO.", &PARTICIPANTS);
        let further = replies.replies[0].as_mut().unwrap();
        Arc::make_mut(&mut further.votes[0].prepare.transaction).participants.pop();
        let participants = |micros| replies.contents(at(micros)).map(|contents| contents.participants.len());
        assert_eq!([5, 10, 20, 30].map(participants), [None, Some(2), Some(1), None]);
    }

    /// Some of its replicas have collected the commit, and others hold the prepare still.
    #[test]
    fn a_shard_is_told_of_a_commit_unless_it_has_collected_it() {
        for (first, told) in [("sO.", vec![0, 1]), ("ss.", vec![1]), ("OO.", vec![0, 1])] {
            let replies: BTreeMap<ShardId, ShardReplies> = [first, "C-."]
                .iter()
                .zip(PARTICIPANTS)
                .map(|(text, id)| (id, shard(text, &PARTICIPANTS)))
                .collect();
            let case =
                Case { participants: &PARTICIPANTS, backup: ShardId(0), trusted: true, persists: false };
            let Finding::Follow { contents, .. } = decide_recovery(&case, &replies) else {
                panic!("{first}")
            };
            assert_eq!(contents.keys().map(|shard| shard.0).collect::<Vec<_>>(), told, "{first}");
        }
    }

    fn case<'a>(participants: &'a [ShardId], trusted: bool, persists: bool) -> Case<'a> {
        Case { participants, backup: ShardId(0), trusted, persists }
    }

    #[test]
    fn whoever_asks_with_other_participants_is_put_right() {
        let (one, both) = ([ShardId(0)], PARTICIPANTS);
        let replies = BTreeMap::from([(ShardId(0), shard("OOO", &both))]);
        let elsewhere = Finding::Elsewhere(both.to_vec());
        assert_eq!(decide_recovery(&case(&one, false, false), &replies), elsewhere);
        let replies = BTreeMap::from([(ShardId(0), shard("OOO", &one)), (ShardId(1), shard("---", &one))]);
        let elsewhere = Finding::Elsewhere(one.to_vec());
        assert_eq!(
            decide_recovery(&case(&both, false, false), &replies),
            elsewhere,
            "not aborted for the other"
        );
    }

    #[test]
    fn an_abort_counts_only_where_the_transaction_takes_part() {
        let replies = |other: &str| {
            BTreeMap::from([
                (ShardId(0), shard(other, &PARTICIPANTS[1..])),
                (ShardId(1), shard("OOO", &PARTICIPANTS[1..])),
            ])
        };
        let elsewhere = Finding::Elsewhere(PARTICIPANTS[1..].to_vec());
        assert_eq!(decide_recovery(&case(&PARTICIPANTS, false, false), &replies("RRR")), elsewhere);
        let alone = BTreeMap::from([(ShardId(0), shard("RRR", &PARTICIPANTS))]);
        assert_eq!(decide_recovery(&case(&PARTICIPANTS, false, false), &alone), Finding::Wait);
        let followed = decide_recovery(&case(&PARTICIPANTS, true, false), &alone);
        assert!(matches!(followed, Finding::Follow { .. }), "{followed:?}");
    }

    #[test]
    fn what_was_collected_is_not_aborted_through_a_shard_without_part() {
        let replies = |one, other| {
            BTreeMap::from([
                (ShardId(0), shard(one, &PARTICIPANTS)),
                (ShardId(1), shard(other, &PARTICIPANTS)),
            ])
        };
        let forgotten = |one, other, trusted| {
            decide_recovery(&case(&PARTICIPANTS, trusted, false), &replies(one, other)) == Finding::Forgotten
        };
        assert!(forgotten("RRR", "ss-", false) && forgotten("---", "ss-", false));
        assert!(!forgotten("RRR", "ss-", true), "a participant has asked: it aborted");
        assert!(!forgotten("RRR", "sR-", false) && !forgotten("OOO", "ss-", false));
    }

    #[test]
    fn a_client_that_contradicts_itself_is_aborted() {
        let (one, both) = ([ShardId(0)], PARTICIPANTS);
        let replies = BTreeMap::from([(ShardId(0), shard("OOO", &both)), (ShardId(1), shard("OOO", &one))]);
        assert_eq!(decide_recovery(&case(&both, true, false), &replies), Finding::Abort);
    }

    #[test]
    fn a_commit_of_which_a_shard_knows_nothing_is_followed_where_it_is_known() {
        let both = PARTICIPANTS;
        let replies = BTreeMap::from([(ShardId(0), shard("C--", &both)), (ShardId(1), shard("---", &both))]);
        let uncertain = decide_recovery(&case(&both, true, false), &replies);
        assert!(matches!(uncertain, Finding::Uncertain(_)), "{uncertain:?}");
        let Finding::Follow { contents, .. } = decide_recovery(&case(&both, true, true), &replies) else {
            panic!("it would be held for ever");
        };
        let empty = Transaction { participants: both.to_vec(), ..Transaction::default() };
        assert_eq!(contents[&ShardId(1)], Arc::new(empty), "or it would be asked for it for ever");
        let mut replies = replies;
        let forgotten = replies.get_mut(&ShardId(1)).unwrap().replies.iter_mut().flatten();
        forgotten.for_each(|reply| reply.settled = true);
        let Finding::Follow { contents, .. } = decide_recovery(&case(&both, true, true), &replies) else {
            panic!("it would be held for ever");
        };
        assert_eq!(contents.keys().collect::<Vec<_>>(), [&ShardId(0)], "it has collected its part");
        // Beside another of which nothing is known.
        let three = [0, 1, 2].map(ShardId);
        let texts = ["C--", "ss-", "---"].map(|text| shard(text, &three));
        let replies = three.into_iter().zip(texts).collect();
        let Finding::Follow { contents, .. } = decide_recovery(&case(&three, true, true), &replies) else {
            panic!("it would be held for ever");
        };
        assert_eq!(contents.keys().collect::<Vec<_>>(), [&ShardId(0), &ShardId(2)]);
    }

    #[test]
    fn an_accepted_outcome_binds_whatever_the_votes_say() {
        let mut replies = BTreeMap::from([(ShardId(0), shard("OO.", &PARTICIPANTS[..1]))]);
        let slot = replies.get_mut(&ShardId(0)).unwrap();
        slot.replies[0].as_mut().unwrap().accepted = Some((Ballot(2), Outcome::Committed(at(10))));
        slot.replies[1].as_mut().unwrap().accepted = Some((Ballot(4), Outcome::Aborted));
        let finding = decide_recovery(&case(&PARTICIPANTS[..1], true, false), &replies);
        assert_eq!(finding, Finding::Adopt { outcome: Outcome::Aborted, contents: BTreeMap::new() });
    }

    #[test]
    fn votes_of_two_views_do_not_count_together() {
        let mut replies = BTreeMap::from([(ShardId(0), shard("OO.", &PARTICIPANTS[..1]))]);
        replies.get_mut(&ShardId(0)).unwrap().replies[1].as_mut().unwrap().view = View(4);
        assert_eq!(decide_recovery(&case(&PARTICIPANTS[..1], true, false), &replies), Finding::Wait);
    }

    #[test]
    fn shards_that_agree_on_different_timestamps_abort() {
        let mut later = shard("OO.", &PARTICIPANTS);
        for reply in later.replies.iter_mut().flatten() {
            reply.votes[0].prepare.timestamp = at(20);
        }
        let replies = BTreeMap::from([(ShardId(0), shard("OO.", &PARTICIPANTS)), (ShardId(1), later)]);
        assert_eq!(decide_recovery(&case(&PARTICIPANTS, true, false), &replies), Finding::Abort);
    }
}
