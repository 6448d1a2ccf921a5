//! Owns [`Demand`]: how many units are asked for in a time, lately.

/// After so long, what was asked counts half.
const HALF_LIFE_US: f64 = 500_000.0;

/// What was asked for in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Count {
    /// Requests.
    pub requests: f64,
    /// What they cost together.
    pub units: f64,
}

impl Count {
    /// Nothing.
    pub const ZERO: Self = Self { requests: 0.0, units: 0.0 };

    /// Counts a request, or fewer than none.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn with(self, requests: f64, units: u64) -> Self {
        let units = self.units + requests * units as f64;
        Self { requests: (self.requests + requests).max(0.0), units: units.max(0.0) }
    }

    /// The same at another rate.
    #[must_use]
    #[inline]
    pub fn times(self, by: f64) -> Self {
        Self { requests: self.requests * by, units: self.units * by }
    }

    /// What of it is more than another has.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        let requests = (self.requests - other.requests).max(0.0);
        Self { requests, units: (self.units - other.units).max(0.0) }
    }

    fn plus(self, other: Self) -> Self {
        Self { requests: self.requests + other.requests, units: self.units + other.units }
    }

    /// What is left of it if it was a rich moment: two deviations less. Few requests say nothing of
    /// those to come.
    #[must_use]
    pub fn at_least(self) -> Self {
        let sure = 1.0 - 2.0 / self.requests.max(1.0).sqrt();
        self.times(sure.max(0.0))
    }

    /// The units of so many requests as chance may bring more: one deviation.
    #[must_use]
    pub fn by_chance(self) -> f64 {
        if self.requests > 0.0 { self.units / self.requests.sqrt() } else { 0.0 }
    }
}

/// A moving average of what is asked for, whether or not it is admitted.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Asked since `since_us`, and not averaged yet.
    seen: Count,
    since_us: u64,
    /// What was seen in a microsecond, each weighted by its age; and the weights.
    weighted: Count,
    weights: f64,
}

impl Demand {
    /// Nothing yet; it begins now, as if for so long before nobody had come: what comes in the first
    /// moments is not taken for what comes always.
    #[must_use]
    pub fn new(now_us: u64, before_us: u64) -> Self {
        let weights = 1.0 - kept(before_us);
        Self { seen: Count::ZERO, since_us: now_us, weighted: Count::ZERO, weights }
    }

    /// Counts a request of `units`. Whether the average has moved on: it does every `every_us`.
    #[inline]
    pub fn see(&mut self, units: u64, now_us: u64, every_us: u64) -> bool {
        self.seen = self.seen.with(1.0, units);
        self.pass(now_us, every_us)
    }

    /// Time passes. Whether the average has moved on.
    #[inline]
    pub fn pass(&mut self, now_us: u64, every_us: u64) -> bool {
        let elapsed_us = now_us.saturating_sub(self.since_us);
        if elapsed_us < every_us.max(1) {
            return false;
        }
        self.fold(elapsed_us);
        self.since_us = now_us;
        true
    }

    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn fold(&mut self, elapsed_us: u64) {
        let old = kept(elapsed_us);
        let rate = self.seen.times(1.0 / elapsed_us as f64);
        self.weighted = self.weighted.times(old).plus(rate.times(1.0 - old));
        self.weights = self.weights * old + (1.0 - old);
        self.seen = Count::ZERO;
    }

    /// What comes in `us`, at the rate of lately.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn in_us(&self, us: u64) -> Count {
        match self.weights > 0.0 {
            true => self.weighted.times(us as f64 / self.weights),
            false => Count::ZERO,
        }
    }

    /// Takes back a request that was counted just now, since it is counted again.
    pub fn unsee(&mut self, units: u64) {
        self.seen = self.seen.with(-1.0, units);
    }

    /// When the average moved on last.
    #[must_use]
    pub fn since_us(&self) -> u64 {
        self.since_us
    }

    /// What was asked for since the average moved on last.
    #[must_use]
    #[inline]
    pub fn seen(&self) -> Count {
        self.seen
    }
}

/// How much of an average is left after so long.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn kept(us: u64) -> f64 {
    (-(us as f64) / HALF_LIFE_US).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_known_at_once_and_halves_when_it_ends() {
        let mut demand = Demand::new(0, 0);
        for nth in 1..=100 {
            demand.see(3, nth * 1_000, 10_000);
        }
        let known = demand.in_us(1_000_000);
        assert!((known.units - 3_000.0).abs() < 1.0, "{demand:?}");
        assert!((known.requests - 1_000.0).abs() < 1.0, "{demand:?}");
        demand.pass(600_000, 10_000);
        // Of 0.6 s, the last 0.5 s were still.
        assert!(demand.in_us(1_000_000).units < 1_500.0, "{demand:?}");
        assert_eq!(demand.seen(), Count::ZERO);
    }

    #[test]
    fn the_first_moments_count_as_part_of_what_was_before_them() {
        let mut demand = Demand::new(0, 100_000);
        (1..=10).for_each(|nth| _ = demand.see(1, nth * 1_000, 10_000));
        let tenth = demand.in_us(1_000_000).units;
        assert!((80.0..110.0).contains(&tenth), "1000/s in 10 ms after 100 ms of nothing: {tenth}");
        (11..=5_000).for_each(|nth| _ = demand.see(1, nth * 1_000, 10_000));
        let all = demand.in_us(1_000_000).units;
        assert!((990.0..1_010.0).contains(&all), "{all}");
    }

    #[test]
    fn few_requests_say_nothing_and_many_nearly_all() {
        let of = |requests: u32| {
            let count = (0..requests).fold(Count::ZERO, |count, _| count.with(1.0, 2));
            count.at_least().units
        };
        assert_eq!((of(0), of(1), of(4)), (0.0, 0.0, 0.0));
        assert!((of(10_000) - 19_600.0).abs() < 1.0);
        assert_eq!(Count::ZERO.with(1.0, 3).with(-1.0, 3), Count::ZERO);
    }
}
