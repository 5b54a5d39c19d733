//! The cluster at a moment, put together from what its nodes say: the content of one event.

use std::collections::{BTreeMap, BTreeSet};

use quorate::topology::Topology;
use serde::Serialize;

use super::advice::{Advice, advice};
use super::survey::{Answered, HotKey, NodeStatus, Replica, Surveyor, Traffic};

/// The problems that a snapshot tells.
const PROBLEMS_MAX: usize = 50;

/// The hot keys of a keyspace, and the slow transactions of the cluster, that a snapshot tells.
const TOLD_MAX: usize = 12;

/// The shards of a keyspace that are told one by one; of further ones only the sums are told.
const SHARDS_MAX: usize = 64;

/// A site that keeps transactions from being visible everywhere for so long is an operator's concern.
const HELD_UP_SECONDS: f64 = 10.0;

/// A site that does not take in transactions for so long is behind: some are always on their way.
const BEHIND_SECONDS: f64 = 2.0;

/// How a replica lags whose group has gone on.
const EARLIER_VIEW: &str = "others of its group are in a later view";

/// The cluster at a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Snapshot {
    /// When, in milliseconds since 1970 by the clock of the node that serves the page.
    at_millis: u64,
    /// The name of the cluster.
    cluster: String,
    /// Why nothing is known, if nothing is.
    unreachable: Option<String>,
    sites: Vec<Site>,
    nodes: Vec<Node>,
    keyspaces: Vec<Keyspace>,
    slow_transactions: Vec<Slow>,
    problems: Vec<Problem>,
}

/// A site, by its number.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Site {
    name: String,
    /// The round trip to each site, in seconds, between the nodes that are nearest to each other; none where none was measured.
    round_trips: Vec<Option<f64>>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Node {
    node: u16,
    site: usize,
    address: String,
    /// Whether it answers.
    up: bool,
    /// Why not.
    reason: Option<String>,
    version: String,
    up_seconds: f64,
    /// Processors that it keeps busy.
    processors: Option<f64>,
    messages_per_second: Option<f64>,
    bytes_per_second: Option<f64>,
    log_bytes_per_second: Option<f64>,
    log_lag_bytes: u64,
    connections: u64,
    free_bytes: Option<u64>,
    disk_is_low: bool,
    clock_error_seconds: Option<f64>,
    /// How long its status took to come to the node that serves the page, in seconds.
    answered_in: f64,
    replicas: usize,
    serving: usize,
    leading: usize,
}

/// A keyspace.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Keyspace {
    name: String,
    /// The isolation that its protocol gives, or the name of a comparison system.
    isolation: String,
    durability: String,
    application: Option<String>,
    /// Commits and aborted attempts of transactions that write, in a second.
    commits_per_second: f64,
    aborts_per_second: f64,
    /// The part of the commits that took the fast path; none where there is no slow one, or nothing commits.
    fast_share: Option<f64>,
    /// The times of commits in the last seconds.
    p50_seconds: Option<f64>,
    p99_seconds: Option<f64>,
    /// Transactions that are prepared and not decided, at the replica that has most.
    prepared: u64,
    hot_keys: Vec<Hot>,
    shards_total: usize,
    shards: Vec<Shard>,
}

/// A shard.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Shard {
    shard: u32,
    /// `served`, `served by a majority`, `lost` or `not served`.
    verdict: &'static str,
    replicas: Vec<Member>,
}

/// A replica of a shard.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Member {
    index: u8,
    node: u16,
    /// As its node says, or `unreachable`, or `missing` if the node does not host it.
    state: String,
    leads: bool,
    view: u64,
    /// How it is behind others, if it is.
    lags: Option<String>,
    log_lag_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Hot {
    key: String,
    writers: u64,
    hindered: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Slow {
    keyspace: String,
    transaction: String,
    ended_seconds_ago: f64,
    seconds: f64,
    committed: bool,
    slow_path: bool,
    hindered: bool,
    keys: Vec<String>,
}

/// Something that an operator should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Problem {
    /// Where: a node, a keyspace.
    place: String,
    text: String,
    advice: Option<Advice>,
}

impl Problem {
    fn new(place: String, text: String) -> Self {
        let advice = advice(&text);
        Problem { place, text, advice }
    }
}

impl Snapshot {
    /// Nothing is known of the cluster, for this reason.
    pub(super) fn unreachable(at_millis: u64, reason: String) -> Self {
        Snapshot { at_millis, unreachable: Some(reason), ..Snapshot::default() }
    }
}

/// Puts together what the nodes have answered.
pub(super) fn snapshot(
    at_millis: u64,
    topology: &Topology,
    answers: &[Answered],
    surveyor: &mut Surveyor,
) -> Snapshot {
    let said: BTreeMap<u16, &NodeStatus> =
        answers.iter().filter_map(|answer| Some((answer.node, answer.said.as_ref().ok()?))).collect();
    let cluster = said.values().next().map(|status| status.cluster.clone()).unwrap_or_default();
    let nodes: Vec<Node> = answers.iter().map(|answer| node(topology, answer, surveyor)).collect();
    let rates = replica_rates(answers, surveyor);
    let keyspaces = keyspaces(&said, &rates);
    let problems = problems(&nodes, &said, &keyspaces);
    Snapshot {
        at_millis,
        cluster,
        unreachable: None,
        sites: sites(topology, &said),
        nodes,
        slow_transactions: slow_transactions(&said),
        keyspaces,
        problems,
    }
}

fn site_of(topology: &Topology, node: u16) -> Option<usize> {
    topology.nodes.get(usize::from(node)).map(|place| usize::from(place.site.0))
}

fn sites(topology: &Topology, said: &BTreeMap<u16, &NodeStatus>) -> Vec<Site> {
    let mut shortest: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for (from, status) in said {
        for peer in status.peers.iter().filter(|peer| peer.connected) {
            let (Some(from), Some(to)) = (site_of(topology, *from), site_of(topology, peer.node)) else {
                continue;
            };
            let Some(seconds) = peer.round_trip_seconds else { continue };
            for pair in [(from, to), (to, from)] {
                let known = shortest.entry(pair).or_insert(seconds);
                *known = known.min(seconds);
            }
        }
    }
    let site = |(at, name): (usize, &String)| Site {
        name: name.clone(),
        round_trips: (0..topology.sites.len()).map(|to| shortest.get(&(at, to)).copied()).collect(),
    };
    topology.sites.iter().enumerate().map(site).collect()
}

fn node(topology: &Topology, answer: &Answered, surveyor: &mut Surveyor) -> Node {
    let place = topology.nodes.get(usize::from(answer.node));
    let base = Node {
        node: answer.node,
        site: place.map_or(0, |place| usize::from(place.site.0)),
        address: place.map(|place| place.address.clone()).unwrap_or_default(),
        answered_in: answer.took.as_secs_f64(),
        ..Node::default()
    };
    let status = match &answer.said {
        Ok(status) => status,
        Err(reason) => return Node { reason: Some(reason.clone()), ..base },
    };
    let transport = &status.transport;
    let counts = vec![
        (status.cpu_seconds * 1e6) as u64,
        transport.messages_received,
        transport.bytes_sent + transport.bytes_received,
        status.log.bytes,
    ];
    let risen = surveyor.of_nodes.note(answer.node, answer.at, counts);
    let rate = |which: usize| risen.as_ref().map(|(counts, seconds)| counts[which] as f64 / seconds);
    Node {
        up: true,
        version: status.version.clone(),
        up_seconds: status.uptime_seconds,
        processors: rate(0).map(|micros| micros / 1e6),
        messages_per_second: rate(1),
        bytes_per_second: rate(2),
        log_bytes_per_second: rate(3),
        log_lag_bytes: status.log.lag_bytes,
        connections: transport.connections,
        free_bytes: status.disk.free_bytes,
        disk_is_low: status.disk.is_low,
        clock_error_seconds: status.clock_error_seconds,
        replicas: status.replicas.len(),
        serving: status.replicas.iter().filter(|replica| replica.state == "normal").count(),
        leading: status.replicas.iter().filter(|replica| replica.leads).count(),
        ..base
    }
}

/// Commits, slow commits and aborts of a replica in a second.
#[derive(Clone, Copy, Debug, Default)]
struct TrafficRates {
    commits: f64,
    slow_commits: f64,
    aborts: f64,
}

fn replica_rates(answers: &[Answered], surveyor: &mut Surveyor) -> BTreeMap<(u16, u32, u8), TrafficRates> {
    let mut rates = BTreeMap::new();
    for answer in answers {
        let Ok(status) = &answer.said else { continue };
        for replica in &status.replicas {
            // One that has seen nothing yet begins at nothing, so that its first transactions count.
            let Traffic { commits, slow_commits, aborts, .. } = replica.traffic.clone().unwrap_or_default();
            let source = (answer.node, replica.shard, replica.index);
            let counts = vec![commits, slow_commits, aborts];
            if let Some((risen, seconds)) = surveyor.of_replicas.note(source, answer.at, counts) {
                let rate = |which: usize| risen[which] as f64 / seconds;
                rates.insert(
                    source,
                    TrafficRates { commits: rate(0), slow_commits: rate(1), aborts: rate(2) },
                );
            }
        }
    }
    rates
}

/// A replica with the node that tells of it.
type Told<'a> = (u16, &'a Replica);

fn keyspaces(
    said: &BTreeMap<u16, &NodeStatus>,
    rates: &BTreeMap<(u16, u32, u8), TrafficRates>,
) -> Vec<Keyspace> {
    let mut by_name: BTreeMap<&str, BTreeMap<u32, Vec<Told<'_>>>> = BTreeMap::new();
    for (node, status) in said {
        for replica in status.replicas.iter().filter(|replica| replica.catalogue != "dropped") {
            let shards = by_name.entry(&replica.keyspace).or_default();
            shards.entry(replica.shard).or_default().push((*node, replica));
        }
    }
    by_name.into_iter().map(|(name, shards)| keyspace(name, &shards, said, rates)).collect()
}

fn keyspace(
    name: &str,
    shards: &BTreeMap<u32, Vec<Told<'_>>>,
    said: &BTreeMap<u16, &NodeStatus>,
    rates: &BTreeMap<(u16, u32, u8), TrafficRates>,
) -> Keyspace {
    let mut sum = TrafficRates::default();
    let behind = behind(shards);
    let (mut durations, mut hot): (BTreeMap<u64, u64>, BTreeMap<String, (u64, u64)>) = Default::default();
    for told in shards.values() {
        // Every replica of a group sees the same transactions, or the leader alone does: the one that sees most sees all.
        let rate = |(node, replica): &Told<'_>| {
            rates.get(&(*node, replica.shard, replica.index)).copied().unwrap_or_default()
        };
        let most = told
            .iter()
            .map(rate)
            .max_by(|one, other| (one.commits + one.aborts).total_cmp(&(other.commits + other.aborts)));
        let most = most.unwrap_or_default();
        sum.commits += most.commits;
        sum.slow_commits += most.slow_commits;
        sum.aborts += most.aborts;
        let traffic = || told.iter().filter_map(|(_, replica)| replica.traffic.as_ref());
        let count =
            |traffic: &&Traffic| traffic.recent_durations.iter().map(|(_, count)| *count).sum::<u64>();
        for (end, count) in
            traffic().max_by_key(count).map_or(&[][..], |most| most.recent_durations.as_slice())
        {
            *durations.entry((end * 1e6) as u64).or_default() += count;
        }
        for HotKey { key, writers, hindered } in traffic().flat_map(|traffic| &traffic.hot_keys) {
            let known = hot.entry(key.clone()).or_default();
            *known = (known.0.max(*writers), known.1.max(*hindered));
        }
    }
    let first = shards.values().flatten().next();
    let protocol = first.map_or("", |(_, replica)| replica.protocol.as_str());
    let has_slow_path = matches!(protocol, "tapir" | "walter");
    Keyspace {
        name: name.to_owned(),
        isolation: isolation(protocol).to_owned(),
        durability: first.map(|(_, replica)| replica.durability.clone()).unwrap_or_default(),
        application: first.and_then(|(_, replica)| replica.application.clone()),
        commits_per_second: sum.commits,
        aborts_per_second: sum.aborts,
        fast_share: (has_slow_path && sum.commits > 0.0)
            .then(|| ((sum.commits - sum.slow_commits) / sum.commits).clamp(0.0, 1.0)),
        p50_seconds: quantile(&durations, 0.5),
        p99_seconds: quantile(&durations, 0.99),
        prepared: shards.values().flatten().map(|(_, replica)| replica.prepared).max().unwrap_or(0),
        hot_keys: hottest(hot),
        shards_total: shards.len(),
        shards: shards
            .iter()
            .take(SHARDS_MAX)
            .map(|(shard, told)| members(*shard, told, said, behind.get(shard)))
            .collect(),
    }
}

/// The isolation that a protocol gives.
fn isolation(protocol: &str) -> &str {
    match protocol {
        "tapir" => "strict",
        "granola" => "serializable",
        "walter" => "parallel-snapshot",
        "str" => "snapshot",
        other => other,
    }
}

fn quantile(durations: &BTreeMap<u64, u64>, share: f64) -> Option<f64> {
    let total: u64 = durations.values().sum();
    let wanted = ((total as f64 * share).ceil() as u64).max(1);
    let mut seen = 0;
    let found = durations.iter().find(|(_, count)| {
        seen += **count;
        seen >= wanted
    });
    found.map(|(micros, _)| *micros as f64 / 1e6)
}

fn hottest(hot: BTreeMap<String, (u64, u64)>) -> Vec<Hot> {
    let mut hot: Vec<Hot> =
        hot.into_iter().map(|(key, (writers, hindered))| Hot { key, writers, hindered }).collect();
    hot.sort_by(|one, other| {
        (other.hindered, other.writers, &one.key).cmp(&(one.hindered, one.writers, &other.key))
    });
    hot.truncate(TOLD_MAX);
    hot
}

/// The local sites of a keyspace that do not take in transactions of others, each with how far it is behind.
fn behind(shards: &BTreeMap<u32, Vec<Told<'_>>>) -> BTreeMap<u32, String> {
    let mut latest: BTreeMap<u32, (f64, u64)> = BTreeMap::new();
    for lag in shards.values().flatten().flat_map(|(_, replica)| &replica.lags) {
        if lag.uncommitted > 0 && lag.uncommitted_seconds >= BEHIND_SECONDS {
            let known = latest.entry(lag.shard).or_default();
            *known = (known.0.max(lag.uncommitted_seconds), known.1.max(lag.uncommitted));
        }
    }
    let words = |(seconds, count): (f64, u64)| {
        format!("{count} transactions of another site have not come, the first for {seconds:.0} s")
    };
    latest.into_iter().map(|(shard, lag)| (shard, words(lag))).collect()
}

/// The members of a group, those of nodes that do not answer among them.
fn members(
    shard: u32,
    told: &[Told<'_>],
    said: &BTreeMap<u16, &NodeStatus>,
    behind: Option<&String>,
) -> Shard {
    // The replica of the latest membership knows the members.
    let latest = told.iter().map(|(_, replica)| *replica).max_by_key(|replica| replica.epoch);
    let seats = latest.map(|latest| latest.members.iter().zip(&latest.nodes)).into_iter().flatten();
    let view = told.iter().map(|(_, replica)| replica.view).max().unwrap_or(0);
    let replicas: Vec<Member> = seats
        .map(|(index, node)| {
            let replica =
                told.iter().find(|(_, replica)| replica.index == *index).map(|(_, replica)| *replica);
            let absent = if said.contains_key(node) { "missing" } else { "unreachable" };
            Member {
                index: *index,
                node: *node,
                state: replica.map_or_else(|| absent.to_owned(), |replica| replica.state.clone()),
                leads: replica.is_some_and(|replica| replica.leads),
                view: replica.map_or(0, |replica| replica.view),
                lags: replica.and_then(|replica| {
                    let is_earlier = replica.view < view;
                    is_earlier
                        .then(|| EARLIER_VIEW.to_owned())
                        .or_else(|| behind.filter(|_| replica.leads).cloned())
                }),
                log_lag_bytes: replica.map_or(0, |replica| replica.log_lag_bytes),
            }
        })
        .collect();
    Shard { shard, verdict: verdict(&replicas), replicas }
}

fn verdict(replicas: &[Member]) -> &'static str {
    let serving = replicas.iter().filter(|replica| replica.state == "normal").count();
    let lost =
        replicas.iter().filter(|replica| matches!(replica.state.as_str(), "lost" | "recovering")).count();
    if serving == replicas.len() {
        "served"
    } else if lost > replicas.len().saturating_sub(1) / 2 {
        "lost"
    } else if serving * 2 > replicas.len() {
        "served by a majority"
    } else {
        "not served"
    }
}

fn slow_transactions(said: &BTreeMap<u16, &NodeStatus>) -> Vec<Slow> {
    let mut slow = BTreeMap::new();
    for replica in said.values().flat_map(|status| &status.replicas) {
        for one in replica.traffic.iter().flat_map(|traffic| &traffic.slow_transactions) {
            // All replicas of a group tell of the same.
            slow.entry(&one.transaction).or_insert_with(|| Slow {
                keyspace: replica.keyspace.clone(),
                transaction: one.transaction.clone(),
                ended_seconds_ago: one.ended_seconds_ago,
                seconds: one.seconds,
                committed: one.committed,
                slow_path: one.slow_path,
                hindered: one.hindered,
                keys: one.keys.clone(),
            });
        }
    }
    let mut slow: Vec<Slow> = slow.into_values().collect();
    slow.sort_by(|one, other| one.ended_seconds_ago.total_cmp(&other.ended_seconds_ago));
    slow.truncate(TOLD_MAX);
    slow
}

fn problems(nodes: &[Node], said: &BTreeMap<u16, &NodeStatus>, keyspaces: &[Keyspace]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for node in nodes {
        if let Some(reason) = &node.reason {
            let text = format!("does not answer: {reason}");
            problems.push(Problem::new(format!("node {}", node.node), text));
        }
    }
    for keyspace in keyspaces {
        for shard in keyspace.shards.iter().filter(|shard| matches!(shard.verdict, "lost" | "not served")) {
            let text = format!("shard {} of {} is {}", shard.shard, keyspace.name, shard.verdict);
            problems.push(Problem::new(keyspace.name.clone(), text));
        }
    }
    for (node, status) in said {
        let texts = status.problems.iter().cloned();
        problems.extend(texts.map(|text| Problem::new(format!("node {node}"), text)));
        for replica in &status.replicas {
            let held_up =
                |lag: &&super::survey::Lag| lag.holds_up && lag.uncommitted_seconds >= HELD_UP_SECONDS;
            for lag in replica.lags.iter().filter(held_up) {
                let text = format!(
                    "shard {} holds up {} transactions of shard {}, the first for {:.0} s",
                    lag.shard, lag.uncommitted, replica.shard, lag.uncommitted_seconds
                );
                problems.push(Problem::new(replica.keyspace.clone(), text));
            }
        }
    }
    let mut known = BTreeSet::new();
    problems.retain(|problem| known.insert((problem.place.clone(), problem.text.clone())));
    problems.truncate(PROBLEMS_MAX);
    problems
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
