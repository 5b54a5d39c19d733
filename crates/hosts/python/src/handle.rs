//! Parts of a client that belong to the process that has connected.

use pyo3::prelude::*;

use crate::context::Context;
use crate::error;

/// Something of a client, with the way to its thread. A fork of the process may not touch it: the thread is not there, and may have held a lock at the time
/// of the fork.
pub(crate) struct Handle<T> {
    /// None only while it is dropped.
    held: Option<(T, Context)>,
    process: u32,
}

impl<T> Handle<T> {
    pub(crate) fn new(held: T, context: Context) -> Self {
        let process = context.process();
        Handle { held: Some((held, context)), process }
    }

    /// Its contents.
    ///
    /// # Errors
    /// `Forked` in a fork of the process that has connected.
    pub(crate) fn get(&self) -> PyResult<(&T, &Context)> {
        let process = std::process::id();
        match &self.held {
            Some((held, context)) if process == self.process => Ok((held, context)),
            _ => Err(error::forked(self.process, process)),
        }
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            // To end it would wait for locks that nobody gives back here.
            std::mem::forget(self.held.take());
        }
    }
}
