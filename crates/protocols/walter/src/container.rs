//! Containers (Walter, sections 2 and 4.1): what decides where objects are written.
//!
//! Every object lies in the container that its key names: by the tag in braces, or by the whole key if it has none. Until a container is
//! created, the keyspace has it: its preferred site follows from its name. A container that was created is where it was placed. Its preferred site
//! stands in the data, and moves with it: the site that has it writes the version that hands it over, after all that it has let in; and the
//! site that gets it begins once that version has committed there, after all that it depends on. So at no instant two sites let in writes of one
//! object, and none is let in that has not seen the one before.
//!
//! All that a site lets in at first, by hash or because it was placed there, is a container, too: the *role* of that site. When a site comes back under
//! another name, the one that stood in for it hands its role over as it hands a container over.
//!
//! A container has a *replica set*: the local sites that hold the values of its objects. The others know which transactions have written them, and no
//! values. Which sites an update reaches with its values follows from the snapshot of its transaction: the set that the newest version of the
//! container says which the snapshot includes. A version never names a site that the one before it did not, so every update is at all sites that any later
//! version names; and a site gives its copy up once the floor includes the version that does not name it.
//!
//! A container that no client has placed moves by itself to the site that writes it, if other sites hardly do.

use quorate_core::Key;

use crate::register::Content;
use crate::vector::LocalSite;

/// Where the objects of a container are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The local site that lets in what is written to its registers.
    pub preferred: LocalSite,
    /// The local sites that hold the values of its objects.
    pub replicas: Replicas,
    /// True if a client has said where it is to be, so that it moves no more by itself.
    pub stays: bool,
}

impl Content for Container {
    fn bytes(&self) -> usize {
        self.replicas.sites.len() * size_of::<LocalSite>()
    }
}

/// The local sites that hold the values of some objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Replicas {
    /// Ascending, each once. None are all.
    pub(crate) sites: Vec<LocalSite>,
}

/// All local sites, where nothing else is said.
pub(crate) static EVERYWHERE: Replicas = Replicas::ALL;

impl Replicas {
    /// All local sites of the keyspace.
    pub const ALL: Replicas = Replicas { sites: Vec::new() };

    /// These sites, of which there is one at least.
    pub fn of(sites: impl IntoIterator<Item = LocalSite>) -> Self {
        let mut sites: Vec<LocalSite> = sites.into_iter().collect();
        sites.sort_unstable();
        sites.dedup();
        Replicas { sites }
    }

    /// True if these are all sites, whichever there are.
    pub fn is_all(&self) -> bool {
        self.sites.is_empty()
    }

    /// True if a site is one of them.
    pub fn has(&self, site: LocalSite) -> bool {
        self.is_all() || self.sites.binary_search(&site).is_ok()
    }

    /// True if all of them are among others.
    pub fn are_within(&self, others: &Replicas) -> bool {
        others.is_all() || (!self.is_all() && self.sites.iter().all(|site| others.has(*site)))
    }

    /// Those of some sites that are among them.
    pub fn among(&self, sites: impl IntoIterator<Item = LocalSite>) -> Vec<LocalSite> {
        sites.into_iter().filter(|site| self.has(*site)).collect()
    }

    /// True if they are written as they are here, and are no others than the first so many sites of a keyspace.
    pub(crate) fn are_well_formed(&self, sites: usize) -> bool {
        self.sites.is_sorted_by(|one, other| one < other)
            && self.sites.last().is_none_or(|last| usize::from(last.0) < sites)
    }
}

/// The name of a role as a container: no key names such a one.
pub(crate) fn role(site: LocalSite) -> Key {
    Key::from(format!("{{{site}}}"))
}

#[cfg(test)]
mod tests {
    use quorate_core::topology::container_of;

    use super::*;

    fn replicas(sites: &[u16]) -> Replicas {
        Replicas::of(sites.iter().copied().map(LocalSite))
    }

    #[test]
    fn no_sites_are_all_sites() {
        assert!(Replicas::ALL.is_all() && Replicas::ALL.has(LocalSite(7)) && Replicas::of([]).is_all());
        assert_eq!(replicas(&[2, 0, 2]).sites, [LocalSite(0), LocalSite(2)]);
        assert!(replicas(&[0, 2]).has(LocalSite(2)) && !replicas(&[0, 2]).has(LocalSite(1)));
        assert_eq!(replicas(&[2]).among([LocalSite(1), LocalSite(2)]), [LocalSite(2)]);
    }

    #[test]
    fn a_set_is_within_another_if_all_its_sites_are() {
        for (ours, others, expected) in [
            (&[0, 2][..], &[0, 1, 2][..], true),
            (&[0, 2], &[], true),
            (&[], &[], true),
            (&[], &[0, 1, 2], false),
            (&[0, 3], &[0, 1, 2], false),
        ] {
            assert_eq!(replicas(ours).are_within(&replicas(others)), expected, "{ours:?} in {others:?}");
        }
    }

    #[test]
    fn others_may_write_sets_that_are_none() {
        let written = |sites: &[u16]| Replicas { sites: sites.iter().copied().map(LocalSite).collect() };
        for (sites, expected) in
            [(&[][..], true), (&[0, 2], true), (&[2, 0], false), (&[1, 1], false), (&[3], false)]
        {
            assert_eq!(written(sites).are_well_formed(3), expected, "{sites:?}");
        }
    }

    #[test]
    fn no_key_lies_in_a_container_that_is_a_role() {
        let name = role(LocalSite(3));
        assert_eq!(name, Key::from("{s3}"));
        for key in ["{s3}", "{{s3}}", "{s3}/x", "x{s3}", "{}{s3}"] {
            assert_ne!(container_of(key.as_bytes()), name.as_slice(), "{key}");
        }
    }
}
