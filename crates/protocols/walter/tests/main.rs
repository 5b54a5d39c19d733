//! Golden scripts: Walter as stories, message by message.

mod schedules;
mod scripts;
mod starvation;
