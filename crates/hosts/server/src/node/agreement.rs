//! The settings that every node has in its own file and that have to be the same in all of them: the times of members of replicated logs.
//!
//! A leader counts its lease by its own file, and the members that promised not to choose another meanwhile by theirs. Where these differ it may
//! answer reads from what is old. Nodes say what they are told when they connect. A node that differs is told of, and not sent away: without it
//! the groups might have no majority.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::NodeId;
use quorate_wire::Setting;

use crate::LogOptions;

/// The settings of this node, and the other nodes that have different ones.
#[derive(Debug)]
pub(crate) struct Agreement {
    own: Vec<Setting>,
    /// In what those differ that are connected, for operators.
    differing: BTreeMap<NodeId, String>,
}

impl Agreement {
    /// A node that goes by these options.
    pub(crate) fn new(log: &LogOptions) -> Self {
        let millis = |name: &str, span: Duration| Setting {
            name: format!("log.{name}_ms"),
            value: span.as_millis() as u64,
        };
        let timing = &log.timing;
        let own = vec![
            millis("beat", timing.beat),
            millis("silence", timing.silence),
            millis("lease", timing.lease),
        ];
        Agreement { own, differing: BTreeMap::new() }
    }

    /// The settings of this node, as others are told.
    pub(crate) fn own(&self) -> &[Setting] {
        &self.own
    }

    /// Another node tells its settings. Gives the difference, if it is news. A setting that only one of the two knows is of another
    /// version, and does not count.
    pub(crate) fn compare(&mut self, node: NodeId, theirs: &[Setting]) -> Option<&str> {
        let differs =
            |own: &&Setting| theirs.iter().any(|their| their.name == own.name && their.value != own.value);
        let list = |settings: &[Setting], of: &[&Setting]| {
            let meant = settings.iter().filter(|setting| of.iter().any(|one| one.name == setting.name));
            meant.map(|Setting { name, value }| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
        };
        let differing: Vec<&Setting> = self.own.iter().filter(differs).collect();
        if differing.is_empty() {
            self.differing.remove(&node);
            return None;
        }
        let problem = format!(
            "{node} goes by {}, and this node by {}: this has to be the same at all nodes, or reads may be answered from what is \
             old; correct the file of one of them, and restart it",
            list(theirs, &differing),
            list(&self.own, &differing)
        );
        if self.differing.get(&node) == Some(&problem) {
            return None;
        }
        self.differing.insert(node, problem);
        self.differing.get(&node).map(String::as_str)
    }

    /// The connection to another node is gone: it may come back with another file.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.differing.remove(&node);
    }

    /// The differences, for operators.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &String> {
        self.differing.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lease_ms: u64) -> Agreement {
        let mut options = LogOptions::default();
        options.timing.lease = Duration::from_millis(lease_ms);
        Agreement::new(&options)
    }

    #[test]
    fn who_goes_by_other_times_is_told_of_once_until_it_is_gone() {
        let mut agreement = told(800);
        assert_eq!(agreement.compare(NodeId(1), told(800).own()), None);
        let problem = agreement.compare(NodeId(2), told(400).own()).unwrap().to_owned();
        assert!(
            problem.starts_with("node2 goes by log.lease_ms = 400, and this node by log.lease_ms = 800: "),
            "{problem}"
        );
        assert_eq!(agreement.compare(NodeId(2), told(400).own()), None, "that is known");
        assert_eq!(agreement.problems().collect::<Vec<_>>(), [&problem]);
        assert!(agreement.compare(NodeId(2), told(300).own()).is_some());
        agreement.forget(NodeId(2));
        assert_eq!(agreement.problems().count(), 0);
        agreement.compare(NodeId(2), told(400).own());
        agreement.compare(NodeId(2), told(800).own());
        assert_eq!(agreement.problems().count(), 0, "it came back with another file");
    }

    #[test]
    fn what_only_one_of_two_versions_knows_does_not_count() {
        let later = [Setting { name: "log.colour".to_owned(), value: 7 }];
        assert_eq!(told(800).compare(NodeId(1), &later), None);
    }
}
