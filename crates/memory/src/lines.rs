//! Owns [`Lines`]: entries of 32 bytes, two in each line of the processor's cache, found by their
//! fingerprint with one miss as a rule. It knows nothing of limits.
//!
//! An entry lies in its home line, or in the first line after it that had a place. So a search may
//! end at a line with a free place, and whoever leaves draws those behind him forward.
//!
//! Lines come in blocks of one size, which stay where they are and are added by an eighth at a time:
//! a place in four is free on average, and nothing is left behind that the allocator would keep. The
//! order of homes does not depend on their number, so that growing walks through both in order.

use crate::fingerprint::Fingerprint;
use crate::packed::Packed;
use crate::slots::Budget;

/// Entries in a line.
const WIDTH: usize = 2;

/// Lines that a table begins with, and that it keeps.
const FEWEST: usize = 4;

/// Lines in a block: 10 KiB less one line, which is what allocators take to align it. A table of a
/// single block may have fewer.
const BLOCK: usize = 159;

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
    blocks: Box<[Box<[Line]>]>,
    /// Apart, because a decision does not need it.
    beside: Box<Beside<T>>,
    lines: u32,
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
        Self { blocks: Box::default(), beside: Box::new(beside), lines: 0, len: 0 }
    }

    /// How many entries there is place for.
    pub(crate) fn places(&self) -> usize {
        self.lines as usize * WIDTH
    }

    #[inline]
    fn line(&self, at: usize) -> Option<&[Entry; WIDTH]> {
        Some(&self.blocks.get(at / BLOCK)?.get(at % BLOCK)?.0)
    }

    #[inline]
    fn line_mut(&mut self, at: usize) -> Option<&mut [Entry; WIDTH]> {
        Some(&mut self.blocks.get_mut(at / BLOCK)?.get_mut(at % BLOCK)?.0)
    }

    /// Whether a line has no free place.
    fn is_full(&self, line: usize) -> bool {
        self.line(line).is_some_and(|[.., last]| last.fingerprint.is_some())
    }

    #[inline]
    fn home(&self, place: u64) -> usize {
        let scaled = u128::from(place) * u128::from(self.lines);
        usize::try_from(scaled >> 64).unwrap_or(0)
    }

    #[inline]
    fn after(&self, line: usize) -> usize {
        if line + 1 < self.lines as usize { line + 1 } else { 0 }
    }

    /// Where the entry lies that belongs at `place`.
    #[inline]
    pub(crate) fn find(&self, fingerprint: Fingerprint, place: u64) -> Option<usize> {
        let mut at = self.home(place);
        loop {
            let [first, second] = self.line(at)?;
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
        let entry = &self.line(at / WIDTH)?[at % WIDTH];
        entry.fingerprint.is_some().then_some(entry)
    }

    #[inline]
    pub(crate) fn set(&mut self, at: usize, state: Packed) {
        if let Some(line) = self.line_mut(at / WIDTH) {
            line[at % WIDTH].state = state;
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
            let lines = self.lines as usize;
            let step = lines * (100 + self.random(60)) / 1024;
            self.resize((lines + step + 1).max(FEWEST), &place);
        }
        let at = self.put(entry, place(entry.fingerprint));
        if self.beside.noted {
            self.beside.notes[at] = Some(note());
        }
        self.len += 1;
        at
    }

    /// Moves everything to so many lines, or a few more.
    fn resize(&mut self, lines: usize, place: &impl Fn(Fingerprint) -> u64) {
        // In few sizes, so that the allocator has the same memory for it each time.
        let mut moved: Vec<Entry> = Vec::with_capacity(self.len().next_power_of_two());
        for Line(line) in self.blocks.iter_mut().flatten() {
            moved.extend(line.iter().filter(|entry| entry.fingerprint.is_some()));
            *line = Default::default();
        }
        let notes = std::mem::take(&mut self.beside.notes);
        let mut notes = notes.into_iter().flatten();
        self.allot(lines);
        if self.beside.noted {
            self.beside.notes.resize_with(self.places(), || None);
        }
        for entry in moved {
            let at = self.put(entry, place(entry.fingerprint));
            if let Some(note) = self.beside.notes.get_mut(at) {
                *note = notes.next();
            }
        }
    }

    /// Makes it so many lines, in whole blocks if there are several.
    fn allot(&mut self, lines: usize) {
        let count = lines.div_ceil(BLOCK);
        let each = if count == 1 { lines } else { BLOCK };
        let mut blocks = std::mem::take(&mut self.blocks).into_vec();
        blocks.retain(|block| block.len() == each);
        blocks.truncate(count);
        blocks.resize_with(count, || vec![Line::default(); each].into());
        self.blocks = blocks.into();
        // Of 32 bits, as the number of entries.
        self.lines = u32::try_from(count * each).unwrap_or(u32::MAX);
    }

    /// Gives lines back if most are empty.
    pub(crate) fn shrink(&mut self, place: impl Fn(Fingerprint) -> u64) {
        let fitting = (self.len as usize).max(FEWEST);
        if self.lines as usize > 4 * fitting {
            self.resize(fitting, &place);
        }
    }

    /// Writes an entry to the first free place; there is always one.
    fn put(&mut self, entry: Entry, place: u64) -> usize {
        let mut at = self.home(place);
        while self.is_full(at) {
            at = self.after(at);
        }
        let Some(line) = self.line_mut(at) else { return 0 };
        let free = usize::from(line[0].fingerprint.is_some());
        line[free] = entry;
        at * WIDTH + free
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
        self.write(hole, Entry::default());
        if let Some(note) = self.beside.notes.get_mut(hole) {
            *note = None;
        }
        self.len -= 1;
    }

    /// The next entry behind the line of the hole whose home is that line or one before.
    fn next_from_before(&self, hole: usize, place: &impl Fn(Fingerprint) -> u64) -> Option<usize> {
        let lines = self.lines as usize;
        // Lines go round: how far one is behind another.
        let distance =
            |from: usize, to: usize| if to >= from { to - from } else { to + lines - from };
        // Nobody went past a line with a free place. What has left is still in the second place.
        if !self.line(hole)?[0].fingerprint.is_some() {
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
            if found.is_some() || !self.is_full(line) {
                return found;
            }
        }
    }

    fn write(&mut self, at: usize, entry: Entry) {
        if let Some(line) = self.line_mut(at / WIDTH) {
            line[at % WIDTH] = entry;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        let read = |at: usize| self.line(at / WIDTH).map(|line| line[at % WIDTH]);
        if let (Some(first), Some(second)) = (read(one), read(other)) {
            self.write(one, second);
            self.write(other, first);
        }
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
            let line = &self.line(at / WIDTH)?[at % WIDTH..];
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
mod tests;
