//! How large everything is.

/// Categories of items.
pub const CATEGORIES: u16 = 20;

/// Regions in which users live.
pub const REGIONS: u16 = 62;

/// How large everything is. The benchmark's own population is a million users and 33,667 items for sale, with up to twenty bids each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Markets, numbered from one: each has an equal portion of every table.
    pub markets: u32,
    /// Users of a market at first.
    pub users: u32,
    /// Items for sale at a market at first.
    pub items: u32,
    /// An item has at most so many bids at first.
    pub bids_max: u32,
}

impl Default for Scale {
    fn default() -> Self {
        Scale { markets: 2, users: 1_000, items: 500, bids_max: 20 }
    }
}
