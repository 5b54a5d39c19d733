//! The protocol version in force, and putting the next one in force (ADR 0077).

use quorate_wire::ProtocolVersion;
use quorate_wire::catalogue::{PROTOCOL_VERSION_KEY, decode_protocol_version, encode_counter};

use crate::catalogue::damaged;
use crate::database::Database;
use crate::error::Result;
use crate::transaction::Transaction;

/// The protocol version in force, as a transaction on the catalogue reads it.
pub(crate) async fn in_force(txn: &Transaction) -> Result<ProtocolVersion> {
    let value = txn.get(PROTOCOL_VERSION_KEY).await?;
    decode_protocol_version(value.as_deref()).map_err(|error| damaged(&error))
}

impl Database {
    /// The protocol version in force in the cluster.
    ///
    /// # Errors
    /// Any error that a transaction may end with.
    pub async fn protocol_version(&self) -> Result<ProtocolVersion> {
        self.system().transact(async |txn: Transaction| in_force(&txn).await).await
    }

    /// Puts a protocol version in force, which cannot be taken back: programs that do not know it cannot be nodes of the cluster from then on. The caller has made sure
    /// that all nodes know it. Gives the version in force afterwards, which is a later one if that was in force already.
    ///
    /// # Errors
    /// Any error that a transaction may end with. A node that does not know the version closes the connection on which it is asked to write it.
    pub async fn enter_protocol_version(&self, version: ProtocolVersion) -> Result<ProtocolVersion> {
        let enter = async |txn: Transaction| {
            let before = in_force(&txn).await?;
            if version > before {
                txn.put(PROTOCOL_VERSION_KEY, encode_counter(version.0))?;
            }
            Ok(before.max(version))
        };
        self.system().transact(enter).await
    }
}
