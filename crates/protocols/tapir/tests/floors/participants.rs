//! The part of the other participants in a search for a floor: a commit is forgotten once majorities of all of them know it.

use super::*;

/// A question to a replica of another shard: the replica, its number, and the commits.
type Asked = (u32, u8, u64, Vec<u64>);

fn asked(said: &[(Address, Message)]) -> Vec<Asked> {
    let asked = |(to, message): &(Address, Message)| match (to, message) {
        (Address::Replica(to), Message::AreDecided { nonce, transactions }) => {
            let commits = transactions.iter().map(|(_, id)| id.sequence).collect();
            Some((to.shard.0, to.index.0, *nonce, commits))
        }
        _ => None,
    };
    said.iter().filter_map(asked).collect()
}

/// The commits that a question to replica 0 of each shard names.
fn asked_of_first(said: &[(Address, Message)]) -> Vec<(u32, Vec<u64>)> {
    asked(said)
        .into_iter()
        .filter(|asked| asked.1 == 0)
        .map(|(shard, _, _, commits)| (shard, commits))
        .collect()
}

/// The floor that was chosen, if one was.
fn chosen(said: &[(Address, Message)]) -> Option<u64> {
    said.iter().find_map(|(_, message)| match message {
        Message::Complete { below, .. } => Some(below.micros),
        _ => None,
    })
}

/// The recoveries that are asked for.
fn recovered(said: &[(Address, Message)]) -> Vec<(Address, u64, Vec<u32>, u64)> {
    let recovered = |(to, message): &(Address, Message)| match message {
        Message::Recover { transaction, participants, timestamp } => {
            let participants = participants.iter().map(|shard| shard.0).collect();
            Some((*to, transaction.sequence, participants, timestamp.micros))
        }
        _ => None,
    };
    said.iter().filter_map(recovered).collect()
}

/// Replicas 1 and 2 of the group turn out to hold what the leader does; gives all that it says.
fn compares(leader: &mut Leader, executed: &[u64]) -> Vec<(Address, Message)> {
    let page_max = leader.config.checkpoint_page_max;
    let start = (Timestamp::ZERO, TransactionId::default());
    let (mut said, mut open) = (Vec::new(), vec![(1, start), (2, start)]);
    while let Some((index, from)) = open.pop() {
        let mut rest = executed.iter().copied().map(cursor).filter(|cursor| *cursor >= from);
        let page: Vec<_> = rest.by_ref().take(page_max).collect();
        let reply = Message::GatherReply {
            view: View(0),
            below: BELOW,
            from,
            executed: page,
            open: Vec::new(),
            next: rest.next(),
        };
        let next = leader.hears(member(1, index), reply);
        open.extend(next.iter().filter_map(|(to, message)| match (to, message) {
            (Address::Replica(to), Message::Gather { from, .. }) => Some((to.index.0, *from)),
            _ => None,
        }));
        said.extend(next);
    }
    said
}

/// A leader that holds these commits and asks about them; gives what it has said.
fn asking_about(page_max: usize, commits: &[(u64, &[u32])]) -> (Leader, Vec<(Address, Message)>) {
    let mut leader = Leader::with(3, |config| config.checkpoint_page_max = page_max);
    for (sequence, participants) in commits {
        leader.commits(*sequence, participants);
    }
    leader.looks();
    let executed: Vec<u64> = commits.iter().map(|(sequence, _)| *sequence).collect();
    let said = compares(&mut leader, &executed);
    (leader, said)
}

impl Leader {
    /// A replica of another shard answers, and misses these.
    fn hears_of(&mut self, shard: u32, index: u8, nonce: u64, missing: &[u64]) -> Vec<(Address, Message)> {
        let missing = missing.iter().copied().map(id).collect();
        self.hears(member(shard, index), Message::AreDecidedReply { nonce, view: View(0), missing })
    }

    fn sweeps(&mut self) -> Vec<(Address, Message)> {
        self.step(Input::Timer(ReplicaTimer::Sweep))
    }
}

#[test]
fn each_participant_is_asked_about_the_commits_that_it_took_part_in() {
    let commits: [(u64, &[u32]); 4] = [(3, &[1]), (4, &[1, 2]), (5, &[1, 3]), (6, &[1, 2, 3])];
    let (_, said) = asking_about(100, &commits);
    assert_eq!(asked_of_first(&said), [(2, vec![4, 6]), (3, vec![5, 6])]);
    assert_eq!(asked(&said).len(), 6, "every replica of both is asked");
    let (_, said) = asking_about(100, &commits[..1]);
    assert_eq!((asked(&said), chosen(&said)), (vec![], Some(BELOW.micros)), "nobody else took part");
}

#[test]
fn so_many_commits_are_asked_about_at_once_and_the_next_once_those_are_known() {
    let commits: [(u64, &[u32]); 6] =
        [(2, &[1, 2]), (3, &[1, 2]), (4, &[1]), (5, &[1]), (6, &[1]), (7, &[1, 2])];
    let (mut leader, said) = asking_about(2, &commits);
    assert_eq!(asked_of_first(&said), [(2, vec![2, 3])]);
    let nonce = nonce_of(&said).unwrap();
    assert!(asked(&leader.hears_of(2, 0, nonce, &[])).is_empty());
    // The page of those in which nobody else took part is passed over.
    let said = leader.hears_of(2, 1, nonce, &[]);
    assert_eq!(asked_of_first(&said), [(2, vec![7])]);
    let later = nonce_of(&said).unwrap();
    assert!(later > nonce && chosen(&said).is_none());
    assert!(chosen(&leader.hears_of(2, 0, nonce, &[])).is_none(), "an answer to the question before");
    assert!(chosen(&leader.hears_of(2, 0, later, &[])).is_none());
    assert_eq!(chosen(&leader.hears_of(2, 1, later, &[])), Some(BELOW.micros));
}

#[test]
fn only_participants_that_were_asked_confirm() {
    for (participant, other) in [(3, 2), (2, 3)] {
        let (mut leader, said) = asking_about(100, &[(5, &[1, participant])]);
        let nonce = nonce_of(&said).unwrap();
        for index in [0, 1, 2] {
            assert!(chosen(&leader.hears_of(other, index, nonce, &[])).is_none());
        }
        assert!(chosen(&leader.hears_of(participant, 0, nonce, &[])).is_none());
        assert_eq!(chosen(&leader.hears_of(participant, 1, nonce, &[])), Some(BELOW.micros));
    }
    let (mut leader, said) = asking_about(100, &[(5, &[1, 2, 3])]);
    let nonce = nonce_of(&said).unwrap();
    for index in [0, 1, 2] {
        assert!(chosen(&leader.hears_of(2, index, nonce, &[])).is_none(), "shard 3 does not know yet");
    }
    leader.hears_of(3, 1, nonce, &[]);
    assert_eq!(chosen(&leader.hears_of(3, 2, nonce, &[])), Some(BELOW.micros));
}

#[test]
fn a_commit_that_a_participant_does_not_know_is_recovered_by_one_replica_after_the_other() {
    let (mut leader, said) = asking_about(100, &[(5, &[1, 2, 3]), (6, &[1, 3])]);
    let nonce = nonce_of(&said).unwrap();
    assert!(recovered(&leader.sweeps()).is_empty(), "nobody has answered");
    leader.hears_of(3, 0, nonce, &[5, 6]);
    assert!(recovered(&leader.sweeps()).is_empty(), "one may lag behind");
    leader.hears_of(3, 1, nonce, &[5]);
    let mut asked = Vec::new();
    for _ in 0..3 {
        let told = recovered(&leader.sweeps());
        let known: Vec<_> = told
            .iter()
            .map(|(_, sequence, participants, first)| (*sequence, participants.clone(), *first))
            .collect();
        assert_eq!(known, [(5, vec![1, 2, 3], 5), (6, vec![1, 3], 6)]);
        asked.push(told[0].0);
        leader.now = leader.now + leader.config.recovery_timeout;
    }
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(asked.len(), 3, "each replica of its backup shard in turn: {asked:?}");
}

#[test]
fn so_many_commits_are_recovered_at_once() {
    let participants: &[u32] = &[1, 2];
    let commits: Vec<(u64, &[u32])> = (1..=80).map(|sequence| (sequence, participants)).collect();
    let (mut leader, said) = asking_about(100, &commits);
    let (nonce, all) = (nonce_of(&said).unwrap(), (1..=80).collect::<Vec<_>>());
    leader.hears_of(2, 0, nonce, &all);
    leader.hears_of(2, 1, nonce, &all[3..]);
    let told: Vec<u64> = recovered(&leader.sweeps()).iter().map(|told| told.1).collect();
    assert_eq!(told, (1..=64).collect::<Vec<_>>());
}

/// Transactions that it does not know will be recovered in their own time; the floor is raised to there meanwhile.
#[test]
fn a_participant_that_lacks_a_commit_is_waited_for_and_then_the_floor_ends_below_it() {
    let (mut leader, said) = asking_about(100, &[(5, &[1, 2]), (6, &[1, 2]), (7, &[1, 2])]);
    let (began, nonce) = (leader.now, nonce_of(&said).unwrap());
    leader.hears_of(2, 0, nonce, &[7, 6]);
    assert!(chosen(&leader.hears_of(2, 1, nonce, &[])).is_none());
    let patience = 8 * leader.config.recovery_timeout;
    leader.now = began + (patience - Duration::from_nanos(1));
    assert!(chosen(&leader.hears_of(2, 0, nonce, &[7, 6])).is_none());
    leader.now = began + patience;
    assert_eq!(chosen(&leader.hears_of(2, 0, nonce, &[7, 6])), Some(6));
}
