//! Golden scripts: Walter as stories, message by message.

mod alone;
mod schedules;
mod scripts;
mod starvation;
