//! How large everything is.

/// Districts of a warehouse.
pub const DISTRICTS: u8 = 10;

/// The number of last names that there are.
pub const LAST_NAMES: u32 = 1_000;

/// How large everything is. The specification's is the default; tests are smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses, numbered from one.
    pub warehouses: u32,
    /// Customers of a district, each with one order at first.
    pub customers: u32,
    /// Items, of each of which each warehouse has a stock.
    pub items: u32,
}

impl Default for Scale {
    fn default() -> Self {
        Scale { warehouses: 1, customers: 3_000, items: 100_000 }
    }
}

impl Scale {
    /// The orders of a district that were delivered at first: the older seven tenths.
    pub fn delivered(&self) -> u32 {
        self.customers * 7 / 10
    }

    /// The last names that customers of a district have for certain.
    pub fn last_names(&self) -> u32 {
        self.customers.min(LAST_NAMES)
    }
}
