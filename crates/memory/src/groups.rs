//! Owns [`Groups`]: entries found by their fingerprint with one miss as a rule. It knows nothing of
//! limits.
//!
//! An entry lies in its home group, or in the first group after it that had a place. So a search may
//! end at a group with a free place, and whoever leaves draws those behind him forward.
//!
//! Groups come in blocks of one size, which stay where they are and are added by an eighth at a time.
//! The order of homes does not depend on their number, so that growing walks through both in order.
//!
//! Anybody may look for an entry ([`Groups::spot`]), and what he finds he must find again under the
//! group's lock. What comes, goes or moves does so under the shard's mutex, whose holder has the
//! [`Beside`]; he also locks each group that he reads a state of or writes, and keeps it until
//! [`Groups::release`]. So what he does is one step for everybody else.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::fingerprint::Fingerprint;
use crate::group::{Entry, Group, Spot, WIDTH};
use crate::packed::Packed;

mod sample;

/// Groups that a table begins with.
const FEWEST: usize = 2;

/// Groups in a block: 8 KiB less one, which is what allocators take to align it. Of a single block
/// fewer may be in use.
const BLOCK: usize = 63;

/// Of so many places at most so many are taken.
const PLACES: usize = 100;
const TAKEN: usize = 78;

type Block = [Group; BLOCK];

#[derive(Debug)]
pub(crate) struct Groups {
    shape: AtomicU64,
    first: OnceLock<Box<Block>>,
    more: Box<[OnceLock<Box<Block>>]>,
}

/// How many blocks are in use, and how many groups of each.
#[derive(Clone, Copy, Debug)]
struct Shape {
    blocks: u32,
    each: u32,
}

impl Shape {
    /// So many groups or a few more, in whole blocks if there are several.
    fn of(groups: usize) -> Self {
        let blocks = groups.div_ceil(BLOCK);
        let each = if blocks == 1 { groups } else { BLOCK };
        // Of 32 bits, as the number of entries.
        let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self { blocks: narrow(blocks), each: narrow(each) }
    }

    #[inline]
    fn groups(self) -> usize {
        self.blocks as usize * self.each as usize
    }

    /// The block and the group that are home to what belongs at `place`.
    #[inline]
    fn home(self, place: u64) -> (usize, usize) {
        let [rest, block] = scaled(place, self.blocks);
        let [_, group] = scaled(rest, self.each);
        // Below 2^32 both.
        (usize::try_from(block).unwrap_or(0), usize::try_from(group).unwrap_or(0))
    }
}

/// A fraction of `most`: what is behind the point, and what is before it.
#[inline]
fn scaled(fraction: u64, most: u32) -> [u64; 2] {
    let product = u128::from(fraction) * u128::from(most);
    #[expect(clippy::cast_possible_truncation, reason = "the halves of a number")]
    [product as u64, (product >> 64) as u64]
}

/// What belongs to the groups and is not needed to decide on a known key.
#[derive(Debug)]
pub(crate) struct Beside<T> {
    /// What goes with the entry of each place; empty if not `noted`.
    notes: Vec<Option<T>>,
    noted: bool,
    len: usize,
    hand: usize,
    random: u64,
    /// The groups that are locked, or all of them.
    locked: SmallVec<[usize; 8]>,
    all_locked: bool,
}

impl<T> Beside<T> {
    /// `seed` makes samples unpredictable; `noted` is whether notes are kept.
    pub(crate) fn new(seed: u64, noted: bool) -> Self {
        let (notes, locked) = (Vec::new(), SmallVec::new());
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

impl Groups {
    /// Groups for so many entries and no more.
    pub(crate) fn new(most: usize) -> Self {
        let groups = (most * PLACES).div_ceil(TAKEN * WIDTH) + 1;
        let more = (1..groups.div_ceil(BLOCK)).map(|_| OnceLock::new()).collect();
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
    fn group(&self, at: usize) -> Option<&Group> {
        self.cell(at / BLOCK)?.get()?.get(at % BLOCK)
    }

    /// The groups in use from this one on, up to the end of its block.
    fn rest_of_block(&self, at: usize) -> Option<&[Group]> {
        let each = self.shape().each as usize;
        self.cell(at / BLOCK)?.get()?.get(at % BLOCK..each)
    }

    /// How many entries there is place for.
    pub(crate) fn places(&self) -> usize {
        self.shape().groups() * WIDTH
    }

    /// Whether another entry can be kept.
    pub(crate) fn has_room<T>(&self, beside: &Beside<T>) -> bool {
        let most = (self.more.len() + 1) * BLOCK * WIDTH;
        (beside.len + 1) * PLACES <= most * TAKEN
    }

    /// Where an entry seems to lie that belongs at `place`. What seems not to be there may be.
    #[inline]
    pub(crate) fn spot(&self, fingerprint: Fingerprint, place: u64) -> Option<Spot<'_>> {
        let shape = self.shape();
        let (block, group) = shape.home(place);
        let home = self.cell(block)?.get()?.get(group)?;
        match home.spot(fingerprint) {
            Some(slot) => Some(Spot::new(home, slot)),
            None if home.is_full() => self.spot_beyond(fingerprint, block * BLOCK + group),
            None => None,
        }
    }

    /// Goes on looking in the groups after a full one.
    #[inline(never)]
    fn spot_beyond(&self, fingerprint: Fingerprint, full: usize) -> Option<Spot<'_>> {
        let mut at = full;
        for _ in 0..self.shape().groups() {
            at = self.after(at);
            let group = self.group(at)?;
            if let Some(slot) = group.spot(fingerprint) {
                return Some(Spot::new(group, slot));
            }
            if !group.is_full() {
                return None;
            }
        }
        None
    }

    fn home(&self, place: u64) -> usize {
        let (block, group) = self.shape().home(place);
        block * BLOCK + group
    }

    fn after(&self, group: usize) -> usize {
        if group + 1 < self.shape().groups() { group + 1 } else { 0 }
    }

    /// Under the mutex: where the entry lies that belongs at `place`.
    pub(crate) fn find(&self, fingerprint: Fingerprint, place: u64) -> Option<usize> {
        let mut at = self.home(place);
        loop {
            let group = self.group(at)?;
            if let Some(slot) = group.find(fingerprint) {
                return Some(at * WIDTH + slot);
            }
            if !group.is_full() {
                return None;
            }
            at = self.after(at);
        }
    }

    /// Under the mutex: what lies there. Its state is only a hint unless the group is locked.
    pub(crate) fn get(&self, at: usize) -> Option<Entry> {
        let entry = self.group(at / WIDTH)?.entry(at % WIDTH);
        entry.fingerprint.is_some().then_some(entry)
    }

    /// Locks the group of a place until the release.
    pub(crate) fn lock<T>(&self, beside: &mut Beside<T>, at: usize) {
        let number = at / WIDTH;
        if beside.all_locked || beside.locked.contains(&number) {
            return;
        }
        if let Some(group) = self.group(number) {
            group.lock_all();
            beside.locked.push(number);
        }
    }

    /// Gives every lock back.
    pub(crate) fn release<T>(&self, beside: &mut Beside<T>) {
        if std::mem::take(&mut beside.all_locked) {
            self.each().for_each(Group::unlock_all);
            beside.locked.clear();
        }
        for group in beside.locked.drain(..).filter_map(|number| self.group(number)) {
            group.unlock_all();
        }
    }

    /// The groups in use.
    fn each(&self) -> impl Iterator<Item = &Group> {
        let Shape { blocks, each } = self.shape();
        let blocks = (0..blocks as usize).filter_map(|block| self.cell(block)?.get());
        blocks.flat_map(move |block| block.iter().take(each as usize))
    }

    /// What lies there, its group locked until the release.
    pub(crate) fn locked<T>(&self, beside: &mut Beside<T>, at: usize) -> Option<Entry> {
        self.lock(beside, at);
        self.get(at)
    }

    pub(crate) fn set_state<T>(&self, beside: &mut Beside<T>, at: usize, state: Packed) {
        self.lock(beside, at);
        if let Some(group) = self.group(at / WIDTH) {
            group.set_state(at % WIDTH, state);
        }
    }

    fn set<T>(&self, beside: &mut Beside<T>, at: usize, entry: Entry) {
        self.lock(beside, at);
        if let Some(group) = self.group(at / WIDTH) {
            group.set(at % WIDTH, entry);
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
            let groups = self.shape().groups();
            let step = groups * (100 + beside.random(60)) / 1024;
            self.grow(beside, (groups + step + 1).max(FEWEST), &place);
        }
        let at = self.put(beside, entry, place(entry.fingerprint));
        if let Some(noted) = beside.notes.get_mut(at) {
            *noted = Some(note());
        }
        beside.len += 1;
        at
    }

    /// Moves everything to so many groups, or a few more.
    #[cold]
    #[inline(never)]
    fn grow<T>(&self, beside: &mut Beside<T>, groups: usize, place: &impl Fn(Fingerprint) -> u64) {
        if !std::mem::replace(&mut beside.all_locked, true) {
            let others = self.each().enumerate().filter(|(at, _)| !beside.locked.contains(at));
            others.for_each(|(_, group)| group.lock_all());
        }
        // In few sizes, so that the allocator has the same memory for it each time.
        let mut moved: Vec<Entry> = Vec::with_capacity(beside.len.next_power_of_two());
        for group in self.each() {
            for slot in (0..WIDTH).filter(|slot| group.is_taken(*slot)) {
                moved.push(group.entry(slot));
                group.set(slot, Entry::default());
            }
        }
        let mut notes = std::mem::take(&mut beside.notes).into_iter().flatten();
        self.allot(groups);
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

    /// Takes so many groups into use, all of them locked.
    fn allot(&self, groups: usize) {
        let shape = Shape::of(groups.min((self.more.len() + 1) * BLOCK));
        let before = self.shape().groups();
        for cell in (0..shape.blocks as usize).filter_map(|block| self.cell(block)) {
            cell.get_or_init(|| Box::new([const { Group::new() }; BLOCK]));
        }
        (before..shape.groups()).filter_map(|at| self.group(at)).for_each(Group::lock_all);
        let word = u64::from(shape.blocks) | u64::from(shape.each) << 32;
        self.shape.store(word, Ordering::Relaxed);
    }

    /// Writes an entry to the first free place; there is always one.
    fn put<T>(&self, beside: &mut Beside<T>, entry: Entry, place: u64) -> usize {
        let mut number = self.home(place);
        loop {
            let Some(group) = self.group(number) else { return 0 };
            if let Some(slot) = (0..WIDTH).find(|slot| !group.is_taken(*slot)) {
                self.lock(beside, number * WIDTH);
                group.set(slot, entry);
                return number * WIDTH + slot;
            }
            number = self.after(number);
        }
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
            // The first places of a group are taken first: the last one that is fills the hole.
            let end = (hole / WIDTH + 1) * WIDTH;
            let last = (hole..end).rev().find(|at| self.get(*at).is_some()).unwrap_or(hole);
            if last != hole {
                self.swap(beside, hole, last);
                hole = last;
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

    /// The next entry behind the group of the hole whose home is that group or one before.
    fn next_from_before(&self, hole: usize, place: &impl Fn(Fingerprint) -> u64) -> Option<usize> {
        let groups = self.shape().groups();
        // Groups go round: how far one is behind another.
        let distance =
            |from: usize, to: usize| if to >= from { to - from } else { to + groups - from };
        // Nobody went past a group with a free place. What leaves is still there.
        self.group(hole).filter(|group| group.is_full())?;
        let mut group = hole;
        loop {
            group = self.after(group);
            let passed = |at: &usize| {
                self.get(*at).is_some_and(|entry| {
                    let home = self.home(place(entry.fingerprint));
                    distance(home, hole) < distance(home, group)
                })
            };
            let found = (group * WIDTH..(group + 1) * WIDTH).find(passed);
            if found.is_some() || !self.group(group)?.is_full() {
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
