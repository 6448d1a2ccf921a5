//! The clock of the embedded store: monotonic, anchored once to the Unix epoch.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tollkeeper_core::Clock;

/// Reads the monotonic clock. Clones share the anchor.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
    start_us: u64,
}

impl SystemClock {
    /// A clock that shows the system's time now and never steps back from here.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the implementation of Clock")]
    pub fn new() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), start_us: whole_us(since_epoch) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now_us(&self) -> u64 {
        self.start_us + whole_us(self.start.elapsed())
    }
}

fn whole_us(duration: std::time::Duration) -> u64 {
    duration.as_secs() * 1_000_000 + u64::from(duration.subsec_micros())
}
