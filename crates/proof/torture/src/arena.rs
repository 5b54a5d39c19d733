//! A cluster of real processes, and what can be done to it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use quorate::Durability;
use quorate_cluster::{Begin, Failure, Layout, Processes};
use quorate_core::GroupSize;

use super::fault::Fault;
use super::network::{Network, Place};
use super::operator::Wish;
use super::schedule::{Blow, Strike, Wipe};
use super::status::{NodeStatus, Versions, ask};

/// How long a node that was asked to stop may take.
const STOP_TIMEOUT: Duration = Duration::from_secs(12);

/// How long everything may take to serve again once nothing strikes any more.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// How often nodes are asked how they are while somebody waits for them.
const POLL: Duration = Duration::from_millis(10);

/// The servers and the network between them.
pub(crate) struct Arena {
    // Before the network, so that processes end before what they run in is removed.
    processes: Processes,
    network: Network,
    layout: Layout,
    durability: Durability,
    nodes: Vec<Node>,
    /// How many replicas each node is to have.
    replicas: Vec<usize>,
    /// How many nodes may be without their data at a time.
    losses_max: usize,
    /// True while replicas move: until they have, nobody knows who has to have which.
    is_changing: bool,
    endings: Vec<(Instant, Fault, Ending)>,
    /// How often each fault struck.
    strikes: BTreeMap<Fault, u64>,
}

/// The state of a node, as far as it is known.
struct Node {
    state: State,
    /// True from the loss of its data until it was seen to serve again.
    has_lost: bool,
    /// Why and when its process was started, until it was seen to serve.
    restarted: Option<(Fault, Instant)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    StandsStill,
    Stops { since: Instant },
    Down,
}

/// How a fault ends.
#[derive(Clone, Debug)]
enum Ending {
    Start(usize),
    Resume(usize),
    Mend(Vec<(Place, Place)>),
    Speed(usize),
    StartClients(usize),
}

/// A request of a strike to the owner of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// The clients of this site vanish.
    Vanish(usize),
    /// New ones take their place.
    Start(usize),
    /// The membership is to be changed; [`Arena::expect_replicas`] ends that.
    Change(Wish),
}

/// The result of a strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Struck {
    /// It struck.
    Yes(Option<Request>),
    /// It would have gone beyond the faults that must be survived, or there was nothing to strike.
    No,
}

/// A process that was restarted serves again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Restart {
    /// The fault that had ended it.
    pub(crate) fault: Fault,
    /// From its start until all its replicas served.
    pub(crate) took: Duration,
}

impl Arena {
    /// Starts every node, as a new one. Groups have so many replicas at least.
    pub(crate) fn start(
        layout: Layout,
        mut processes: Processes,
        network: Network,
        group: GroupSize,
    ) -> Result<Arena, Failure> {
        let durability = layout.durability;
        let mut replicas = vec![0; layout.nodes.len()];
        for node in &layout.config(0)?.system.shards[0].replicas {
            replicas[usize::from(node.0)] += 1;
        }
        let mut nodes = Vec::new();
        for node in 0..layout.nodes.len() {
            processes.start_node(node, Begin::New)?;
            nodes.push(Node { state: State::Runs, has_lost: false, restarted: None });
        }
        let (losses_max, endings, strikes) = (group.failures(), Vec::new(), BTreeMap::new());
        Ok(Arena {
            processes,
            network,
            layout,
            durability,
            nodes,
            replicas,
            losses_max,
            is_changing: false,
            endings,
            strikes,
        })
    }

    /// Each node is to have so many replicas before it counts as serving.
    pub(crate) fn expect_replicas(&mut self, replicas: Vec<usize>) {
        (self.replicas, self.is_changing) = (replicas, false);
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// How often a fault struck.
    pub(crate) fn strikes(&self, fault: Fault) -> u64 {
        self.strikes.get(&fault).copied().unwrap_or_default()
    }

    /// A message about a server that has ended by itself, if one has.
    pub(crate) fn trouble(&mut self) -> Option<String> {
        self.processes.trouble()
    }

    /// Stops every server in good order. Names those that did not.
    pub(crate) fn stop(self) -> Vec<String> {
        self.processes.stop()
    }

    /// Lets a fault strike.
    pub(crate) fn strike(&mut self, strike: &Strike) -> Result<Struck, Failure> {
        let Strike { fault, blow, lasts, .. } = strike;
        let mut request = None;
        let endings: Vec<Ending> = match blow {
            Blow::Kill(nodes) => {
                let loses = self.durability == Durability::Memory;
                if let [node] = nodes[..]
                    && (!self.can_be_killed(node) || (loses && !self.may_lose(node)))
                {
                    return Ok(Struck::No);
                }
                for node in nodes {
                    self.kill(*node)?;
                    self.nodes[*node].has_lost |= loses;
                }
                nodes.iter().copied().map(Ending::Start).collect()
            }
            Blow::Wipe(node, wipe) => {
                if !self.can_be_killed(*node) || !self.may_lose(*node) {
                    return Ok(Struck::No);
                }
                self.kill(*node)?;
                self.nodes[*node].has_lost = true;
                remove(&self.layout.data_directory(*node), *wipe)?;
                vec![Ending::Start(*node)]
            }
            Blow::Stop(node) => {
                let loses = self.durability == Durability::Memory;
                if self.nodes[*node].state != State::Runs || (loses && !self.may_lose(*node)) {
                    return Ok(Struck::No);
                }
                self.processes.ask_node_to_stop(*node)?;
                self.nodes[*node].state = State::Stops { since: Instant::now() };
                self.nodes[*node].has_lost |= loses;
                vec![Ending::Start(*node)]
            }
            Blow::Pause(node) => {
                if self.nodes[*node].state != State::Runs {
                    return Ok(Struck::No);
                }
                self.processes.pause_node(*node)?;
                self.nodes[*node].state = State::StandsStill;
                vec![Ending::Resume(*node)]
            }
            Blow::Cut(links) => {
                self.network.cut(links)?;
                vec![Ending::Mend(links.clone())]
            }
            Blow::Slow(node, extra) => {
                if !self.network.slow(*node, *extra) {
                    return Ok(Struck::No);
                }
                vec![Ending::Speed(*node)]
            }
            Blow::Break(node) => {
                if !self.network.break_connections(*node) {
                    return Ok(Struck::No);
                }
                Vec::new()
            }
            Blow::Change(wish) => {
                if self.is_changing {
                    return Ok(Struck::No);
                }
                self.is_changing = true;
                request = Some(Request::Change(*wish));
                Vec::new()
            }
            Blow::VanishClients(site) => {
                request = Some(Request::Vanish(*site));
                vec![Ending::StartClients(*site)]
            }
        };
        let at = Instant::now() + *lasts;
        self.endings.extend(endings.into_iter().map(|ending| (at, *fault, ending)));
        *self.strikes.entry(*fault).or_default() += 1;
        Ok(Struck::Yes(request))
    }

    /// When the next effect of a fault ends.
    pub(crate) fn next_ending(&self) -> Option<Instant> {
        self.endings.iter().map(|(at, ..)| *at).min()
    }

    /// Every effect of a fault ends now.
    pub(crate) fn hurry(&mut self) {
        let now = Instant::now();
        self.endings.iter_mut().for_each(|(at, ..)| *at = now);
    }

    /// Ends the effects of faults whose time has come by `now`.
    pub(crate) fn end_what_is_due(&mut self, now: Instant) -> Result<Vec<Request>, Failure> {
        let mut requests = Vec::new();
        let due: Vec<_> = self.endings.extract_if(.., |(at, ..)| *at <= now).collect();
        for (_, fault, ending) in due {
            match ending {
                Ending::Start(node) if !self.try_start(node, fault)? => {
                    self.endings.push((now + POLL, fault, ending));
                }
                Ending::Start(_) => {}
                Ending::Resume(node) => self.resume(node)?,
                Ending::Mend(links) => self.network.mend(&links)?,
                Ending::Speed(node) => _ = self.network.slow(node, Duration::ZERO),
                Ending::StartClients(site) => requests.push(Request::Start(site)),
            }
        }
        Ok(requests)
    }

    /// Waits until every node serves; gives how long those took that were restarted. The reason if they do not in time.
    pub(crate) async fn serve(&mut self) -> Result<Vec<Restart>, Failure> {
        let deadline = Instant::now() + RECOVERY_TIMEOUT;
        let mut restarts = Vec::new();
        let mut waiting: Vec<usize> = (0..self.nodes.len()).collect();
        loop {
            let mut missing = Vec::new();
            for node in std::mem::take(&mut waiting) {
                let status = ask(&self.layout, node).await;
                if self.has_recovered(node, status.as_ref()) {
                    restarts.extend(self.note_recovery(node));
                } else if let Some(problem) = status.as_ref().and_then(NodeStatus::problem) {
                    return Err(Failure::failed(format!("node {node} does not help itself: {problem}")));
                } else {
                    let problems = status.map(|status| status.problems.join("; "));
                    let why = problems.unwrap_or_else(|| "it does not answer".to_owned());
                    missing.push(format!("node {node} does not serve within {RECOVERY_TIMEOUT:?}: {why}"));
                    waiting.push(node);
                }
            }
            if waiting.is_empty() {
                return Ok(restarts);
            }
            if let Some(trouble) = self.trouble() {
                return Err(Failure::failed(trouble));
            }
            if Instant::now() >= deadline {
                return Err(Failure::failed(missing.join("; ")));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Looks whether nodes that had lost their data have learnt it again, so that others may lose theirs.
    pub(crate) async fn look_after_lost(&mut self) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].has_lost && self.nodes[node].state == State::Runs {
                let status = ask(&self.layout, node).await;
                if self.has_recovered(node, status.as_ref()) {
                    self.note_recovery(node);
                }
            }
        }
    }

    /// How many transactions are held prepared, over all replicas; none if a node does not answer.
    pub(crate) async fn prepared(&self) -> Option<u64> {
        let mut prepared = 0;
        for node in 0..self.nodes.len() {
            prepared +=
                ask(&self.layout, node).await?.replicas.iter().map(|replica| replica.prepared).sum::<u64>();
        }
        Some(prepared)
    }

    /// How many transactions have not committed at another local site, over all pairs of these, as their leaders say; none if a node does not answer or
    /// a site has no leader.
    pub(crate) async fn uncommitted_elsewhere(&self) -> Option<u64> {
        let (mut leaders, mut uncommitted) = (0, 0);
        for node in 0..self.nodes.len() {
            for replica in
                ask(&self.layout, node).await?.replicas.iter().filter(|replica| !replica.lags.is_empty())
            {
                leaders += 1;
                uncommitted += replica.lags.iter().map(|lag| lag.uncommitted).sum::<u64>();
            }
        }
        (leaders >= self.layout.sites.len()).then_some(uncommitted)
    }

    /// The protocol versions of each node, in order.
    pub(crate) async fn versions(&self) -> Result<Vec<Versions>, Failure> {
        let mut versions = Vec::with_capacity(self.nodes.len());
        for node in 0..self.nodes.len() {
            let status = ask(&self.layout, node).await;
            let silent = || Failure::failed(format!("node {node} does not say which versions it knows"));
            versions.push(status.ok_or_else(silent)?.protocol_versions);
        }
        Ok(versions)
    }

    /// From its next start on, a node runs this program.
    pub(crate) fn set_program(&mut self, node: usize, program: &Path) {
        self.processes.set_program(node, program);
    }

    /// Stops a node, and starts it with a program that has to refuse its data directory and to say that a later one is needed. Then starts it with the later one.
    pub(crate) async fn has_refused(
        &mut self,
        node: usize,
        earlier: &Path,
        later: &Path,
    ) -> Result<(), Failure> {
        self.processes.ask_node_to_stop(node)?;
        let stopped = self.ended(node).await?;
        if !stopped.success() {
            return Err(Failure::failed(format!("server {node} has stopped with {stopped}")));
        }
        let told_before = self.processes.logged(node)?.len();
        self.set_program(node, earlier);
        self.processes.start_node(node, Begin::Again)?;
        let refused = self.ended(node).await?;
        let told = self.processes.logged(node)?;
        let told = told.get(told_before..).unwrap_or_default();
        if refused.success() || !told.contains("later") {
            return Err(Failure::failed(format!(
                "the earlier program has to refuse the data directory of node {node} and to name a later one, and ends with {refused}: {told}"
            )));
        }
        self.set_program(node, later);
        self.processes.start_node(node, Begin::Again)
    }

    /// How the process of a node ends, which it has to do in time.
    async fn ended(&mut self, node: usize) -> Result<ExitStatus, Failure> {
        let deadline = Instant::now() + STOP_TIMEOUT;
        loop {
            if let Some(status) = self.processes.take_ended(node)? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                return Err(Failure::failed(format!("server {node} does not end within {STOP_TIMEOUT:?}")));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn has_recovered(&self, node: usize, status: Option<&NodeStatus>) -> bool {
        let has_all = |status: &NodeStatus| status.healthy && status.replicas.len() >= self.replicas[node];
        !self.is_changing && status.is_some_and(has_all)
    }

    fn note_recovery(&mut self, node: usize) -> Option<Restart> {
        self.nodes[node].has_lost = false;
        let (fault, started) = self.nodes[node].restarted.take()?;
        Some(Restart { fault, took: started.elapsed() })
    }

    fn can_be_killed(&self, node: usize) -> bool {
        matches!(self.nodes[node].state, State::Runs | State::StandsStill)
    }

    /// True if a node may lose its data now: of every group at most f may be without theirs.
    fn may_lose(&self, node: usize) -> bool {
        let lost =
            self.nodes.iter().enumerate().filter(|(other, known)| *other != node && known.has_lost).count();
        lost < self.losses_max
    }

    fn kill(&mut self, node: usize) -> Result<(), Failure> {
        self.processes.kill_node(node)?;
        self.nodes[node].state = State::Down;
        Ok(())
    }

    fn resume(&mut self, node: usize) -> Result<(), Failure> {
        if self.nodes[node].state == State::StandsStill {
            self.processes.resume_node(node)?;
            self.nodes[node].state = State::Runs;
        }
        Ok(())
    }

    /// Starts a node if it is down; false if it is still stopping.
    fn try_start(&mut self, node: usize, fault: Fault) -> Result<bool, Failure> {
        if let State::Stops { since } = self.nodes[node].state {
            match self.processes.take_ended(node)? {
                Some(status) if status.success() => self.nodes[node].state = State::Down,
                Some(status) => {
                    return Err(Failure::failed(format!("server {node} has stopped with {status}")));
                }
                None if since.elapsed() > STOP_TIMEOUT => {
                    return Err(Failure::failed(format!(
                        "server {node} does not stop within {STOP_TIMEOUT:?}"
                    )));
                }
                None => return Ok(false),
            }
        }
        if self.nodes[node].state == State::Down {
            let is_there = self.layout.data_directory(node).join("identity.toml").exists();
            self.processes.start_node(node, if is_there { Begin::Again } else { Begin::Replace })?;
            self.nodes[node].state = State::Runs;
            self.nodes[node].restarted = Some((fault, Instant::now()));
        }
        Ok(true)
    }
}

/// Removes what a node has stored.
fn remove(directory: &Path, wipe: Wipe) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::failed(format!("cannot empty {}: {error}", directory.display()));
    match wipe {
        Wipe::Disk => match std::fs::remove_dir_all(directory) {
            // The node was emptied before, and killed again before it had made anything new.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(failed),
        },
        Wipe::Logs => {
            for replica in std::fs::read_dir(directory.join("replicas")).map_err(failed)? {
                let log = replica.map_err(failed)?.path().join("log");
                if log.exists() {
                    std::fs::remove_dir_all(log).map_err(failed)?;
                }
            }
            Ok(())
        }
    }
}
