//! How many transactions were asked to commit, have written, and have not ended: servers bound them, all and those of each client.

use quorate_core::ClientId;
use quorate_core::hash::FixedMap;

/// The counts. They are asked for with every commit, so nothing is counted anew then.
#[derive(Debug, Default)]
pub(super) struct Committing {
    of_client: FixedMap<ClientId, usize>,
    all: usize,
}

impl Committing {
    /// A transaction of this client is to commit.
    pub(super) fn begin(&mut self, client: ClientId) {
        *self.of_client.entry(client).or_default() += 1;
        self.all += 1;
    }

    /// One of those has ended.
    pub(super) fn end(&mut self, client: ClientId) {
        let Some(count) = self.of_client.get_mut(&client) else {
            unreachable!("a commit ends that was begun")
        };
        assert!(*count <= self.all, "{} commits are under way, and {count} of {client:?}", self.all);
        *count -= 1;
        self.all -= 1;
        if *count == 0 {
            self.of_client.remove(&client);
        }
    }

    /// How many there are, of one client if it is named.
    pub(super) fn len(&self, client: Option<ClientId>) -> usize {
        client.map_or(self.all, |client| self.of_client.get(&client).copied().unwrap_or_default())
    }

    /// How many clients have one.
    pub(super) fn clients(&self) -> usize {
        self.of_client.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_counted_by_client_and_forgotten_at_the_end() {
        let mut committing = Committing::default();
        for client in [1, 1, 2] {
            committing.begin(ClientId(client));
        }
        let lengths = |committing: &Committing| {
            [None, Some(1), Some(2), Some(3)].map(|client| committing.len(client.map(ClientId)))
        };
        assert_eq!((lengths(&committing), committing.clients()), ([3, 2, 1, 0], 2));
        committing.end(ClientId(2));
        committing.end(ClientId(1));
        assert_eq!((lengths(&committing), committing.clients()), ([1, 1, 0, 0], 1));
    }
}
