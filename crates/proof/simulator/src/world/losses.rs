//! Replicas that go on although their group has lost more than it survives.

use std::collections::BTreeSet;

use bytes::BytesMut;
use quorate_core::{Epoch, Machine, ReplicaId, TransactionId};
use quorate_storage::LogError;

use super::{Protocol, Sight, World};

impl<P: Protocol, A> World<P, A> {
    /// Writes what a server that is down is to find on its disk, as its node does before it starts it; in memory nothing is written.
    ///
    /// # Errors
    /// The disk does not take it.
    pub fn put_on_disk(
        &mut self,
        server: usize,
        epoch: Epoch,
        records: &[<P::Server as Machine>::Record],
    ) -> Result<(), LogError> {
        let host = &mut self.servers[server];
        assert!(host.machine().is_none(), "a machine that runs writes to its disk itself");
        let contents = records.iter().map(|record| {
            let mut contents = BytesMut::new();
            P::encode_record(epoch, record, &mut contents);
            contents.freeze()
        });
        host.disk.fill(contents)
    }

    /// A replica goes on although its group has lost more than it survives, and nothing is promised of what had begun.
    pub fn void(&mut self, replica: ReplicaId, void: &BTreeSet<TransactionId>) {
        P::show(&mut self.fabric.witness, &Sight::LossAccepted { replica, void }, &mut self.fabric.found);
    }
}
