//! Containers (Walter, sections 2 and 4.1): what decides where objects are written.
//!
//! Every object lies in the container that its key names: by the tag in braces, or by the whole key if it has none. Until a container is
//! created, the keyspace has it: its preferred site follows from its name. A container that was created is where it was placed. Who holds it
//! stands in the data, and moves with it: the site that has it writes the version that hands it over, after all that it has let in; and the
//! site that gets it begins once that version has committed there, after all that it depends on. So at no instant two sites let in writes of one
//! object, and none is let in that has not seen the one before.
//!
//! All that a site lets in at first, by hash or because it was placed there, is a container, too: the *role* of that site. When a site comes back under
//! another name, the one that stood in for it hands its role over as it hands a container over.

use quorate_core::Key;

use crate::vector::LocalSite;

/// Where the objects of a container are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The local site that lets in what is written to its registers.
    pub preferred: LocalSite,
}

/// The name of a role as a container: no key names such a one.
pub(crate) fn role(site: LocalSite) -> Key {
    Key::from(format!("{{{site}}}"))
}

#[cfg(test)]
mod tests {
    use quorate_core::topology::container_of;

    use super::*;

    #[test]
    fn no_key_lies_in_a_container_that_is_a_role() {
        let name = role(LocalSite(3));
        assert_eq!(name, Key::from("{s3}"));
        for key in ["{s3}", "{{s3}}", "{s3}/x", "x{s3}", "{}{s3}"] {
            assert_ne!(container_of(key.as_bytes()), name.as_slice(), "{key}");
        }
    }
}
