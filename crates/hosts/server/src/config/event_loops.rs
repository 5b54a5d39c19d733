//! Over how many event loops the replicas of a node are spread (ADR 0080).

use std::str::FromStr;
use std::thread::available_parallelism;

/// A node has no more event loops.
const EVENT_LOOPS_MAX: u16 = 256;

/// The number of event loops of a node, each with a thread of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventLoops {
    /// One for each processor that the process may use, but one: syncs, HTTP and doors need some. At least one.
    Auto,
    /// So many: 1 to 256.
    Exactly(u16),
}

impl Default for EventLoops {
    fn default() -> Self {
        EventLoops::Exactly(1)
    }
}

impl EventLoops {
    /// So many event loops.
    ///
    /// # Errors
    /// There must be 1 to 256.
    pub fn exactly(count: u64) -> Result<EventLoops, String> {
        match u16::try_from(count) {
            Ok(count) if (1..=EVENT_LOOPS_MAX).contains(&count) => Ok(EventLoops::Exactly(count)),
            _ => {
                Err(format!("{count} is no number of event loops: write \"auto\", or 1 to {EVENT_LOOPS_MAX}"))
            }
        }
    }

    /// How many event loops that is on this machine.
    pub fn count(self) -> u16 {
        match self {
            EventLoops::Exactly(count) => count,
            EventLoops::Auto => {
                let processors = available_parallelism().map_or(1, usize::from);
                u16::try_from(processors.saturating_sub(1))
                    .unwrap_or(EVENT_LOOPS_MAX)
                    .clamp(1, EVENT_LOOPS_MAX)
            }
        }
    }
}

impl FromStr for EventLoops {
    type Err = String;

    fn from_str(text: &str) -> Result<EventLoops, String> {
        match text {
            "auto" => Ok(EventLoops::Auto),
            _ => match text.parse() {
                Ok(count) => EventLoops::exactly(count),
                Err(_) => Err(format!(
                    "{text:?} is no number of event loops: write \"auto\", or 1 to {EVENT_LOOPS_MAX}"
                )),
            },
        }
    }
}

impl std::fmt::Display for EventLoops {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EventLoops::Auto => formatter.write_str("auto"),
            EventLoops::Exactly(count) => write!(formatter, "{count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_written_as_a_table() {
        for (text, expected) in [("auto", Some(EventLoops::Auto)), ("1", Some(EventLoops::Exactly(1)))] {
            assert_eq!(text.parse().ok(), expected);
        }
        for text in ["0", "257", "-1", "", "many", "1.5", "70000"] {
            let mistake = text.parse::<EventLoops>().unwrap_err();
            assert!(mistake.contains("write \"auto\", or 1 to 256"), "{mistake}");
        }
        assert_eq!(EventLoops::Exactly(3).count(), 3);
        assert!(EventLoops::Auto.count() >= 1);
        assert_eq!(EventLoops::default().count(), 1);
    }
}
