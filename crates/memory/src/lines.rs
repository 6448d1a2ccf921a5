//! Owns [`Lines`]: entries found by their fingerprint with one miss as a rule. It knows nothing of
//! limits.
//!
//! An entry lies in its home line, or in the first line after it that had a place. So a search may
//! end at a line with a free place, and whoever leaves draws those behind him forward.
//!
//! Lines come in blocks of one size, which stay where they are and are added by an eighth at a time.
//! The order of homes does not depend on their number, so that growing walks through both in order.
//!
//! Anybody may look for an entry ([`Lines::spot`]), and what he finds he must find again under the
//! line's lock. What comes, goes or moves does so under the shard's mutex, whose holder has the
//! [`Beside`]; he also locks each line that he reads a state of or writes, and keeps it until
//! [`Lines::release`]. So what he does is one step for everybody else.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fingerprint::Fingerprint;
use crate::line::{Entry, Line, WIDTH};
use crate::packed::Packed;

mod sample;

/// Lines that a table begins with.
const FEWEST: usize = 4;

/// Lines in a block: 8 KiB less one line, which is what allocators take to align it. Of a single
/// block fewer may be in use.
const BLOCK: usize = 127;

/// Of so many places at most so many are taken.
const PLACES: usize = 100;
const TAKEN: usize = 84;

type Block = [Line; BLOCK];

#[derive(Debug)]
pub(crate) struct Lines {
    shape: AtomicU64,
    first: OnceLock<Box<Block>>,
    more: Box<[OnceLock<Box<Block>>]>,
}

/// How many blocks are in use, and how many lines of each.
#[derive(Clone, Copy, Debug)]
struct Shape {
    blocks: u32,
    each: u32,
}

impl Shape {
    /// So many lines or a few more, in whole blocks if there are several.
    fn of(lines: usize) -> Self {
        let blocks = lines.div_ceil(BLOCK);
        let each = if blocks == 1 { lines } else { BLOCK };
        // Of 32 bits, as the number of entries.
        let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self { blocks: narrow(blocks), each: narrow(each) }
    }

    #[inline]
    fn lines(self) -> usize {
        self.blocks as usize * self.each as usize
    }

    /// The block and the line that are home to what belongs at `place`.
    #[inline]
    fn home(self, place: u64) -> (usize, usize) {
        let [rest, block] = scaled(place, self.blocks);
        let [_, line] = scaled(rest, self.each);
        // Below 2^32 both.
        (usize::try_from(block).unwrap_or(0), usize::try_from(line).unwrap_or(0))
    }
}

/// A fraction of `most`: what is behind the point, and what is before it.
#[inline]
fn scaled(fraction: u64, most: u32) -> [u64; 2] {
    let product = u128::from(fraction) * u128::from(most);
    #[expect(clippy::cast_possible_truncation, reason = "the halves of a number")]
    [product as u64, (product >> 64) as u64]
}

/// What belongs to the lines and is not needed to decide on a known key.
#[derive(Debug)]
pub(crate) struct Beside<T> {
    /// What goes with the entry of each place; empty if not `noted`.
    notes: Vec<Option<T>>,
    noted: bool,
    len: usize,
    hand: usize,
    random: u64,
    /// The lines that are locked, or all of them.
    locked: Vec<usize>,
    all_locked: bool,
}

impl<T> Beside<T> {
    /// `seed` makes samples unpredictable; `noted` is whether notes are kept.
    pub(crate) fn new(seed: u64, noted: bool) -> Self {
        let (notes, locked) = (Vec::new(), Vec::new());
        Self { notes, noted, len: 0, hand: 0, random: seed | 1, locked, all_locked: false }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn note(&self, at: usize) -> Option<&T> {
        self.notes.get(at)?.as_ref()
    }

    /// Below `most`. xorshift64: fast, and good enough to choose a sample.
    fn random(&mut self, most: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from((u128::from(self.random) * most as u128) >> 64).unwrap_or(0)
    }
}

impl Lines {
    /// Lines for so many entries and no more.
    pub(crate) fn new(most: usize) -> Self {
        let lines = (most * PLACES).div_ceil(TAKEN * WIDTH) + 1;
        let more = (1..lines.div_ceil(BLOCK)).map(|_| OnceLock::new()).collect();
        Self { shape: AtomicU64::new(0), first: OnceLock::new(), more }
    }

    #[inline]
    fn shape(&self) -> Shape {
        let word = self.shape.load(Ordering::Relaxed);
        #[expect(clippy::cast_possible_truncation, reason = "the halves of a number")]
        Shape { blocks: word as u32, each: (word >> 32) as u32 }
    }

    #[inline]
    fn cell(&self, block: usize) -> Option<&OnceLock<Box<Block>>> {
        if block == 0 { Some(&self.first) } else { self.more.get(block - 1) }
    }

    #[inline]
    fn line(&self, at: usize) -> Option<&Line> {
        self.cell(at / BLOCK)?.get()?.get(at % BLOCK)
    }

    /// The lines in use from this one on, up to the end of its block.
    fn rest_of_block(&self, at: usize) -> Option<&[Line]> {
        let each = self.shape().each as usize;
        self.cell(at / BLOCK)?.get()?.get(at % BLOCK..each)
    }

    /// How many entries there is place for.
    pub(crate) fn places(&self) -> usize {
        self.shape().lines() * WIDTH
    }

    /// Whether another entry can be kept.
    pub(crate) fn has_room<T>(&self, beside: &Beside<T>) -> bool {
        let most = (self.more.len() + 1) * BLOCK * WIDTH;
        (beside.len + 1) * PLACES <= most * TAKEN
    }

    /// Where an entry seems to lie that belongs at `place`. What seems not to be there may be.
    #[inline]
    pub(crate) fn spot(&self, fingerprint: Fingerprint, place: u64) -> Option<(&Line, usize)> {
        let shape = self.shape();
        let (block, line) = shape.home(place);
        let lines = self.cell(block)?.get()?;
        for line in lines.get(line..shape.each as usize)? {
            if let Some(slot) = line.spot(fingerprint) {
                return Some((line, slot));
            }
            if !line.is_full() {
                return None;
            }
        }
        self.spot_from(fingerprint, (block + 1) * BLOCK)
    }

    /// Goes on looking in another block.
    #[cold]
    fn spot_from(&self, fingerprint: Fingerprint, start: usize) -> Option<(&Line, usize)> {
        let lines = self.shape().lines();
        let mut at = if start < lines { start } else { 0 };
        for _ in 0..lines {
            let line = self.line(at)?;
            if let Some(slot) = line.spot(fingerprint) {
                return Some((line, slot));
            }
            if !line.is_full() {
                return None;
            }
            at = self.after(at);
        }
        None
    }

    fn home(&self, place: u64) -> usize {
        let (block, line) = self.shape().home(place);
        block * BLOCK + line
    }

    fn after(&self, line: usize) -> usize {
        if line + 1 < self.shape().lines() { line + 1 } else { 0 }
    }

    /// Under the mutex: where the entry lies that belongs at `place`.
    pub(crate) fn find(&self, fingerprint: Fingerprint, place: u64) -> Option<usize> {
        let mut at = self.home(place);
        loop {
            let line = self.line(at)?;
            if let Some(slot) = line.find(fingerprint) {
                return Some(at * WIDTH + slot);
            }
            if !line.is_full() {
                return None;
            }
            at = self.after(at);
        }
    }

    /// Under the mutex: what lies there. Its state is only a hint unless the line is locked.
    pub(crate) fn get(&self, at: usize) -> Option<Entry> {
        let entry = self.line(at / WIDTH)?.entry(at % WIDTH);
        entry.fingerprint.is_some().then_some(entry)
    }

    /// Locks the line of a place until the release.
    pub(crate) fn lock<T>(&self, beside: &mut Beside<T>, at: usize) {
        let number = at / WIDTH;
        if beside.all_locked || beside.locked.contains(&number) {
            return;
        }
        if let Some(line) = self.line(number) {
            line.lock();
            beside.locked.push(number);
        }
    }

    /// Gives every lock back.
    pub(crate) fn release<T>(&self, beside: &mut Beside<T>) {
        if std::mem::take(&mut beside.all_locked) {
            beside.locked.clear();
            beside.locked.extend(0..self.shape().lines());
        }
        for line in beside.locked.drain(..).filter_map(|number| self.line(number)) {
            line.unlock();
        }
    }

    /// What lies there, its line locked until the release.
    pub(crate) fn locked<T>(&self, beside: &mut Beside<T>, at: usize) -> Option<Entry> {
        self.lock(beside, at);
        self.get(at)
    }

    pub(crate) fn set_state<T>(&self, beside: &mut Beside<T>, at: usize, state: Packed) {
        self.lock(beside, at);
        if let Some(line) = self.line(at / WIDTH) {
            line.set_state(at % WIDTH, state);
        }
    }

    fn set<T>(&self, beside: &mut Beside<T>, at: usize, entry: Entry) {
        self.lock(beside, at);
        if let Some(line) = self.line(at / WIDTH) {
            line.set(at % WIDTH, entry);
        }
    }

    /// Adds an entry that is not there yet; others may move. `place` is of any fingerprint.
    pub(crate) fn insert<T>(
        &self,
        beside: &mut Beside<T>,
        entry: Entry,
        note: impl FnOnce() -> T,
        place: impl Fn(Fingerprint) -> u64,
    ) -> usize {
        if (beside.len + 1) * PLACES > self.places() * TAKEN {
            // So the tables of a store grow at different times.
            let lines = self.shape().lines();
            let step = lines * (100 + beside.random(60)) / 1024;
            self.grow(beside, (lines + step + 1).max(FEWEST), &place);
        }
        let at = self.put(beside, entry, place(entry.fingerprint));
        if let Some(noted) = beside.notes.get_mut(at) {
            *noted = Some(note());
        }
        beside.len += 1;
        at
    }

    /// Moves everything to so many lines, or a few more.
    fn grow<T>(&self, beside: &mut Beside<T>, lines: usize, place: &impl Fn(Fingerprint) -> u64) {
        self.lock_all(beside);
        // In few sizes, so that the allocator has the same memory for it each time.
        let mut moved: Vec<Entry> = Vec::with_capacity(beside.len.next_power_of_two());
        for at in 0..self.places() {
            if let Some(entry) = self.get(at) {
                moved.push(entry);
                self.set(beside, at, Entry::default());
            }
        }
        let mut notes = std::mem::take(&mut beside.notes).into_iter().flatten();
        self.allot(lines);
        if beside.noted {
            beside.notes.resize_with(self.places(), || None);
        }
        for entry in moved {
            let at = self.put(beside, entry, place(entry.fingerprint));
            if let Some(note) = beside.notes.get_mut(at) {
                *note = notes.next();
            }
        }
    }

    fn lock_all<T>(&self, beside: &mut Beside<T>) {
        for at in 0..self.shape().lines() {
            self.lock(beside, at * WIDTH);
        }
        beside.locked.clear();
        beside.all_locked = true;
    }

    /// Takes so many lines into use, all of them locked.
    fn allot(&self, lines: usize) {
        let shape = Shape::of(lines.min((self.more.len() + 1) * BLOCK));
        let before = self.shape().lines();
        for cell in (0..shape.blocks as usize).filter_map(|block| self.cell(block)) {
            cell.get_or_init(|| Box::new([const { Line::new() }; BLOCK]));
        }
        (before..shape.lines()).filter_map(|at| self.line(at)).for_each(Line::lock);
        let word = u64::from(shape.blocks) | u64::from(shape.each) << 32;
        self.shape.store(word, Ordering::Relaxed);
    }

    /// Writes an entry to the first free place; there is always one.
    fn put<T>(&self, beside: &mut Beside<T>, entry: Entry, place: u64) -> usize {
        let mut at = self.home(place);
        while self.line(at).is_some_and(Line::is_full) {
            at = self.after(at);
        }
        let free = self.get(at * WIDTH).map_or(0, |_| 1);
        self.set(beside, at * WIDTH + free, entry);
        at * WIDTH + free
    }

    /// Takes an entry out. Others may move, each closer to its home.
    pub(crate) fn remove<T>(
        &self,
        beside: &mut Beside<T>,
        at: usize,
        place: impl Fn(Fingerprint) -> u64,
    ) {
        let mut hole = at;
        loop {
            // The first of a line is taken first.
            if hole.is_multiple_of(WIDTH) {
                self.swap(beside, hole, hole + 1);
                hole += 1;
            }
            let Some(moved) = self.next_from_before(hole / WIDTH, &place) else { break };
            self.swap(beside, hole, moved);
            hole = moved;
        }
        self.set(beside, hole, Entry::default());
        if let Some(note) = beside.notes.get_mut(hole) {
            *note = None;
        }
        beside.len -= 1;
    }

    /// The next entry behind the line of the hole whose home is that line or one before.
    fn next_from_before(&self, hole: usize, place: &impl Fn(Fingerprint) -> u64) -> Option<usize> {
        let lines = self.shape().lines();
        // Lines go round: how far one is behind another.
        let distance =
            |from: usize, to: usize| if to >= from { to - from } else { to + lines - from };
        // Nobody went past a line with a free place. What has left is still in the second place.
        self.get(hole * WIDTH)?;
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
            if found.is_some() || !self.line(line)?.is_full() {
                return found;
            }
        }
    }

    fn swap<T>(&self, beside: &mut Beside<T>, one: usize, other: usize) {
        let read = |beside: &mut Beside<T>, at| self.locked(beside, at).unwrap_or_default();
        let (first, second) = (read(beside, one), read(beside, other));
        self.set(beside, one, second);
        self.set(beside, other, first);
        if beside.noted {
            beside.notes.swap(one, other);
        }
    }
}

#[cfg(test)]
mod tests;
