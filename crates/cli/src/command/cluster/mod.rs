//! `quorate cluster`: how a cluster is, and what its operator can do when it cannot help itself.

mod accept_loss;
mod status;
mod survey;

use clap::{Args, Subcommand};

use super::ConnectArguments;
use crate::exit::Outcome;
use crate::runtime::block_on;

/// See how a cluster is, and bring back shards that too many replicas have lost.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate cluster status --connect 10.0.0.1:7400
  quorate cluster status --json
  quorate cluster accept-loss accounts             says what would be lost, and does nothing
  quorate cluster accept-loss accounts --confirm

Exit codes: 0 if every shard is served by all its replicas, 1 if not.")]
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
    /// Give up what only replicas knew that have lost their records, so that the others can go on.
    ///
    /// This is for shards of which more replicas have lost their records than the shard survives. What was acknowledged
    /// by them alone is lost, and transactions over several shards may be left in part. Prefer to bring back a disk.
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
}

#[derive(Args, Clone, Debug)]
struct Common {
    #[command(flatten)]
    connect: ConnectArguments,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl ClusterArguments {
    pub(crate) fn run(self) -> Outcome {
        block_on(async {
            let (Action::Status { common } | Action::AcceptLoss { common, .. }) = &self.action;
            let db = common.connect.open().await?;
            let outcome = match &self.action {
                Action::Status { common } => status::run(&db, common.json).await,
                Action::AcceptLoss { keyspace, shard, confirm, common } => {
                    accept_loss::run(&db, keyspace, *shard, *confirm, common.json).await
                }
            };
            db.close().await;
            outcome
        })
    }
}
