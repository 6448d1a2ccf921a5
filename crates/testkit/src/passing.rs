//! Owns [`Passing`]: a clock that shows the time of the runtime, which a test may have paused.

use tokio::time::Instant;
use tollkeeper_core::Clock;

/// What it shows when it is made.
pub const BEGIN_US: u64 = 1_700_000_000_000_000;

/// The runtime's time. Clones show the same.
#[derive(Clone, Debug)]
pub struct Passing(Instant);

impl Passing {
    /// A clock that begins now.
    #[must_use]
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for Passing {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for Passing {
    fn now_us(&self) -> u64 {
        BEGIN_US + u64::try_from(self.0.elapsed().as_micros()).unwrap_or(0)
    }

    fn may_step_back(&self) -> bool {
        false
    }
}
