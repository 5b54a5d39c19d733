//! Every figure and table of the four papers, and where each is measured again or kept.

/// A paper whose protocol an isolation runs.
#[derive(Debug)]
pub struct Paper {
    /// Its name, as experiments begin with it.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Its authors, and where it was published.
    pub source: &'static str,
    /// The isolation of the keyspaces that run it.
    pub isolation: &'static str,
    /// Its figures and tables, in the order of their numbers.
    pub figures: &'static [Figure],
    /// The experiments beside its figures: numbers of its text, and questions of our own.
    pub beside: &'static [&'static str],
}

/// A figure or table of a paper.
#[derive(Debug)]
pub struct Figure {
    /// How the paper calls it.
    pub label: &'static str,
    /// Its subject.
    pub subject: &'static str,
    /// Where it is here.
    pub place: Place,
}

/// Where a figure of a paper is here.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// This experiment measures it.
    Measured(&'static str),
    /// It shows no measurement: the rules that it draws or states are kept in these files, from the root of the repository.
    Kept(&'static str),
}

const fn measured(label: &'static str, subject: &'static str, experiment: &'static str) -> Figure {
    Figure { label, subject, place: Place::Measured(experiment) }
}

const fn kept(label: &'static str, subject: &'static str, files: &'static str) -> Figure {
    Figure { label, subject, place: Place::Kept(files) }
}

/// The four papers.
pub const PAPERS: [Paper; 4] = [
    Paper {
        name: "tapir",
        title: "Building Consistent Transactions with Inconsistent Replication",
        source: "Zhang, Sharma, Szekeres, Krishnamurthy and Ports, SOSP 2015",
        isolation: "strict",
        figures: &[
            kept("Figure 1", "Architecture of distributed transactional storage", "docs/architecture.md"),
            kept("Figure 2", "Messages of two-phase commit over a replicated log", "crates/rivals/baselines"),
            kept("Figure 3", "Interfaces and state of inconsistent replication", "crates/replication/ir"),
            kept("Figure 4", "Messages of TAPIR", "docs/trace.md"),
            kept("Figure 5", "Interfaces and state of TAPIR", "crates/protocols/tapir"),
            measured(
                "Table 1",
                "Round trips and clock skew between regions, and what skew does",
                "tapir-table1",
            ),
            measured("Figure 6", "Latency of a read-modify-write", "tapir-fig6"),
            measured("Figure 7", "Throughput of read-modify-writes", "tapir-fig7"),
            measured("Figure 8", "Latency of FollowUser within a data centre", "tapir-fig8"),
            measured("Figure 9", "Peak throughput of Retwis", "tapir-fig9"),
            measured("Figure 10", "Latency of FollowUser over three regions", "tapir-fig10"),
        ],
        beside: &["tapir-contention", "tapir-deadline", "tapir-rivals"],
    },
    Paper {
        name: "granola",
        title: "Granola: Low-Overhead Distributed Transaction Coordination",
        source: "Cowling and Liskov, USENIX ATC 2012",
        isolation: "serializable",
        figures: &[
            kept("Figure 1", "Topology", "docs/architecture.md"),
            kept("Figure 2", "Logical structure", "docs/architecture.md"),
            kept("Figure 3", "Interface of the client proxy", "crates/serializable/coordinator"),
            kept("Figure 4", "Interface of the server", "crates/serializable/procedure"),
            kept("Figure 5", "Timeline of a single-repository transaction", "crates/protocols/granola"),
            kept("Figure 6", "Timeline of an independent transaction", "crates/protocols/granola"),
            kept("Figure 7", "Timeline of a coordinated transaction", "crates/protocols/granola"),
            measured("Figure 8", "Throughput over repositories", "granola-fig8"),
            measured("Figure 9", "Throughput with distributed transactions", "granola-fig9"),
            measured("Figure 10", "Throughput by what locks cost", "granola-fig10"),
            measured("Figure 11", "Throughput by how many lock requests conflict", "granola-fig11"),
            measured("Figure 12", "Throughput of TPC-C over repositories", "granola-fig12"),
            measured("Figure 13", "Throughput of new orders by how many are distributed", "granola-fig13"),
        ],
        beside: &["granola-base", "granola-beneath"],
    },
    Paper {
        name: "str",
        title: "Transparent Speculation in Geo-Replicated Transactional Data Stores",
        source: "Li, Van Roy and Romano, HPDC 2018; the numbers are those of the report of 2017",
        isolation: "snapshot",
        figures: &[
            kept("Figure 1", "Anomalies of speculation", "docs/checking.md"),
            kept("Figure 2", "Indirect conflicts of a local transaction", "docs/checking.md"),
            measured("Figure 3", "Protocols under four levels of contention", "str-fig3"),
            measured("Figure 4", "Tuning against static configurations", "str-fig4"),
            measured("Table 1", "PreciseClock by the keys of a transaction", "str-table1"),
            measured("Figure 5", "Protocols on TPC-C in three mixes", "str-fig5"),
            measured("Figure 6", "Protocols on RUBiS", "str-fig6"),
        ],
        beside: &[],
    },
    Paper {
        name: "walter",
        title: "Transactional Storage for Geo-Replicated Systems",
        source: "Sovran, Power, Aguilera and Li, SOSP 2011",
        isolation: "parallel-snapshot",
        figures: &[
            kept("Figure 1", "Specification of snapshot isolation", "crates/proof/checker"),
            kept("Figure 2", "Outcome of a transaction under snapshot isolation", "crates/proof/checker"),
            kept("Figure 3", "Snapshots along a line of time", "docs/write-where-you-are.md"),
            kept("Figure 4", "Specification of parallel snapshot isolation", "crates/proof/checker"),
            kept(
                "Figure 5",
                "Outcome of a transaction under parallel snapshot isolation",
                "crates/proof/checker",
            ),
            kept("Figure 6", "Different orders of commits at two sites", "docs/write-where-you-are.md"),
            kept("Figure 7", "Operations on counting sets", "crates/protocols/walter"),
            kept("Figure 8", "Anomalies of each level", "docs/checking.md"),
            kept("Figure 9", "Variables of a server", "crates/protocols/walter"),
            kept("Figure 10", "Executing transactions", "crates/protocols/walter"),
            kept("Figure 11", "Fast commit", "crates/protocols/walter"),
            kept("Figure 12", "Slow commit", "crates/protocols/walter"),
            kept("Figure 13", "Replicating transactions", "crates/protocols/walter"),
            kept("Figure 14", "Interface of clients", "crates/hosts/client"),
            kept("Figure 15", "The operation befriend of a social network", "crates/proof/workloads"),
            measured("Figure 16", "Throughput of reads and writes", "walter-fig16"),
            measured("Figure 17", "Throughput by the number of sites", "walter-fig17"),
            measured("Figure 18", "Latency of fast commits", "walter-fig18"),
            measured("Figure 19", "Time until a fast commit is durable everywhere", "walter-fig19"),
            measured("Figure 20", "Latency of slow commits, and time until they are durable", "walter-fig20"),
            measured("Figure 21", "Throughput of the operations of a social network", "walter-fig21"),
            measured("Figure 22", "Latency of the operations of a social network", "walter-fig22"),
            measured("Figure 23", "Throughput of ReTwis beside Redis", "walter-fig23"),
        ],
        beside: &["walter-csets"],
    },
];

impl Paper {
    /// The experiments of this paper: of its figures, and beside them.
    pub fn experiments(&self) -> impl Iterator<Item = &'static str> {
        let of_figures = self.figures.iter().filter_map(Figure::experiment);
        of_figures.chain(self.beside.iter().copied())
    }
}

impl Figure {
    /// The experiment that measures it.
    pub fn experiment(&self) -> Option<&'static str> {
        match self.place {
            Place::Measured(experiment) => Some(experiment),
            Place::Kept(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use quorate_experiments::Experiment;

    use super::*;

    #[test]
    fn each_experiment_belongs_to_one_place_of_one_paper() {
        let listed: Vec<&str> = PAPERS.iter().flat_map(Paper::experiments).collect();
        let known: BTreeSet<&str> = Experiment::ALL.iter().map(|experiment| experiment.name).collect();
        assert_eq!(listed.len(), known.len(), "one is listed twice, or missing");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), known);
        for paper in &PAPERS {
            assert!(paper.experiments().all(|name| name.starts_with(paper.name)), "{}", paper.name);
        }
    }

    #[test]
    fn files_that_keep_a_figure_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        for figure in PAPERS.iter().flat_map(|paper| paper.figures) {
            if let Place::Kept(files) = figure.place {
                assert!(root.join(files).exists(), "{}: {files}", figure.label);
            }
        }
    }

    #[test]
    fn no_number_of_a_figure_is_left_out() {
        let numbers = |paper: &Paper| -> Vec<usize> {
            let of = |figure: &Figure| figure.label.strip_prefix("Figure ")?.parse().ok();
            paper.figures.iter().filter_map(of).collect()
        };
        for (paper, figures) in PAPERS.iter().zip([10, 13, 6, 23]) {
            assert_eq!(numbers(paper), (1..=figures).collect::<Vec<_>>(), "{}", paper.name);
        }
    }
}
