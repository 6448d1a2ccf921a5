//! Owns [`Lines`]: entries of 32 bytes, two in each line of the processor's cache, found by their
//! fingerprint with one miss as a rule. It knows nothing of limits.
//!
//! An entry lies in its home line, or in the first line after it that had a place. So a search may
//! end at a line with a free place, and whoever leaves draws those behind him forward. Lines are
//! added by a fifth at a time: a place in four is free on average, and never more than one in three.
//! The order of homes does not depend on their number, so that growing walks through both in order.

use crate::fingerprint::Fingerprint;
use crate::packed::Packed;
use crate::slots::Budget;

/// Entries in a line.
const WIDTH: usize = 2;

/// Lines that a table begins with, and that it keeps.
const FEWEST: usize = 4;

/// Of so many places at most so many are taken.
const PLACES: usize = 100;
const TAKEN: usize = 84;

/// One key's state under one limit; what has no fingerprint is a free place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) state: Packed,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line([Entry; WIDTH]);

const _: () = assert!(size_of::<Line>() == 64);

#[derive(Debug)]
pub(crate) struct Lines<T> {
    lines: Box<[Line]>,
    /// Apart, because a decision does not need it.
    beside: Box<Beside<T>>,
    len: u32,
}

#[derive(Debug)]
struct Beside<T> {
    /// What goes with the entry of each place and is not read to decide; empty if not `noted`.
    notes: Vec<Option<T>>,
    noted: bool,
    hand: usize,
    random: u64,
}

impl<T> Lines<T> {
    /// `seed` makes samples unpredictable; `noted` is whether notes are kept.
    pub(crate) fn new(seed: u64, noted: bool) -> Self {
        let beside = Beside { notes: Vec::new(), noted, hand: 0, random: seed | 1 };
        Self { lines: Box::default(), beside: Box::new(beside), len: 0 }
    }

    /// How many entries there is place for.
    pub(crate) fn places(&self) -> usize {
        self.lines.len() * WIDTH
    }

    #[inline]
    fn home(&self, place: u64) -> usize {
        let scaled = u128::from(place) * self.lines.len() as u128;
        usize::try_from(scaled >> 64).unwrap_or(0)
    }

    #[inline]
    fn after(&self, line: usize) -> usize {
        if line + 1 < self.lines.len() { line + 1 } else { 0 }
    }

    /// Where the entry lies that belongs at `place`.
    #[inline]
    pub(crate) fn find(&self, fingerprint: Fingerprint, place: u64) -> Option<usize> {
        let mut at = self.home(place);
        loop {
            let Line([first, second]) = self.lines.get(at)?;
            if first.fingerprint == fingerprint {
                return Some(at * WIDTH);
            }
            if second.fingerprint == fingerprint {
                return Some(at * WIDTH + 1);
            }
            // The first of a line is taken first.
            if !second.fingerprint.is_some() {
                return None;
            }
            at = self.after(at);
        }
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&Entry> {
        let entry = &self.lines.get(at / WIDTH)?.0[at % WIDTH];
        entry.fingerprint.is_some().then_some(entry)
    }

    #[inline]
    pub(crate) fn set(&mut self, at: usize, state: Packed) {
        if let Some(line) = self.lines.get_mut(at / WIDTH) {
            line.0[at % WIDTH].state = state;
        }
    }

    pub(crate) fn note(&self, at: usize) -> Option<&T> {
        self.beside.notes.get(at)?.as_ref()
    }

    /// All entries and where they lie.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Entry)> {
        (0..self.places()).filter_map(|at| Some((at, self.get(at)?)))
    }

    /// Adds an entry that is not there yet; others may move. `place` is of any fingerprint.
    pub(crate) fn insert(
        &mut self,
        entry: Entry,
        note: impl FnOnce() -> T,
        place: impl Fn(Fingerprint) -> u64,
    ) -> usize {
        if (self.len as usize + 1) * PLACES > self.places() * TAKEN {
            // So the tables of a store grow at different times.
            let step = self.lines.len() * (160 + self.random(90)) / 1024;
            self.resize((self.lines.len() + step + 1).max(FEWEST), &place);
        }
        let at = self.put(entry, place(entry.fingerprint));
        if self.beside.noted {
            self.beside.notes[at] = Some(note());
        }
        self.len += 1;
        at
    }

    /// Moves everything to so many lines.
    fn resize(&mut self, lines: usize, place: &impl Fn(Fingerprint) -> u64) {
        let old = std::mem::replace(&mut self.lines, vec![Line::default(); lines].into());
        let mut notes = std::mem::take(&mut self.beside.notes);
        if self.beside.noted {
            self.beside.notes.resize_with(self.places(), || None);
        }
        for (at, entry) in old.iter().flat_map(|line| line.0).enumerate() {
            if !entry.fingerprint.is_some() {
                continue;
            }
            let now_at = self.put(entry, place(entry.fingerprint));
            if let Some(note) = notes.get_mut(at).and_then(Option::take) {
                self.beside.notes[now_at] = Some(note);
            }
        }
    }

    /// Gives lines back if most are empty.
    pub(crate) fn shrink(&mut self, place: impl Fn(Fingerprint) -> u64) {
        let fitting = (self.len as usize).max(FEWEST);
        if self.lines.len() > 4 * fitting {
            self.resize(fitting, &place);
        }
    }

    /// Writes an entry to the first free place; there is always one.
    fn put(&mut self, entry: Entry, place: u64) -> usize {
        let mut at = self.home(place);
        loop {
            let line = &mut self.lines[at].0;
            let free = line.iter().position(|entry| !entry.fingerprint.is_some());
            if let Some(free) = free {
                line[free] = entry;
                return at * WIDTH + free;
            }
            at = self.after(at);
        }
    }

    /// Takes an entry out. Others may move, each closer to its home.
    pub(crate) fn remove(&mut self, at: usize, place: impl Fn(Fingerprint) -> u64) {
        let mut hole = at;
        loop {
            // The first of a line is taken first.
            if hole.is_multiple_of(WIDTH) {
                self.swap(hole, hole + 1);
                hole += 1;
            }
            let Some(moved) = self.next_from_before(hole / WIDTH, &place) else { break };
            self.swap(hole, moved);
            hole = moved;
        }
        self.lines[hole / WIDTH].0[hole % WIDTH] = Entry::default();
        if let Some(note) = self.beside.notes.get_mut(hole) {
            *note = None;
        }
        self.len -= 1;
    }

    /// The next entry behind the line of the hole whose home is that line or one before.
    fn next_from_before(&self, hole: usize, place: &impl Fn(Fingerprint) -> u64) -> Option<usize> {
        let lines = self.lines.len();
        // Lines go round: how far one is behind another.
        let distance = |from: usize, to: usize| (to + lines - from) % lines;
        // Nobody went past a line with a free place. What has left is still in the second place.
        if !self.lines[hole].0[0].fingerprint.is_some() {
            return None;
        }
        let mut line = hole;
        loop {
            line = self.after(line);
            let passed = |at: &usize| {
                self.get(*at).is_some_and(|entry| {
                    let home = self.home(place(entry.fingerprint));
                    distance(home, hole) < distance(home, line)
                })
            };
            let found = (line * WIDTH..(line + 1) * WIDTH).find(passed);
            if found.is_some() || !self.lines[line].0[WIDTH - 1].fingerprint.is_some() {
                return found;
            }
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        let entry = self.lines[one / WIDTH].0[one % WIDTH];
        self.lines[one / WIDTH].0[one % WIDTH] = self.lines[other / WIDTH].0[other % WIDTH];
        self.lines[other / WIDTH].0[other % WIDTH] = entry;
        if self.beside.noted {
            self.beside.notes.swap(one, other);
        }
    }

    /// Moves the hand to the next of the `most` places behind it whose entry `is_it`.
    #[inline]
    pub(crate) fn next(
        &mut self,
        most: &mut usize,
        budget: &mut Budget,
        is_it: impl Fn(&Entry) -> bool,
    ) -> Option<usize> {
        while *most > 0 && self.len > 0 {
            let at = if self.beside.hand < self.places() { self.beside.hand } else { 0 };
            let line = &self.lines[at / WIDTH].0[at % WIDTH..];
            let looked = line.len().min(*most);
            if !budget.take(looked) {
                break;
            }
            let found =
                line[..looked].iter().position(|entry| entry.fingerprint.is_some() && is_it(entry));
            let passed = found.unwrap_or(looked);
            self.beside.hand = at + passed;
            *most -= looked.min(passed + 1);
            if found.is_some() {
                return Some(self.beside.hand);
            }
        }
        None
    }

    /// Of `size` entries that lie together, at a random place, the one of the least `rank`, if they
    /// have one.
    pub(crate) fn least(
        &mut self,
        size: usize,
        budget: &mut Budget,
        rank: impl Fn(&Entry) -> Option<u64>,
    ) -> Option<(u64, usize)> {
        let mut at = self.random(self.places());
        let mut seen = 0;
        let mut least: Option<(u64, usize)> = None;
        // A table that is nearly empty is walked through until something is found.
        for _ in 0..self.places() {
            if seen == size || !budget.take(1) {
                break;
            }
            if let Some(entry) = self.get(at) {
                seen += 1;
                let ranked = rank(entry).map(|rank| (rank, at));
                least = [least, ranked].into_iter().flatten().min();
            }
            at = if at + 1 < self.places() { at + 1 } else { 0 };
        }
        least
    }

    /// Below `most`. xorshift64: fast, and good enough to choose a sample.
    fn random(&mut self, most: usize) -> usize {
        let random = &mut self.beside.random;
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        usize::try_from((u128::from(*random) * most as u128) >> 64).unwrap_or(0)
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether another entry can be counted.
    pub(crate) fn has_room(&self) -> bool {
        self.len < u32::MAX
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::hash::RandomState;

    use tollkeeper_core::Algorithm;
    use tollkeeper_testkit::dice::Dice;

    use super::*;
    use crate::fingerprint::Fingerprinter;
    use crate::rows::RowId;

    fn numbered(number: u32) -> Packed {
        Packed::elsewhere(number, RowId::NONE)
    }

    /// Puts in and takes out at random, and compares with a map.
    fn live(places: impl Fn(&Fingerprinter, Fingerprint) -> u64, most: u64, steps: u32) {
        let hasher = Fingerprinter::new(&RandomState::new());
        let place = |fingerprint| places(&hasher, fingerprint);
        let of = |name: u64| hasher.of("l", Algorithm::Gcra, &name.to_string());
        let mut dice = Dice::new(most);
        let mut lines = Lines::new(1, true);
        let mut known: HashMap<u64, u32> = HashMap::new();
        for step in 0..steps {
            // It fills and empties again and again.
            let fills = dice.below(10) < if (step / 2_000) % 2 == 0 { 8 } else { 2 };
            let name = dice.below(most);
            let fingerprint = of(name);
            let at = lines.find(fingerprint, place(fingerprint));
            assert_eq!(at.and_then(|at| lines.note(at)), known.get(&name).map(|_| &name));
            let state = at.and_then(|at| lines.get(at)).map(|entry| entry.state);
            assert_eq!(state, known.get(&name).map(|number| numbered(*number)));
            match at {
                None if fills => {
                    let entry = Entry { fingerprint, state: numbered(step) };
                    lines.insert(entry, || name, place);
                    known.insert(name, step);
                }
                Some(at) if !fills => {
                    lines.remove(at, place);
                    lines.shrink(place);
                    known.remove(&name);
                }
                _ => {}
            }
            assert_eq!(lines.len(), known.len());
        }
        for (name, number) in known {
            let fingerprint = of(name);
            let at = lines.find(fingerprint, place(fingerprint)).unwrap();
            assert_eq!(lines.get(at).unwrap().state, numbered(number));
        }
    }

    #[test]
    fn what_was_put_in_is_found_until_it_is_taken_out() {
        live(Fingerprinter::place, 3_000, 60_000);
        live(Fingerprinter::place, 7, 3_000);
    }

    /// Homes that are few and lie at the end, so that entries lie far from them and go round.
    #[test]
    fn crowded_homes_lose_nothing() {
        live(|hasher, one| hasher.place(one) | 0xe << 60, 200, 30_000);
        live(|_, _| u64::MAX, 60, 10_000);
    }

    #[test]
    fn most_places_are_taken_at_any_size() {
        let hasher = Fingerprinter::new(&RandomState::new());
        let place = |fingerprint| hasher.place(fingerprint);
        let mut lines = Lines::new(3, false);
        for nth in 0..20_000u32 {
            let fingerprint = hasher.of("l", Algorithm::Gcra, &nth.to_string());
            lines.insert(Entry { fingerprint, state: numbered(nth) }, || (), place);
            let taken = lines.len() * 100 / lines.places();
            assert!(nth < 100 || (66..=84).contains(&taken), "{taken} % of {nth}");
        }
        let beyond_home =
            lines.iter().filter(|(at, entry)| lines.home(place(entry.fingerprint)) != at / WIDTH);
        let beyond_home = beyond_home.count();
        assert!(beyond_home < 20_000 / 2, "{beyond_home}");
    }

    #[test]
    fn the_hand_comes_round_and_samples_find_the_least() {
        let hasher = Fingerprinter::new(&RandomState::new());
        let place = |fingerprint| hasher.place(fingerprint);
        let mut lines = Lines::new(3, false);
        for nth in 0..100u32 {
            let fingerprint = hasher.of("l", Algorithm::Gcra, &nth.to_string());
            lines.insert(Entry { fingerprint, state: numbered(nth) }, || (), place);
        }
        let mut seen = std::collections::HashSet::new();
        for _ in 0..200 {
            let at = lines
                .next(&mut 9, &mut Budget::new(), |entry| !seen.contains(&entry.state.place()));
            seen.extend(at.and_then(|at| lines.get(at)).map(|entry| entry.state.place()));
        }
        assert_eq!(seen.len(), 100);
        let number = |entry: &Entry| entry.state.place().map(u64::from);
        let mut budget = Budget::new();
        let (least, at) = lines.least(8, &mut budget, number).unwrap();
        assert_eq!(number(lines.get(at).unwrap()), Some(least));
        assert!((8..=Budget::MOST).contains(&budget.spent()));
        assert_eq!(lines.least(8, &mut Budget::new(), |_| None), None);
    }
}
