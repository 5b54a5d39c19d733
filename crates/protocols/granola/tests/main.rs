//! Granola as stories, message by message.

mod alone;
mod blocked_reads;
mod registers;
mod schedules;
mod scripts;
