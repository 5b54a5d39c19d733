//! The state of a replica as its host is told: what it holds, what waits, what has ended.

use quorate_core::command::Outcome as Told;
use quorate_core::hosted::{Boot, Held, Holdings, HostedOnLog, Seat};
use quorate_core::{Epoch, Groups, Key, Timestamp};
use quorate_granola::{Keyed, Place, ReplicaCommand};

use super::*;

impl Keyed for Registers {
    fn versions(&self) -> Vec<(Key, Place, Value)> {
        self.all().map(|(key, place, word)| (Key::from(key), place, Value::from(word))).collect()
    }

    fn version_count(&self) -> usize {
        self.all().count()
    }
}

impl Alone {
    fn takes_in(&mut self, client: u64, sequence: u64, of: &[u32], operation: &str) {
        let (transaction, participants) = (txn(client, sequence), shards(of));
        let (operation, high, first) = (Value::from(operation.to_owned()), at(0), at(900));
        let class = Class::Independent;
        let request = Request { transaction, participants, operation, class, high, first };
        self.hears(&format!("c{client}"), Message::Request(request));
    }

    fn hears_vote(&mut self, sequence: u64, vote: Vote) {
        let (transaction, participants, first) = (txn(1, sequence), shards(&[1, 2]), at(900));
        let (proposed, class, wants) = (at(700), Class::Independent, false);
        let message = Message::Vote { transaction, participants, first, vote, proposed, class, wants };
        self.hears("2/r0", message);
    }

    /// The endings are logged.
    fn logs_finals(&mut self) {
        let finals = Input::Timer(ReplicaTimer::Finals);
        self.step(|replica, context, log, outbox| replica.step(context, finals, log, outbox));
        self.logs();
    }
}

fn timestamp(micros: u64, client: u64) -> Timestamp {
    Timestamp { micros, client: ClientId(client) }
}

#[test]
fn what_is_accepted_is_held_until_it_has_ended() {
    let mut shard = Alone::leading(1, |_| {});
    assert!(HostedOnLog::is_idle(&shard.replica, true) && shard.replica.held().is_empty());
    shard.takes_in(1, 1, &[1, 2], "put a x");
    assert!(!HostedOnLog::is_idle(&shard.replica, true), "it waits, although nothing is logged");
    let load = |shard: &Alone, client: Option<u64>| shard.replica.load(client.map(ClientId));
    assert_eq!((shard.replica.prepared(), load(&shard, None)), (0, 1));
    shard.logs();
    let held = Held {
        id: txn(1, 1),
        participants: shards(&[1, 2]),
        timestamp: timestamp(1_001, 1),
        not_before: timestamp(900, 1),
    };
    assert_eq!(format!("{:?}", shard.replica.held()), format!("{:?}", [held]));
    assert_eq!((shard.replica.prepared(), Holdings::waiting(&shard.replica)), (1, 1));
    assert_eq!([None, Some(1), Some(2)].map(|client| load(&shard, client)), [1, 1, 0]);
    assert!(!shard.replica.settles());
    shard.attends(1_000);
    assert!(shard.replica.settles(), "it asks for a vote");
    shard.hears_vote(1, Vote::Commit);
    assert!(!shard.replica.settles());
    assert!(!HostedOnLog::is_idle(&shard.replica, true), "the log does not say yet how it has ended");
    shard.logs_finals();
    assert!(HostedOnLog::is_idle(&shard.replica, true) && shard.replica.held().is_empty());
    assert_eq!(load(&shard, None), 0);

    let mut backup = Alone::following(1, |_| {});
    assert_eq!((load(&backup, None), Holdings::waiting(&backup.replica)), (0, 0));
    backup.log.leads = Some(View(0));
    backup.leads();
    backup.takes_in(1, 1, &[1, 2], "put a x");
    backup.logs();
    backup.is_deposed();
    assert_eq!(
        (load(&backup, None), Holdings::waiting(&backup.replica)),
        (1, 0),
        "it holds, and nobody waits"
    );
    assert!(HostedOnLog::is_idle(&backup.replica, false), "it ends under the next leader");
    assert!(!HostedOnLog::is_idle(&backup.replica, true));
}

#[test]
fn what_has_ended_is_told_as_clients_are_told() {
    let mut shard = Alone::leading(1, |_| {});
    shard.takes_in(1, 1, &[1], "put key word");
    shard.takes_in(2, 2, &[1], "swap key other word");
    shard.takes_in(1, 3, &[1, 2], "put b x");
    shard.logs();
    shard.hears_vote(3, Vote::Conflict);
    shard.logs_finals();
    let outcomes = [
        (txn(1, 1), Told::Committed(timestamp(1_001, 1))),
        (txn(1, 3), Told::Aborted),
        (txn(2, 2), Told::Aborted),
    ];
    let mut known = shard.replica.outcomes();
    known.sort_by_key(|(id, _)| *id);
    assert_eq!(known, outcomes, "what the shard has refused is not committed, although it has a place");
    assert_eq!(shard.replica.outcome(txn(1, 1)), Some(Told::Committed(timestamp(1_001, 1))));
    assert_eq!((shard.replica.recorded(), shard.replica.record_len()), (3, 3));
    assert_eq!(HostedOnLog::decided(&shard.replica), (2, 1));
    let versions = vec![(Key::from("key"), timestamp(1_001, 1), Some(Value::from("word")))];
    assert_eq!(Holdings::versions(&shard.replica), versions);
    assert_eq!(Holdings::version_count(&shard.replica), 1);
    assert_eq!(shard.replica.state_bytes(), 128 + 7 + 3 * 256);
    assert_eq!(shard.replica.reached(), Some(shard.replica.ceiling()));
    assert!(shard.replica.reached() > Some(at(1_002)));
}

#[test]
fn what_may_be_forgotten_is_known_to_be_left_until_it_is() {
    let mut shard = Alone::leading(1, |_| {});
    let of = |shard: &Alone| (shard.replica.has_collected(at(901)), shard.replica.left());
    assert_eq!(of(&shard), (true, vec![]), "it remembers nothing");
    shard.takes_in(1, 1, &[1], "put a x");
    shard.logs();
    assert_eq!(of(&shard), (false, vec![]));
    assert_eq!(Holdings::floor(&shard.replica), timestamp(0, 0));
    shard.clock = 10_000_901;
    shard.attends(5_000);
    shard.logs();
    assert_eq!(shard.replica.left(), []);
    assert_eq!(Holdings::floor(&shard.replica), timestamp(901, 0));
    assert!(shard.replica.has_collected(at(901)) && !shard.replica.has_collected(at(902)));
    shard.attends(5_000);
    shard.logs();
    assert_eq!(shard.replica.recorded(), 0);
}

#[test]
fn a_host_seats_a_replica_and_tells_it_of_groups_and_losses() {
    let config = ReplicaConfig::new(
        ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) },
        GroupSize::new(3).unwrap(),
        Shards { first: ShardId(1), count: 4 },
    );
    let groups = Groups { epoch: Epoch(3), ..Groups::new(GroupSize::new(5).unwrap()) };
    let replica = ReplicaId { shard: ShardId(8), index: ReplicaIndex(4) };
    let shards = Shards { first: ShardId(7), count: 2 };
    let (known, joined) = (Some(shards), Vec::new());
    let seat =
        Seat { replica, groups: groups.clone(), shards: known, joined, boot: Boot::Initialise, attic: None };
    let seated = <Replica<Registers> as HostedOnLog>::seated(config.clone(), &seat);
    assert_eq!((seated.replica, seated.shards, seated.groups.epoch), (replica, shards, Epoch(3)));
    assert_eq!(seated.vote_timeout, config.vote_timeout);
    let told = <Replica<Registers> as HostedOnLog>::change_groups(&groups);
    assert_eq!(told, Some(ReplicaCommand::ChangeGroups(groups)));
    let told = <Replica<Registers> as HostedOnLog>::declare_lost(ShardId(2));
    assert_eq!(told, Some(ReplicaCommand::DeclareLost(ShardId(2))));
    let mut shard = Alone::leading(1, |_| {});
    let declared = told.unwrap();
    shard.step(|replica, context, log, outbox| {
        replica.step(context, Input::Command(declared), log, outbox);
    });
    assert_eq!(shard.replica.lost_shards(), []);
    shard.logs();
    assert_eq!(shard.replica.lost_shards(), [ShardId(2)]);
}
