//! One module per family of levels, each a statement about the dependencies between committed transactions.

mod acyclic;
mod causal;
mod counts;
mod parallel;
mod recheck;
mod search;
mod speculative;
mod walter;

use crate::dependencies::Dependencies;
use crate::history::History;
use crate::level::{Level, Precedence};
use crate::levels::acyclic::Nodes;
use crate::report::Anomalies;

/// Looks for violations of a level and adds them to `anomalies`. Returns a reason if the question stays open.
pub(crate) fn judge(
    history: &History,
    dependencies: &Dependencies,
    level: Level,
    anomalies: &mut Anomalies,
) -> Option<String> {
    let (precedence, nodes) = match level {
        Level::StrictSerializable => (Precedence::RealTime, Nodes::Whole),
        Level::SessionSerializable => (Precedence::Session, Nodes::Whole),
        Level::Serializable => (Precedence::None, Nodes::Whole),
        Level::StrongSi => (Precedence::RealTime, Nodes::Split),
        Level::SessionSi => (Precedence::Session, Nodes::Split),
        Level::Si => (Precedence::None, Nodes::Split),
        Level::Psi => (Precedence::None, Nodes::Parallel),
        Level::SessionPsi => (Precedence::Session, Nodes::Parallel),
        Level::WalterPsi => return walter::judge(history, dependencies, anomalies),
        Level::Causal => return causal::judge(history, anomalies),
        Level::Spsi => return speculative::judge(history, dependencies, anomalies),
    };
    match nodes {
        Nodes::Parallel => parallel::judge(history, dependencies, precedence, anomalies),
        _ => acyclic::judge(history, dependencies, precedence, nodes, anomalies),
    }
}
