//! The status of a node as Prometheus reads it.

use std::fmt::Write;

use crate::node::{
    ChangesStatus, EventLoopStatus, HandedOverStatus, LagStatus, MemoryStatus, ReplicaStatus,
    SpeculatingStatus, Status, SweepingStatus, TrafficStatus, TunerStatus,
};

/// Renders a status in the text format of Prometheus.
pub(crate) fn render(status: &Status) -> String {
    let mut page = Page::default();
    let (transport, log) = (&status.transport, &status.log);
    page.one(
        "healthy",
        "gauge",
        "1 if every replica of this node serves.",
        f64::from(u8::from(status.healthy)),
    );
    page.one(
        "clock_off_seconds",
        "gauge",
        "How far the clock is ahead of those of most others, negative if behind; 0 if that is allowed.",
        status.clock_error_seconds.unwrap_or(0.0),
    );
    page.one("uptime_seconds", "gauge", "How long the node has been running.", status.uptime_seconds);
    page.one("cpu_seconds_total", "counter", "Processor time of the process.", status.cpu_seconds);
    page.one(
        "refused_messages_total",
        "counter",
        "Messages from clients refused because of overload.",
        status.refused_messages as f64,
    );
    page.one(
        "refused_client_messages_total",
        "counter",
        "Those of them whose client had more under way at one replica than client_prepared_high.",
        status.refused_client_messages as f64,
    );
    page.one(
        "denied_messages_total",
        "counter",
        "Messages and requests of clients refused because their user has not the right.",
        status.denied_messages as f64,
    );
    page.one(
        "unsaid_messages_total",
        "counter",
        "Messages passed over because such a peer does not say such things.",
        status.unsaid_messages as f64,
    );
    page.one(
        "announcements_passed_on_total",
        "counter",
        "Announcements passed on, once for each client that listens.",
        status.announcements_passed_on as f64,
    );
    page.one(
        "announcements_dropped_total",
        "counter",
        "Announcements not passed on because too much waited to be sent.",
        status.announcements_dropped as f64,
    );
    page.one(
        "disagreements_total",
        "counter",
        "Transactions of which clients say that their shards have decided differently.",
        status.disagreements as f64,
    );
    page.one("connections", "gauge", "Connections that are up.", transport.connections as f64);
    page.one("queued_bytes", "gauge", "Bytes that wait to be sent.", transport.queued_bytes as f64);
    page.one("messages_sent_total", "counter", "Protocol messages sent.", transport.messages_sent as f64);
    page.one(
        "messages_received_total",
        "counter",
        "Protocol messages received.",
        transport.messages_received as f64,
    );
    page.one("bytes_sent_total", "counter", "Bytes sent.", transport.bytes_sent as f64);
    page.one("bytes_received_total", "counter", "Bytes received.", transport.bytes_received as f64);
    page.one(
        "socket_writes_total",
        "counter",
        "Calls that wrote to a socket.",
        transport.socket_writes as f64,
    );
    page.one(
        "socket_reads_total",
        "counter",
        "Calls that read from a socket.",
        transport.socket_reads as f64,
    );
    page.one("mean_batch", "gauge", "Messages sent for each write to a socket.", transport.mean_batch);
    page.one(
        "refused_connections_total",
        "counter",
        "Connections that were refused.",
        transport.refused_connections as f64,
    );
    page.one(
        "refused_certificates_total",
        "counter",
        "Connections that were refused or closed because of their certificate, or the lack of one.",
        transport.refused_certificates as f64,
    );
    page.one(
        "violations_total",
        "counter",
        "Connections closed because the peer broke the rules.",
        transport.violations as f64,
    );
    page.one(
        "slow_readers_total",
        "counter",
        "Connections closed because the peer did not read.",
        transport.slow_readers as f64,
    );
    page.one(
        "unsupported_total",
        "counter",
        "Packets passed over because a peer is of a later version.",
        transport.unsupported as f64,
    );
    page.one(
        "unsupported_by_peers_total",
        "counter",
        "Kinds of messages that peers of an earlier version have passed over, once for each connection.",
        transport.unsupported_by_peers as f64,
    );
    page.one("log_syncs_total", "counter", "Syncs of logs.", log.syncs as f64);
    page.one("log_writes_total", "counter", "Writes to logs.", log.writes as f64);
    page.one("log_records_total", "counter", "Records written to logs.", log.records as f64);
    page.one("log_bytes_total", "counter", "Bytes written to logs.", log.bytes as f64);
    let disk = &status.disk;
    if let Some(free_bytes) = disk.free_bytes {
        page.one("disk_free_bytes", "gauge", "Room on the disk of the data directory.", free_bytes as f64);
    }
    page.one("disk_low", "gauge", "1 if that is below the mark.", f64::from(u8::from(disk.is_low)));
    page.one("log_scrubbed_bytes_total", "counter", "Bytes of logs read again.", disk.scrubbed_bytes as f64);
    page.one("log_scrub_passes_total", "counter", "How often all logs were.", disk.scrub_passes as f64);
    if let Some(last_scrub) = disk.last_scrub {
        page.one("log_scrub_last_seconds", "gauge", "When that was last, since 1970.", last_scrub as f64);
    }
    page.one("clients_max", "gauge", "How many clients may connect.", disk.clients_max as f64);
    page.each(status, "replica_serving", "gauge", "1 if the replica serves.", |replica| {
        f64::from(u8::from(replica.state == "normal"))
    });
    page.each(
        status,
        "replica_leading",
        "gauge",
        "1 if the replica leads its group, in a protocol with leaders.",
        |replica| f64::from(u8::from(replica.leads)),
    );
    page.each(status, "replica_view", "gauge", "The view of the replica.", |replica| replica.view as f64);
    page.each(status, "replica_prepared", "gauge", "Transactions held prepared.", |replica| {
        replica.prepared as f64
    });
    page.each(status, "commits_total", "counter", "Transactions committed.", |replica| {
        replica.commits as f64
    });
    page.each(status, "aborts_total", "counter", "Transactions aborted.", |replica| replica.aborts as f64);
    page.each(status, "record_transactions", "gauge", "Transactions in the record.", |replica| {
        replica.record_len as f64
    });
    page.each(status, "log_lag_bytes", "gauge", "Bytes that wait for the disk.", |replica| {
        replica.log_lag_bytes as f64
    });
    page.each_memory(
        status,
        "replica_index_bytes",
        "gauge",
        "Memory that keys take, with all that finds them.",
        |memory| Some(memory.index_bytes as f64),
    );
    page.each_memory(status, "replica_values_bytes", "gauge", "Memory that values take.", |memory| {
        Some(memory.values_bytes as f64)
    });
    page.each_memory(status, "replica_file_values", "gauge", "Values that are in a file.", |memory| {
        Some(memory.file.as_ref()?.values as f64)
    });
    page.each_memory(status, "replica_file_bytes", "gauge", "Room that values take in a file.", |memory| {
        Some(memory.file.as_ref()?.bytes as f64)
    });
    page.each_memory(status, "replica_file_writes_total", "counter", "Values written to a file.", |memory| {
        Some(memory.file.as_ref()?.writes as f64)
    });
    page.each_memory(status, "replica_file_reads_total", "counter", "Values read from a file.", |memory| {
        Some(memory.file.as_ref()?.reads as f64)
    });
    page.each_site(
        status,
        "site_unreceived_transactions",
        "Transactions of a local site that another one has not received.",
        |lag| lag.unreceived as f64,
    );
    page.each_site(
        status,
        "site_unreceived_seconds",
        "For how long at least it has lacked the first of them.",
        |lag| lag.unreceived_seconds,
    );
    page.each_site(
        status,
        "site_uncommitted_transactions",
        "Transactions of a local site that readers at another one do not see.",
        |lag| lag.uncommitted as f64,
    );
    page.each_site(
        status,
        "site_uncommitted_seconds",
        "For how long at least the first of them has not been seen.",
        |lag| lag.uncommitted_seconds,
    );
    page.each_site(
        status,
        "site_holds_up",
        "1 if the other site keeps transactions from being visible everywhere.",
        |lag| f64::from(u8::from(lag.holds_up)),
    );
    page.each_at_site(
        status,
        "containers_moved_total",
        "Containers that the replica has moved to the sites that write them.",
        |handed_over| handed_over.containers,
    );
    page.each_at_site(
        status,
        "shares_given_total",
        "Shares of counters that the replica has given to other sites.",
        |handed_over| handed_over.shares,
    );
    changes(&mut page, status);
    sweeping(&mut page, status);
    speculation(&mut page, status);
    traffic(&mut page, status);
    event_loops(&mut page, status);
    page.text
}

/// The keyspaces whose values expire and that this node sweeps.
fn sweeping(page: &mut Page, status: &Status) {
    let mut each = |name: &str, kind: &str, help: &str, value: fn(&SweepingStatus) -> f64| {
        if status.sweeping.is_empty() {
            return;
        }
        page.head(name, kind, help);
        for swept in &status.sweeping {
            let (keyspace, value) = (&swept.keyspace, value(swept));
            page.line(format_args!("quorate_{name}{{keyspace=\"{keyspace}\"}} {value}"));
        }
    };
    each(
        "expiry_swept_keys_total",
        "counter",
        "Keys that this node has deleted because their values were over.",
        |it| it.keys as f64,
    );
    each("expiry_sweeps_total", "counter", "Transactions in which it has.", |it| it.transactions as f64);
    each(
        "expiry_conflicts_total",
        "counter",
        "Sweeps that came to nothing because of other transactions.",
        |it| it.conflicts as f64,
    );
    each("expiry_failures_total", "counter", "Sweeps and looks for what is over that have failed.", |it| {
        it.failures as f64
    });
    each(
        "expiry_behind_seconds",
        "gauge",
        "How long what this node found last had been over; 0 if it found nothing.",
        |it| it.behind_seconds,
    );
}

/// The changes that replicas retain for consumers, and have told.
fn changes(page: &mut Page, status: &Status) {
    let mut each = |name: &str, kind: &str, help: &str, value: fn(&ChangesStatus) -> Option<f64>| {
        let told = |replica: &ReplicaStatus| Some((labels(replica), value(replica.changes.as_ref()?)?));
        let lines: Vec<(String, f64)> = status.replicas.iter().filter_map(told).collect();
        if lines.is_empty() {
            return;
        }
        page.head(name, kind, help);
        for (labels, value) in lines {
            page.line(format_args!("quorate_{name}{{{labels}}} {value}"));
        }
    };
    each("changes_retained_bytes", "gauge", "Bytes of changes retained for consumers.", |it| {
        Some(it.retained_bytes as f64)
    });
    each(
        "changes_retained_since_seconds",
        "gauge",
        "Since when changes are retained, since 1970; absent if none was ever let go.",
        |it| it.retained_since,
    );
    each("changes_pages_total", "counter", "Pages of changes that brought a consumer on.", |it| {
        Some(it.pages as f64)
    });
    each(
        "changes_too_old_total",
        "counter",
        "How often a consumer has asked for changes that were let go already.",
        |it| Some(it.too_old as f64),
    );
}

/// The share of each event loop of the node.
fn event_loops(page: &mut Page, status: &Status) {
    let mut each = |name: &str, kind: &str, help: &str, value: fn(&EventLoopStatus) -> f64| {
        page.head(name, kind, help);
        for event_loop in &status.event_loops {
            let (number, value) = (event_loop.event_loop, value(event_loop));
            page.line(format_args!("quorate_{name}{{event_loop=\"{number}\"}} {value}"));
        }
    };
    each("event_loop_replicas", "gauge", "Replicas that live on the event loop.", |it| it.replicas as f64);
    each("event_loop_cpu_seconds_total", "counter", "Processor time of the event loop.", |it| it.cpu_seconds);
    each("event_loop_turns_total", "counter", "Turns of the event loop.", |it| it.turns as f64);
    each("event_loop_connections", "gauge", "Connections that lead to the event loop.", |it| {
        it.connections as f64
    });
    each("event_loop_messages_received_total", "counter", "Messages from other processes.", |it| {
        it.messages_received as f64
    });
    each(
        "event_loop_messages_handed_total",
        "counter",
        "Messages that other event loops have handed to it.",
        |it| it.messages_handed as f64,
    );
    each(
        "event_loop_messages_lost_total",
        "counter",
        "Those of them that were lost because too many waited.",
        |it| it.messages_lost as f64,
    );
}

/// How far away the other nodes are, and the transactions that replicas have seen.
fn traffic(page: &mut Page, status: &Status) {
    page.head("round_trip_seconds", "gauge", "How long a message to another node and its answer take.");
    for peer in &status.peers {
        if let Some(seconds) = peer.round_trip_seconds {
            page.line(format_args!("quorate_round_trip_seconds{{node=\"{}\"}} {seconds}", peer.node));
        }
    }
    page.each_traffic(
        status,
        "slow_commits_total",
        "Commits on the slow path, of transactions that write.",
        |traffic| traffic.slow_commits,
    );
    page.each_traffic(status, "aborted_writers_total", "Attempts that aborted, likewise.", |traffic| {
        traffic.aborts
    });
    page.durations(status);
}

/// The numbers of machines that run the transactions of `snapshot` keyspaces at their nodes.
fn speculation(page: &mut Page, status: &Status) {
    page.each_node(
        status,
        "final_commits_total",
        "counter",
        "Transactions of the node that became final.",
        |it| it.finals as f64,
    );
    page.each_node(status, "aborted_attempts_total", "counter", "Attempts of the node that aborted.", |it| {
        it.aborts as f64
    });
    page.each_node(
        status,
        "shown_results_total",
        "counter",
        "Results that clients were shown before they were final.",
        |it| it.shown as f64,
    );
    page.each_node(status, "apologies_total", "counter", "Results that were shown and taken back.", |it| {
        it.apologies as f64
    });
    page.each_node(
        status,
        "speculative_reads_total",
        "counter",
        "Reads from transactions that were not final.",
        |it| it.speculative_reads as f64,
    );
    page.each_node(
        status,
        "cascaded_aborts_total",
        "counter",
        "Attempts that aborted because of one that they depended on.",
        |it| it.cascades as f64,
    );
    page.each_node(
        status,
        "passed_replicas_total",
        "counter",
        "Commits that passed a replica which did not vote.",
        |it| it.passed as f64,
    );
    page.each_tuner(
        status,
        "tuner_degree",
        "gauge",
        "How far transactions speculate: 0 not at all, 1 in reads, 1 + n in chains of n.",
        |tuner| f64::from(tuner.degree),
    );
    page.each_tuner(
        status,
        "tuner_settled_degree",
        "gauge",
        "The degree that the tuner has settled on, -1 while it searches.",
        |tuner| tuner.settled.map_or(-1.0, f64::from),
    );
    page.each_tuner(
        status,
        "tuner_commits_per_second",
        "gauge",
        "Final commits per second in the last window.",
        |tuner| tuner.commits_per_second,
    );
    page.each_tuner(status, "tuner_window_seconds", "gauge", "How long a window is.", |tuner| {
        tuner.window_seconds
    });
    page.each_tuner(
        status,
        "tuner_final_latency_seconds",
        "gauge",
        "The median time until a transaction is final, 0 before it is known.",
        |tuner| tuner.final_latency_seconds.unwrap_or(0.0),
    );
    page.each_tuner(status, "tuner_windows_total", "counter", "Windows that were measured.", |tuner| {
        tuner.windows as f64
    });
    page.each_tuner(status, "tuner_searches_total", "counter", "Searches that have begun.", |tuner| {
        tuner.searches as f64
    });
    page.each_cause(
        status,
        "tuner_decisions_total",
        "Decisions of the tuner, by their cause; also those that leave the degree as it is.",
    );
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.head(name, kind, help);
        self.line(format_args!("quorate_{name} {value}"));
    }

    fn each(
        &mut self,
        status: &Status,
        name: &str,
        kind: &str,
        help: &str,
        value: impl Fn(&ReplicaStatus) -> f64,
    ) {
        self.head(name, kind, help);
        for replica in &status.replicas {
            let ReplicaStatus { keyspace, shard, index, .. } = replica;
            let keyspace = escaped(keyspace);
            let value = value(replica);
            self.line(format_args!(
                "quorate_{name}{{keyspace=\"{keyspace}\",shard=\"{shard}\",replica=\"{index}\"}} {value}"
            ));
        }
    }

    /// A number of each replica that says how much memory its keys and values take, and has this one.
    fn each_memory(
        &mut self,
        status: &Status,
        name: &str,
        kind: &str,
        help: &str,
        value: impl Fn(&MemoryStatus) -> Option<f64>,
    ) {
        let known = |replica: &ReplicaStatus| replica.memory.as_ref().and_then(&value);
        if status.replicas.iter().all(|replica| known(replica).is_none()) {
            return;
        }
        self.head(name, kind, help);
        for replica in &status.replicas {
            let Some(value) = known(replica) else { continue };
            let ReplicaStatus { keyspace, shard, index, .. } = replica;
            let keyspace = escaped(keyspace);
            self.line(format_args!(
                "quorate_{name}{{keyspace=\"{keyspace}\",shard=\"{shard}\",replica=\"{index}\"}} {value}"
            ));
        }
    }

    /// A gauge of each other local site, where a replica leads one.
    fn each_site(&mut self, status: &Status, name: &str, help: &str, value: impl Fn(&LagStatus) -> f64) {
        if status.replicas.iter().all(|replica| replica.lags.is_empty()) {
            return;
        }
        self.head(name, "gauge", help);
        for replica in &status.replicas {
            let ReplicaStatus { keyspace, shard, lags, .. } = replica;
            let keyspace = escaped(keyspace);
            for lag in lags {
                let (other, value) = (lag.shard, value(lag));
                self.line(format_args!(
                    "quorate_{name}{{keyspace=\"{keyspace}\",shard=\"{shard}\",other=\"{other}\"}} {value}"
                ));
            }
        }
    }

    /// A count of each replica of a local site.
    fn each_at_site(
        &mut self,
        status: &Status,
        name: &str,
        help: &str,
        value: impl Fn(&HandedOverStatus) -> u64,
    ) {
        let sites =
            || status.replicas.iter().filter_map(|replica| Some((replica, replica.handed_over.as_ref()?)));
        if sites().next().is_none() {
            return;
        }
        self.head(name, "counter", help);
        for (ReplicaStatus { keyspace, shard, index, .. }, handed_over) in sites() {
            let (keyspace, value) = (escaped(keyspace), value(handed_over));
            self.line(format_args!(
                "quorate_{name}{{keyspace=\"{keyspace}\",shard=\"{shard}\",replica=\"{index}\"}} {value}"
            ));
        }
    }

    /// A count of each replica that has seen transactions.
    fn each_traffic(
        &mut self,
        status: &Status,
        name: &str,
        help: &str,
        value: impl Fn(&TrafficStatus) -> u64,
    ) {
        self.head(name, "counter", help);
        for replica in &status.replicas {
            let Some(traffic) = &replica.traffic else { continue };
            let (labels, value) = (labels(replica), value(traffic));
            self.line(format_args!("quorate_{name}{{{labels}}} {value}"));
        }
    }

    /// How long the commits of each replica have taken, as a histogram.
    fn durations(&mut self, status: &Status) {
        self.head("commit_seconds", "histogram", "How long commits took, of transactions that write.");
        for replica in &status.replicas {
            let Some(traffic) = &replica.traffic else { continue };
            let (labels, mut so_far) = (labels(replica), 0);
            for (end, count) in &traffic.durations {
                so_far += count;
                self.line(format_args!("quorate_commit_seconds_bucket{{{labels},le=\"{end}\"}} {so_far}"));
            }
            self.line(format_args!("quorate_commit_seconds_bucket{{{labels},le=\"+Inf\"}} {so_far}"));
            let sum = traffic.durations_sum_seconds;
            self.line(format_args!("quorate_commit_seconds_sum{{{labels}}} {sum}"));
            self.line(format_args!("quorate_commit_seconds_count{{{labels}}} {so_far}"));
        }
    }

    /// A number of each machine that runs the transactions of its node.
    fn each_node(
        &mut self,
        status: &Status,
        name: &str,
        kind: &str,
        help: &str,
        value: impl Fn(&SpeculatingStatus) -> f64,
    ) {
        self.each_home(status, name, kind, help, |speculating| vec![(String::new(), value(speculating))]);
    }

    /// A number of each tuner.
    fn each_tuner(
        &mut self,
        status: &Status,
        name: &str,
        kind: &str,
        help: &str,
        value: impl Fn(&TunerStatus) -> f64,
    ) {
        self.each_home(status, name, kind, help, |speculating| {
            speculating.tuner.iter().map(|tuner| (String::new(), value(tuner))).collect()
        });
    }

    /// How often each tuner has decided something, by the cause.
    fn each_cause(&mut self, status: &Status, name: &str, help: &str) {
        self.each_home(status, name, "counter", help, |speculating| {
            let decided = speculating.tuner.iter().flat_map(|tuner| &tuner.decided);
            decided.map(|one| (format!(",cause=\"{}\"", one.cause), one.count as f64)).collect()
        });
    }

    /// Numbers of each machine that runs the transactions of its node, each with further labels.
    fn each_home(
        &mut self,
        status: &Status,
        name: &str,
        kind: &str,
        help: &str,
        values: impl Fn(&SpeculatingStatus) -> Vec<(String, f64)>,
    ) {
        let mut lines = Vec::new();
        for ReplicaStatus { keyspace, shard, index, speculating, .. } in &status.replicas {
            let keyspace = escaped(keyspace);
            for (labels, value) in speculating.iter().flat_map(&values) {
                lines.push(format!(
                    "quorate_{name}{{keyspace=\"{keyspace}\",shard=\"{shard}\",replica=\"{index}\"{labels}}} {value}"
                ));
            }
        }
        if lines.is_empty() {
            return;
        }
        self.head(name, kind, help);
        lines.iter().for_each(|line| self.line(format_args!("{line}")));
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP quorate_{name} {help}\n# TYPE quorate_{name} {kind}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("a text takes what is written to it");
    }
}

/// The labels of a replica.
fn labels(replica: &ReplicaStatus) -> String {
    let ReplicaStatus { keyspace, shard, index, .. } = replica;
    format!("keyspace=\"{}\",shard=\"{shard}\",replica=\"{index}\"", escaped(keyspace))
}

/// A label as Prometheus reads it.
fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    const SOURCE: &str = include_str!("metrics.rs");
    const ALERTS: &str = include_str!("../../../../packaging/prometheus/alerts.yml");
    const DASHBOARD: &str = include_str!("../../../../packaging/grafana/dashboard.json");
    const PAGE: &str = include_str!("../../../../docs/operations.md");

    /// The metrics that a text names, without what a histogram adds to its name.
    fn named(text: &str) -> BTreeSet<&str> {
        let of_name = |rest: &str| rest.find(|letter: char| letter != '_' && !letter.is_ascii_lowercase());
        let mut names = BTreeSet::new();
        for (at, _) in text.match_indices("quorate_") {
            let rest = &text[at + "quorate_".len()..];
            let name = &rest[..of_name(rest).unwrap_or(rest.len())];
            let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            names.insert(histogram.unwrap_or(name));
        }
        names
    }

    fn is_served(name: &str) -> bool {
        SOURCE.contains(&format!("\"{name}\","))
    }

    #[test]
    fn alerts_dashboard_and_page_name_metrics_that_are_served() {
        for (file, text) in [("alerts.yml", ALERTS), ("dashboard.json", DASHBOARD), ("operations.md", PAGE)] {
            let names = named(text);
            assert!(names.len() > 10, "{file} names {names:?}");
            let unknown: Vec<_> = names.iter().filter(|name| !is_served(name)).collect();
            assert!(unknown.is_empty(), "{file} names metrics that no node serves: {unknown:?}");
        }
        assert!(!is_served("commits"), "a part of a name is none");
    }

    #[test]
    fn the_dashboard_is_one_that_grafana_reads() {
        let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).expect("it is JSON");
        let panels = dashboard["panels"].as_array().expect("it has panels");
        let ids: BTreeSet<_> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
        assert_eq!(ids.len(), panels.len(), "each panel has a number of its own");
        for panel in panels.iter().filter(|panel| panel["type"] != "row") {
            let title = panel["title"].as_str().expect("a panel has a title");
            let targets = panel["targets"].as_array().expect("a panel shows something");
            assert!(!targets.is_empty() && panel["description"].is_string(), "{title}");
        }
    }

    #[test]
    fn each_alert_says_what_to_do_and_points_at_a_chapter() {
        let alerts: Vec<&str> = ALERTS.split("- alert: ").skip(1).collect();
        assert!(alerts.len() > 10);
        for alert in alerts {
            for part in ["expr:", "severity:", "summary:", "description:", "runbook: docs/"] {
                assert!(alert.contains(part), "{part} is missing in {alert}");
            }
            let chapter = alert.split_once("runbook: docs/operations.md#").map(|(_, rest)| rest.trim());
            let heading = |line: &str| {
                line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-").replace(',', "")
            };
            if let Some(chapter) = chapter.and_then(|rest| rest.split_whitespace().next()) {
                assert!(
                    PAGE.lines().any(|line| line.starts_with("## ") && heading(line) == chapter),
                    "{chapter}"
                );
            }
        }
    }
}
