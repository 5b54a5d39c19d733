//! Golden scripts: the protocol as stories, message by message, and the claims of the paper one by one.

mod epochs;
mod floors;
mod late_recovery;
mod paper;
mod recovery;
mod scripts;
