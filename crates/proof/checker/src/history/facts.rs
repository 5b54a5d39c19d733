//! The facts that servers tell of a transaction: the optional white-box fields.
//!
//! | field | JSON | meaning |
//! |---|---|---|
//! | `ts` | timestamp | the place in a serial order of commits |
//! | `rs` | timestamp | the read snapshot: everything committed at or below it is seen |
//! | `lc` | timestamp | the local commit: from it on, transactions of the same site may see the writes |
//! | `fc` | timestamp | the final commit: from it on, all transactions may see the writes |
//! | `vts` | object from site names to integers from 0 on | the snapshot as a vector: so many commits of each site are seen, none of the sites that it leaves out |
//! | `site_seq` | integer from 1 on | the place of an update transaction among the commits of its own `site` |
//!
//! A timestamp is an integer, or a pair of integers `[time, client]` that is compared from left to right; an
//! integer counts as a pair with client 0. `null` means that the fact is not known. Each field may stand on
//! any line of its transaction; lines that repeat it must agree.

use super::{Malformed, Site, Timestamp};

/// A snapshot as a vector: how many commits of each site it holds, in the order of sites. Sites that hold none
/// may be left out.
pub type SnapshotVector = Vec<(Site, u64)>;

/// The facts that servers tell of a transaction, beside its commit timestamp.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The read snapshot.
    pub rs: Option<Timestamp>,
    /// The local commit.
    pub lc: Option<Timestamp>,
    /// The final commit.
    pub fc: Option<Timestamp>,
    /// The snapshot as a vector.
    pub vts: Option<SnapshotVector>,
    /// The place among the commits of the transaction's site.
    pub site_seq: Option<u64>,
}

impl Facts {
    /// Takes what another line says of the same transaction.
    pub(crate) fn merge(&mut self, other: Facts) -> Result<(), Malformed> {
        merge("rs", &mut self.rs, other.rs)?;
        merge("lc", &mut self.lc, other.lc)?;
        merge("fc", &mut self.fc, other.fc)?;
        merge("vts", &mut self.vts, other.vts)?;
        merge("site_seq", &mut self.site_seq, other.site_seq)
    }
}

fn merge<T: PartialEq>(name: &'static str, known: &mut Option<T>, new: Option<T>) -> Result<(), Malformed> {
    match (&known, new) {
        (Some(known), Some(new)) if *known != new => Err(Malformed::FactDiffers(name)),
        (None, Some(new)) => {
            *known = Some(new);
            Ok(())
        }
        _ => Ok(()),
    }
}
