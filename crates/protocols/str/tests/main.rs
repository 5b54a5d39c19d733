//! STR on a small stage: golden scripts, message by message, and what waits.

mod scripts;
