//! Crashes at every step of small clusters, one after the other, and nothing left to chance.
//!
//! First a configuration is executed without a crash, and every step of every machine is numbered: each message, before it
//! is sent and after; each record, before it is appended; each sync, before and after. Then it is executed once for each
//! step and each aftermath, with exactly that crash. Where a client crashes and does not return, replicas settle what it
//! has left behind, and then each message that they say as backup coordinators is a step at which they crash in turn.
//!
//! | file | role |
//! |---|---|
//! | `configuration` | the small clusters, and what runs on them |
//! | `case` | which crashes, and what becomes of the machine that crashes |
//! | `execution` | one execution |
//! | `watch` | how long keys are held after a crash |
//! | `enumeration` | all cases |
//! | `report` | what was found |

mod case;
mod configuration;
mod enumeration;
mod execution;
mod report;
mod watch;

pub use case::{Aftermath, Case, CrashPoint};
pub use configuration::Configuration;
pub use enumeration::{Task, misplaced, run_case, run_task, tasks};
pub(crate) use execution::Ordeal;
pub use execution::{Executed, execute};
pub use report::{ConfigurationReport, CrashPointReport, CrashPointViolation, TaskReport};
pub(crate) use watch::Watch;
