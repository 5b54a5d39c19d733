//! Golden scripts: Walter as stories, message by message.

mod scripts;
mod starvation;
