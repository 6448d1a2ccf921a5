//! Owns [`Hot`]: which keys are asked for most, now. Their texts are what clients chose, so they are
//! shown to operators alone, at `/debug/hot`: no log and no metric has them.
//!
//! Every decision passes here. Dice choose those that are counted, for all that were not: one of 64
//! under load. The others cost a few instructions: no lock, no clock, no memory.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tollkeeper_core::Clock;
use tollkeeper_engine::{Counted, Verdict};

mod dice;
mod pace;
mod sketch;

use pace::Pace;
use sketch::Sketch;

pub(crate) use sketch::{HotKey, MAX_HOT_KEYS};

/// The keys that are asked for most.
#[derive(Debug)]
pub(crate) struct Hot {
    clock: Arc<dyn Clock>,
    /// One of how many decisions is sampled, a power of two.
    one_of: AtomicU64,
    /// What samples that would have had to wait were worth, until somebody writes it down.
    missed: AtomicU64,
    /// Elsewhere, since it changes often and what is beside it is read for every decision.
    counts: Box<Mutex<Counts>>,
}

#[derive(Debug)]
struct Counts {
    sketch: Sketch,
    pace: Pace,
}

/// What is hot at one moment.
#[derive(Debug)]
pub(crate) struct Hottest {
    /// The time over which the counts are rates.
    pub(crate) window_us: u64,
    /// One of how many decisions is sampled now.
    pub(crate) one_of: u64,
    /// All that was counted; whatever is more than a 256th of it is among the keys.
    pub(crate) total: u64,
    /// What was not counted, since somebody else was counting.
    pub(crate) missed: u64,
    /// Those that surely came most go first.
    pub(crate) keys: Vec<HotKey>,
}

impl Hot {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let now_us = clock.now_us();
        let counts = Counts { sketch: Sketch::new(now_us), pace: Pace::new(now_us) };
        Self {
            clock,
            one_of: AtomicU64::new(1),
            missed: AtomicU64::new(0),
            counts: Box::new(Mutex::new(counts)),
        }
    }

    /// A request was decided.
    #[inline]
    pub(crate) fn decided(&self, verdict: &Verdict) {
        self.by_dice(dice::roll(), || verdict.counted());
    }

    /// Counts a request if the dice say so, and then for all that they pass over.
    #[inline]
    fn by_dice<'a, I>(&self, dice: u64, counted: impl FnOnce() -> I)
    where
        I: Iterator<Item = Counted<'a>>,
    {
        let one_of = self.one_of.load(Ordering::Relaxed);
        if dice & (one_of - 1) == 0 {
            self.sample(one_of, counted());
        }
    }

    /// Counts a request `weight` times; not at all if that would mean to wait.
    #[cold]
    fn sample<'a>(&self, weight: u64, counted: impl Iterator<Item = Counted<'a>>) {
        let Some(mut counts) = self.counts.try_lock() else {
            let rules = counted.count() as u64;
            self.missed.fetch_add(rules * weight, Ordering::Relaxed);
            return;
        };
        let now_us = self.advance(&mut counts);
        for Counted { rule, key, refused } in counted {
            counts.sketch.add(rule, key, weight, refused);
        }
        counts.pace.sampled(now_us);
        self.one_of.store(counts.pace.one_of(), Ordering::Relaxed);
    }

    /// At most `most` keys, of all rules or one.
    pub(crate) fn hottest(&self, rule: Option<&str>, most: usize) -> Hottest {
        let mut shown = self.shown(rule);
        let keys = &mut shown.keys;
        // What a key inherited from others tells nothing about it.
        keys.sort_by(|a, b| {
            let order = |hot: &HotKey| (Reverse(hot.least), Reverse(hot.most));
            order(a).cmp(&order(b)).then_with(|| (&a.rule, &a.key).cmp(&(&b.rule, &b.key)))
        });
        keys.truncate(most);
        shown
    }

    fn shown(&self, rule: Option<&str>) -> Hottest {
        let counts = &mut *self.counts.lock();
        let now_us = self.advance(counts);
        counts.pace.advance(now_us);
        let one_of = counts.pace.one_of();
        self.one_of.store(one_of, Ordering::Relaxed);
        let sketch = &counts.sketch;
        Hottest {
            window_us: sketch.window_us(now_us),
            one_of,
            total: sketch.total(),
            missed: sketch.missed(),
            keys: sketch.keys(rule),
        }
    }

    fn advance(&self, counts: &mut Counts) -> u64 {
        let now_us = self.clock.now_us();
        counts.sketch.advance(now_us);
        counts.sketch.miss(self.missed.swap(0, Ordering::Relaxed));
        now_us
    }
}

#[cfg(test)]
mod tests {
    use tollkeeper_core::ManualClock;
    use tollkeeper_testkit::dice::Dice;

    use super::*;

    fn hot() -> (Hot, ManualClock) {
        let clock = ManualClock::at(1_000_000_000);
        (Hot::new(Arc::new(clock.clone())), clock)
    }

    fn once(key: &str) -> impl Iterator<Item = Counted<'_>> {
        std::iter::once(Counted { rule: "api", key, refused: false })
    }

    #[test]
    fn over_all_faces_of_the_dice_a_request_counts_once() {
        for one_of in (0..=6).map(|power| 1 << power) {
            let (hot, _) = hot();
            for face in 0..64 {
                hot.one_of.store(one_of, Ordering::Relaxed);
                hot.by_dice(face, || once("k"));
            }
            assert_eq!(hot.hottest(None, 1).total, 64, "one of {one_of}");
        }
    }

    #[test]
    fn keys_in_a_circle_are_counted_alike_while_the_pace_changes() {
        let (hot, clock) = hot();
        let mut dice = Dice::new(11);
        let keys: Vec<String> = (0..64).map(|nth| format!("k{nth:02}")).collect();
        // Every 64th of them would always be the same.
        for nth in 0..1_280_000 {
            hot.by_dice(dice.roll(), || once(&keys[nth % 64]));
            clock.advance(5);
        }
        let shown = hot.hottest(None, 64);
        assert_eq!((shown.one_of, shown.keys.len(), shown.missed), (64, 64, 0));
        // 6.4 seconds at 200 000 a second: 20 000 of each, of a deviation of at most √(20 000 × 64).
        assert_eq!(shown.window_us, 6_400_000);
        for key in &shown.keys {
            assert!(key.least == key.most && key.most.abs_diff(20_000) < 5 * 1_132, "{key:?}");
        }
        assert!(shown.total.abs_diff(1_280_000) < 4 * 9_051, "{}", shown.total);
    }

    #[test]
    fn nobody_waits_and_what_is_missed_is_told() {
        let (hot, clock) = hot();
        let counting = hot.counts.lock();
        hot.by_dice(0, || once("k"));
        hot.by_dice(0, || once("k").chain(once("k")));
        drop(counting);
        hot.by_dice(0, || once("k"));
        let shown = hot.hottest(None, 9);
        assert_eq!((shown.total, shown.missed, shown.keys[0].most), (1, 3, 1));
        clock.advance(sketch::HALF_LIFE_US);
        assert_eq!(hot.hottest(None, 9).missed, 1);
    }

    #[test]
    fn threads_count_together() {
        let (hot, _) = hot();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let hot = &hot;
                // So few that all of them are sampled.
                scope.spawn(move || {
                    for nth in 0..250 {
                        hot.by_dice(dice::roll(), || once("shared"));
                        let own = format!("{thread} {nth}");
                        hot.by_dice(dice::roll(), || once(&own));
                    }
                });
            }
        });
        let shown = hot.hottest(None, 3);
        assert_eq!((shown.one_of, shown.total + shown.missed), (1, 4_000));
        let first = &shown.keys[0];
        assert!(first.key == "shared" && first.least <= 2_000, "{first:?}");
        assert!(first.most + shown.missed >= 2_000, "{first:?}");
    }

    #[test]
    fn what_is_sure_goes_first_and_a_rule_can_be_named() {
        let (hot, _) = hot();
        let count = |rule, key, refused, times| {
            let counted = Counted { rule, key, refused };
            (0..times).for_each(|_| hot.by_dice(0, || std::iter::once(counted)));
        };
        // They fill the table, and then take each other's places.
        let many: Vec<String> = (0..MAX_HOT_KEYS * 2).map(|nth| nth.to_string()).collect();
        count("api", "warm", true, 10);
        many.iter().for_each(|key| count("api", key, false, 3));
        count("web", "late", false, 5);
        count("web", "later", true, 1);
        let keys = |rule, most| -> Vec<(String, u64, u64)> {
            let shown = hot.hottest(rule, most).keys.into_iter();
            shown.map(|hot| (hot.key, hot.least, hot.denied)).collect()
        };
        assert_eq!(keys(None, 2), [("warm".into(), 10, 10), ("late".into(), 5, 0)]);
        assert_eq!(keys(Some("web"), 9), [("late".into(), 5, 0), ("later".into(), 1, 1)]);
        assert_eq!((keys(Some("none"), 9).len(), keys(None, 999).len()), (0, MAX_HOT_KEYS));
    }
}
