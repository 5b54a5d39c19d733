//! `quorate cluster accept-loss`: lets a shard go on without what only replicas knew that have lost their records.
//!
//! `quorate_core::acceptance` says which replicas go on, and how; here operators are told what that means.

use std::time::{Duration, Instant};

use quorate::{Database, Error, Invalid, NodeId, ReplicaId, ReplicaIndex, ShardId, View};
use quorate_core::acceptance::{self, Reason, Told};
use serde::Serialize;
use serde_json::json;

use super::survey::{ReplicaView, ShardView, survey};
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::print_json;

/// How long the shard may take to serve again: whole records may have to be transferred.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often nodes are asked meanwhile.
const POLL: Duration = Duration::from_millis(200);

/// Has a replica go on asleep, as soon as its node has heard from the others since it started.
async fn accept(db: &Database, node: NodeId, replica: ReplicaId, view: View) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match db.accept_loss(node, replica, view).await {
            Err(Error::Invalid(Invalid::LossNotAccepted { passes: true, .. }))
                if Instant::now() < deadline =>
            {
                tokio::time::sleep(POLL).await;
            }
            accepted => return Ok(accepted?),
        }
    }
}

/// The change that is to be made to one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Plan {
    keyspace: String,
    shard: u32,
    /// The replicas that know their records.
    survivors: Vec<u8>,
    /// The replicas that have lost them.
    lost: Vec<u8>,
    /// Those that go on as if they had slept: index and node.
    sleepers: Vec<(u8, u16)>,
    /// They go on above this view.
    view: u64,
}

/// Makes plans for all shards that are meant, says them, and carries them out if that was confirmed.
pub(super) async fn run(
    db: &Database,
    keyspace: &str,
    shard: Option<u32>,
    confirm: bool,
    json: bool,
) -> Outcome {
    let found = survey(db).await?;
    let is_meant =
        |view: &&ShardView| view.keyspace == keyspace && shard.is_none_or(|shard| view.shard == shard);
    let meant: Vec<_> = found.shards.iter().filter(is_meant).collect();
    if meant.is_empty() {
        return Err(Failure::usage(format!("no node that answers hosts such a shard of {keyspace:?}")));
    }
    let mut plans = Vec::new();
    for view in meant {
        match plan(view) {
            Ok(Some(plan)) => plans.push(plan),
            Ok(None) => {}
            Err(reason) => return Err(Failure::failed(reason)),
        }
    }
    if plans.is_empty() {
        return Err(Failure::failed(format!(
            "no such shard of {keyspace:?} has lost more replicas than it survives: there is nothing to accept"
        )));
    }
    for plan in &plans {
        errln!("{}", consequences(plan));
    }
    if !confirm {
        return Err(Failure::usage("nothing was done: repeat the command with --confirm to accept this"));
    }
    for plan in &plans {
        for (index, node) in &plan.sleepers {
            let replica = ReplicaId { shard: ShardId(plan.shard), index: ReplicaIndex(*index) };
            accept(db, NodeId(*node), replica, View(plan.view)).await?;
        }
    }
    let is_ok = wait(db, &plans).await?;
    if json {
        print_json(&json!({ "ok": is_ok, "accepted": plans }))?;
    } else if is_ok {
        outln!("all replicas serve again");
    } else {
        outln!("not all replicas serve within {PATIENCE:?}: see `quorate cluster status`");
    }
    Ok(Verdict::good_if(is_ok))
}

/// The plan for a shard; none if it can help itself.
fn plan(shard: &ShardView) -> Result<Option<Plan>, String> {
    let ShardView { keyspace, shard: number, replicas, .. } = shard;
    let name = format!("shard {number} of {keyspace}");
    let members =
        replicas.iter().map(|replica| (ReplicaIndex(replica.index), told(replica), View(replica.view)));
    let leaving = shard.leaving.iter().map(|index| (ReplicaIndex(*index), Told::Leaves, View::default()));
    let all: Vec<_> = members.chain(leaving).collect();
    let planned = acceptance::plan(&all).map_err(|obstacle| {
        let replica = replicas.iter().find(|replica| replica.index == obstacle.replica.0);
        let (index, reason) = (obstacle.replica.0, obstacle.reason);
        replica.map_or_else(|| changes(index, &name), |replica| see_to(replica, reason, &name))
    })?;
    let Some(acceptance::Plan { survivors, lost, sleepers, view }) = planned else { return Ok(None) };
    if survivors.is_empty() && *number == 0 {
        return Err(
            "no replica of the catalogue is left: if it began again empty, all keyspaces would be dropped; \
                    bring back a disk, or create a new cluster"
                .to_owned(),
        );
    }
    let indices = |of: Vec<ReplicaIndex>| of.into_iter().map(|index| index.0).collect();
    let place = |replica: &&ReplicaView| sleepers.contains(&ReplicaIndex(replica.index));
    Ok(Some(Plan {
        keyspace: keyspace.clone(),
        shard: *number,
        sleepers: replicas.iter().filter(place).map(|replica| (replica.index, replica.node)).collect(),
        survivors: indices(survivors),
        lost: indices(lost),
        view: view.0,
    }))
}

/// The state of a replica, as the plan takes it.
fn told(replica: &ReplicaView) -> Told {
    match replica.state.as_str() {
        "lost" | "recovering" => Told::Lost,
        "unreachable" => Told::Silent,
        "refused" | "missing" => Told::Refused,
        "normal" | "view-changing" if !replica.has_arrived => Told::Arrives,
        "normal" | "view-changing" => Told::Survives,
        _ => Told::Leaves,
    }
}

/// The advice for an operator before anything is given up, as a replica may know what others have lost, or is not there yet.
fn see_to(replica: &ReplicaView, reason: Reason, name: &str) -> String {
    let ReplicaView { index, node, state, problem, .. } = replica;
    let problem = problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
    match reason {
        Reason::Silent => format!(
            "node {node} does not answer, and its replica may know what others have lost: start it first; if its disk is \
             gone as well, with --initialise=replace ({name})"
        ),
        Reason::Refused => format!(
            "the replica on node {node} is {state}, and may know what others have lost: see to it first ({name}){problem}"
        ),
        Reason::Changing => changes(*index, name),
    }
}

/// The advice for an operator while the members of a group change.
fn changes(index: u8, name: &str) -> String {
    format!(
        "the members of {name} change, and replica {index} has not arrived or not left yet: what it has may be all that is left, and would be \
         overruled. Start all nodes that held replicas of the shard, bring back a disk of them, and see `quorate cluster status`"
    )
}

/// The consequences of a plan, for the operator who decides.
fn consequences(plan: &Plan) -> String {
    let Plan { keyspace, shard, survivors, lost, .. } = plan;
    let list = |indices: &[u8]| indices.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    let mut text = format!("shard {shard} of {keyspace}: replicas {} have lost their records.\n", list(lost));
    if survivors.is_empty() {
        text.push_str("  No replica is left: ALL DATA OF THIS SHARD IS LOST, and it begins again empty.\n");
    } else {
        text.push_str(&format!(
            "  The shard goes on with what the replicas {} know. Transactions that were acknowledged without them ARE \
             LOST.\n",
            list(survivors)
        ));
    }
    text.push_str(
        "  A transaction over several shards may be left in part. Clients may read values that are older than what they \
         have seen.\n  Disks that held replicas of this shard before must not be brought back afterwards: they remember \
         what the shard has forgotten.",
    );
    if *shard == 0 {
        text.push_str(
            "\n  This is the catalogue: keyspaces whose creation is lost with it are dropped on all nodes, with their data.",
        );
    }
    text
}

/// Waits until all replicas of the shards serve; false if they do not in time.
async fn wait(db: &Database, plans: &[Plan]) -> Result<bool, Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = survey(db).await?;
        let serves = |plan: &Plan| {
            let shard = found.shards.iter().find(|shard| shard.shard == plan.shard);
            shard.is_some_and(|shard| shard.in_state(&["normal"]).count() == shard.replicas.len())
        };
        if plans.iter().all(serves) {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        tokio::time::sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(number: u32, states: &[&str]) -> ShardView {
        let replica = |(state, index): (&&str, u8)| ReplicaView {
            index,
            node: 10 + u16::from(index),
            state: (*state).to_owned(),
            problem: None,
            view: 5 + u64::from(index),
            leads: false,
            has_arrived: true,
            accepted_losses: vec![],
            lost_shards: vec![],
            traffic: None,
        };
        ShardView {
            epoch: 0,
            since: 0,
            leaving: Vec::new(),
            keyspace: "accounts".to_owned(),
            shard: number,
            replicas: states.iter().zip(0..).map(replica).collect(),
            lags: Vec::new(),
        }
    }

    /// The replicas that survive and those that sleep, if there is anything to do.
    type Told = Option<(Vec<u8>, Vec<u8>)>;

    fn outcome(states: &[&str]) -> Result<Told, String> {
        let sleepers = |plan: Plan| plan.sleepers.iter().map(|(index, _)| *index).collect();
        Ok(plan(&shard(1, states))?.map(|plan| (plan.survivors.clone(), sleepers(plan))))
    }

    #[test]
    fn survivors_and_sleepers_make_exactly_a_majority() {
        let table: [(&[&str], Told); 6] = [
            (&["normal", "normal", "recovering"], None),
            (&["normal", "lost", "lost"], Some((vec![0], vec![1]))),
            (&["lost", "lost", "view-changing"], Some((vec![2], vec![0]))),
            (&["lost", "recovering", "lost"], Some((vec![], vec![0, 1]))),
            (&["normal", "lost", "normal", "lost", "lost"], Some((vec![0, 2], vec![1]))),
            (&["lost", "lost", "normal", "lost", "lost"], Some((vec![2], vec![0, 1]))),
        ];
        for (states, expected) in table {
            assert_eq!(outcome(states), Ok(expected), "{states:?}");
        }
        assert_eq!(
            plan(&shard(1, &["normal", "lost", "lost"])).unwrap().unwrap().view,
            7 + acceptance::VIEWS_SKIPPED
        );
    }

    #[test]
    fn nothing_is_given_up_that_may_still_be_known() {
        assert!(outcome(&["unreachable", "lost", "lost"]).unwrap_err().contains("node 10 does not answer"));
        assert!(outcome(&["refused", "lost", "lost"]).unwrap_err().contains("is refused"));
        let mut changing = shard(1, &["normal", "lost", "lost"]);
        changing.replicas[0].has_arrived = false;
        let refused = plan(&changing).unwrap_err();
        assert!(refused.contains("replica 0 has not arrived or not left yet"), "{refused}");
        let mut left = shard(1, &["lost", "lost", "lost"]);
        left.leaving.push(3);
        let refused = plan(&left).unwrap_err();
        assert!(refused.contains("replica 3 has not arrived or not left yet"), "{refused}");
        let catalogue = plan(&shard(0, &["lost", "lost", "lost"])).unwrap_err();
        assert!(catalogue.contains("all keyspaces would be dropped"), "{catalogue}");
        assert!(plan(&shard(0, &["normal", "lost", "lost"])).unwrap().is_some());
    }
}
