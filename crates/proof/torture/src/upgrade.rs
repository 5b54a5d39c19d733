//! Rolling upgrades and downgrades under load, between the processes of two programs (ADR 0077).
//!
//! ```text
//!   begins     all nodes run the earlier program
//!   upgraded   one node after the other is stopped in good order, and started with the later program
//!   back       one after the other with the earlier one, which has to read all that the later one has written
//!   upgraded   again
//!   finished   the newest protocol version that the later program knows is put in force
//!   refused    where the earlier program does not know it, it has to refuse the data directory of a node, and to say why
//! ```

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use quorate::{Database, ProtocolVersion};
use quorate_cluster::Failure;
use quorate_wire::Window;

use super::schedule::Strike;
use super::status::Versions;
use super::{Moment, Torture};

/// How long nodes may take to hear of a version that was put in force.
const HEARD_TIMEOUT: Duration = Duration::from_secs(30);

/// How often they are asked.
const POLL: Duration = Duration::from_millis(50);

/// How many times the nodes are restarted one after the other.
const ROUNDS: u64 = 3;

/// The node whose data directory the earlier program has to refuse.
const REFUSING: usize = 0;

/// The outcome of an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upgraded {
    /// The protocol version in force before it was finished.
    pub before: ProtocolVersion,
    /// The one in force afterwards.
    pub after: ProtocolVersion,
    /// True if the earlier program has refused a data directory then, because it does not know that version.
    pub is_refused: bool,
}

/// The protocol version with which a cluster of this program is to begin, so that there is an upgrade to finish; none if the program knows nothing of
/// versions, and so begins with the first.
pub(crate) fn first_version(program: &Path) -> Result<Option<ProtocolVersion>, Failure> {
    let failed = |reason: String| Failure::usage(format!("{} cannot be run: {reason}", program.display()));
    let printed = Command::new(program).args(["server", "--print-config"]).output();
    let printed = printed.map_err(|error| failed(error.to_string()))?;
    if !printed.status.success() {
        return Err(failed(format!("`server --print-config` ends with {}", printed.status)));
    }
    let knows_versions = String::from_utf8_lossy(&printed.stdout).contains("protocol_version");
    Ok(knows_versions.then_some(Window::OWN.oldest))
}

impl Torture<'_> {
    /// Upgrades all nodes, goes back, upgrades them again and finishes the upgrade.
    pub(crate) async fn upgrade(
        &mut self,
        db: &Database,
        earlier: &Path,
        later: &Path,
    ) -> Result<Upgraded, Failure> {
        self.wait_for_commits(Instant::now()).await?;
        let mut known_before = None;
        for (round, program) in (1..=ROUNDS).zip([later, earlier, later]) {
            for node in 0..self.arena.nodes() {
                self.arena.set_program(node, program);
                let tell = self.tell;
                let moment = Moment::Rolls { node, round, rounds: ROUNDS };
                self.strike_and_wait(&Strike::restart(node), &|| tell(moment)).await?;
            }
            if program == earlier {
                known_before = Some(self.arena.versions().await?);
            }
        }
        let versions = self.arena.versions().await?;
        let newest = versions.iter().map(|known| known.newest).min().unwrap_or_default();
        let before = versions.iter().map(|known| known.in_force).max().unwrap_or_default();
        if newest > before {
            (self.tell)(Moment::Finishes { version: newest });
            db.enter_protocol_version(ProtocolVersion(newest)).await?;
        }
        self.wait_until_in_force(newest).await?;
        let knew_it = |known: &Vec<Versions>| known.iter().all(|known| known.newest >= newest);
        let is_refused = known_before.as_ref().is_some_and(|known| !knew_it(known));
        if is_refused {
            self.arena.has_refused(REFUSING, earlier, later).await?;
        }
        self.arena.serve().await?;
        self.wait_for_commits(Instant::now()).await?;
        Ok(Upgraded { before: ProtocolVersion(before), after: ProtocolVersion(newest), is_refused })
    }

    /// Waits until all nodes say that a version is in force.
    async fn wait_until_in_force(&self, version: u32) -> Result<(), Failure> {
        let deadline = Instant::now() + HEARD_TIMEOUT;
        loop {
            let versions = self.arena.versions().await?;
            let Some(node) = versions.iter().position(|known| known.in_force < version) else {
                return Ok(());
            };
            if Instant::now() >= deadline {
                return Err(Failure::failed(format!(
                    "node {node} has not heard within {HEARD_TIMEOUT:?} that version {version} is in force"
                )));
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
