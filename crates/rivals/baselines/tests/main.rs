//! Golden scripts: the comparison systems as stories, message by message; and random schedules.

mod schedules;
mod scripts;
