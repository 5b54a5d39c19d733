//! The crates that have mutants, and the systems of the simulator that execute them.

/// A crate that has mutants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// How it is named on the command line.
    pub(crate) name: &'static str,
    /// Its folder, from the root of the repository.
    pub(crate) folder: &'static str,
    /// The crates whose tests execute it beside its own, because it is generic and they say over what.
    pub(crate) users: &'static [&'static str],
    /// The systems whose seeds execute it, those that find most first.
    pub(crate) systems: &'static [&'static str],
}

impl Target {
    /// The name of its package.
    pub(crate) fn package(&self) -> String {
        format!("quorate-{}", self.name)
    }

    /// The crates whose tests judge it, its own first.
    pub(crate) fn judges(&self) -> impl Iterator<Item = &'static Target> {
        let name = self.name;
        let of = |name: &str| TARGETS.iter().find(|target| target.name == name);
        of(name).into_iter().chain(self.users.iter().filter_map(move |user| of(user)))
    }

    /// The target with a name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn named(name: &str) -> Result<&'static Target, String> {
        let short = name.strip_prefix("quorate-").unwrap_or(name);
        TARGETS.iter().find(|target| target.name == short).ok_or_else(|| {
            let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            format!("there are no mutants of a crate {name}; choose among {}", known.join(", "))
        })
    }
}

pub(crate) const TARGETS: [Target; 8] = [
    Target { name: "tapir", folder: "crates/protocols/tapir", users: &[], systems: &["strict"] },
    Target {
        name: "ir",
        folder: "crates/replication/ir",
        users: &["tapir"],
        systems: &["strict", "qwstore"],
    },
    Target { name: "granola", folder: "crates/protocols/granola", users: &[], systems: &["serializable"] },
    Target {
        name: "log",
        folder: "crates/replication/log",
        users: &[],
        systems: &["serializable", "configuration", "snapshot"],
    },
    Target {
        name: "configuration",
        folder: "crates/services/configuration",
        users: &[],
        systems: &["configuration"],
    },
    Target { name: "walter", folder: "crates/protocols/walter", users: &[], systems: &["parallel-snapshot"] },
    Target { name: "str", folder: "crates/protocols/str", users: &[], systems: &["snapshot"] },
    Target { name: "qwstore", folder: "crates/rivals/qwstore", users: &[], systems: &["qwstore"] },
];
