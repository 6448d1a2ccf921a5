//! The clock of the embedded store: monotonic, anchored once to the Unix epoch.
//!
//! The system's monotonic clock takes 36 ns to read on the machine this was measured on, the
//! processor's tick counter 12. So ticks are read, and tied to the system's clock every few
//! milliseconds ([`tied`]). Where there is no steady counter, `quanta` reads the system's clock
//! instead, and this is merely a detour.
//!
//! An unfenced reading of the counter can be a little older than one that another thread has made
//! before; so a state keeps the latest reading that it has seen, and goes by the later of the two.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tollkeeper_core::{Clock, whole_us};

use tied::{Source, Tied};

mod tied;
mod versioned;

/// A time that a caller has read before, of a clock that only goes forward.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(pub(crate) u64);

impl Clock for Moment {
    fn now_us(&self) -> u64 {
        self.0
    }

    fn may_step_back(&self) -> bool {
        false
    }
}

/// The system's time, never stepping back. Clones show the same time.
#[derive(Clone, Debug)]
pub struct SystemClock {
    tied: Arc<Tied<System>>,
}

/// The system's own clocks.
#[derive(Debug)]
struct System {
    ticks: quanta::Clock,
    start: Instant,
}

impl System {
    #[expect(clippy::disallowed_methods, reason = "this is the implementation of Clock")]
    fn new() -> Self {
        Self { ticks: quanta::Clock::new(), start: Instant::now() }
    }
}

impl Source for System {
    #[inline]
    fn ticks(&self) -> u64 {
        self.ticks.raw()
    }

    fn nanos(&self, ticks: u64) -> u64 {
        self.ticks.delta_as_nanos(0, ticks)
    }

    fn passed(&self) -> Duration {
        self.start.elapsed()
    }
}

impl SystemClock {
    /// A clock that shows the system's time now and never steps back from here.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the implementation of Clock")]
    pub fn new() -> Self {
        let system = System::new();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start_us = whole_us(since_epoch.saturating_sub(system.passed()));
        Self { tied: Arc::new(Tied::new(system, start_us)) }
    }

    /// A clock that stands at `now_us`, for tests of what takes no other clock than this.
    #[doc(hidden)]
    #[must_use]
    pub fn standing(now_us: u64) -> Self {
        Self { tied: Arc::new(Tied::standing(System::new(), now_us)) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now_us(&self) -> u64 {
        self.tied.now_us()
    }

    #[inline]
    fn may_step_back(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_steps_back_and_stays_by_the_systems_clock() {
        let clock = SystemClock::new();
        let begun_us = clock.tied.system_us();
        let mut last_us = 0;
        let mut most_behind_us = 0;
        while clock.tied.system_us() < begun_us + 300_000 {
            let before_us = clock.tied.system_us();
            let now_us = clock.now_us();
            let after_us = clock.tied.system_us();
            assert!(now_us >= last_us, "{now_us} after {last_us}");
            // A microsecond is what rounding down twice can make.
            assert!(now_us <= after_us + 1, "{} µs ahead", now_us - after_us);
            most_behind_us = most_behind_us.max(before_us.saturating_sub(now_us));
            last_us = now_us;
        }
        // A part in 64 of 5 ms at first, twice if `quanta` measured badly, and a moment of 20 µs.
        assert!(most_behind_us <= 180, "{most_behind_us} µs behind");
    }

    #[test]
    fn one_that_stands_shows_one_moment() {
        let (clock, system) = (SystemClock::standing(17), SystemClock::new());
        let begun_us = system.now_us();
        while system.now_us() < begun_us + 2 * tied::TRUST_US {
            assert_eq!(clock.now_us(), 17);
        }
    }
}
