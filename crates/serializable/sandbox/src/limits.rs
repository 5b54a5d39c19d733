//! The costs that a module and a call of it may have.

/// Bounds on the cost of a module and of a call of it. All replicas of a shard use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The length of a module, in bytes.
    pub module_bytes_max: usize,
    /// The functions of a module.
    pub functions_max: u32,
    /// The local variables of one function, its parameters included: they are cleared each time that it is
    /// entered.
    pub locals_max: u32,
    /// The memory that a call may have, in bytes; 64 MiB at most.
    pub memory_bytes_max: usize,
    /// The functions that may be entered, each from within the one before.
    pub depth_max: usize,
    /// The work of a call: about the number of its instructions. A call of the store costs
    /// [`Limits::FUEL_OF_A_CALL`], and one for each eight bytes.
    pub fuel: u64,
}

impl Limits {
    /// The cost of one call of the host.
    pub const FUEL_OF_A_CALL: u64 = 64;
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            module_bytes_max: 1 << 20,
            functions_max: 5_000,
            locals_max: 1_000,
            memory_bytes_max: 16 << 20,
            depth_max: 500,
            fuel: 10_000_000,
        }
    }
}
