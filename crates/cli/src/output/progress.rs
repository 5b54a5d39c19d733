//! Progress on standard error: a living line on a terminal, nothing but the landmarks elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The progress of a command, for people who wait.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A line without an end in sight.
    pub(crate) fn spinner() -> Self {
        Self::new(None)
    }

    /// A bar towards so many steps.
    pub(crate) fn bar(steps: u64) -> Self {
        Self::new(Some(steps))
    }

    fn new(steps: Option<u64>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Progress { bar: None };
        }
        let (bar, template) = match steps {
            Some(steps) => (ProgressBar::new(steps), "  {bar:30.cyan/blue} {pos}/{len} {msg}"),
            None => (ProgressBar::new_spinner(), "  {spinner:.cyan} {msg}"),
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("━╸─"));
        bar.enable_steady_tick(Duration::from_millis(100));
        Progress { bar: Some(bar) }
    }

    /// Says a landmark: it stays.
    pub(crate) fn say(&self, text: impl AsRef<str>) {
        match &self.bar {
            Some(bar) => bar.suspend(|| errln!("{}", text.as_ref())),
            None => errln!("{}", text.as_ref()),
        }
    }

    /// Says what is going on at the moment: the next call replaces it.
    pub(crate) fn now(&self, text: impl Into<String>) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.into());
        }
    }

    /// How many steps are done.
    pub(crate) fn step_to(&self, steps: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(steps);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
