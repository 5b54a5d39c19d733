//! `quorate cluster`: how a cluster is, where its replicas are, and what its operator can do when it cannot help itself.

mod accept_loss;
mod add_site;
mod declare_lost;
mod remove_site;
pub(crate) mod replicas;
mod status;
mod survey;
mod upgrade;
pub(super) mod verify;

use clap::{Args, Subcommand};
use quorate::{Database, NodeId, ReplicaChange, ShardId};
use serde_json::json;

use super::Common;
use crate::exit::{Outcome, Verdict};
use crate::output::print_json;
use crate::runtime::block_on;
use replicas::Patience;

/// See how a cluster is, move replicas between its nodes, and bring back shards that too many replicas have lost.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate cluster status --connect 10.0.0.1:7400
  quorate cluster status --json
  quorate cluster move accounts --from 2 --to 5    its replicas on node 2 move to node 5
  quorate cluster drain 2                          everything moves away from node 2
  quorate cluster drain --site mars
  quorate cluster forget 2                         node 2, which has nothing any more, is no node of the cluster
  quorate cluster accept-loss accounts             says what would be lost, and does nothing
  quorate cluster accept-loss accounts --confirm
  quorate cluster declare-lost orders 7            says what would be lost, and does nothing
  quorate cluster remove-site mars --abandon       says what would be lost, and does nothing
  quorate cluster verify                           do all replicas of each shard hold the same?
  quorate cluster verify accounts --json
  quorate cluster upgrade-check                    which program has each node, and can the upgrade be finished?
  quorate cluster upgrade-finish --confirm         no node goes back to its earlier program

Exit codes: 0 if every shard is served by all its replicas, or all replicas hold the same, or what was asked for is done; 1 if
not; 2 if it was asked for something that cannot be.")]
pub(crate) struct ClusterArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show nodes and shards, and what is wrong with them.
    Status {
        #[command(flatten)]
        common: Common,
    },
    /// Move the replicas of a keyspace from one node to another, while it is used.
    Move {
        /// The keyspace.
        keyspace: String,
        /// The number of the node where they are. It need not be up.
        #[arg(long, value_name = "NODE")]
        from: u16,
        /// The number of the node where they are to be.
        #[arg(long, value_name = "NODE")]
        to: u16,
        /// One of its shards; by default all that have a replica there.
        #[arg(long, value_name = "N")]
        shard: Option<u32>,
        #[command(flatten)]
        patience: Patience,
        #[command(flatten)]
        common: Common,
    },
    /// Move all replicas away from nodes, while they are used: to the same site if there is a node, or else to one that has none of
    /// the shard.
    Drain {
        /// The numbers of the nodes. They need not be up.
        #[arg(value_name = "NODE")]
        nodes: Vec<u16>,
        /// All nodes of this site.
        #[arg(long, value_name = "NAME")]
        site: Vec<String>,
        #[command(flatten)]
        patience: Patience,
        #[command(flatten)]
        common: Common,
    },
    /// Take a node out of the cluster that has no replica any more. Its number is not given to another; it may join as a new one.
    Forget {
        /// Its number. It need not be up, and is best stopped for good.
        #[arg(value_name = "NODE")]
        node: u16,
        #[command(flatten)]
        common: Common,
    },
    /// Compare what the replicas of each shard hold, while they are used.
    ///
    /// Replicas are compared at a common point: on a replicated log at one position, in `strict` keyspaces below a timestamp below
    /// which everything has ended. Differences are named, and what to do about them.
    Verify {
        #[command(flatten)]
        arguments: verify::VerifyArguments,
        #[command(flatten)]
        common: Common,
    },
    /// Give up what only replicas knew that have lost their records, so that the others can go on.
    ///
    /// This is for shards of which more replicas have lost their records than the shard survives. Writes that were acknowledged
    /// by them alone are lost, and transactions over several shards may be left in part. Prefer to bring back a disk.
    AcceptLoss {
        /// The keyspace.
        keyspace: String,
        /// One of its shards; by default all that are lost.
        #[arg(long, value_name = "N")]
        shard: Option<u32>,
        /// Do it.
        #[arg(long)]
        confirm: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Tell the other shards of a serializable keyspace that one of them is lost for good, so that they go on without it.
    ///
    /// This is for a shard that cannot be brought back: what waits for its vote is executed nowhere, and what touches it is
    /// refused. Prefer to bring back disks, or to accept what was lost.
    DeclareLost {
        /// The keyspace.
        keyspace: String,
        /// The shard that is lost.
        #[arg(value_name = "SHARD")]
        shard: u32,
        /// Do it.
        #[arg(long)]
        confirm: bool,
        /// Do it although replicas of the shard are up. They may go on to answer: stop their nodes first.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Let parallel-snapshot keyspaces go on without a site that is lost for good.
    ///
    /// This is for a site that cannot be brought back: what it has acknowledged and sent to no other site is lost. The others wait until the lease of
    /// the site has ended, agree on what is kept of it, and the next one lets in what is written to its keys. A site that is only cut off is waited for.
    RemoveSite {
        /// The name of the site.
        site: String,
        /// From this keyspace alone; by default from all that are there.
        #[arg(long)]
        keyspace: Option<String>,
        /// Abandon what only that site knows.
        #[arg(long)]
        abandon: bool,
        /// Do it.
        #[arg(long)]
        confirm: bool,
        /// Do it although replicas of the site are up.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Let a site join parallel-snapshot keyspaces: one that comes back after it was removed, or a new one.
    ///
    /// The site gets the data of another one while all go on; then clients use it, and it lets in again what it let in before it was removed. Without
    /// --keyspace it joins all keyspaces that it was removed from. Repeat the command to wait for what it has begun.
    AddSite {
        /// The name of the site. Its nodes are up, and nothing is left on their disks of what was removed.
        site: String,
        /// This keyspace, whether or not the site was in it before. May be repeated.
        #[arg(long = "keyspace")]
        keyspaces: Vec<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Show which protocol versions the nodes know and which one is in force, and whether the upgrade can be finished.
    ///
    /// Until it is finished nodes write and say nothing that their earlier programs do not know, so each can be started again with its earlier program.
    /// Exit code 1 if nodes with different programs are left, or a node does not answer.
    UpgradeCheck {
        #[command(flatten)]
        common: Common,
    },
    /// Finish an upgrade: put the newest protocol version in force that all nodes know.
    ///
    /// All nodes have to answer. From then on programs that do not know the version cannot be nodes of the cluster, and data directories are refused by
    /// them: there is no way back.
    UpgradeFinish {
        /// Do it.
        #[arg(long)]
        confirm: bool,
        #[command(flatten)]
        common: Common,
    },
}

impl ClusterArguments {
    pub(crate) fn run(self) -> Outcome {
        block_on(async {
            let (Action::Status { common }
            | Action::Move { common, .. }
            | Action::Drain { common, .. }
            | Action::Forget { common, .. }
            | Action::Verify { common, .. }
            | Action::AcceptLoss { common, .. }
            | Action::DeclareLost { common, .. }
            | Action::RemoveSite { common, .. }
            | Action::AddSite { common, .. }
            | Action::UpgradeCheck { common }
            | Action::UpgradeFinish { common, .. }) = &self.action;
            common.connected(async |db| act(&self.action, db).await).await
        })
    }
}

async fn act(action: &Action, db: &Database) -> Outcome {
    match action {
        Action::Status { common } => status::run(db, common.json).await,
        Action::Move { keyspace, from, to, shard, patience, common } => {
            let change =
                ReplicaChange::Move { shard: shard.map(ShardId), from: NodeId(*from), to: NodeId(*to) };
            replicas::run(db, std::slice::from_ref(keyspace), &change, patience, common.json).await
        }
        Action::Drain { nodes, site, patience, common } => {
            let nodes = replicas::nodes(db, nodes, site)?;
            let keyspaces = replicas::keyspaces_on(db, &nodes).await?;
            replicas::run(db, &keyspaces, &ReplicaChange::Vacate { nodes }, patience, common.json).await
        }
        Action::Forget { node, common } => {
            db.forget_node(NodeId(*node)).await?;
            if common.json {
                print_json(&json!({ "ok": true, "forgotten": node }))?;
            } else {
                outln!("node {node} is forgotten: stop it, and remove its data directory");
            }
            Ok(Verdict::Good)
        }
        Action::Verify { arguments, common } => verify::run(db, arguments, common.json).await,
        Action::AcceptLoss { keyspace, shard, confirm, common } => {
            accept_loss::run(db, keyspace, *shard, *confirm, common.json).await
        }
        Action::DeclareLost { keyspace, shard, confirm, force, common } => {
            let shard = ShardId(*shard);
            let asked = declare_lost::Asked { keyspace, shard, confirm: *confirm, force: *force };
            declare_lost::run(db, asked, common.json).await
        }
        Action::RemoveSite { site, keyspace, abandon, confirm, force, common } => {
            let (abandon, confirm, force) = (*abandon, *confirm, *force);
            let asked = remove_site::Asked { site, keyspace: keyspace.as_deref(), abandon, confirm, force };
            remove_site::run(db, asked, common.json).await
        }
        Action::AddSite { site, keyspaces, common } => add_site::run(db, site, keyspaces, common.json).await,
        Action::UpgradeCheck { common } => upgrade::check(db, common.json).await,
        Action::UpgradeFinish { confirm, common } => upgrade::finish(db, *confirm, common.json).await,
    }
}
