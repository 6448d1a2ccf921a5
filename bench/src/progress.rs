//! A bar for what takes long.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar for `steps` steps, where somebody watches.
pub(crate) fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}").unwrap();
    ProgressBar::new(steps).with_style(style)
}
