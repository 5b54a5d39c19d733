//! The costs of work on a real server, as measured.
//!
//! The values are what `quorate sim --calibrate` has printed on a virtual machine of two cores (Intel Xeon) that had nothing
//! else to do. They are ratios as much as times: of being woken to a system call, of a system call to an operation. How far a
//! simulation with them is off stands in the documentation of the simulator. For the costs of another machine, run the
//! command there, when it is idle.

use crate::world::costs::{Batching, Cost, Costs, Operation};

/// The costs of the work of a server and of a client.
pub fn costs() -> Costs {
    Costs {
        batching: Batching::Turns,
        wake_ns: 24_482.0,
        read_ns: 2_455.0,
        write_ns: 2_359.0,
        received: Cost::new(29.0, 0.47),
        sent: Cost::new(0.0, 0.18),
        appended: Cost::new(72.0, 0.54),
        sync_ns: 45_423.0,
        operations: Operation::ALL.map(operation),
    }
}

const fn operation(operation: Operation) -> Cost {
    match operation {
        Operation::Control => Cost::new(155.0, 0.0),
        Operation::Read => Cost::new(657.0, 0.0),
        Operation::Prepare => Cost::new(686.0, 1_096.0),
        Operation::Commit => Cost::new(303.0, 1_450.0),
        Operation::Abort => Cost::new(843.0, 0.0),
        Operation::Reply => Cost::new(416.0, 0.0),
        Operation::Command => Cost::new(1_564.0, 0.0),
    }
}
