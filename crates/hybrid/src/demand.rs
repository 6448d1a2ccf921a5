//! Owns [`Demand`]: how many units are asked for in a time, lately.

/// After so long, what was asked counts half.
const HALF_LIFE_US: f64 = 500_000.0;

/// A moving average of what is asked for, whether or not it is admitted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demand {
    /// Asked since `since_us`, and not averaged yet.
    seen: u64,
    since_us: u64,
    /// What was seen, each weighted by its age; and the weights, so that the first moments count in
    /// full.
    weighted: f64,
    weights: f64,
}

impl Demand {
    /// Nothing yet; it begins now.
    #[must_use]
    pub fn new(now_us: u64) -> Self {
        Self { since_us: now_us, ..Self::default() }
    }

    /// Counts `units`. Whether the average has moved on: it does every `every_us`.
    #[inline]
    pub fn see(&mut self, units: u64, now_us: u64, every_us: u64) -> bool {
        self.seen = self.seen.saturating_add(units);
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
        let elapsed_us = elapsed_us as f64;
        let old = (-elapsed_us / HALF_LIFE_US).exp2();
        let rate = self.seen as f64 / elapsed_us;
        self.weighted = self.weighted * old + rate * (1.0 - old);
        self.weights = self.weights * old + (1.0 - old);
        self.seen = 0;
    }

    /// Units in `us`, at the rate of lately.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn in_us(&self, us: u64) -> f64 {
        if self.weights > 0.0 { self.weighted / self.weights * us as f64 } else { 0.0 }
    }

    /// Takes back what was counted just now, since it is counted again.
    pub fn unsee(&mut self, units: u64) {
        self.seen = self.seen.saturating_sub(units);
    }

    /// When the average moved on last.
    #[must_use]
    pub fn since_us(&self) -> u64 {
        self.since_us
    }

    /// What was asked for since the average moved on last.
    #[must_use]
    #[inline]
    pub fn seen(&self) -> u64 {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_known_at_once_and_halves_when_it_ends() {
        let mut demand = Demand::new(0);
        for nth in 1..=100 {
            demand.see(3, nth * 1_000, 10_000);
        }
        assert!((demand.in_us(1_000_000) - 3_000.0).abs() < 1.0, "{demand:?}");
        demand.see(0, 600_000, 10_000);
        // Of 0.6 s, the last 0.5 s were still.
        assert!(demand.in_us(1_000_000) < 1_500.0, "{demand:?}");
        assert_eq!(demand.seen(), 0);
    }
}
