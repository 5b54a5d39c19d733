//! STR on a small stage: golden scripts, message by message, and the four ways to wait.

mod alone;
mod liveness;
mod scripts;
