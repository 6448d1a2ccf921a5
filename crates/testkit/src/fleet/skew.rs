//! Owns [`Skew`]: a clock that is off, and that runs too fast or too slow.

/// What an exact clock shows when a fleet begins. A round time would hide who confuses two clocks.
pub const BEGIN_US: u64 = 1_700_000_123_456_789;

/// Later than anything happens: 12 days.
const NEVER_US: u64 = 1 << 40;

const MILLION: u64 = 1_000_000;

/// How a clock differs from true time, which is counted from the fleet's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skew {
    /// How far it is ahead in the beginning.
    pub offset_us: i64,
    /// How many microseconds it gains in a second.
    pub drift_ppm: i64,
}

impl Skew {
    /// What the clock shows.
    #[must_use]
    pub fn shows_us(&self, true_us: u64) -> u64 {
        let passed_us = true_us * self.pace() / MILLION;
        (BEGIN_US + passed_us).saturating_add_signed(self.offset_us)
    }

    /// The first moment at which the clock shows this or more.
    #[must_use]
    pub fn when_us(&self, shown_us: u64) -> u64 {
        let begun_us = BEGIN_US.saturating_add_signed(self.offset_us);
        let passed_us = shown_us.saturating_sub(begun_us).min(NEVER_US);
        (passed_us * MILLION).div_ceil(self.pace())
    }

    /// What it gains in a million true microseconds.
    fn pace(self) -> u64 {
        MILLION.saturating_add_signed(self.drift_ppm).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_clock_gains_and_a_slow_one_loses() {
        let fast = Skew { offset_us: 5, drift_ppm: 200 };
        assert_eq!(fast.shows_us(0), BEGIN_US + 5);
        assert_eq!(fast.shows_us(10_000_000), BEGIN_US + 5 + 10_002_000);
        let slow = Skew { offset_us: -7, drift_ppm: -200 };
        assert_eq!(slow.shows_us(10_000_000), BEGIN_US - 7 + 9_998_000);
    }

    #[test]
    fn when_is_the_first_moment_that_shows_it() {
        for drift_ppm in [-200, -1, 0, 1, 200] {
            let skew = Skew { offset_us: -300, drift_ppm };
            for passed_us in (1..40_000).step_by(7) {
                let shown_us = BEGIN_US - 300 + passed_us;
                let true_us = skew.when_us(shown_us);
                assert!(skew.shows_us(true_us) >= shown_us);
                assert!(skew.shows_us(true_us - 1) < shown_us);
            }
            assert_eq!(skew.when_us(0), 0);
            assert!(skew.when_us(u64::MAX) > 86_400 * MILLION);
        }
    }
}
