//! Procedures: which a keyspace has, and how they come and go.
//!
//! ```text
//!   deploy   catalogue: deploying ──► all shards, one transaction ──► catalogue: deployed
//!   remove   catalogue: removing  ──► all shards, one transaction ──► catalogue: removed
//! ```
//!
//! The record in the catalogue comes first, so nobody deploys other code as the same version. A client that stops halfway leaves a record that
//! says so, and the shards have the code or do not: all of them or none. To do the same again ends what was begun.

mod call;
mod error;
mod interactive;
pub(crate) mod records;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use quorate_core::{ClockTime, ShardId, Value};
use quorate_granola::Class;
use quorate_serializable_shard::{Deploy, Malformed, Operation, Refusal, Remove};
use quorate_wire::catalogue::{Deployment, Stage};

use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::one_round::Ended;

pub use call::{Answers, Call};
pub use error::InvalidProcedure;
pub use interactive::{Concluded, Transacted};
use records::Begun;

/// A version of a procedure that a keyspace has, or had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcedureVersion {
    /// The name of the procedure.
    pub name: String,
    /// Its version.
    pub version: u32,
    /// How far it is. Only what is deployed can surely be called.
    pub stage: Stage,
    /// The length of its code, in bytes.
    pub bytes: u64,
    /// The CRC-32 of its code, as `gzip` and `crc32` calculate it.
    pub crc32: u32,
    /// When it was deployed, in microseconds since the Unix epoch, by the clock of the client that did.
    pub deployed_at: ClockTime,
}

impl ProcedureVersion {
    pub(crate) fn new(name: &str, version: u32, deployment: &Deployment) -> Self {
        let Deployment { stage, bytes, crc32, deployed_at } = *deployment;
        ProcedureVersion { name: name.to_owned(), version, stage, bytes, crc32, deployed_at }
    }
}

impl Keyspace {
    /// Deploys a procedure, a WebAssembly module: afterwards it can be called at all shards of the keyspace. Without a version it
    /// becomes the next one, unless the latest has the same code.
    ///
    /// To deploy the same again does no harm, and ends what somebody had begun who has stopped halfway. A version never stands for
    /// other code, not even once it was removed.
    ///
    /// ```no_run
    /// # async fn example(accounts: quorate::Keyspace) -> Result<(), Box<dyn std::error::Error>> {
    /// let deployed = accounts.deploy("transfer", None, &std::fs::read("transfer.wasm")?).await?;
    /// assert!(deployed.version >= 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`InvalidProcedure::NotServed`] where the keyspace is not `serializable`, [`InvalidProcedure::Limit`] if the name or the code goes beyond a
    /// limit, [`InvalidProcedure::VersionTaken`] if the version has other code or was removed, [`Error::Refused`] if the module is not
    /// accepted, with what is wrong; else whatever a transaction may end with. After [`Error::Unknown`] and
    /// [`Error::Unavailable`], deploy it again.
    pub async fn deploy(&self, name: &str, version: Option<u32>, code: &[u8]) -> Result<ProcedureVersion> {
        self.require_procedures()?;
        let code = Value::copy_from_slice(code);
        let deploy = |version| Deploy { name: name.to_owned(), version, code: code.clone() };
        validate(&Operation::Deploy(deploy(version.unwrap_or(1))))?;
        let now = crate::transaction::clock_now();
        let fresh = Deployment {
            stage: Stage::Deploying,
            bytes: code.len() as u64,
            crc32: crc32fast::hash(&code),
            deployed_at: now,
        };
        let id = self.definition().id;
        let (version, begun) = self
            .system()
            .transact(async |txn| records::begin_deploying(&txn, id, name, version, &fresh).await)
            .await??;
        let told = self.tell_all(&Operation::Deploy(deploy(version))).await;
        let record = match told {
            Ok(()) => {
                let ended = self
                    .system()
                    .transact(async |txn| records::end_deploying(&txn, id, name, version).await)
                    .await?;
                match ended {
                    Some(record) => record,
                    // Somebody has removed it meanwhile, perhaps before the shards had it.
                    None => {
                        self.remove(name, version).await?;
                        return Err(InvalidProcedure::VersionTaken { name: name.to_owned(), version }.into());
                    }
                }
            }
            Err(refused @ Error::Refused { .. }) => {
                if begun == Begun::New {
                    // The shards will never have it, so nothing was promised of this version.
                    self.system()
                        .transact(async |txn| records::withdraw(&txn, id, name, version, &fresh).await)
                        .await?;
                }
                return Err(refused);
            }
            Err(error) => return Err(error),
        };
        Ok(ProcedureVersion::new(name, version, &record))
    }

    /// Removes a version of a procedure: afterwards it cannot be called any more. To remove it again does no harm.
    ///
    /// # Errors
    /// [`InvalidProcedure::NoSuchVersion`] if the keyspace never had this version; else as [`Keyspace::deploy`].
    pub async fn remove(&self, name: &str, version: u32) -> Result<()> {
        self.require_procedures()?;
        let operation = Operation::Remove(Remove { name: name.to_owned(), version });
        validate(&operation)?;
        let id = self.definition().id;
        let set = async |stage| {
            let record = self
                .system()
                .transact(async |txn| records::set_stage(&txn, id, name, version, stage).await)
                .await?;
            record.ok_or_else(|| {
                Error::from(InvalidProcedure::NoSuchVersion { name: name.to_owned(), version })
            })
        };
        set(Stage::Removing).await?;
        match self.tell_all(&operation).await {
            Ok(()) => {}
            // The shards do not have it, or not any more.
            Err(Error::Refused { refusal, .. }) if matches!(*refusal, Refusal::NoSuchProcedure { .. }) => {}
            Err(error) => return Err(error),
        }
        set(Stage::Removed).await.map(drop)
    }

    /// The versions of procedures that the keyspace has or had, by name and version, as the catalogue knows them. Those that are linked
    /// with the servers are not among them.
    ///
    /// # Errors
    /// Any error that a transaction may end with.
    pub async fn procedures(&self) -> Result<Vec<ProcedureVersion>> {
        self.require_procedures()?;
        let id = self.definition().id;
        self.system().transact(async |txn| records::list(&txn, id).await).await
    }

    fn require_procedures(&self) -> Result<(), InvalidProcedure> {
        match self.isolation() {
            quorate_core::topology::Isolation::Serializable if self.definition().comparison.is_none() => {
                Ok(())
            }
            _ => Err(InvalidProcedure::NotServed { name: self.name().to_owned() }),
        }
    }

    /// Has all shards do the same, or none.
    async fn tell_all(&self, operation: &Operation) -> Result<()> {
        let operation = operation.encode();
        let shards: Vec<ShardId> = self.definition().shards.iter().map(|shard| shard.id).collect();
        let class = if shards.len() == 1 { Class::Independent } else { Class::Coordinated };
        let parts: BTreeMap<ShardId, Value> =
            shards.into_iter().map(|shard| (shard, operation.clone())).collect();
        match self.execute(parts, class).await? {
            Ended::Done { .. } | Ended::AnswersLost { .. } => Ok(()),
            Ended::Refused { shard, reason } => Err(refused(shard, &reason)),
        }
    }
}

/// A shard refuses its part, for a reason that it has said in bytes.
fn refused(shard: ShardId, reason: &Value) -> Error {
    let refusal = Refusal::decode(reason).unwrap_or_else(|Malformed(text)| Refusal::Failed {
        text: format!("its reason cannot be read ({text}): is the cluster newer than this client?"),
    });
    Error::Refused { shard, refusal: Box::new(refusal) }
}

/// Checks what a shard would check, before anything is sent.
fn validate(operation: &Operation) -> Result<(), InvalidProcedure> {
    operation.validate().map_err(|Malformed(reason)| InvalidProcedure::Limit { reason })
}
