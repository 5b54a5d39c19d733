//! The reason why something could not be done.

use std::fmt::Display;

/// The reason why something could not be done, as a message for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Something went wrong on the way.
    Failed(String),
    /// It was asked for something that cannot be.
    Usage(String),
}

impl Failure {
    /// A failure on the way.
    pub fn failed(message: impl Display) -> Self {
        Failure::Failed(message.to_string())
    }

    /// A failure of the caller, who has asked for something that cannot be.
    pub fn usage(message: impl Display) -> Self {
        Failure::Usage(message.to_string())
    }
}

impl From<quorate::Error> for Failure {
    fn from(error: quorate::Error) -> Self {
        match error {
            quorate::Error::Invalid(invalid) => Failure::usage(invalid),
            error => Failure::failed(error),
        }
    }
}
