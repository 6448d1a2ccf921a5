//! The clock of the embedded store: monotonic, anchored once to the Unix epoch.
//!
//! The system's monotonic clock takes 36 ns to read on the machine this was measured on, the
//! processor's tick counter 12. So ticks are read, and every few milliseconds tied anew to the
//! system's clock: the rate is that of the whole run so far, a little on the slow side, so that
//! tying them can only move time forward. Where there is no steady counter, `quanta` reads the
//! system's clock instead, and this is merely a detour.
//!
//! An unfenced reading of the counter can be a little older than one that another thread has made
//! before; so a state keeps the latest reading that it has seen, and goes by the later of the two.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tollkeeper_core::Clock;

/// How long ticks are trusted before they are tied to the system's clock again.
const TRUST_US: u64 = 5_000;

/// How much slower than measured ticks are counted: one part in so many.
const SLOW: u128 = 8192;

/// How far apart the two clocks may be read to count as one moment, and how often that is tried.
const MOMENT_NS: u64 = 20_000;
const TRIES: usize = 8;

/// Bits behind the point of a rate.
const POINT: u32 = 32;

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
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    ticks: quanta::Clock,
    start: Instant,
    start_us: u64,
    start_ticks: u64,
    /// Odd while the tie is being written.
    version: AtomicU64,
    tied_ticks: AtomicU64,
    tied_us: AtomicU64,
    /// Microseconds a tick, as a fixed-point number.
    rate: AtomicU64,
    /// For how many ticks the tie is trusted; 0 until the rate has been measured.
    trusted: AtomicU64,
    tying: Mutex<()>,
}

/// A moment that both clocks have shown, and how fast ticks run from it on.
#[derive(Clone, Copy, Debug)]
struct Tie {
    ticks: u64,
    us: u64,
    rate: u64,
    trusted: u64,
}

impl Tie {
    /// A tie that is trusted for so long, if the rate has been measured.
    fn new(ticks: u64, us: u64, rate: u64) -> Self {
        let trusted = (TRUST_US << POINT).checked_div(rate).unwrap_or(0);
        Self { ticks, us, rate, trusted }
    }

    /// The time at `ticks`, if the tie can still be trusted.
    #[inline]
    fn time_at(&self, ticks: u64) -> Option<u64> {
        // Another processor's counter can be a little behind.
        let passed = ticks.saturating_sub(self.ticks);
        // So few that the product is at most what is trusted, which fits.
        (passed < self.trusted).then(|| self.us + ((passed * self.rate) >> POINT))
    }

    /// The time at `ticks`, trusted or not; for a rate that was not measured the time of the tie.
    fn any_time_at(&self, ticks: u64) -> u64 {
        let passed = u128::from(ticks.saturating_sub(self.ticks));
        let passed_us = (passed * u128::from(self.rate)) >> POINT;
        self.us.saturating_add(u64::try_from(passed_us).unwrap_or(u64::MAX))
    }
}

const _: () = assert!(TRUST_US.leading_zeros() > POINT, "what is trusted fits 64 bits");

impl SystemClock {
    /// A clock that shows the system's time now and never steps back from here.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the implementation of Clock")]
    pub fn new() -> Self {
        let ticks = quanta::Clock::new();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start_us = whole_us(since_epoch);
        // Ticks before: ticks that pass unseen make the rate slower, and never faster.
        let ((start_ticks, start), _) = at_one_moment(&ticks, || (ticks.raw(), Instant::now()));
        let shared = Shared {
            ticks,
            start,
            start_us,
            start_ticks,
            version: AtomicU64::new(0),
            tied_ticks: AtomicU64::new(start_ticks),
            tied_us: AtomicU64::new(start_us),
            rate: AtomicU64::new(0),
            trusted: AtomicU64::new(0),
            tying: Mutex::new(()),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A clock that stands at `now_us`, for tests of what takes no other clock than this.
    #[doc(hidden)]
    #[must_use]
    pub fn standing(now_us: u64) -> Self {
        let clock = Self::new();
        // Ticks that are worth nothing and trusted for ever.
        clock.shared.tied_us.store(now_us, Ordering::Relaxed);
        clock.shared.trusted.store(u64::MAX, Ordering::Relaxed);
        clock
    }
}

impl Shared {
    #[inline]
    fn tie(&self) -> Tie {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let tie = Tie {
                ticks: self.tied_ticks.load(Ordering::Relaxed),
                us: self.tied_us.load(Ordering::Relaxed),
                rate: self.rate.load(Ordering::Relaxed),
                trusted: self.trusted.load(Ordering::Relaxed),
            };
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version {
                return tie;
            }
            std::hint::spin_loop();
        }
    }

    /// Ties the ticks to the system's clock, and returns the time.
    #[cold]
    fn tie_anew(&self) -> u64 {
        let _tying = self.tying.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.ticks.raw();
        let tie = self.tie();
        if let Some(us) = tie.time_at(now) {
            // Somebody else has just done it.
            return us;
        }
        let counted_us = tie.any_time_at(now);
        // Ticks after, for the same reason; and a tie to ticks that were read too early would be
        // ahead of the system's clock.
        let ((passed, now), one_moment) =
            at_one_moment(&self.ticks, || (self.start.elapsed(), self.ticks.raw()));
        let us = (self.start_us + whole_us(passed)).max(counted_us);
        if !one_moment {
            // Somebody stops us at every try; the next caller tries again.
            return us;
        }
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        let tie = Tie::new(now, us, self.measured_rate(passed, now));
        self.tied_ticks.store(tie.ticks, Ordering::Relaxed);
        self.tied_us.store(tie.us, Ordering::Relaxed);
        self.rate.store(tie.rate, Ordering::Relaxed);
        self.trusted.store(tie.trusted, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
        us
    }

    /// Microseconds a tick over the whole run, a little slower; 0 while the run is too short.
    fn measured_rate(&self, passed: Duration, now: u64) -> u64 {
        let ticks = u128::from(now.saturating_sub(self.start_ticks));
        let passed_ns = passed.as_nanos();
        if ticks == 0 || passed_ns < u128::from(TRUST_US) * 1_000 {
            return 0;
        }
        let rate = (passed_ns << POINT) / (ticks * 1_000);
        u64::try_from(rate - rate / SLOW).unwrap_or(0)
    }
}

/// Reads both clocks, and again while something comes between; whether it succeeded.
fn at_one_moment<T>(ticks: &quanta::Clock, read: impl Fn() -> T) -> (T, bool) {
    for _ in 1..TRIES {
        let before = ticks.raw();
        let both = read();
        if ticks.delta_as_nanos(before, ticks.raw()) <= MOMENT_NS {
            return (both, true);
        }
    }
    (read(), false)
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now_us(&self) -> u64 {
        let now = self.shared.ticks.raw();
        match self.shared.tie().time_at(now) {
            Some(us) => us,
            None => self.shared.tie_anew(),
        }
    }

    #[inline]
    fn may_step_back(&self) -> bool {
        false
    }
}

fn whole_us(duration: Duration) -> u64 {
    duration.as_secs() * 1_000_000 + u64::from(duration.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The system's own time, by the same anchor.
    fn system_us(clock: &SystemClock) -> u64 {
        clock.shared.start_us + whole_us(clock.shared.start.elapsed())
    }

    #[test]
    fn it_never_steps_back_and_stays_by_the_systems_clock() {
        let clock = SystemClock::new();
        let mut last_us = 0;
        let mut most_behind_us = 0;
        while system_us(&clock) < clock.shared.start_us + 300_000 {
            let before_us = system_us(&clock);
            let now_us = clock.now_us();
            let after_us = system_us(&clock);
            assert!(now_us >= last_us, "{now_us} after {last_us}");
            // A microsecond is what rounding down twice can make.
            assert!(now_us <= after_us + 1, "{} µs ahead", now_us - after_us);
            most_behind_us = most_behind_us.max(before_us.saturating_sub(now_us));
            last_us = now_us;
        }
        // Two moments of 20 µs in a run of at least 5 ms, over 5 ms; the last moment's own 20 µs; and
        // one part in 8192 of 5 ms: 61 µs.
        assert!(most_behind_us <= 62, "{most_behind_us} µs behind");
    }

    #[test]
    fn one_that_stands_shows_one_moment() {
        let (clock, system) = (SystemClock::standing(17), SystemClock::new());
        let begun_us = system.now_us();
        while system.now_us() < begun_us + 2 * TRUST_US {
            assert_eq!(clock.now_us(), 17);
        }
    }

    #[test]
    fn ticks_that_are_not_trusted_are_not_used() {
        let tie = Tie::new(1_000, 50, 1 << POINT);
        assert_eq!(tie.time_at(1_000 + TRUST_US - 1), Some(50 + TRUST_US - 1));
        assert_eq!(tie.time_at(1_000 + TRUST_US), None);
        assert_eq!((tie.time_at(900), tie.any_time_at(900)), (Some(50), 50));
        assert_eq!((tie.time_at(u64::MAX), tie.any_time_at(u64::MAX)), (None, u64::MAX - 950));
        // From a tick a microsecond to more than any processor's, and where none was measured.
        for rate in [1 << POINT, (1 << POINT) / 3_000, 1_000, 1, 0] {
            let tie = Tie::new(1_000, 50, rate);
            let last = 1_000 + tie.trusted.saturating_sub(1);
            assert_eq!(tie.time_at(last), (rate > 0).then(|| tie.any_time_at(last)));
            assert_eq!(tie.time_at(last + 1), None);
            assert!(tie.any_time_at(last) <= 50 + TRUST_US);
        }
    }
}
