//! Going through the entries by their place: the hand that sweeps, and the sample that one is evicted
//! from.

use super::{Beside, Groups};
use crate::group::{Entry, WIDTH};
use crate::packed::Packed;
use crate::slots::Budget;

/// Places of a run: two groups.
const RUN: usize = 2 * WIDTH;

/// Runs of which a sample consists at most.
const RUNS: usize = 8;

impl Groups<'_> {
    /// Moves the hand to the next of the `most` places behind it whose entry seems to be it.
    #[inline]
    pub(crate) fn next<T>(
        &self,
        beside: &mut Beside<T>,
        most: &mut usize,
        budget: &mut Budget,
        is_it: impl Fn(Packed) -> bool,
    ) -> Option<usize> {
        while *most > 0 && beside.len > 0 {
            let at = if beside.hand < self.places() { beside.hand } else { 0 };
            let places = (self.places() - at).min(*most).min(budget.left());
            let is_it = |at: &usize| {
                let slot = at % WIDTH;
                let group = self.group(at / WIDTH).filter(|group| group.is_taken(slot));
                group.is_some_and(|group| is_it(group.state(slot)))
            };
            let found = (at..at + places).find(is_it);
            let passed = found.map_or(places, |found| found - at);
            let looked = (passed + 1).min(places);
            if looked == 0 || !budget.take(looked) {
                break;
            }
            *most -= looked;
            beside.hand = at + passed;
            if found.is_some() {
                return Some(beside.hand);
            }
        }
        None
    }

    /// Moves the hand on.
    pub(crate) fn pass<T>(&self, beside: &mut Beside<T>) {
        beside.hand += 1;
    }

    /// Of `size` entries in runs of places at random, the one of the least `rank`, if they have one.
    /// Its group is locked, and it still has that rank.
    ///
    /// A run is of as many places wherever it lies, and not of as many entries: so the denser a part
    /// of the table is, the more is taken from it. Otherwise one that had become sparse by chance
    /// would become sparser, until a sample had a single entry to choose from.
    pub(crate) fn least<T>(
        &self,
        beside: &mut Beside<T>,
        size: usize,
        budget: &mut Budget,
        rank: impl Fn(&Entry) -> Option<u64>,
    ) -> Option<(u64, usize)> {
        let starts: [usize; RUNS] = std::array::from_fn(|_| beside.random(self.places()));
        let seen = |entry: Option<Entry>| entry.and_then(|entry| rank(&entry));
        let least = self.least_of(starts, size, budget, |at| seen(self.get(at)))?;
        if seen(self.locked(beside, least.1)) == Some(least.0) {
            return Some(least);
        }
        // Somebody has just charged it: again, and this time nobody can.
        let mut again = Budget::new();
        self.least_of(starts, size, &mut again, |at| seen(self.locked(beside, at)))
    }

    fn least_of(
        &self,
        starts: [usize; RUNS],
        size: usize,
        budget: &mut Budget,
        mut rank: impl FnMut(usize) -> Option<u64>,
    ) -> Option<(u64, usize)> {
        let places = self.places();
        // A small table is walked through, until as many are found as there are.
        let run = if places <= Budget::MOST { places } else { RUN };
        let (mut seen, mut least) = (0, None);
        for at in starts.into_iter().flat_map(|start| start..start + run) {
            if seen == size || !budget.take(1) {
                break;
            }
            let at = if at < places { at } else { at - places };
            if self.get(at).is_some() {
                seen += 1;
                // Of equals the first, which is anybody: the one of the lowest place would leave the low
                // places emptier with every one that goes.
                let is_less = |rank: &u64| least.is_none_or(|(least, _)| *rank < least);
                least = rank(at).filter(is_less).map(|rank| (rank, at)).or(least);
            }
        }
        least
    }
}
