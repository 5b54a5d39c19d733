//! The conditions at the end of an attack.

use quorate_cluster::Failure;

use super::super::{Ended, ledger::Counts};
use super::expect::panic_in;
use super::{Cluster, KEYSPACES};

/// How many writes every keyspace has to take in the end.
const LAST_WRITES: u64 = 32;

impl Cluster {
    /// Judges the cluster after an attack that has come to this, and ends it. Directories are kept if anything is wrong.
    pub(in super::super) async fn end(mut self, told: Result<(), Failure>) -> Ended {
        let mut troubles = Vec::new();
        let told = match told {
            Ok(()) if self.skipped.is_none() => self.judge(&mut troubles).await,
            told => told,
        };
        if let Err(Failure::Failed(reason) | Failure::Usage(reason)) = told {
            troubles.push(reason);
        }
        let counts: Counts = self.counts();
        let seconds = self.began.elapsed().as_secs_f64();
        if let Some(db) = self.db.take() {
            db.close().await;
        }
        let Cluster { processes, layout, steps, skipped, mounts, keep, directory, .. } = self;
        // A process that has ended before has said so already.
        let stopped = processes.stop();
        if troubles.is_empty() {
            troubles.extend(stopped);
        }
        for node in 0..layout.nodes.len() {
            let log = std::fs::read(layout.directory.join(format!("node-{node}.log"))).unwrap_or_default();
            if let Some(panic) = panic_in(&String::from_utf8_lossy(&log)) {
                troubles.push(format!("server {node}: {panic}"));
            }
        }
        drop(mounts);
        let mut evidence = None;
        if keep || !troubles.is_empty() {
            let kept = directory.keep();
            let story = [steps, troubles.clone()].concat().join("\n");
            if let Err(error) = std::fs::write(kept.join("story.txt"), story) {
                troubles.push(format!("the story cannot be written: {error}"));
            }
            evidence = Some(kept);
        }
        Ended { counts, seconds, troubles, skipped, evidence }
    }

    async fn judge(&mut self, troubles: &mut Vec<String>) -> Result<(), Failure> {
        if self.db.is_none() {
            return Ok(());
        }
        self.note("judge");
        self.look_where_replicas_are().await?;
        self.serve().await?;
        // Both keyspaces are judged, so that one that has lost something does not hide the other.
        for site in self.layout.sites.clone() {
            self.read_at(&site, troubles).await?;
        }
        for ledger in &mut self.ledgers {
            ledger.write(LAST_WRITES).await?;
        }
        self.check_that_all_run()?;
        // All replicas hold the same, and not only those that were asked for what the ledgers know.
        self.command_done(&["cluster", "verify"]).await.map(drop)
    }

    async fn read_at(&mut self, site: &str, troubles: &mut Vec<String>) -> Result<(), Failure> {
        let db = self.connect(Some(site)).await?;
        for (ledger, (name, _)) in self.ledgers.iter_mut().zip(KEYSPACES) {
            let keyspace = Cluster::find(&db, name).await?;
            if let Err(Failure::Failed(reason) | Failure::Usage(reason)) = ledger.read(&keyspace, site).await
            {
                troubles.push(reason);
            }
        }
        db.close().await;
        Ok(())
    }
}
