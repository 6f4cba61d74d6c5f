//! How far a long command has come.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on standard error, drawn only on a terminal.
pub(crate) fn bar(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg} ({elapsed})");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// A sign on standard error that something goes on, drawn only on a terminal.
pub(crate) fn spinner(message: &'static str) -> ProgressBar {
    let spinner = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
    spinner.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    spinner.set_message(message);
    spinner.enable_steady_tick(Duration::from_millis(200));
    spinner
}
