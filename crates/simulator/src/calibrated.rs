//! What work costs on a real server, as measured.
//!
//! The values are what `quorate sim --calibrate` has printed on a virtual machine of two cores (Intel Xeon) at the highest
//! priority, while others had work to do there. They are ratios as much as times: of being woken to a system call, of a
//! system call to an operation. How far a simulation with them is off stands in the documentation of the simulator. Whoever
//! needs the costs of another machine runs the command there, when it is idle.

use crate::world::costs::{Batching, Cost, Costs, Operation};

/// What the work of a server and of a client costs.
pub fn costs() -> Costs {
    Costs {
        batching: Batching::Turns,
        wake_ns: 40_203.0,
        read_ns: 3_643.0,
        write_ns: 3_950.0,
        received: Cost::new(8.0, 0.18),
        sent: Cost::new(114.0, 0.54),
        appended: Cost::new(230.0, 0.65),
        sync_ns: 88_613.0,
        operations: Operation::ALL.map(operation),
    }
}

const fn operation(operation: Operation) -> Cost {
    match operation {
        Operation::Control => Cost::new(771.0, 0.0),
        Operation::Read => Cost::new(811.0, 0.0),
        Operation::Prepare => Cost::new(2_126.0, 1_973.0),
        Operation::Commit => Cost::new(2_107.0, 2_334.0),
        Operation::Abort => Cost::new(1_259.0, 0.0),
        Operation::Reply => Cost::new(771.0, 0.0),
        Operation::Command => Cost::new(2_392.0, 0.0),
    }
}
