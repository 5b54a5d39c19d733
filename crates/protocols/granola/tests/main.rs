//! Granola as stories, message by message.

mod registers;
mod schedules;
mod scripts;
