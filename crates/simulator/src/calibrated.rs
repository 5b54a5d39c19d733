//! What work costs on a real server, as measured.
//!
//! The values are what `quorate sim --calibrate` has printed on a virtual machine of two cores (Intel Xeon) that had other
//! work to do. They are ratios as much as times: of a system call to a message, of a message to an operation. With
//! them and 256 transactions in flight, simulated servers and their client took 25.5 µs of processors for a transaction
//! where real ones took 41.0, which waited for processors besides. Whoever needs the costs of another machine runs the
//! command there, when it is idle.

use crate::world::costs::{Batching, Cost, Costs, Operation};

/// What the work of a server and of a client costs.
pub fn costs() -> Costs {
    Costs {
        batching: Batching::Turns,
        read_ns: 2_312.0,
        write_ns: 2_126.0,
        received: Cost::new(249.0, 0.13),
        sent: Cost::new(139.0, 0.16),
        appended: Cost::new(229.0, 0.19),
        operations: Operation::ALL.map(operation),
    }
}

const fn operation(operation: Operation) -> Cost {
    match operation {
        Operation::Control => Cost::new(206.0, 0.0),
        Operation::Read => Cost::new(482.0, 0.0),
        Operation::Prepare => Cost::new(781.0, 217.8),
        Operation::Commit => Cost::new(567.0, 308.5),
        Operation::Abort => Cost::new(303.0, 0.0),
        Operation::Reply => Cost::new(256.0, 0.0),
        Operation::Command => Cost::new(2_409.0, 0.0),
    }
}
