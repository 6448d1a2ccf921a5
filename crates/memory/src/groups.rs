//! Owns [`Groups`]: entries found by their fingerprint with one miss as a rule. It knows nothing of
//! limits.
//!
//! An entry lies in its home line, or beside it in the same group, or in the first group after it that had
//! a place. So a search may end at a group with a free place, and whoever leaves draws those behind him
//! forward; and of those found elsewhere than in their line some are brought home.
//!
//! Of the groups that there can be some are in use, a fifth more at a time, or twice as many while they are
//! few. The order of homes does not depend on their number. So a table that grows moves its entries from the
//! last home to the first, a few with each new one (`grow`), and homes that were not reached yet go by the
//! number that there was before.
//!
//! Anybody may look for an entry ([`Groups::hold`]), and what he finds he must find again under its
//! line's lock. What comes, goes or moves does so under the shard's mutex, whose holder has the
//! [`Beside`]; he also locks each group that he reads a state of or writes, and keeps it until
//! [`Groups::release`]. So what he does is one step for everybody else.

use std::hint::select_unpredictable;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::arena::{Arena, PAGE};
use crate::fingerprint::Fingerprint;
use crate::group::{Entry, Group, Held, Line, OF_LINE, WIDTH};
use crate::packed::Packed;

mod grow;
mod sample;

/// Of so many places at most so many are taken.
const PLACES: usize = 100;
const TAKEN: usize = 78;

/// As long as a store has fewer places than this, 8 MiB, so many are: the emptier a table is, the more of its
/// entries lie in their home line, and nobody misses the memory.
const FEW: usize = 1 << 18;
const TAKEN_OF_FEW: usize = 45;

/// Places whose notes are kept together.
const NOTES: usize = 256;

/// Lines of a group.
const LINES: usize = WIDTH / OF_LINE;

/// The groups of all shards of a store: the first page of each shard, then the second of each, and so on. So
/// they fill the arena together, from its front on.
#[derive(Debug)]
pub(crate) struct Land {
    arena: Arena,
    extents: Box<[Extent]>,
    /// Bits of a shard's number.
    bits: u32,
    /// How many groups a shard can have, and how many are few.
    each: usize,
    few: usize,
}

/// Which groups of a shard are in use. Those of all shards lie together, apart from everything else:
/// whoever decides reads one of them, and they change only when a shard grows.
#[derive(Debug, Default)]
struct Extent {
    /// How many lines they have. Homes from the edge on go by this number, those below it by what it was
    /// before. To who does not hold the mutex the three may seem not to belong together.
    lines: AtomicU32,
    before: AtomicU32,
    edge: AtomicU64,
}

impl Land {
    /// For so many shards, a power of two, of so many entries each and no more; `None` if there is no memory
    /// for that many.
    pub(crate) fn new(shards: usize, most: usize) -> Option<Self> {
        let few = FEW / WIDTH / shards;
        let most = most.checked_mul(PLACES)?;
        let groups = |taken: usize| most.div_ceil(taken * WIDTH) + 1;
        let each = groups(TAKEN).max(groups(TAKEN_OF_FEW).min(few));
        let arena = Arena::new(each.next_multiple_of(PAGE).checked_mul(shards)?)?;
        let extents = (0..shards).map(|_| Extent::default()).collect();
        Some(Self { arena, extents, bits: shards.trailing_zeros(), each, few })
    }

    /// The groups of a shard, by the low bits of its number.
    #[inline(always)]
    pub(crate) fn shard(&self, number: usize) -> Groups<'_> {
        let number = number & (self.extents.len() - 1);
        let Self { arena, extents, bits, each, few } = self;
        Groups { arena, extent: &extents[number], number, bits: *bits, most: *each, few: *few }
    }
}

/// The groups of one shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups<'a> {
    arena: &'a Arena,
    extent: &'a Extent,
    /// The number of the shard, and the bits of such a number.
    number: usize,
    bits: u32,
    /// How many there can be, and how many are few.
    most: usize,
    few: usize,
}

/// What belongs to the groups and is not needed to decide on a known key.
#[derive(Debug)]
pub(crate) struct Beside<T> {
    /// What goes with the entry of each place, so many together; empty if not `noted`.
    notes: Vec<Vec<Option<T>>>,
    noted: bool,
    len: usize,
    hand: usize,
    random: u64,
    /// The groups that are locked.
    locked: SmallVec<[Range<usize>; 8]>,
    growth: Option<grow::Growth>,
}

impl<T> Beside<T> {
    /// `seed` makes samples unpredictable; `noted` is whether notes are kept.
    pub(crate) fn new(seed: u64, noted: bool) -> Self {
        let (notes, locked) = (Vec::new(), SmallVec::new());
        Self { notes, noted, len: 0, hand: 0, random: seed | 1, locked, growth: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn note(&self, at: usize) -> Option<&T> {
        self.notes.get(at / NOTES)?.get(at % NOTES)?.as_ref()
    }

    /// Where the note of a place is kept, if any are.
    fn note_mut(&mut self, at: usize) -> Option<&mut Option<T>> {
        self.notes.get_mut(at / NOTES)?.get_mut(at % NOTES)
    }

    fn take_note(&mut self, at: usize) -> Option<T> {
        self.note_mut(at).and_then(Option::take)
    }

    /// Below `most`. xorshift64: fast, and good enough to choose a sample.
    fn random(&mut self, most: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from((u128::from(self.random) * most as u128) >> 64).unwrap_or(0)
    }
}

impl<'a> Groups<'a> {
    /// How many groups are in use.
    #[inline]
    fn in_use(&self) -> usize {
        self.extent.lines.load(Ordering::Relaxed) as usize / LINES
    }

    /// The group that is home to what belongs at `place`.
    #[inline]
    fn home(&self, place: u64) -> usize {
        self.home_line(place) / LINES
    }

    /// The line of that group which it lies in if there is a place.
    #[inline]
    fn home_line(&self, place: u64) -> usize {
        let Extent { lines, before, edge } = self.extent;
        // Both are there at once; to choose one and then to load it would take longer.
        let [lines, before] = [lines, before].map(|lines| lines.load(Ordering::Relaxed));
        let is_moved = place >= edge.load(Ordering::Relaxed);
        let lines = select_unpredictable(is_moved, lines, before);
        usize::try_from((u128::from(place) * u128::from(lines)) >> 64).unwrap_or(0)
    }

    #[inline]
    fn group(&self, at: usize) -> Option<Group<'a>> {
        let in_page = at % PAGE;
        self.arena.group(((at - in_page) << self.bits) + self.number * PAGE + in_page)
    }

    #[inline]
    fn line(&self, at: usize) -> Option<Line<'a>> {
        let in_page = at % (LINES * PAGE);
        self.arena.line(((at - in_page) << self.bits) + self.number * LINES * PAGE + in_page)
    }

    /// How many entries there is place for.
    pub(crate) fn places(&self) -> usize {
        self.in_use() * WIDTH
    }

    /// Whether another entry can be kept.
    pub(crate) fn has_room<T>(&self, beside: &Beside<T>) -> bool {
        (beside.len + 1) * PLACES <= self.most * WIDTH * TAKEN
    }

    /// Whether so many entries are too many for the places in use, and there can be more of those.
    fn is_crowded(&self, entries: usize) -> bool {
        let groups = self.in_use();
        let taken = if groups < self.few { TAKEN_OF_FEW } else { TAKEN };
        entries * PLACES > groups * WIDTH * taken && groups < self.most
    }

    /// Locks the entry that belongs at `place`, if it seems to be in its home line. What seems not to be may be.
    #[inline(always)]
    pub(crate) fn hold_home(self, fingerprint: Fingerprint, place: u64) -> Option<Held<'a>> {
        self.line(self.home_line(place))?.hold(fingerprint)
    }

    /// The same for what is not in its home line.
    #[inline]
    pub(crate) fn hold_away(self, fingerprint: Fingerprint, place: u64) -> Option<Held<'a>> {
        let home = self.home_line(place);
        let held = self.line(home ^ 1)?.hold_if_seen(fingerprint);
        if held.is_some() { held } else { self.hold_beyond(fingerprint, home / LINES) }
    }

    /// The same for what is not in its home group.
    #[inline(never)]
    fn hold_beyond(self, fingerprint: Fingerprint, home: usize) -> Option<Held<'a>> {
        let mut at = home;
        for _ in 0..self.in_use() {
            if !self.group(at)?.is_full() {
                return None;
            }
            at = self.after(at);
            for line in self.group(at)?.lines() {
                if let Some(held) = line.hold_if_seen(fingerprint) {
                    return Some(held);
                }
            }
        }
        None
    }

    fn after(&self, group: usize) -> usize {
        if group + 1 < self.in_use() { group + 1 } else { 0 }
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
    #[inline]
    pub(crate) fn lock<T>(&self, beside: &mut Beside<T>, at: usize) {
        let number = at / WIDTH;
        if !beside.locked.iter().rev().any(|locked| locked.contains(&number)) {
            self.lock_further(beside, number);
        }
    }

    fn lock_further<T>(&self, beside: &mut Beside<T>, number: usize) {
        let Some(group) = self.group(number) else { return };
        group.lock_all();
        match beside.locked.last_mut() {
            Some(last) if last.end == number => last.end += 1,
            _ => beside.locked.push(number..number + 1),
        }
    }

    /// Gives every lock back.
    pub(crate) fn release<T>(&self, beside: &mut Beside<T>) {
        let locked = beside.locked.drain(..).flatten();
        locked.filter_map(|number| self.group(number)).for_each(|group| group.unlock_all());
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
        if beside.growth.is_some() || self.is_crowded(beside.len + 1) {
            self.grow(beside, &place);
        }
        let at = self.put(beside, entry, place(entry.fingerprint));
        if let Some(noted) = beside.note_mut(at) {
            *noted = Some(note());
        }
        beside.len += 1;
        at
    }

    /// Writes an entry to the first free place, from its home line on; there is always one.
    fn put<T>(&self, beside: &mut Beside<T>, entry: Entry, place: u64) -> usize {
        let line = self.home_line(place);
        let (mut number, first) = (line / LINES, line % LINES * OF_LINE);
        loop {
            let Some(group) = self.group(number) else { return 0 };
            let mut slots = (0..WIDTH).map(|nth| (first + nth) % WIDTH);
            if let Some(slot) = slots.find(|slot| !group.is_taken(*slot)) {
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
            if let Some(moved) = self.next_from_beside(hole, &place) {
                self.swap(beside, hole, moved);
                hole = moved;
            }
            let Some(moved) = self.next_from_before(hole / WIDTH, &place) else { break };
            self.swap(beside, hole, moved);
            hole = moved;
        }
        self.set(beside, hole, Entry::default());
        beside.take_note(hole);
        beside.len -= 1;
    }

    /// An entry of the same group that the hole is in the home line of, and that lies in the other.
    fn next_from_beside(&self, hole: usize, place: &impl Fn(Fingerprint) -> u64) -> Option<usize> {
        let (group, line) = (hole / WIDTH, hole / OF_LINE);
        let is_home = |at: &usize| {
            at / OF_LINE != line
                && self.get(*at).is_some_and(|it| self.home_line(place(it.fingerprint)) == line)
        };
        (group * WIDTH..(group + 1) * WIDTH).find(is_home)
    }

    /// The next entry behind the group of the hole whose home is that group or one before.
    fn next_from_before(&self, hole: usize, place: &impl Fn(Fingerprint) -> u64) -> Option<usize> {
        let groups = self.in_use();
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

    /// Under the mutex: puts an entry that does not lie in its home line in the place of one that does, and that
    /// one in its place. Preferably one that is not at home there either; else any, so that of keys that have no
    /// room together those are away most of the time that are found least.
    ///
    /// Whoever lies where the other is at home is still found behind it: on the way from one to the other there is
    /// no free place.
    pub(crate) fn bring_home<T>(
        &self,
        beside: &mut Beside<T>,
        fingerprint: Fingerprint,
        place: impl Fn(Fingerprint) -> u64,
    ) {
        let line = self.home_line(place(fingerprint));
        let found = self.find(fingerprint, place(fingerprint));
        let Some(at) = found.filter(|at| at / OF_LINE != line) else { return };
        let is_guest = |at: &usize| {
            let at_home = |entry: Entry| self.home_line(place(entry.fingerprint)) == line;
            !self.get(*at).is_some_and(at_home)
        };
        let mut homes = line * OF_LINE..(line + 1) * OF_LINE;
        let home = homes.find(is_guest).unwrap_or(line * OF_LINE + beside.random(OF_LINE));
        self.swap(beside, at, home);
    }

    fn swap<T>(&self, beside: &mut Beside<T>, one: usize, other: usize) {
        let read = |beside: &mut Beside<T>, at| self.locked(beside, at).unwrap_or_default();
        let (first, second) = (read(beside, one), read(beside, other));
        self.set(beside, one, second);
        self.set(beside, other, first);
        let notes = (beside.take_note(one), beside.take_note(other));
        for (at, note) in [(one, notes.1), (other, notes.0)] {
            if let Some(noted) = beside.note_mut(at) {
                *noted = note;
            }
        }
    }
}

#[cfg(test)]
mod tests;
