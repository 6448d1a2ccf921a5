//! The clock of the embedded store: monotonic, anchored once to the Unix epoch.
//!
//! Reading the system's clock is a third of a decision. The processor's tick counter is three times
//! faster, but an unfenced reading of it can be older than one that another thread made before, by
//! a microsecond now and then: a key would see time step back, and drain that microsecond twice.

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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread;

    use super::*;

    #[test]
    fn what_one_thread_has_seen_no_other_is_shown_a_time_before() {
        let clock = SystemClock::new();
        let latest_us = Mutex::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200_000 {
                        // As the store reads it: under a lock that orders the readings.
                        let mut latest_us = latest_us.lock().unwrap();
                        let now_us = clock.now_us();
                        assert!(now_us >= *latest_us, "{now_us} after {latest_us}");
                        *latest_us = now_us;
                    }
                });
            }
        });
    }
}
