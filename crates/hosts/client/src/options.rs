//! The options that a user can choose when connecting.

use std::time::Duration;

use quorate_core::ClientId;
use quorate_tapir::CoordinatorConfig;

use quorate_wire::Credential;

/// How a [`Database`](crate::Database) behaves. Every wait and every queue has a bound here.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the site that this client stands in: its replicas are asked first. Without one, the nodes that
    /// answer fastest are near.
    pub site: Option<String>,
    /// How long to wait for a node when connecting.
    pub connect_timeout: Duration,
    /// How long a transaction may take in all, with its attempts and with finding out what became of them; also how
    /// long any single call of a transaction may take. Can be changed per keyspace handle.
    pub deadline: Duration,
    /// How many transactions may be open at once.
    pub open_transactions_max: usize,
    /// How many commits may be in flight at once; further ones wait.
    pub commits_in_flight_max: usize,
    /// Older tokens are refused without asking. The cluster itself may have forgotten what ended more than some ten
    /// seconds ago.
    pub outcome_retention: Duration,
    /// True if transactions of far-away shards are given timestamps a little ahead, by measured delays, so that conflicting
    /// ones are voted on in the same order everywhere, and if reads of contended keys wait for their turn. Only about
    /// speed under contention.
    pub deadline_ordering: bool,
    /// Emulates the delays between the sites of a matrix on one machine; the servers must do so as well.
    pub delays: Option<quorate_runtime::wan::Matrix>,
    /// The certificate of a user, for a cluster whose nodes have certificates; none for plain text.
    #[cfg(feature = "tls")]
    pub certificates: Option<crate::Certificates>,
    /// As which user to connect, where the certificate does not say so: a password, or a token. Without TLS it can be read on the way.
    pub credential: Option<Credential>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            site: None,
            connect_timeout: Duration::from_secs(5),
            deadline: Duration::from_secs(10),
            open_transactions_max: 65_536,
            commits_in_flight_max: 16_384,
            outcome_retention: Duration::from_secs(24 * 3600),
            deadline_ordering: true,
            delays: None,
            #[cfg(feature = "tls")]
            certificates: None,
            credential: None,
        }
    }
}

impl Options {
    /// The certificates by which connections are secured.
    pub(crate) fn tls(&self) -> Option<quorate_runtime::secure::Tls> {
        #[cfg(feature = "tls")]
        return self.certificates.as_ref().map(crate::Certificates::shared);
        #[cfg(not(feature = "tls"))]
        None
    }

    /// How the coordinator of a client behaves that has connected with these.
    pub(crate) fn coordinator(&self, client: ClientId) -> CoordinatorConfig {
        CoordinatorConfig {
            deadlines: self.deadline_ordering,
            reads_in_turn: self.deadline_ordering,
            ..CoordinatorConfig::new(client)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadline_ordering_is_the_default_and_can_be_done_without() {
        for deadline_ordering in [true, false] {
            let options = Options { deadline_ordering, ..Options::default() };
            let config = options.coordinator(ClientId(7));
            assert_eq!((config.client, config.deadlines), (ClientId(7), deadline_ordering));
            assert_eq!(config.reads_in_turn, deadline_ordering);
        }
        assert!(Options::default().deadline_ordering);
    }
}
