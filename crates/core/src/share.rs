//! A quota's share for one of several nodes that cannot ask each other.

use crate::quota::{Bucket, Quota, QuotaError};
use crate::rate::Rate;

impl Quota {
    /// What one of `nodes` may admit so that together they keep to this quota: the count and the
    /// rate divided by `nodes`, but at least one unit.
    ///
    /// A bucket so slow that its share has no exact form (one unit in centuries) is divided by
    /// the largest half, quarter, … of `nodes` that has.
    #[must_use]
    pub fn share(&self, nodes: u64) -> Self {
        let mut nodes = nodes.max(1);
        while nodes > 1 {
            if let Ok(share) = self.divided(nodes) {
                return share;
            }
            nodes /= 2;
        }
        *self
    }

    fn divided(&self, nodes: u64) -> Result<Self, QuotaError> {
        let limit = (self.limit() / nodes).max(1);
        let rate = |bucket: &Bucket| {
            Rate::of(bucket.drain(), u128::from(nodes) * u128::from(bucket.unit()))
        };
        match self {
            Self::TokenBucket(bucket) => Self::token_bucket(limit, rate(bucket)),
            Self::Gcra(bucket) => Self::gcra(limit, rate(bucket)),
            Self::LeakingBucket(leak) => {
                Self::leaking_bucket(limit, rate(leak.bucket()), leak.mode(), leak.max_delay_us())
            }
            Self::FixedWindow(window) => Self::fixed_window(limit, window.size_us()),
            Self::SlidingWindowLog(window) => Self::sliding_window_log(limit, window.size_us()),
            Self::SlidingWindowCounter(window) => {
                Self::sliding_window_counter(limit, window.size_us())
            }
            Self::Concurrency(in_flight) => Self::concurrency(limit, in_flight.lease_us()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_PERIOD_US;
    use crate::quota::LeakMode;

    #[test]
    fn counts_and_rates_are_divided_and_never_below_one_unit() {
        let rate = |count, period_us| Rate::new(count, period_us).unwrap();
        let bucket = |count, period_us, capacity| {
            Quota::token_bucket(capacity, rate(count, period_us)).unwrap()
        };
        assert_eq!(bucket(100, 1_000_000, 20).share(4), bucket(25, 1_000_000, 5));
        assert_eq!(bucket(10, 1_000_000, 2).share(4), bucket(25, 10_000_000, 1));
        let window = |count| Quota::sliding_window_log(count, 60_000_000).unwrap();
        assert_eq!(window(10).share(3), window(3));
        assert_eq!(window(10).share(30), window(1));
        let leak = |count, capacity| {
            let rate = rate(count, 1_000_000);
            Quota::leaking_bucket(capacity, rate, LeakMode::Meter, Some(7)).unwrap()
        };
        assert_eq!(leak(8, 10).share(2), leak(4, 5));
        let permits = |count| Quota::concurrency(count, 5).unwrap();
        assert_eq!(permits(9).share(2), permits(4));
    }

    /// A unit that is finer than any period is long was not divided at all.
    #[test]
    fn a_rate_with_many_digits_is_divided_too() {
        let rate = Rate::fraction(123_456_789, 100_000_000, 1_000_000).unwrap();
        let quota = Quota::token_bucket(40, rate).unwrap();
        assert!(quota.bucket().is_some_and(|bucket| bucket.unit() > MAX_PERIOD_US));
        let share = quota.share(4);
        let (whole, part) = (quota.bucket().unwrap(), share.bucket().unwrap());
        assert_eq!(share.limit(), 10);
        // Exactly a quarter: as much flows in four times the time.
        let flows = |bucket: &Bucket, us: u128| us * u128::from(bucket.drain());
        assert_eq!(
            flows(part, 4) * u128::from(whole.unit()),
            flows(whole, 1) * u128::from(part.unit())
        );
    }

    #[test]
    fn one_node_has_it_all_and_no_node_is_one() {
        let quota = Quota::fixed_window(10, 1_000_000).unwrap();
        assert_eq!(quota.share(1), quota);
        assert_eq!(quota.share(0), quota);
    }

    #[test]
    fn a_share_too_slow_to_be_exact_is_the_smallest_that_is() {
        let slow = Quota::gcra(1, Rate::new(1, MAX_PERIOD_US).unwrap()).unwrap();
        let share = slow.share(1 << 20);
        assert_eq!(share.limit(), 1);
        assert!(matches!((&share, &slow), (Quota::Gcra(a), Quota::Gcra(b)) if a.unit() > b.unit()));
    }
}
