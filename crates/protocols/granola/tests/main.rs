//! Granola as stories, message by message.

mod blocked_reads;
mod registers;
mod schedules;
mod scripts;
