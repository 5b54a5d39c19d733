//! How a coordinator tells an outcome: until enough know it, ever more seldom, and not for ever.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::{Command, Routes};
use quorate_core::machine::{Effect, Input, InputOf, Machine, Outbox, OutboxOf};
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard};
use quorate_core::{
    ClientId, ClockTime, Context, Epoch, Instant, Key, KeyspaceId, NodeId, Random, ReplicaId, ReplicaIndex,
    ShardId, TransactionId, View,
};
use quorate_ir::{Message as Ir, OperationId};
use quorate_tapir::message::Vote;
use quorate_tapir::{Coordinator, CoordinatorConfig, CoordinatorTimer, Message};

const CLIENT: ClientId = ClientId(7);
const TRANSACTION: TransactionId = TransactionId { client: CLIENT, sequence: 1, attempt: 0 };

/// A coordinator, its time, and when it wants to be woken.
struct Client {
    coordinator: Coordinator,
    now: Instant,
    timers: BTreeMap<CoordinatorTimer, Instant>,
    /// When it has told the outcome, and how many replicas.
    told: Vec<(Instant, usize)>,
}

impl Client {
    /// It has written something and got every vote.
    fn committed() -> Self {
        let coordinator = Coordinator::restore(CoordinatorConfig::new(CLIENT), []);
        let now = Instant::START + Duration::from_secs(1);
        let mut client = Client { coordinator, now, timers: BTreeMap::new(), told: Vec::new() };
        let nodes = [0, 1, 2].map(NodeId).to_vec();
        let shards = vec![Shard::new(ShardId(1), nodes)];
        let keyspace = Keyspace::new(KeyspaceId(1), "k", Isolation::Strict, Durability::Sync, shards);
        let nearest = vec![[0, 1, 2].map(ReplicaIndex).to_vec()];
        let patience = Duration::from_secs(600);
        for command in [
            Command::Route(Arc::new(Routes::new(keyspace, nearest))),
            Command::Begin { transaction: TRANSACTION, keyspace: KeyspaceId(1), patience },
            Command::Put { transaction: TRANSACTION, key: Key::from("k"), value: Some("v".into()) },
            Command::Commit { transaction: TRANSACTION },
        ] {
            client.step(Input::Command(command));
        }
        for from in 0..3 {
            let id = OperationId { transaction: TRANSACTION, number: 1 };
            let (view, verdict) = (View(0), Vote::Ok);
            client.hears(from, Ir::ConsensusReply { id, view, verdict, finalized: false });
        }
        assert_eq!(client.told.len(), 1, "the outcome is known");
        client
    }

    fn step(&mut self, input: InputOf<Coordinator>) {
        let mut outbox: OutboxOf<Coordinator> = Outbox::new();
        let clock = ClockTime::from_micros(1_000_000 + self.now.as_nanos() / 1_000);
        let mut random = Random::new(1);
        let mut context = Context { now: self.now, clock, random: &mut random };
        self.coordinator.step(&mut context, input, &mut outbox);
        let mut told = 0;
        for effect in outbox.drain() {
            match effect {
                Effect::SetTimer { timer, after } => {
                    self.timers.insert(timer, self.now + after);
                }
                Effect::CancelTimer(timer) => {
                    self.timers.remove(&timer);
                }
                Effect::Send { message, .. } | Effect::SendUnordered { message, .. } => {
                    let tells = matches!(
                        message,
                        Message::Ir(Ir::ProposeInconsistent { .. }) | Message::CommitPrepared { .. }
                    );
                    told += usize::from(tells);
                }
                _ => {}
            }
        }
        if told > 0 {
            self.told.push((self.now, told));
        }
    }

    fn hears(&mut self, from: u8, message: Ir<quorate_tapir::Tapir>) {
        let from = ReplicaId { shard: ShardId(1), index: ReplicaIndex(from) }.into();
        self.step(Input::Message { from, epoch: Epoch::FIRST, message: Message::Ir(message) });
    }

    /// A replica has recorded the outcome.
    fn is_recorded(&mut self, from: u8) {
        let id = OperationId { transaction: TRANSACTION, number: OperationId::INCONSISTENT };
        self.hears(from, Ir::InconsistentReply { id, view: View(0) });
    }

    /// Lets time pass, timer by timer.
    fn passes(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some((timer, at)) =
            self.timers.iter().map(|(timer, at)| (*timer, *at)).min_by_key(|(_, at)| *at)
            && at <= end
        {
            self.timers.remove(&timer);
            self.now = at;
            self.step(Input::Timer(timer));
        }
        self.now = end;
    }

    /// How long it has waited each time before it told the outcome again.
    fn gaps(&self) -> Vec<Duration> {
        self.told.windows(2).map(|two| two[1].0 - two[0].0).collect()
    }
}

#[test]
fn an_outcome_is_told_ever_more_seldom_until_enough_know_it() {
    let config = CoordinatorConfig::new(CLIENT);
    let mut client = Client::committed();
    client.passes(config.resend_timeout * 60);
    let gaps = client.gaps();
    let factors: Vec<u32> = [1, 2, 4, 8, 8, 8, 8].to_vec();
    let expected: Vec<Duration> = factors.iter().map(|factor| config.resend_timeout * *factor).collect();
    assert_eq!(gaps[..expected.len()], expected);
    assert!(client.told.iter().all(|(_, replicas)| *replicas == 3), "nobody has answered: {:?}", client.told);
    // A replica that has answered is not told again.
    client.is_recorded(1);
    client.told.clear();
    client.passes(config.resend_timeout * 20);
    assert!(!client.told.is_empty() && client.told.iter().all(|(_, replicas)| *replicas == 2));
}

/// A replica that is down learns of it when it comes back.
#[test]
fn a_replica_that_does_not_answer_is_told_so_many_times_once_enough_know() {
    let config = CoordinatorConfig::new(CLIENT);
    let mut client = Client::committed();
    client.is_recorded(0);
    client.is_recorded(1);
    client.passes(config.resend_timeout * 200);
    let repeated = client.told.len() as u32 - 1;
    assert!(repeated <= config.decision_resends_max, "{repeated} times");
    // And everybody that has answered ends it at once.
    let mut client = Client::committed();
    for from in 0..3 {
        client.is_recorded(from);
    }
    client.passes(config.resend_timeout * 200);
    assert_eq!(client.told.len(), 1);
}
