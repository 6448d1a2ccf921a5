//! Owns [`Spells`]: what came when a key was last busy, for as long as it may come again. An average has
//! forgotten it when the next burst begins, and would have to learn it anew, draw by draw.

use crate::demand::Count;

/// What came in the first period of this busy spell, and of the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spells {
    begun_us: u64,
    this: Count,
    before: Count,
}

impl Spells {
    pub(super) fn new(now_us: u64) -> Self {
        Self { begun_us: now_us, this: Count::ZERO, before: Count::ZERO }
    }

    /// A request comes after so long a silence. Half a period ends a spell.
    #[inline]
    pub(super) fn see(&mut self, cost: u64, silence_us: u64, now_us: u64, period_us: u64) {
        if silence_us >= period_us / 2 {
            *self = Self { begun_us: now_us, this: Count::ZERO, before: self.this };
        }
        if self.is_young(now_us, period_us) {
            self.this = self.this.with(1.0, cost);
        }
    }

    /// Takes a request back that was just counted.
    pub(super) fn unsee(&mut self, cost: u64) {
        self.this = self.this.with(-1.0, cost);
    }

    /// What is still to come if this spell is like the one before.
    pub(super) fn awaited(&self, now_us: u64, period_us: u64) -> Count {
        match self.is_young(now_us, period_us) {
            true => self.before.less(self.this),
            false => Count::ZERO,
        }
    }

    #[inline]
    fn is_young(&self, now_us: u64, period_us: u64) -> bool {
        now_us.saturating_sub(self.begun_us) < period_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_US: u64 = 1_000;

    /// So many requests of two units, a microsecond apart.
    fn burst(spells: &mut Spells, requests: u64, from_us: u64, mut silence_us: u64) {
        for nth in 0..requests {
            spells.see(2, silence_us, from_us + nth, PERIOD_US);
            silence_us = 1;
        }
    }

    #[test]
    fn a_burst_is_expected_to_be_as_large_as_the_one_before() {
        let mut spells = Spells::new(0);
        burst(&mut spells, 10, 0, 0);
        assert_eq!(spells.awaited(10, PERIOD_US), Count::ZERO);
        burst(&mut spells, 4, 5_000, 4_990);
        assert_eq!(spells.awaited(5_004, PERIOD_US), Count { requests: 6.0, units: 12.0 });
        spells.unsee(2);
        assert_eq!(spells.awaited(5_004, PERIOD_US), Count { requests: 7.0, units: 14.0 });
        // More come than did before.
        burst(&mut spells, 20, 5_004, 1);
        assert_eq!(spells.awaited(5_024, PERIOD_US), Count::ZERO);
    }

    #[test]
    fn of_a_long_spell_only_the_beginning_is_remembered_and_expected() {
        let mut spells = Spells::new(0);
        burst(&mut spells, 3_000, 0, 0);
        burst(&mut spells, 1, 10_000, 7_000);
        assert_eq!(spells.awaited(10_001, PERIOD_US), Count { requests: 999.0, units: 1_998.0 });
        assert_eq!(spells.awaited(10_000 + PERIOD_US, PERIOD_US), Count::ZERO);
    }
}
