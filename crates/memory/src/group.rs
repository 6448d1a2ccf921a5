//! Owns [`Group`]: four entries in two lines of the processor's cache, and the locks that guard them,
//! each in its own line.
//!
//! A decision on a known key needs these lines and nothing else. Their words are atomics, so that
//! anybody may look before he has a lock; but what was seen counts only when it is seen again under
//! it. Writing is for who holds the lock of the entry's line. Nobody waits for anything else while he
//! holds one, unless he holds the mutex of the group's shard as well; so nobody waits for ever.

use std::hint::select_unpredictable;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fingerprint::Fingerprint;
use crate::packed::Packed;

/// Entries in a group.
pub(crate) const WIDTH: usize = 4;

/// Entries that a lock guards: those of a line.
const GUARDED: usize = 2;

/// Words of an entry: a fingerprint, a state.
const WORDS: usize = 4;

/// The bit of a line's first word that is its lock. No fingerprint has it.
const LOCKED: u64 = Fingerprint::SPARE;

/// How often a lock is looked at before the processor is offered to others.
const SPINS: u32 = 100;

/// One key's state under one limit; what has no fingerprint is a free place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) state: Packed,
}

/// The words of a group, which begin with a line. All of them 0 is a group with four free places.
pub(crate) type Words = [AtomicU64; WIDTH * WORDS];

/// Bytes of a group.
pub(crate) const BYTES: usize = 128;

const _: () = assert!(size_of::<Words>() == BYTES);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'a>(&'a Words);

impl<'a> Group<'a> {
    #[inline]
    pub(crate) fn new(words: &'a Words) -> Self {
        Self(words)
    }

    #[inline]
    fn word(self, slot: usize, word: usize) -> &'a AtomicU64 {
        &self.0[slot * WORDS + word]
    }

    #[inline]
    fn read(self, slot: usize, word: usize) -> u64 {
        self.word(slot, word).load(Ordering::Relaxed)
    }

    /// Under the lock: changes a word, and never the lock.
    #[inline]
    fn write(self, slot: usize, word: usize, value: u64) {
        let locked = if word == 0 && slot.is_multiple_of(GUARDED) { LOCKED } else { 0 };
        self.word(slot, word).store(value | locked, Ordering::Relaxed);
    }

    /// The word with the lock of an entry.
    #[inline]
    fn word_with_lock(self, slot: usize) -> &'a AtomicU64 {
        self.word(slot / GUARDED * GUARDED, 0)
    }

    /// Locks an entry, and its neighbour in the line.
    #[inline]
    fn lock(self, slot: usize) {
        let word = self.word_with_lock(slot);
        if word.fetch_or(LOCKED, Ordering::Acquire) & LOCKED != 0 {
            wait(word);
        }
    }

    /// Under the lock: gives it back.
    #[inline]
    fn unlock(self, slot: usize) {
        // Nobody else writes this word, but for the lock's own bit.
        let word = self.word_with_lock(slot);
        word.store(word.load(Ordering::Relaxed) & !LOCKED, Ordering::Release);
    }

    /// Locks all entries.
    pub(crate) fn lock_all(self) {
        (0..WIDTH).step_by(GUARDED).for_each(|slot| self.lock(slot));
    }

    /// Gives all locks back.
    pub(crate) fn unlock_all(self) {
        (0..WIDTH).step_by(GUARDED).for_each(|slot| self.unlock(slot));
    }

    #[inline]
    pub(crate) fn fingerprint(self, slot: usize) -> Fingerprint {
        Fingerprint::of_words([self.read(slot, 0) & !LOCKED, self.read(slot, 1)])
    }

    /// In which place the entry of a fingerprint lies.
    #[inline]
    pub(crate) fn find(self, fingerprint: Fingerprint) -> Option<usize> {
        (0..WIDTH).find(|slot| self.fingerprint(*slot) == fingerprint)
    }

    /// In which place it seems to lie, by half of it. All of them are looked at, because a branch
    /// between them could not be predicted.
    #[inline]
    pub(crate) fn spot(self, fingerprint: Fingerprint) -> Option<usize> {
        let [_, high] = fingerprint.words();
        let is_at = |slot: usize| self.read(slot, 1) == high;
        let slot = select_unpredictable(is_at(1), 1, 0);
        let slot = select_unpredictable(is_at(2), 2, slot);
        let slot = select_unpredictable(is_at(3), 3, slot) % WIDTH;
        is_at(slot).then_some(slot)
    }

    #[inline]
    pub(crate) fn is_taken(self, slot: usize) -> bool {
        self.read(slot, 1) != 0
    }

    /// Whether it has no free place. The first is taken first.
    #[inline]
    pub(crate) fn is_full(self) -> bool {
        self.is_taken(WIDTH - 1)
    }

    #[inline]
    pub(crate) fn state(self, slot: usize) -> Packed {
        Packed::of_words([self.read(slot, 2), self.read(slot, 3)])
    }

    /// Under the lock.
    #[inline]
    pub(crate) fn set_state(self, slot: usize, state: Packed) {
        let [low, high] = state.words();
        self.write(slot, 2, low);
        self.write(slot, 3, high);
    }

    #[inline]
    pub(crate) fn entry(self, slot: usize) -> Entry {
        Entry { fingerprint: self.fingerprint(slot), state: self.state(slot) }
    }

    /// Under the lock.
    #[inline]
    pub(crate) fn set(self, slot: usize, Entry { fingerprint, state }: Entry) {
        let [low, high] = fingerprint.words();
        self.write(slot, 0, low);
        self.write(slot, 1, high);
        self.set_state(slot, state);
    }
}

#[cold]
fn wait(word: &AtomicU64) {
    loop {
        for _ in 0..SPINS {
            std::hint::spin_loop();
            if word.load(Ordering::Relaxed) & LOCKED == 0
                && word.fetch_or(LOCKED, Ordering::Acquire) & LOCKED == 0
            {
                return;
            }
        }
        // Whoever has it may be waiting for a processor.
        std::thread::yield_now();
    }
}

/// Where an entry seems to lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot<'a> {
    group: Group<'a>,
    slot: usize,
}

impl<'a> Spot<'a> {
    #[inline]
    pub(crate) fn new(group: Group<'a>, slot: usize) -> Self {
        Self { group, slot }
    }

    /// Locks the entry, if it still lies there.
    #[inline]
    pub(crate) fn lock(self, fingerprint: Fingerprint) -> Option<Held<'a>> {
        self.group.lock(self.slot);
        let held = Held(self);
        (self.group.fingerprint(self.slot) == fingerprint).then_some(held)
    }
}

/// An entry under its lock.
#[derive(Debug)]
pub(crate) struct Held<'a>(Spot<'a>);

impl Held<'_> {
    #[inline]
    pub(crate) fn state(&self) -> Packed {
        self.0.group.state(self.0.slot)
    }

    #[inline]
    pub(crate) fn set_state(&self, state: Packed) {
        self.0.group.set_state(self.0.slot, state);
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.group.unlock(self.0.slot);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::RandomState;
    use std::thread;

    use tollkeeper_core::Algorithm;

    use super::*;
    use crate::fingerprint::Fingerprinter;

    fn fingerprint(name: &str) -> Fingerprint {
        Fingerprinter::new(&RandomState::new()).of("l", Algorithm::Gcra, name)
    }

    #[test]
    fn the_lock_is_in_no_fingerprint_and_no_state() {
        let words = Words::default();
        let group = Group::new(&words);
        let (one, other) = (fingerprint("one"), fingerprint("other"));
        let state = Packed::of_words([u64::MAX, u64::MAX]);
        group.lock_all();
        group.set(0, Entry { fingerprint: one, state });
        assert!(!group.is_full() && group.find(one) == Some(0) && group.find(other).is_none());
        group.set(3, Entry { fingerprint: other, state });
        group.unlock_all();
        for (slot, name) in [(0, one), (3, other)] {
            let held = Spot::new(group, slot).lock(name).unwrap();
            assert_eq!((group.find(name), held.state()), (Some(slot), state));
            assert_eq!(group.spot(name), Some(slot));
        }
        assert!(Spot::new(group, 0).lock(other).is_none());
        group.lock_all();
        group.set(0, Entry::default());
        group.unlock_all();
        assert!(!group.fingerprint(0).is_some() && group.find(other) == Some(3));
    }

    #[test]
    fn an_entry_is_seen_in_every_place() {
        let words = Words::default();
        let group = Group::new(&words);
        for slot in 0..WIDTH {
            let name = fingerprint(&slot.to_string());
            assert!(!group.is_full() && group.spot(name).is_none());
            group.lock_all();
            group.set(slot, Entry { fingerprint: name, ..Entry::default() });
            group.unlock_all();
            assert_eq!((group.spot(name), group.find(name)), (Some(slot), Some(slot)));
        }
        assert!(group.is_full());
    }

    /// Two words that belong together are never seen apart, and no write is lost.
    #[test]
    fn one_at_a_time_holds_a_line() {
        const EACH: u64 = 20_000;
        let words = Words::default();
        let group = Group::new(&words);
        let name = fingerprint("one");
        group.lock_all();
        group.set(1, Entry { fingerprint: name, state: Packed::of_words([0, 0]) });
        group.unlock_all();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let held = Spot::new(group, 1).lock(name).unwrap();
                        let [low, high] = held.state().words();
                        assert_eq!(low, high);
                        held.set_state(Packed::of_words([low + 1, high + 1]));
                    }
                });
            }
        });
        assert_eq!(group.state(1).words(), [4 * EACH, 4 * EACH]);
    }
}
