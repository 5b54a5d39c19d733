//! The report of a check: the verdict, the anomalies behind it, and how much the history was worth.

use std::fmt;

use serde::Serialize;

use crate::dependencies::{Edge, EdgeKind};
use crate::explain::Words;
use crate::history::{History, TxnId};
use crate::mutants;

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The history satisfies the level.
    Valid,
    /// The history violates the level; the anomalies say how.
    Invalid,
    /// The check could not decide; the report's reason says why. This never counts as a pass.
    Unknown,
}

impl Verdict {
    /// The verdict in one lower-case word.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Valid => "valid",
            Verdict::Invalid => "invalid",
            Verdict::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The class of an anomaly, by its usual name where the field has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum AnomalyKind {
    /// A transaction disagrees with its own reads and writes.
    #[serde(rename = "internal")]
    Internal,
    /// A read of a value that nobody wrote.
    #[serde(rename = "unwritten-read")]
    UnwrittenRead,
    /// A list that holds one value twice.
    #[serde(rename = "duplicate-value")]
    DuplicateValue,
    /// Aborted read: a committed transaction read what an aborted one wrote.
    #[serde(rename = "G1a")]
    AbortedRead,
    /// Intermediate read: a transaction read what another one overwrote or appended to itself.
    #[serde(rename = "G1b")]
    IntermediateRead,
    /// A count of a counting set that no updates explain which the reader can have seen.
    #[serde(rename = "wrong-count")]
    WrongCount,
    /// Two lists of one key of which neither is a prefix of the other.
    #[serde(rename = "incompatible-order")]
    IncompatibleOrder,
    /// Write cycle.
    #[serde(rename = "G0")]
    WriteCycle,
    /// Circular information flow: a cycle of reads-from and write order.
    #[serde(rename = "G1c")]
    CircularInformationFlow,
    /// Two transactions updated one version of one key, and one update is lost.
    #[serde(rename = "lost-update")]
    LostUpdate,
    /// One transaction saw some but not all effects of another.
    #[serde(rename = "fractured-read")]
    FracturedRead,
    /// A cycle with a single anti-dependency.
    #[serde(rename = "G-single")]
    SingleAntiDependency,
    /// Two transactions, each of which missed the other's write; to two keys, or to one counting set, where no
    /// update is lost.
    #[serde(rename = "write-skew")]
    WriteSkew,
    /// Readers disagree about the order of independent writes: a cycle with anti-dependencies of which no two
    /// follow one another.
    #[serde(rename = "long-fork")]
    LongFork,
    /// A cycle with two or more anti-dependencies.
    #[serde(rename = "G2")]
    AntiDependencyCycle,
    /// A transaction missed what those that it depends on had seen.
    #[serde(rename = "causality-violation")]
    CausalityViolation,
    /// A read missed a write that had completed before the reader was invoked.
    #[serde(rename = "stale-read")]
    StaleRead,
    /// A read saw a write of a transaction that was invoked after the reader had completed.
    #[serde(rename = "future-read")]
    FutureRead,
    /// Another cycle that only real time closes.
    #[serde(rename = "real-time-violation")]
    RealTimeViolation,
    /// A cycle that only the order of a session closes.
    #[serde(rename = "session-violation")]
    SessionViolation,
    /// SPSI-1: a speculative view is no snapshot of final commits and local commits of its own site.
    #[serde(rename = "SPSI-1")]
    SpeculativeSnapshot,
    /// SPSI-3: a speculative view holds two overlapping transactions that wrote one key.
    #[serde(rename = "SPSI-3")]
    SpeculativeConflict,
    /// SPSI-4: a final commit depends on a transaction that aborted.
    #[serde(rename = "SPSI-4")]
    SpeculativeDependency,
    /// A read disagrees with the commit timestamps.
    #[serde(rename = "timestamp-violation")]
    TimestampViolation,
    /// The snapshots and commits that servers tell of contradict the level, or what was read.
    #[serde(rename = "snapshot-violation")]
    SnapshotViolation,
}

impl AnomalyKind {
    /// The name as reports spell it.
    pub fn name(self) -> &'static str {
        match self {
            AnomalyKind::Internal => "internal",
            AnomalyKind::UnwrittenRead => "unwritten-read",
            AnomalyKind::DuplicateValue => "duplicate-value",
            AnomalyKind::IncompatibleOrder => "incompatible-order",
            AnomalyKind::WrongCount => "wrong-count",
            AnomalyKind::AbortedRead => "G1a",
            AnomalyKind::IntermediateRead => "G1b",
            AnomalyKind::WriteCycle => "G0",
            AnomalyKind::CircularInformationFlow => "G1c",
            AnomalyKind::LostUpdate => "lost-update",
            AnomalyKind::FracturedRead => "fractured-read",
            AnomalyKind::SingleAntiDependency => "G-single",
            AnomalyKind::WriteSkew => "write-skew",
            AnomalyKind::LongFork => "long-fork",
            AnomalyKind::AntiDependencyCycle => "G2",
            AnomalyKind::CausalityViolation => "causality-violation",
            AnomalyKind::StaleRead => "stale-read",
            AnomalyKind::FutureRead => "future-read",
            AnomalyKind::RealTimeViolation => "real-time-violation",
            AnomalyKind::SessionViolation => "session-violation",
            AnomalyKind::SpeculativeSnapshot => "SPSI-1",
            AnomalyKind::SpeculativeConflict => "SPSI-3",
            AnomalyKind::SpeculativeDependency => "SPSI-4",
            AnomalyKind::TimestampViolation => "timestamp-violation",
            AnomalyKind::SnapshotViolation => "snapshot-violation",
        }
    }
}

impl fmt::Display for AnomalyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One violation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Anomaly {
    /// Its class.
    pub kind: AnomalyKind,
    /// The transactions in it, each by the index of its `invoke` line; those of a cycle in the order of the
    /// cycle.
    pub txns: Vec<u32>,
    /// The reason, in full sentences.
    pub why: String,
    /// The edges of a cycle, one after the other; none for anomalies that are no cycle.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<AnomalyEdge>,
}

/// Why one transaction of a cycle comes before the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AnomalyEdge {
    /// The transaction that comes first, by the index of its `invoke` line.
    pub from: u32,
    /// The transaction that comes after it.
    pub to: u32,
    /// The kind of this reason.
    pub kind: DependencyKind,
    /// The key that the reason is about; none for orders in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The kinds of reasons why one transaction comes before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum DependencyKind {
    /// The second read what the first wrote.
    #[serde(rename = "wr")]
    ReadsFrom,
    /// The second's version follows the first's.
    #[serde(rename = "ww")]
    WriteOrder,
    /// The first did not see what the second wrote.
    #[serde(rename = "rw")]
    AntiDependency,
    /// In one session, the first completed before the second was invoked.
    #[serde(rename = "so")]
    SessionOrder,
    /// The first completed before the second was invoked.
    #[serde(rename = "rt")]
    RealTime,
    /// The first completed at a site before the second was invoked there.
    #[serde(rename = "rts")]
    SiteOrder,
    /// The first was shown at a site before the second was invoked there, and the second touches a key that the
    /// first wrote.
    #[serde(rename = "shown")]
    Shown,
    /// The second's snapshot holds all that an earlier snapshot of its site holds, and so the first.
    #[serde(rename = "vis")]
    Snapshot,
    /// The second's snapshot holds the first, maybe as a local commit of its site.
    #[serde(rename = "lc")]
    LocalCommit,
    /// The first did not commit, read a key, and ended before the second was invoked, which writes the key, so it did
    /// not see the second.
    #[serde(rename = "end")]
    Ended,
}

impl DependencyKind {
    /// The usual two letters.
    pub fn name(self) -> &'static str {
        match self {
            DependencyKind::ReadsFrom => "wr",
            DependencyKind::WriteOrder => "ww",
            DependencyKind::AntiDependency => "rw",
            DependencyKind::SessionOrder => "so",
            DependencyKind::RealTime => "rt",
            DependencyKind::SiteOrder => "rts",
            DependencyKind::Shown => "shown",
            DependencyKind::Snapshot => "vis",
            DependencyKind::LocalCommit => "lc",
            DependencyKind::Ended => "end",
        }
    }

    fn of(kind: EdgeKind) -> Self {
        match kind {
            EdgeKind::ReadsFrom => DependencyKind::ReadsFrom,
            EdgeKind::WriteOrder => DependencyKind::WriteOrder,
            EdgeKind::AntiDependency => DependencyKind::AntiDependency,
            EdgeKind::SessionOrder => DependencyKind::SessionOrder,
            EdgeKind::RealTime | EdgeKind::Onward => DependencyKind::RealTime,
            EdgeKind::SiteOrder => DependencyKind::SiteOrder,
            EdgeKind::Shown => DependencyKind::Shown,
            EdgeKind::Snapshot => DependencyKind::Snapshot,
            EdgeKind::LocalCommit => DependencyKind::LocalCommit,
            EdgeKind::Ended => DependencyKind::Ended,
        }
    }

    fn has_key(self) -> bool {
        matches!(
            self,
            DependencyKind::ReadsFrom
                | DependencyKind::WriteOrder
                | DependencyKind::AntiDependency
                | DependencyKind::Shown
                | DependencyKind::Ended
        )
    }
}

impl AnomalyEdge {
    fn new(history: &History, edge: &Edge) -> Self {
        let kind = DependencyKind::of(edge.kind);
        AnomalyEdge {
            from: history.txn(TxnId(edge.from)).invoke,
            to: history.txn(TxnId(edge.to)).invoke,
            kind,
            key: kind.has_key().then(|| history.key(edge.key).to_string()),
        }
    }
}

/// Gathers anomalies, and keeps their number bounded: a broken history may hold millions.
#[derive(Debug, Default)]
pub(crate) struct Anomalies {
    list: Vec<Anomaly>,
}

impl Anomalies {
    /// So many anomalies of one kind are described; further ones would not tell more.
    const PER_KIND_MAX: usize = 10;

    /// Adds an anomaly, unless enough of its kind are known.
    pub(crate) fn add(
        &mut self,
        history: &History,
        kind: AnomalyKind,
        txns: &[TxnId],
        why: impl FnOnce() -> String,
    ) {
        if mutants::skips(kind) {
            return;
        }
        if self.list.iter().filter(|anomaly| anomaly.kind == kind).count() < Self::PER_KIND_MAX {
            let txns = txns.iter().map(|&txn| history.txn(txn).invoke).collect();
            self.list.push(Anomaly { kind, txns, why: why(), edges: Vec::new() });
        }
    }

    /// Adds a cycle of edges between transactions.
    pub(crate) fn add_cycle(&mut self, history: &History, kind: AnomalyKind, cycle: &[Edge]) {
        let txns: Vec<TxnId> = cycle.iter().map(|edge| TxnId(edge.from)).collect();
        self.add_with_edges(history, kind, &txns, cycle, || Words::new(history).cycle(cycle));
    }

    /// Adds an anomaly with edges between its transactions.
    pub(crate) fn add_with_edges(
        &mut self,
        history: &History,
        kind: AnomalyKind,
        txns: &[TxnId],
        edges: &[Edge],
        why: impl FnOnce() -> String,
    ) {
        let before = self.list.len();
        self.add(history, kind, txns, why);
        for anomaly in &mut self.list[before..] {
            anomaly.edges = edges.iter().map(|edge| AnomalyEdge::new(history, edge)).collect();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The anomalies, the most basic kinds first.
    pub(crate) fn into_sorted(mut self) -> Vec<Anomaly> {
        self.list.sort_by_key(|anomaly| anomaly.kind);
        self.list
    }
}

/// How much a history could have shown: a checker that sees no conflicts finds no violations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Vacuity {
    /// Acknowledged transactions.
    pub commits: u64,
    /// Write-write and anti-dependency edges between adjacent versions.
    pub conflict_edges: u64,
    /// Pairs of transactions with such an edge, or a reads-from edge, that overlapped in time. Counted on
    /// adjacent versions, hence a lower bound.
    pub overlapping_pairs: u64,
}

impl Vacuity {
    /// Fewer commits than this say nothing.
    pub const COMMITS_MIN: u64 = 100;
    /// Fewer write-write and anti-dependency edges than this say nothing.
    pub const CONFLICT_EDGES_MIN: u64 = 20;
    /// Fewer overlapping conflicting pairs than this say nothing.
    pub const OVERLAPPING_PAIRS_MIN: u64 = 5;

    /// Whether a valid verdict on this history would mean little.
    pub fn is_vacuous(&self) -> bool {
        self.commits < Self::COMMITS_MIN
            || self.conflict_edges < Self::CONFLICT_EDGES_MIN
            || self.overlapping_pairs < Self::OVERLAPPING_PAIRS_MIN
    }
}

/// The result of one check, in the form in which `quorate check` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The level, or `timestamps` for the white-box check.
    pub level: &'static str,
    /// The verdict.
    pub verdict: Verdict,
    /// Violations, the most basic ones first. There may be more of them than are listed.
    pub anomalies: Vec<Anomaly>,
    /// Why the verdict is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Transactions in the history, whatever their outcome.
    pub txns: usize,
    /// Micro-operations in the history.
    pub ops: usize,
    /// Whether the history has too few conflicts for a valid verdict to mean much.
    pub vacuous: bool,
    /// The numbers behind `vacuous`.
    pub evidence: Vacuity,
}

impl Report {
    /// Any anomaly makes the verdict invalid; without one, a reason makes it unknown.
    pub(crate) fn new(
        level: &'static str,
        history: &History,
        anomalies: Anomalies,
        reason: Option<String>,
        evidence: Vacuity,
    ) -> Self {
        let verdict = match &reason {
            _ if !anomalies.is_empty() => Verdict::Invalid,
            Some(_) => Verdict::Unknown,
            None => Verdict::Valid,
        };
        Report {
            level,
            verdict,
            anomalies: anomalies.into_sorted(),
            reason: reason.filter(|_| verdict == Verdict::Unknown),
            txns: history.txn_count(),
            ops: history.op_count(),
            vacuous: evidence.is_vacuous(),
            evidence,
        }
    }

    /// Whether the check passed: valid, and neither invalid nor unknown.
    pub fn is_valid(&self) -> bool {
        self.verdict == Verdict::Valid
    }
}

impl fmt::Display for Report {
    /// The report for people: the verdict in one line, then each anomaly as a paragraph.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({} transactions, {} operations", self.level, self.verdict, self.txns, self.ops)?;
        if self.vacuous {
            write!(
                f,
                "; vacuous: {} commits, {} conflicts, {} overlapping pairs",
                self.evidence.commits, self.evidence.conflict_edges, self.evidence.overlapping_pairs
            )?;
        }
        write!(f, ")")?;
        if let Some(reason) = &self.reason {
            write!(f, "\n  {reason}")?;
        }
        for anomaly in &self.anomalies {
            write!(f, "\n  {}: {}", anomaly.kind, anomaly.why)?;
        }
        Ok(())
    }
}
