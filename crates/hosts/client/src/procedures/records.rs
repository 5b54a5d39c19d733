//! The records of procedures in the catalogue, within a transaction.

use quorate_core::{Key, KeyspaceId};
use quorate_wire::catalogue::{
    Deployment, Stage, deployment_key, deployment_of, deployments_range, versions_range,
};

use super::{InvalidProcedure, ProcedureVersion};
use crate::catalogue::damaged;
use crate::error::Result;
use crate::transaction::Transaction;

/// How many records are read at a time.
const PAGE: u32 = 256;

/// How deploying begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// Nobody has begun to deploy this version before.
    New,
    /// Somebody has, or has done it.
    Again,
}

async fn read(txn: &Transaction, key: &Key) -> Result<Option<Deployment>> {
    txn.get(key).await?.map(|value| quorate_wire::decode(&value).map_err(|error| damaged(&error))).transpose()
}

/// The records of a range, in order.
async fn scan(
    txn: &Transaction,
    keyspace: KeyspaceId,
    range: quorate_core::KeyRange,
) -> Result<Vec<ProcedureVersion>> {
    let to = range.to.unwrap_or_default();
    let mut found = Vec::new();
    let mut from = Some(range.from);
    while let Some(start) = from {
        let page = txn.scan(start, &to, PAGE).await?;
        for (key, value) in &page.entries {
            let deployment = quorate_wire::decode(value).map_err(|error| damaged(&error))?;
            // Nodes refuse to keep what is no such key.
            let Some((name, version)) = deployment_of(keyspace, key) else { continue };
            found.push(ProcedureVersion::new(name, version, &deployment));
        }
        from = page.next;
    }
    Ok(found)
}

/// All records of a keyspace, by name and version.
pub(crate) async fn list(txn: &Transaction, keyspace: KeyspaceId) -> Result<Vec<ProcedureVersion>> {
    scan(txn, keyspace, deployments_range(keyspace)).await
}

/// The keys of all records of a keyspace, ascending.
pub(crate) async fn keys(txn: &Transaction, keyspace: KeyspaceId) -> Result<Vec<Key>> {
    let key = |known: ProcedureVersion| deployment_key(keyspace, &known.name, known.version);
    Ok(list(txn, keyspace).await?.into_iter().map(key).collect())
}

/// Reserves a version for code, unless it is reserved for the same: the one that is asked for, or the next.
pub(crate) async fn begin_deploying(
    txn: &Transaction,
    keyspace: KeyspaceId,
    name: &str,
    version: Option<u32>,
    fresh: &Deployment,
) -> Result<Result<(u32, Begun), InvalidProcedure>> {
    let (version, known) = match version {
        Some(version) => (version, read(txn, &deployment_key(keyspace, name, version)).await?),
        None => {
            let latest = scan(txn, keyspace, versions_range(keyspace, name)).await?.pop();
            match latest {
                Some(latest) if is_same(&latest, fresh) => {
                    (latest.version, read(txn, &deployment_key(keyspace, name, latest.version)).await?)
                }
                Some(ProcedureVersion { version: u32::MAX, .. }) => {
                    return Ok(Err(InvalidProcedure::VersionTaken {
                        name: name.to_owned(),
                        version: u32::MAX,
                    }));
                }
                latest => (latest.map_or(1, |latest| latest.version + 1), None),
            }
        }
    };
    match known {
        None => {
            txn.put(deployment_key(keyspace, name, version), quorate_wire::encode(fresh))?;
            Ok(Ok((version, Begun::New)))
        }
        Some(known) if is_same(&ProcedureVersion::new(name, version, &known), fresh) => {
            Ok(Ok((version, Begun::Again)))
        }
        Some(_) => Ok(Err(InvalidProcedure::VersionTaken { name: name.to_owned(), version })),
    }
}

/// True if a record stands for this code, and nobody wants it gone.
fn is_same(known: &ProcedureVersion, fresh: &Deployment) -> bool {
    let wanted = matches!(known.stage, Stage::Deploying | Stage::Deployed);
    wanted && (known.bytes, known.crc32) == (fresh.bytes, fresh.crc32)
}

/// Notes that the shards have a version; gives its record, or none if somebody wants it gone.
pub(crate) async fn end_deploying(
    txn: &Transaction,
    keyspace: KeyspaceId,
    name: &str,
    version: u32,
) -> Result<Option<Deployment>> {
    let key = deployment_key(keyspace, name, version);
    Ok(match read(txn, &key).await? {
        Some(known) if known.stage == Stage::Deploying => {
            let ended = Deployment { stage: Stage::Deployed, ..known };
            txn.put(&key, quorate_wire::encode(&ended))?;
            Some(ended)
        }
        Some(known) if known.stage == Stage::Deployed => Some(known),
        Some(_) | None => None,
    })
}

/// Takes back what [`begin_deploying`] has put there, if it is still that.
pub(crate) async fn withdraw(
    txn: &Transaction,
    keyspace: KeyspaceId,
    name: &str,
    version: u32,
    fresh: &Deployment,
) -> Result<()> {
    let key = deployment_key(keyspace, name, version);
    if read(txn, &key).await?.as_ref() == Some(fresh) {
        txn.delete(&key)?;
    }
    Ok(())
}

/// Notes how far a version is; gives its record as it was, or none if there is none. A removed version stays so.
pub(crate) async fn set_stage(
    txn: &Transaction,
    keyspace: KeyspaceId,
    name: &str,
    version: u32,
    stage: Stage,
) -> Result<Option<Deployment>> {
    let key = deployment_key(keyspace, name, version);
    let Some(known) = read(txn, &key).await? else { return Ok(None) };
    if known.stage != Stage::Removed && known.stage != stage {
        txn.put(&key, quorate_wire::encode(&Deployment { stage, ..known.clone() }))?;
    }
    Ok(Some(known))
}
