//! Figures of the papers again, and figures of our own, in virtual time: exactly repeatable, on any machine.
//!
//! The machines are the ones that servers and clients run, in the world of the simulator, without faults.
//!
//! | file | role |
//! |---|---|
//! | [`catalogue`] | which experiments there are |
//! | [`deployment`], [`load`] | where they run, and closed-loop clients |
//! | [`interactive`] | transactions step by step |
//! | [`one_round`] | transactions that are asked for at once |
//! | [`datacentre`] | one of the places where they are measured |
//! | [`contender`] | TAPIR and its rivals, side by side |
//! | [`deadlines`] | deadline ordering against plain TAPIR |
//! | [`environments`] | how long one transaction takes in them, from a cluster to three regions |
//! | [`skew`] | what wrong clocks do |
//! | [`tuning`] | whether the rivals are set up well |
//! | [`regions`] | TAPIR and its rivals over three regions |
//! | [`contention`] | what is left of throughput where transactions meet |
//! | [`peaks`] | how much they get out of their servers |
//! | [`one_round`] | Granola beside the systems that its paper measures with it |
//! | [`speculation`] | STR over the nine data centres of its paper |
//! | [`walter`] | Walter over the four sites of its paper |
//! | [`workers`] | runs that do not depend on each other, which may be done side by side |
//! | [`report`], [`svg`] | what was found: JSON, CSV, a picture |

pub mod catalogue;
pub mod contender;
pub mod contention;
pub mod datacentre;
pub mod deadlines;
pub mod deployment;
pub mod environments;
pub mod interactive;
pub mod load;
pub mod one_round;
pub mod peaks;
pub mod regions;
pub mod report;
pub mod skew;
pub mod speculation;
pub mod svg;
pub mod tuning;
pub mod walter;
pub mod workers;

pub use catalogue::{Experiment, Settings};
pub use report::{Bound, Headline, Report, Row, of_paper};
pub use workers::{InOrder, Workers};
