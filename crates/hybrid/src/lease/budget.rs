//! Owns [`Budget`]: how often the store may be called for a key, for whatever reason.
//!
//! It is a bucket of calls: so many come back in a period, so many can be saved for when demand grows.
//! So however requests come, a process calls no oftener than that.

use crate::plan::whole;

/// Calls in a period, in the long run.
const CALLS: f64 = 1.1;

/// Calls that may be made sooner than that.
const SPARE: f64 = 8.0;

/// How many calls may be made, at `counted_us`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    calls: f64,
    counted_us: u64,
}

impl Budget {
    pub(super) fn new(now_us: u64) -> Self {
        Self { calls: SPARE, counted_us: now_us }
    }

    /// How many may be made now.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn at(&self, period_us: u64, now_us: u64) -> f64 {
        let periods = now_us.saturating_sub(self.counted_us) as f64 / period_us.max(1) as f64;
        (self.calls + periods * CALLS).min(SPARE)
    }

    /// Whether as many may be made as can be saved.
    pub(super) fn is_full(&self, period_us: u64, now_us: u64) -> bool {
        self.at(period_us, now_us) >= SPARE
    }

    /// Counts a call, if there may be one and `keep` more after it.
    pub(super) fn take(&mut self, period_us: u64, keep: f64, now_us: u64) -> bool {
        self.calls = self.at(period_us, now_us);
        self.counted_us = now_us.max(self.counted_us);
        let may_call = self.calls >= 1.0 + keep;
        if may_call {
            self.calls -= 1.0;
        }
        may_call
    }

    /// How many may be made, when it was last counted.
    pub(super) fn calls(&self) -> f64 {
        self.calls
    }

    /// A call was not made, or came to nothing, which is not to keep the next from being made.
    pub(super) fn give_back(&mut self) {
        self.calls = (self.calls + 1.0).min(SPARE);
    }

    /// From when on there may be a call.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(super) fn next_us(&self, period_us: u64) -> u64 {
        let lacking = (1.0 - self.calls).max(0.0);
        if lacking == 0.0 {
            return self.counted_us;
        }
        // What is rounded is not to be a moment too soon.
        self.counted_us.saturating_add(whole(lacking / CALLS * period_us as f64) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_US: u64 = 100_000;

    #[test]
    fn it_is_eleven_in_ten_periods_and_eight_at_once() {
        let mut budget = Budget::new(0);
        let mut taken = |from: u64, to: u64, keep: f64| {
            (from..to).filter(|tick| budget.take(PERIOD_US, keep, tick * 1_000)).count()
        };
        assert_eq!(taken(0, 1, 4.0), 1);
        assert_eq!(taken(1, 60, 4.0), 3, "as long as four more can be made");
        assert_eq!(taken(60, 70, 0.0), 4);
        assert_eq!(taken(70, 1_070, 0.0), 11);
    }

    #[test]
    fn it_is_full_again_when_all_came_back() {
        let mut budget = Budget::new(0);
        assert!(budget.is_full(PERIOD_US, 0));
        while budget.take(PERIOD_US, 0.0, 0) {}
        assert!(
            !budget.is_full(PERIOD_US, 7 * PERIOD_US) && budget.is_full(PERIOD_US, 8 * PERIOD_US)
        );
    }

    #[test]
    fn it_says_when_there_may_be_a_call() {
        let mut budget = Budget::new(0);
        while budget.take(PERIOD_US, 0.0, 0) {}
        let next_us = budget.next_us(PERIOD_US);
        assert!(!budget.take(PERIOD_US, 0.0, next_us - 2));
        assert_eq!(budget.next_us(PERIOD_US), next_us);
        assert!(budget.take(PERIOD_US, 0.0, next_us));
        budget.give_back();
        assert_eq!(budget.next_us(PERIOD_US), next_us);
        assert!(budget.take(PERIOD_US, 0.0, next_us), "it came to nothing");
    }
}
