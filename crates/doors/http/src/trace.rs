//! One transaction with its messages: as a sequence that programs read, and by request.

use std::collections::BTreeMap;

use hyper::StatusCode;
use quorate::topology::{Keyspace as Definition, Topology};
use quorate::{Applied, Direction, Moment, Moments, ReplicaId};
use quorate_gateway::{Right, Session};
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::answer::Answer;
use crate::batch::{AppliedBody, BatchBody, unmet};
use crate::keyspaces::in_time;
use crate::problem::{Committed, Kind, Problem};
use crate::request::Request;

/// Each trace has a connection to the cluster of its own, so that nobody else's messages are in it: one at a time.
static TRACES: Semaphore = Semaphore::const_new(1);

/// The messages between the coordinator of a transaction and the replicas of its keyspace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sequence {
    /// The keyspace.
    pub keyspace: String,
    /// Its isolation.
    pub isolation: String,
    /// Where the coordinator stands: the name of its site, or empty.
    pub coordinator: String,
    /// How the transaction has ended, in words.
    pub outcome: String,
    /// How long it took, in seconds; some messages may come later.
    pub took_seconds: f64,
    /// The replicas that have said or heard something, ascending.
    pub participants: Vec<Participant>,
    /// The messages, in the order in which the coordinator has sent and received them.
    pub events: Vec<SequenceEvent>,
}

/// A replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Participant {
    /// Its name.
    pub replica: String,
    /// Its node.
    pub node: u16,
    /// The site of its node.
    pub site: String,
}

/// A message, or a statement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SequenceEvent {
    /// When, in seconds since the trace began, by the clock of the coordinator.
    pub at_seconds: f64,
    /// `sent`, `received`, or `noted` for a statement.
    pub kind: &'static str,
    /// The replica at the other end, by its place among the participants; none of a statement.
    pub participant: Option<usize>,
    /// The name of the message, or the statement.
    pub name: String,
    /// A vote, a key; often empty.
    pub detail: String,
}

impl Sequence {
    /// The part of a trace that is about a keyspace: messages of others, of the catalogue for instance, are left out.
    pub fn new(
        definition: &Definition,
        topology: &Topology,
        coordinator: Option<&str>,
        moments: &Moments,
        outcome: String,
        took_seconds: f64,
    ) -> Self {
        let is_of_it = |replica: &ReplicaId| definition.groups().any(|group| group.id == replica.shard);
        let mut nodes = BTreeMap::new();
        for (_, moment) in moments {
            if let Moment::Message(message) = moment
                && is_of_it(&message.replica)
            {
                nodes.insert(message.replica, message.node);
            }
        }
        let place = |replica: &ReplicaId| nodes.keys().position(|known| known == replica);
        let event = |(at, moment): &(std::time::Duration, Moment)| {
            let at_seconds = at.as_secs_f64();
            Some(match moment {
                Moment::Noted(text) => SequenceEvent {
                    at_seconds,
                    kind: "noted",
                    participant: None,
                    name: text.clone(),
                    detail: String::new(),
                },
                Moment::Message(message) => SequenceEvent {
                    at_seconds,
                    kind: match message.direction {
                        Direction::Sent => "sent",
                        Direction::Received => "received",
                    },
                    participant: Some(place(&message.replica)?),
                    name: message.name.clone(),
                    detail: message.detail.clone(),
                },
            })
        };
        let participant = |(replica, node): (&ReplicaId, &Option<quorate::NodeId>)| {
            let known = node.and_then(|node| topology.nodes.get(usize::from(node.0)));
            let site = known.and_then(|node| topology.sites.get(usize::from(node.site.0)));
            Participant {
                replica: replica.to_string(),
                node: node.map_or(0, |node| node.0),
                site: site.cloned().unwrap_or_default(),
            }
        };
        Sequence {
            keyspace: definition.name.clone(),
            isolation: definition.isolation.to_string(),
            coordinator: coordinator.unwrap_or_default().to_owned(),
            outcome,
            took_seconds,
            participants: nodes.iter().map(participant).collect(),
            events: moments.iter().filter_map(event).collect(),
        }
    }
}

/// A batch that was carried out, with its messages.
#[derive(Debug, Serialize)]
struct TracedBody {
    #[serde(flatten)]
    applied: AppliedBody,
    trace: Sequence,
}

/// Carries out a batch, and tells the messages of its coordinator.
pub(crate) async fn apply(session: &Session, request: &Request) -> Result<Answer, Problem> {
    let body: BatchBody = request.json()?;
    let name = request.name(0)?;
    body.require(session, name)?;
    session.require(Right::Observe)?;
    let batch = body.batch()?;
    let Ok(_alone) = TRACES.try_acquire() else {
        let detail = "another transaction is being traced at this door, and nothing was started";
        return Err(Problem::new(Kind::Overloaded, detail).retry_after(std::time::Duration::from_secs(1)));
    };
    let db = in_time(request, session.connect(), Committed::No).await?;
    let keyspace = in_time(request, db.keyspace(name), Committed::No).await?;
    let Some(trace) = db.trace() else {
        return Err(Problem::new(Kind::Internal, "a new connection is traced already"));
    };
    let begun = tokio::time::Instant::now();
    let applied = keyspace.clone().with_deadline(request.patience()).apply(batch).await;
    let took_seconds = begun.elapsed().as_secs_f64();
    let moments = trace.finish().await;
    let (definition, topology) = (keyspace.definition(), db.topology());
    db.close().await;
    match applied? {
        Applied::Done { answers, receipt } => {
            let outcome = format!("committed at {}", receipt.timestamp);
            let trace =
                Sequence::new(&definition, &topology, session.site(), &moments, outcome, took_seconds);
            let body = TracedBody { applied: AppliedBody::new(&answers, &receipt), trace };
            Ok(Answer::json(StatusCode::OK, &body).receipt(&receipt))
        }
        Applied::Unmet { condition, found } => Err(unmet(condition, found)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quorate::topology::{Node, Shard};
    use quorate::{Durability, Isolation, NodeId, ReplicaIndex, ShardId, TracedMessage};
    use quorate_core::{KeyspaceId, SiteId};

    use super::*;

    #[test]
    fn a_sequence_holds_the_messages_of_one_keyspace() {
        let node = |number| Node { id: NodeId(number), site: SiteId(number), address: String::new() };
        let topology =
            Topology { sites: vec!["us".to_owned(), "eu".to_owned()], nodes: vec![node(0), node(1)] };
        let definition = Definition::new(
            KeyspaceId(1),
            "shop",
            Isolation::Strict,
            Durability::Sync,
            vec![Shard::new(ShardId(4), vec![NodeId(0), NodeId(1)])],
        );
        let message = |direction, shard, index, node| {
            let replica = ReplicaId { shard: ShardId(shard), index: ReplicaIndex(index) };
            let (name, detail) = ("VOTE".to_owned(), "OK".to_owned());
            Moment::Message(TracedMessage { direction, replica, node: Some(NodeId(node)), name, detail })
        };
        let moments = vec![
            (Duration::ZERO, Moment::Noted("put a 1".to_owned())),
            (Duration::from_millis(1), message(Direction::Sent, 0, 0, 0)),
            (Duration::from_millis(2), message(Direction::Sent, 4, 1, 1)),
            (Duration::from_millis(9), message(Direction::Received, 4, 0, 0)),
        ];
        let told = Sequence::new(&definition, &topology, Some("us"), &moments, "committed".to_owned(), 0.009);
        let places: Vec<_> = told.participants.iter().map(|it| (it.node, it.site.as_str())).collect();
        assert_eq!(places, [(0, "us"), (1, "eu")]);
        let events: Vec<_> = told.events.iter().map(|it| (it.kind, it.participant)).collect();
        assert_eq!(events, [("noted", None), ("sent", Some(1)), ("received", Some(0))]);
    }
}
