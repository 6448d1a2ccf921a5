//! Owns [`Pace`]: one of how many decisions is sampled. All of them while there are few, so that a
//! quiet service is counted exactly; fewer the more there are, so that counting costs next to nothing.

/// At most one of so many is sampled.
pub(super) const MAX_ONE_OF: u64 = 64;

/// How many samples a slice may have before fewer are taken.
const MOST_SAMPLES: u64 = 4096;

/// With fewer in a whole slice, more are taken. Twice as many are still far from too many, or it
/// would go back and forth.
const FEW_SAMPLES: u64 = MOST_SAMPLES / 4;

const SLICE_US: u64 = 1_000_000;

/// How many samples the current slice of time has.
#[derive(Debug)]
pub(super) struct Pace {
    /// A power of two.
    one_of: u64,
    began_us: u64,
    samples: u64,
}

impl Pace {
    pub(super) fn new(now_us: u64) -> Self {
        Self { one_of: 1, began_us: now_us, samples: 0 }
    }

    /// One of how many is to be sampled from here on.
    pub(super) fn one_of(&self) -> u64 {
        self.one_of
    }

    /// Ends the slices that are over.
    pub(super) fn advance(&mut self, now_us: u64) {
        let slices = now_us.saturating_sub(self.began_us) / SLICE_US;
        if slices == 0 {
            return;
        }
        // Nothing came in those between.
        let quiet = if self.samples < FEW_SAMPLES { slices } else { slices - 1 };
        let quiet = u32::try_from(quiet).unwrap_or(u32::MAX);
        self.one_of = self.one_of.checked_shr(quiet).unwrap_or(0).max(1);
        self.began_us += slices * SLICE_US;
        self.samples = 0;
    }

    /// A sample is taken.
    pub(super) fn sampled(&mut self, now_us: u64) {
        self.advance(now_us);
        self.samples += 1;
        if self.samples >= MOST_SAMPLES {
            self.one_of = (self.one_of * 2).min(MAX_ONE_OF);
            (self.began_us, self.samples) = (now_us.max(self.began_us), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goes at so many decisions a second for so long, and tells where it ends.
    fn run(pace: &mut Pace, now_us: &mut u64, per_second: u64, seconds: u64) -> u64 {
        for nth in 0..per_second * seconds {
            if nth % pace.one_of() == 0 {
                pace.sampled(*now_us + nth * 1_000_000 / per_second);
            }
        }
        *now_us += seconds * 1_000_000;
        pace.one_of()
    }

    #[test]
    fn it_follows_the_load_and_is_steady_at_a_steady_one() {
        let (mut pace, mut now_us) = (Pace::new(7), 7);
        for (per_second, one_of) in [
            (0, 1),
            (4_000, 1),
            (5_000, 2),
            (20_000, 8),
            (1_000_000, MAX_ONE_OF),
            // Some of them are few only from a quarter on.
            (30_000, 16),
            (900, 1),
            (200_000, 64),
            (10, 1),
        ] {
            assert_eq!(
                run(&mut pace, &mut now_us, per_second, 12),
                one_of,
                "{per_second} a second"
            );
            let before = pace.one_of();
            assert_eq!(run(&mut pace, &mut now_us, per_second, 5), before, "{per_second} goes on");
        }
    }

    #[test]
    fn a_pause_begins_it_anew() {
        let mut pace = Pace::new(0);
        (0..MOST_SAMPLES * 10).for_each(|_| pace.sampled(0));
        assert_eq!(pace.one_of(), MAX_ONE_OF);
        pace.advance(3 * SLICE_US);
        assert_eq!(pace.one_of(), 8);
        pace.advance(u64::MAX);
        assert_eq!(pace.one_of(), 1);
        // A reading that is a little older.
        pace.sampled(0);
        assert_eq!(pace.one_of(), 1);
    }
}
