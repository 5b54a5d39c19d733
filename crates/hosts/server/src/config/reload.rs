//! A configuration that is read again while its node runs: what is taken over, and what waits for a restart.

use super::{Config, Limits};

/// The changes of a file that was read again, by the names that they have there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// These are in force from now on.
    pub taken_over: Vec<&'static str>,
    /// These are in force once the node is started again.
    pub after_restart: Vec<&'static str>,
}

/// Compares each field, takes over those of the first list and names what has changed. Every field has to stand in one of the lists.
macro_rules! take_over {
    ($type:ident of $own:expr, $new:expr, $reloaded:expr;
        takes_over { $($live:ident: $live_name:literal),* $(,)? }
        after_restart { $($later:ident: $later_name:literal),* $(,)? }
        apart { $($apart:ident),* $(,)? }) => {
        let $type { $($live,)* $($later,)* $($apart: _,)* } = $new;
        $(if $own.$live != *$live {
            $own.$live.clone_from($live);
            $reloaded.taken_over.push($live_name);
        })*
        $(if $own.$later != *$later {
            $reloaded.after_restart.push($later_name);
        })*
    };
}

impl Config {
    /// Takes over from a file that was read again what may change while the node runs, and names what has changed. A setting that waits for a
    /// restart stays as it is here, so that it is named until then.
    pub fn take_over(&mut self, file: &Config) -> Reloaded {
        let mut reloaded = Reloaded::default();
        take_over! { Config of self, file, reloaded;
            takes_over {}
            after_restart {
                cluster_name: "cluster.name",
                cluster: "cluster.id",
                node: "node",
                topology: "[[nodes]]",
                system: "[system]",
                first_version: "system.protocol_version",
                data_directory: "data_directory",
                listen: "listen",
                http: "http",
                wan: "[wan]",
                join: "cluster.join",
                containers: "[containers]",
                log: "[log]",
                tls: "[tls]",
                insecure: "insecure",
                threads: "threads",
                doors: "[doors]",
            }
            apart { limits, logging }
        }
        reloaded.take_over_limits(&mut self.limits, &file.limits);
        if self.logging.level != file.logging.level {
            self.logging.level.clone_from(&file.logging.level);
            reloaded.taken_over.push("logging.level");
        }
        if self.logging.format != file.logging.format {
            reloaded.after_restart.push("logging.format");
        }
        reloaded
    }
}

impl Reloaded {
    fn take_over_limits(&mut self, own: &mut Limits, file: &Limits) {
        take_over! { Limits of own, file, self;
            takes_over {
                connections_max: "limits.connections_max",
                queued_bytes_high: "limits.queued_bytes_high",
                prepared_high: "limits.prepared_high",
                client_prepared_high: "limits.client_prepared_high",
                log_lag_bytes_high: "limits.log_lag_bytes_high",
                busy_retry_after: "limits.busy_retry_after_ms",
                drain_timeout: "limits.drain_timeout_ms",
            }
            after_restart {
                http_connections_max: "limits.http_connections_max",
                http_timeout: "limits.http_timeout_ms",
                handshake_timeout: "limits.handshake_timeout_ms",
                stall_timeout: "limits.stall_timeout_ms",
                client_queue_bytes_max: "limits.client_queue_bytes_max",
                node_queue_bytes_max: "limits.node_queue_bytes_max",
                unfinished_bytes_max: "limits.unfinished_bytes_max",
                free_bytes_low: "limits.free_bytes_low",
                memory_bytes: "limits.memory_bytes",
                scrub_bytes_per_second: "limits.scrub_bytes_per_second",
                scrub_interval: "limits.scrub_interval_ms",
                catalogue_interval: "limits.catalogue_interval_ms",
            }
            apart {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{LogFormat, print_config};

    fn with(changes: &[(&str, &str)]) -> Config {
        let replace = |text: String, (from, to): &(&str, &str)| {
            assert!(text.contains(from), "{from}");
            text.replace(from, to)
        };
        Config::parse(&changes.iter().fold(print_config().to_owned(), replace)).unwrap()
    }

    #[test]
    fn limits_and_levels_are_taken_over_and_the_rest_is_named_until_a_restart() {
        let mut own = with(&[]);
        let file = with(&[
            ("prepared_high = 50000", "prepared_high = 7"),
            ("drain_timeout_ms = 8000", "drain_timeout_ms = 9000"),
            ("free_bytes_low = 134217728", "free_bytes_low = 5"),
            ("level = \"info\"", "level = \"debug\""),
            ("format = \"text\"", "format = \"json\""),
            ("http = \"127.0.0.1:7500\"", "http = \"127.0.0.1:7501\""),
        ]);
        let reloaded = own.take_over(&file);
        assert_eq!(reloaded.taken_over, ["limits.prepared_high", "limits.drain_timeout_ms", "logging.level"]);
        let waits = ["http", "limits.free_bytes_low", "logging.format"];
        assert_eq!(reloaded.after_restart, waits);
        assert_eq!((own.limits.prepared_high, own.limits.drain_timeout.as_secs()), (7, 9));
        assert_eq!((own.logging.level.as_str(), own.logging.format), ("debug", LogFormat::Text));
        assert_eq!(own.limits.free_bytes_low, with(&[]).limits.free_bytes_low);
        let again = own.take_over(&file);
        assert!(again.taken_over.is_empty());
        assert_eq!(again.after_restart, waits, "it still waits");
    }

    #[test]
    fn a_file_that_is_as_before_changes_nothing() {
        assert_eq!(with(&[]).take_over(&with(&[])), Reloaded::default());
    }
}
