//! The targets.

mod commands;
mod credentials;
mod dumps;
mod http;
mod lua;
mod pipeline;
mod requests;

use crate::Target;

/// All targets.
pub const TARGETS: &[Target] = &[
    pipeline::TARGET,
    commands::TARGET,
    requests::TARGET,
    dumps::TARGET,
    lua::JSON,
    lua::MESSAGE_PACK,
    lua::STRUCTS,
    lua::PATTERNS,
    http::TARGET,
    credentials::TARGET,
];
