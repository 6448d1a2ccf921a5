//! Owns [`Rate`]: so many units in so long a time, as the exact fraction it was written as.
//!
//! Never a float and never an interval rounded to whole microseconds: 30 000 per second is 3 units
//! in 100 µs, not one unit in 33 µs.

use std::fmt;

use crate::limits::{EXACT, MAX_PERIOD_US};
use crate::quota::QuotaError;
use crate::text::format_duration;

/// Units per microsecond as a fraction in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    units: u128,
    per_us: u128,
}

impl Rate {
    /// `count` units every `period_us` microseconds.
    pub fn new(count: u64, period_us: u64) -> Result<Self, QuotaError> {
        Self::fraction(count, 1, period_us)
    }

    /// `numerator / denominator` units every `period_us` microseconds: 2.5 per second is
    /// `fraction(25, 10, 1_000_000)`.
    pub fn fraction(numerator: u64, denominator: u64, period_us: u64) -> Result<Self, QuotaError> {
        if numerator == 0 || denominator == 0 {
            return Err(QuotaError::Zero { field: "rate" });
        }
        if numerator >= EXACT {
            return Err(QuotaError::TooLarge { field: "rate", value: numerator, max: EXACT - 1 });
        }
        check_period("period", period_us)?;
        Ok(Self::of(numerator, u128::from(denominator) * u128::from(period_us)))
    }

    /// `units` every `per_us` microseconds, which may be longer than any period: such are the rates of
    /// buckets whose unit is fine, and the parts of rates.
    pub(crate) fn of(units: u64, per_us: u128) -> Self {
        let (units, per_us) = lowest_terms(u128::from(units), per_us);
        Self { units, per_us }
    }

    /// The numerator in lowest terms: what drains in [`per_us`](Self::per_us) microseconds.
    #[must_use]
    pub fn units(&self) -> u128 {
        self.units
    }

    /// The denominator in lowest terms, in microseconds.
    #[must_use]
    pub fn per_us(&self) -> u128 {
        self.per_us
    }

    /// The closest rate whose [`per_us`](Self::per_us) is at most `max_per_us`.
    ///
    /// Walks the continued fraction; the answer is the nearer of the last two candidates.
    pub(crate) fn nearest(&self, max_per_us: u64) -> Self {
        let most = u128::from(max_per_us.max(1));
        if self.per_us <= most {
            return *self;
        }
        let (mut p0, mut q0, mut p1, mut q1) = (0u128, 1u128, 1u128, 0u128);
        let (mut n, mut d) = (self.units, self.per_us);
        while d != 0 {
            let a = n / d;
            let q2 = q0 + a * q1;
            if q2 > most {
                break;
            }
            (p0, q0, p1, q1) = (p1, q1, p0 + a * p1, q2);
            (n, d) = (d, n - a * d);
        }
        let k = (most - q0) / q1;
        let candidates = [(p0 + k * p1, q0 + k * q1), (p1, q1)];
        let distance = |(p, q): (u128, u128)| (p * self.per_us).abs_diff(self.units * q);
        // |p0/q0 − x| < |p1/q1 − x| exactly when distance·other denominator is smaller.
        let first_is_nearer = distance(candidates[0]).saturating_mul(candidates[1].1)
            < distance(candidates[1]).saturating_mul(candidates[0].1);
        let (units, per_us) = if first_is_nearer { candidates[0] } else { candidates[1] };
        match units {
            0 => Self { units: 1, per_us: most },
            _ => Self { units, per_us },
        }
    }
}

/// Refuses a period of zero or above [`MAX_PERIOD_US`].
pub(crate) fn check_period(field: &'static str, period_us: u64) -> Result<(), QuotaError> {
    match period_us {
        0 => Err(QuotaError::Zero { field }),
        us if us > MAX_PERIOD_US => Err(QuotaError::TooLong { field, us }),
        _ => Ok(()),
    }
}

fn lowest_terms(a: u128, b: u128) -> (u128, u128) {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x, b / x)
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u64::try_from(self.per_us) {
            Ok(per_us) => write!(f, "{}/{}", self.units, format_duration(per_us)),
            Err(_) => write!(f, "{}/{}us", self.units, self.per_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_kept_in_lowest_terms() {
        let rate = Rate::new(100, 60_000_000).unwrap();
        assert_eq!((rate.units(), rate.per_us()), (1, 600_000));
        let rate = Rate::fraction(25, 10, 1_000_000).unwrap();
        assert_eq!((rate.units(), rate.per_us()), (1, 400_000));
        let rate = Rate::new(30_000, 1_000_000).unwrap();
        assert_eq!((rate.units(), rate.per_us()), (3, 100));
    }

    #[test]
    fn nearest_is_the_best_fraction_below_a_bound() {
        // 0.333333/s is 333333 units in 10^12 µs; with room for 3 000 000 it is 1 in 3 s.
        let rate = Rate::fraction(333_333, 1_000_000, 1_000_000).unwrap();
        assert_eq!(rate.nearest(3_000_003).to_string(), "1/3000003us");
        assert_eq!(rate.nearest(3_000_000).to_string(), "1/3s");
        // A rate slower than one unit in the longest that fits becomes just that.
        assert_eq!(Rate::new(1, 1_000).unwrap().nearest(10).to_string(), "1/10us");
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(Rate::new(0, 1), Err(QuotaError::Zero { field: "rate" }));
        assert_eq!(Rate::new(1, 0), Err(QuotaError::Zero { field: "period" }));
        assert!(matches!(Rate::new(1, MAX_PERIOD_US + 1), Err(QuotaError::TooLong { .. })));
        assert!(matches!(Rate::new(EXACT, 1), Err(QuotaError::TooLarge { .. })));
        assert!(Rate::new(EXACT - 1, 1).is_ok());
    }
}
