//! Golden scripts: the protocol as stories, message by message, and the claims of the paper one by one.

mod bounds;
mod client;
mod epochs;
mod execution;
mod floors;
mod held_reads;
mod hosting;
mod late_recovery;
mod paper;
mod readers;
mod recovery;
mod scripts;
mod searching;
mod serving;
mod shortening;
mod sweeping;
mod telling;
mod two_shards;
