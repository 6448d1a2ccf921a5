//! Exact numbers, and the search for the earliest moment at which something is true.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::ToPrimitive;

use super::RateSpec;

/// A whole number as a rational.
pub(super) fn whole(number: u64) -> BigRational {
    BigRational::from_integer(BigInt::from(number))
}

/// A rate in tokens per microsecond. Its denominator, in lowest terms, is the unit's `P`.
pub(super) fn tokens_per_us(rate: &RateSpec) -> BigRational {
    let count = whole(rate.count_numerator) / whole(rate.count_denominator);
    count / whole(rate.period_us)
}

/// The largest whole number that is not above `value`, and 0 for a negative one.
pub(super) fn floor_or_zero(value: &BigRational) -> u64 {
    clamp(&value.floor().to_integer())
}

/// The smallest whole number that is not below `value`, and 0 for a negative one.
pub(super) fn ceil_or_zero(value: &BigRational) -> u64 {
    clamp(&value.ceil().to_integer())
}

/// A whole number brought into the range of `u64`.
fn clamp(value: &BigInt) -> u64 {
    if *value < BigInt::from(0) { 0 } else { value.to_u64().unwrap_or(u64::MAX) }
}

/// The first moment from `from_us` on at which `holds` is true, given that it stays true from then on.
///
/// A span that is long enough is found by doubling, and the moment in it by halving. The caller knows that the moment
/// exists.
pub(super) fn earliest_us(from_us: u64, holds: impl Fn(u64) -> bool) -> u64 {
    if holds(from_us) {
        return from_us;
    }
    // `false_us` is always a moment at which it does not hold, `true_us` one at which it does.
    let mut false_us = from_us;
    let mut span_us: u64 = 1;
    let mut true_us = from_us + span_us;
    while !holds(true_us) {
        assert!(span_us < 1 << 62, "what is searched for never comes true");
        false_us = true_us;
        span_us *= 2;
        true_us = from_us + span_us;
    }
    while true_us - false_us > 1 {
        let middle_us = false_us + (true_us - false_us) / 2;
        if holds(middle_us) {
            true_us = middle_us;
        } else {
            false_us = middle_us;
        }
    }
    true_us
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_finds_the_first_moment() {
        for first in 100..400 {
            assert_eq!(earliest_us(100, |at| at >= first), first);
        }
        assert_eq!(earliest_us(100, |at| at >= 7), 100);
        assert_eq!(earliest_us(3, |at| at >= 1 << 55), 1 << 55);
    }

    #[test]
    fn a_rate_is_taken_in_lowest_terms() {
        let rate = |count_numerator, count_denominator, period_us| {
            let rate = tokens_per_us(&RateSpec { count_numerator, count_denominator, period_us });
            (rate.numer().to_u64(), rate.denom().to_u64())
        };
        assert_eq!(rate(25, 10, 1_000_000), (Some(1), Some(400_000)));
        assert_eq!(rate(100, 1, 60_000_000), (Some(1), Some(600_000)));
        assert_eq!(rate(700_000, 1, 1_000_000), (Some(7), Some(10)));
        assert_eq!(rate(10, 1, 10_000_000), rate(1, 1, 1_000_000));
    }

    #[test]
    fn rounding_goes_the_way_it_says() {
        let third = whole(7) / whole(3);
        assert_eq!(floor_or_zero(&third), 2);
        assert_eq!(ceil_or_zero(&third), 3);
        assert_eq!(floor_or_zero(&-third.clone()), 0);
        assert_eq!(ceil_or_zero(&-third), 0);
        assert_eq!(ceil_or_zero(&whole(5)), 5);
    }
}
