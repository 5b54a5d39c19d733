//! Doors through which clients come in that speak another protocol than that of the cluster.

/// A door, by the protocol that its clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// That of Redis.
    Redis,
}

impl Door {
    /// Every door.
    pub const ALL: [Door; 1] = [Door::Redis];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Door::Redis => "redis",
        }
    }
}

quorate_core::names!(Door, "door");
