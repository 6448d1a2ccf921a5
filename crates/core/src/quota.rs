//! Owns [`Quota`]: how much is allowed, by which algorithm. A quota that exists is valid.
//!
//! Every bound that keeps the arithmetic exact is checked here, once, so that no store and no
//! algorithm has to.

mod error;

pub use error::QuotaError;

use std::fmt;
use std::num::NonZeroU64;

use crate::algorithm::Algorithm;
use crate::divisor::Divisor;
use crate::limits::{EXACT, MAX_WINDOW_COUNT};
use crate::rate::{Rate, check_period};
use crate::text::format_duration;

/// How much is allowed, and the algorithm that decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Quota {
    /// Tokens refill at a rate up to a capacity; a request takes as many as it costs.
    TokenBucket(Bucket),
    /// The token bucket told as a theoretical arrival time; the same decisions.
    Gcra(Bucket),
    /// Requests queue and leave at a rate; a full queue denies.
    LeakingBucket(Leak),
    /// So many in each window, windows aligned to the Unix epoch.
    FixedWindow(Window),
    /// So many in every interval of the window's length, by remembering each.
    SlidingWindowLog(Window),
    /// So many in the window, the one before weighted by how much of it still overlaps.
    SlidingWindowCounter(Window),
    /// So many at the same time.
    Concurrency(InFlight),
}

impl Quota {
    /// Up to `capacity` tokens, refilled at `refill_rate`. Starts full.
    pub fn token_bucket(capacity: u64, refill_rate: Rate) -> Result<Self, QuotaError> {
        Bucket::new("capacity", capacity, "refill_rate", refill_rate).map(Self::TokenBucket)
    }

    /// Bursts of up to `burst`, then `rate`.
    pub fn gcra(burst: u64, rate: Rate) -> Result<Self, QuotaError> {
        Bucket::new("burst", burst, "rate", rate).map(Self::Gcra)
    }

    /// A queue of `queue_capacity` that drains at `leak_rate`. A request that would wait longer
    /// than `max_delay_us` is denied.
    pub fn leaking_bucket(
        queue_capacity: u64,
        leak_rate: Rate,
        mode: LeakMode,
        max_delay_us: Option<u64>,
    ) -> Result<Self, QuotaError> {
        let bucket = Bucket::new("queue_capacity", queue_capacity, "leak_rate", leak_rate)?;
        // A delay of 0 has a meaning: nothing ever waits.
        if let Some(us) = max_delay_us.filter(|us| *us > 0) {
            check_period("max_delay", us)?;
        }
        Ok(Self::LeakingBucket(Leak { bucket, mode, max_delay_us }))
    }

    /// `max_requests` in each window of `window_size_us`.
    pub fn fixed_window(max_requests: u64, window_size_us: u64) -> Result<Self, QuotaError> {
        Window::new(max_requests, window_size_us).map(Self::FixedWindow)
    }

    /// `max_requests` in every interval of `window_size_us`.
    pub fn sliding_window_log(max_requests: u64, window_size_us: u64) -> Result<Self, QuotaError> {
        Window::new(max_requests, window_size_us).map(Self::SlidingWindowLog)
    }

    /// `max_requests` by the weighted count of this window and the one before.
    pub fn sliding_window_counter(
        max_requests: u64,
        window_size_us: u64,
    ) -> Result<Self, QuotaError> {
        Window::new(max_requests, window_size_us).map(Self::SlidingWindowCounter)
    }

    /// `max_in_flight` permits at the same time; one that is not renewed ends after `lease_us`.
    pub fn concurrency(max_in_flight: u64, lease_us: u64) -> Result<Self, QuotaError> {
        check_count("max_in_flight", max_in_flight)?;
        check_period("lease", lease_us)?;
        Ok(Self::Concurrency(InFlight { max_in_flight, lease_us }))
    }

    /// Which algorithm decides.
    #[must_use]
    #[inline]
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Self::TokenBucket(_) => Algorithm::TokenBucket,
            Self::Gcra(_) => Algorithm::Gcra,
            Self::LeakingBucket(_) => Algorithm::LeakingBucket,
            Self::FixedWindow(_) => Algorithm::FixedWindow,
            Self::SlidingWindowLog(_) => Algorithm::SlidingWindowLog,
            Self::SlidingWindowCounter(_) => Algorithm::SlidingWindowCounter,
            Self::Concurrency(_) => Algorithm::Concurrency,
        }
    }

    /// The bucket of an algorithm that has one.
    #[must_use]
    pub fn bucket(&self) -> Option<&Bucket> {
        match self {
            Self::TokenBucket(bucket) | Self::Gcra(bucket) => Some(bucket),
            Self::LeakingBucket(leak) => Some(leak.bucket()),
            _ => None,
        }
    }

    /// The most that can be available at once: capacity, burst, or the window's count.
    #[must_use]
    #[inline]
    pub fn limit(&self) -> u64 {
        match self {
            Self::TokenBucket(bucket) | Self::Gcra(bucket) => bucket.capacity,
            Self::LeakingBucket(leak) => leak.bucket.capacity,
            Self::FixedWindow(window)
            | Self::SlidingWindowLog(window)
            | Self::SlidingWindowCounter(window) => window.max_requests,
            Self::Concurrency(in_flight) => in_flight.max_in_flight,
        }
    }
}

impl fmt::Display for Quota {
    /// What it allows, for a person to read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TokenBucket(bucket) | Self::Gcra(bucket) => {
                write!(f, "{} at once, then {}", bucket.capacity, bucket.rate_text())
            }
            Self::LeakingBucket(leak) => {
                let bucket = &leak.bucket;
                write!(f, "{} queued, leaving at {}", bucket.capacity, bucket.rate_text())?;
                match leak.max_delay_us {
                    Some(us) => write!(f, ", none waiting above {}", format_duration(us)),
                    None => Ok(()),
                }
            }
            Self::FixedWindow(window)
            | Self::SlidingWindowLog(window)
            | Self::SlidingWindowCounter(window) => {
                write!(f, "{} per {}", window.max_requests, format_duration(window.size_us()))
            }
            Self::Concurrency(in_flight) => {
                let lease = format_duration(in_flight.lease_us);
                write!(f, "{} at the same time, each for {lease}", in_flight.max_in_flight)
            }
        }
    }
}

/// A capacity and the rate at which debt drains.
///
/// Debt counts in token·P: a token taken adds [`unit`](Self::unit) (P), a microsecond drains
/// [`drain`](Self::drain) (R). `2 · capacity · P < 2^53`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    capacity: u64,
    drain: Divisor,
    unit: Divisor,
}

impl Bucket {
    fn new(
        capacity_field: &'static str,
        capacity: u64,
        rate_field: &'static str,
        rate: Rate,
    ) -> Result<Self, QuotaError> {
        if capacity == 0 {
            return Err(QuotaError::Zero { field: capacity_field });
        }
        let most = (EXACT - 1) / 2;
        if capacity > most {
            return Err(QuotaError::TooLarge { field: capacity_field, value: capacity, max: most });
        }
        let inexact = || QuotaError::Inexact {
            field: rate_field,
            rate,
            capacity,
            nearest: rate.nearest(most / capacity),
        };
        let narrow = |number| u64::try_from(number).ok().and_then(NonZeroU64::new);
        let unit = narrow(rate.per_us()).filter(|unit| unit.get() <= most / capacity);
        let (unit, drain) = (unit.ok_or_else(inexact)?, narrow(rate.units()).ok_or_else(inexact)?);
        Ok(Self { capacity, drain: Divisor::new(drain), unit: Divisor::new(unit) })
    }

    /// Whole units that fit: B.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Debt that drains in a microsecond: R in lowest terms.
    #[must_use]
    #[inline]
    pub fn drain(&self) -> u64 {
        self.drain.number()
    }

    /// Debt that one unit adds: P in lowest terms.
    #[must_use]
    #[inline]
    pub fn unit(&self) -> u64 {
        self.unit.number()
    }

    /// How many whole units a debt is.
    #[inline]
    pub(crate) fn units_in(&self, debt: u64) -> u64 {
        self.unit.divide(debt)
    }

    /// How long a debt takes to drain, rounded up.
    #[inline]
    pub(crate) fn drains_in_us(&self, debt: u64) -> u64 {
        self.drain.divide_up(debt)
    }

    /// The rate for a person: per second, minute, hour or day where that is whole, else in lowest
    /// terms.
    #[must_use]
    pub fn rate_text(&self) -> String {
        for (name, seconds) in [("s", 1), ("min", 60), ("h", 3_600), ("day", 86_400)] {
            let count = u128::from(self.drain()) * seconds * 1_000_000;
            if count.is_multiple_of(u128::from(self.unit())) {
                return format!("{}/{name}", count / u128::from(self.unit()));
            }
        }
        format!("{}/{}", self.drain(), format_duration(self.unit()))
    }

    /// The debt of a bucket that has nothing left: B · P.
    #[must_use]
    #[inline]
    pub fn full_debt(&self) -> u64 {
        self.capacity * self.unit()
    }
}

/// A queue that drains at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Leak {
    bucket: Bucket,
    mode: LeakMode,
    max_delay_us: Option<u64>,
}

impl Leak {
    /// The queue as a bucket.
    #[must_use]
    #[inline]
    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// Whether admitted requests are to be held back.
    #[must_use]
    #[inline]
    pub fn mode(&self) -> LeakMode {
        self.mode
    }

    /// The longest wait that is admitted.
    #[must_use]
    #[inline]
    pub fn max_delay_us(&self) -> Option<u64> {
        self.max_delay_us
    }
}

/// What a leaking bucket asks of an admitted request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeakMode {
    /// Wait until what was queued before has drained.
    #[default]
    Shape,
    /// Go at once.
    Meter,
}

/// A count and the length of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    max_requests: u64,
    size_us: Divisor,
}

impl Window {
    fn new(max_requests: u64, size_us: u64) -> Result<Self, QuotaError> {
        check_count("max_requests", max_requests)?;
        check_period("window_size", size_us)?;
        let size_us = NonZeroU64::new(size_us).ok_or(QuotaError::Zero { field: "window_size" })?;
        Ok(Self { max_requests, size_us: Divisor::new(size_us) })
    }

    /// The most in a window: L.
    #[must_use]
    #[inline]
    pub fn max_requests(&self) -> u64 {
        self.max_requests
    }

    /// The window's length: W.
    #[must_use]
    #[inline]
    pub fn size_us(&self) -> u64 {
        self.size_us.number()
    }

    /// How many whole windows fit into a time: at a moment, the number of the window that it lies in.
    #[inline]
    pub(crate) fn windows_in(&self, us: u64) -> u64 {
        self.size_us.divide(us)
    }
}

/// A number of permits and how long one lasts without renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InFlight {
    max_in_flight: u64,
    lease_us: u64,
}

impl InFlight {
    /// The most permits held at once: L.
    #[must_use]
    #[inline]
    pub fn max_in_flight(&self) -> u64 {
        self.max_in_flight
    }

    /// How long a permit lasts.
    #[must_use]
    #[inline]
    pub fn lease_us(&self) -> u64 {
        self.lease_us
    }
}

fn check_count(field: &'static str, count: u64) -> Result<(), QuotaError> {
    match count {
        0 => Err(QuotaError::Zero { field }),
        value if value > MAX_WINDOW_COUNT => {
            Err(QuotaError::TooLarge { field, value, max: MAX_WINDOW_COUNT })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_policies_are_exact() {
        let year = Rate::new(1, 400 * 86_400 * 1_000_000).unwrap();
        assert!(Quota::token_bucket(1, year).is_ok());
        let million = Rate::new(1_000_000, 1_000_000).unwrap();
        assert!(Quota::token_bucket(1_000_000, million).is_ok());
    }

    #[test]
    fn the_edge_of_exactness_is_two_capacities_below_2_pow_53() {
        let rate = Rate::new(1, 1).unwrap();
        let most = (EXACT - 1) / 2;
        assert!(Quota::gcra(most, rate).is_ok());
        assert_eq!(
            Quota::gcra(most + 1, rate),
            Err(QuotaError::TooLarge { field: "burst", value: most + 1, max: most })
        );
        let rate = Rate::new(1, 1 << 20).unwrap();
        assert!(Quota::gcra((1 << 32) - 1, rate).is_ok());
        assert!(matches!(Quota::gcra(1 << 32, rate), Err(QuotaError::Inexact { .. })));
    }

    #[test]
    fn the_nearest_rate_that_fits_does_fit() {
        let rate = Rate::fraction(333_333_333, 1_000_000_000, 1_000_000).unwrap();
        let Err(QuotaError::Inexact { nearest, .. }) = Quota::token_bucket(100, rate) else {
            panic!("too fine");
        };
        assert!(Quota::token_bucket(100, nearest).is_ok());
    }

    #[test]
    fn a_quota_tells_what_it_allows() {
        let bucket = |capacity, count, period_us| {
            let rate = Rate::new(count, period_us).unwrap();
            Quota::token_bucket(capacity, rate).unwrap().to_string()
        };
        assert_eq!(bucket(20, 300, 60_000_000), "20 at once, then 5/s");
        assert_eq!(bucket(100, 5000, 86_400_000_000), "100 at once, then 5000/day");
        assert_eq!(bucket(1, 7, 13_000_000), "1 at once, then 7/13s");
        let window = Quota::fixed_window(10, 60_000_000).unwrap();
        assert_eq!(window.to_string(), "10 per 1m");
    }

    #[test]
    fn zero_is_refused_everywhere() {
        let rate = Rate::new(1, 1_000_000).unwrap();
        for (quota, field) in [
            (Quota::token_bucket(0, rate), "capacity"),
            (Quota::gcra(0, rate), "burst"),
            (Quota::leaking_bucket(0, rate, LeakMode::Shape, None), "queue_capacity"),
            (Quota::fixed_window(0, 1), "max_requests"),
            (Quota::sliding_window_log(1, 0), "window_size"),
            (Quota::concurrency(0, 1), "max_in_flight"),
            (Quota::concurrency(1, 0), "lease"),
        ] {
            assert_eq!(quota, Err(QuotaError::Zero { field }));
        }
    }
}
