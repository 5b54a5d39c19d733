//! The configuration service as stories, message by message.

mod impatient;
mod scripts;
