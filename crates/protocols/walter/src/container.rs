//! Containers (Walter, sections 2 and 4.1): what decides where objects are written.
//!
//! Every object lies in the container that its key names: by the tag in braces, or by the whole key if it has none. Until a container is
//! created, the keyspace has it: its preferred site follows from its name. A container that was created is where it was placed. Who holds it
//! stands in the data, and moves with it: the site that has it writes the version that hands it over, after all that it has let in; and the
//! site that gets it begins once that version has committed there, after all that it depends on. So at no instant two sites let in writes of one
//! object, and none is let in that has not seen the one before.

use crate::vector::LocalSite;

/// Where the objects of a container are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The local site that lets in what is written to its registers.
    pub preferred: LocalSite,
}
