//! How much a node logs, and in which form.

use std::str::FromStr;

/// How a node logs. `quorate server --print-config` documents it with its defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logging {
    /// The form of each line.
    pub format: LogFormat,
    /// How much: a level, or levels of parts of the program (`info,quorate_server=debug`). The program that starts the node reads it.
    pub level: String,
}

impl Default for Logging {
    fn default() -> Self {
        Logging { format: LogFormat::Text, level: "info".to_owned() }
    }
}

/// The form of the lines of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object in each line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err(format!("\"{name}\" is no form of a log: write \"text\" or \"json\"")),
        }
    }
}
