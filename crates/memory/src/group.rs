//! Owns [`Line`]: two entries in a line of the processor's cache with the lock that guards them; and
//! [`Group`]: two lines side by side.
//!
//! A decision on a known key needs a line and nothing else, as a rule. It locks the line before it reads a
//! word of it: so the line comes once, to be written to, and not a second time because it was only read
//! at first.
//!
//! The words are atomics, so that anybody may look without a lock; but what was seen counts only when it is
//! seen again under it. Writing is for who holds the lock. Nobody waits for anything else while he
//! holds one, unless he holds the mutex of the group's shard as well; so nobody waits for ever.

use crate::atomic::{AtomicU64, Ordering};
use crate::fingerprint::Fingerprint;
use crate::lock::{lock, unlock};
use crate::packed::Packed;

/// Entries in a line, which one lock guards, and in a group.
pub(crate) const OF_LINE: usize = 2;
pub(crate) const WIDTH: usize = 2 * OF_LINE;

/// Words of an entry: a fingerprint, a state.
const WORDS: usize = 4;

/// The bit of a line's first word that is its lock. No fingerprint has it.
const LOCKED: u64 = Fingerprint::SPARE;

/// One key's state under one limit; what has no fingerprint is a free place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) state: Packed,
}

/// The words of a line. All of them 0 is a line with two free places.
pub(crate) type Words = [AtomicU64; OF_LINE * WORDS];

/// Bytes of a line, and of a group.
pub(crate) const LINE_BYTES: usize = 64;
pub(crate) const BYTES: usize = 128;

const _: () = assert!(size_of::<Words>() == LINE_BYTES);
const _: () = assert!(WIDTH / OF_LINE * LINE_BYTES == BYTES);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a>(&'a Words);

impl<'a> Line<'a> {
    #[inline]
    pub(crate) fn new(words: &'a Words) -> Self {
        Self(words)
    }

    #[inline]
    fn word(self, slot: usize, word: usize) -> &'a AtomicU64 {
        &self.0[slot % OF_LINE * WORDS + word]
    }

    #[inline]
    fn read(self, slot: usize, word: usize) -> u64 {
        self.word(slot, word).load(Ordering::Relaxed)
    }

    /// Under the lock: changes a word, and never the lock.
    #[inline]
    fn write(self, slot: usize, word: usize, value: u64) {
        let locked = if word == 0 && slot == 0 { LOCKED } else { 0 };
        self.word(slot, word).store(value | locked, Ordering::Relaxed);
    }

    #[inline]
    fn lock(self) {
        lock(&self.0[0], LOCKED);
    }

    /// Under the lock: gives it back.
    #[inline]
    fn unlock(self) {
        unlock(&self.0[0], LOCKED);
    }

    /// Locks it, and keeps it locked if the entry of a fingerprint lies in it.
    #[inline(always)]
    pub(crate) fn hold(self, fingerprint: Fingerprint) -> Option<Held<'a>> {
        self.lock();
        let [_, high] = fingerprint.words();
        // Not a branch, which could not be predicted.
        let slot = usize::from(self.read(1, 1) == high);
        let held = Held { line: self, slot };
        (self.fingerprint(slot) == fingerprint).then_some(held)
    }

    /// The same, if the entry seems to lie in it by half of its fingerprint.
    #[inline(always)]
    pub(crate) fn hold_if_seen(self, fingerprint: Fingerprint) -> Option<Held<'a>> {
        let [_, high] = fingerprint.words();
        let is_seen = (self.read(0, 1) == high) | (self.read(1, 1) == high);
        if is_seen { self.hold(fingerprint) } else { None }
    }

    #[inline]
    fn fingerprint(self, slot: usize) -> Fingerprint {
        Fingerprint::of_words([self.read(slot, 0) & !LOCKED, self.read(slot, 1)])
    }

    #[inline]
    fn state(self, slot: usize) -> Packed {
        Packed::of_words([self.read(slot, 2), self.read(slot, 3)])
    }

    #[inline]
    fn set_state(self, slot: usize, state: Packed) {
        let [low, high] = state.words();
        self.write(slot, 2, low);
        self.write(slot, 3, high);
    }
}

/// An entry under its lock.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    line: Line<'a>,
    slot: usize,
}

impl Held<'_> {
    #[inline]
    pub(crate) fn state(&self) -> Packed {
        self.line.state(self.slot)
    }

    #[inline]
    pub(crate) fn set_state(&self, state: Packed) {
        self.line.set_state(self.slot, state);
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.line.unlock();
    }
}

/// Two lines, of which an entry may lie in either.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'a>([Line<'a>; WIDTH / OF_LINE]);

impl<'a> Group<'a> {
    #[inline]
    pub(crate) fn new(lines: [Line<'a>; WIDTH / OF_LINE]) -> Self {
        Self(lines)
    }

    pub(crate) fn lines(self) -> [Line<'a>; WIDTH / OF_LINE] {
        self.0
    }

    /// The line of a place.
    #[inline]
    pub(crate) fn line(self, slot: usize) -> Line<'a> {
        self.0[slot / OF_LINE % self.0.len()]
    }

    /// Locks all entries.
    pub(crate) fn lock_all(self) {
        self.0.into_iter().for_each(Line::lock);
    }

    /// Gives all locks back.
    pub(crate) fn unlock_all(self) {
        self.0.into_iter().for_each(Line::unlock);
    }

    #[inline]
    pub(crate) fn fingerprint(self, slot: usize) -> Fingerprint {
        self.line(slot).fingerprint(slot % OF_LINE)
    }

    /// In which place the entry of a fingerprint lies.
    #[inline]
    pub(crate) fn find(self, fingerprint: Fingerprint) -> Option<usize> {
        (0..WIDTH).find(|slot| self.fingerprint(*slot) == fingerprint)
    }

    #[inline]
    fn high(self, slot: usize) -> u64 {
        self.line(slot).read(slot % OF_LINE, 1)
    }

    #[inline]
    pub(crate) fn is_taken(self, slot: usize) -> bool {
        self.high(slot) != 0
    }

    /// Whether it has no free place.
    #[inline]
    pub(crate) fn is_full(self) -> bool {
        (0..WIDTH).all(|slot| self.is_taken(slot))
    }

    #[inline]
    pub(crate) fn state(self, slot: usize) -> Packed {
        self.line(slot).state(slot % OF_LINE)
    }

    /// Under the lock.
    #[inline]
    pub(crate) fn set_state(self, slot: usize, state: Packed) {
        self.line(slot).set_state(slot % OF_LINE, state);
    }

    #[inline]
    pub(crate) fn entry(self, slot: usize) -> Entry {
        Entry { fingerprint: self.fingerprint(slot), state: self.state(slot) }
    }

    /// Under the lock.
    #[inline]
    pub(crate) fn set(self, slot: usize, Entry { fingerprint, state }: Entry) {
        let [low, high] = fingerprint.words();
        let (line, slot) = (self.line(slot), slot % OF_LINE);
        line.write(slot, 0, low);
        line.write(slot, 1, high);
        line.set_state(slot, state);
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
        let words = <[Words; 2]>::default();
        let group = Group::new([Line::new(&words[0]), Line::new(&words[1])]);
        let (one, other) = (fingerprint("one"), fingerprint("other"));
        let state = Packed::of_words([u64::MAX, u64::MAX]);
        group.lock_all();
        group.set(0, Entry { fingerprint: one, state });
        assert!(!group.is_full() && group.find(one) == Some(0) && group.find(other).is_none());
        group.set(3, Entry { fingerprint: other, state });
        group.unlock_all();
        for (slot, name) in [(0, one), (3, other)] {
            let held = group.line(slot).hold(name).unwrap();
            assert_eq!((group.find(name), held.state()), (Some(slot), state));
        }
        assert!(group.line(0).hold(other).is_none());
        group.lock_all();
        group.set(0, Entry::default());
        group.unlock_all();
        assert!(!group.fingerprint(0).is_some() && group.find(other) == Some(3));
    }

    #[test]
    fn an_entry_is_seen_in_every_place() {
        let words = <[Words; 2]>::default();
        let group = Group::new([Line::new(&words[0]), Line::new(&words[1])]);
        for slot in 0..WIDTH {
            let name = fingerprint(&slot.to_string());
            assert!(!group.is_full() && group.line(slot).hold_if_seen(name).is_none());
            group.lock_all();
            group.set(slot, Entry { fingerprint: name, ..Entry::default() });
            group.unlock_all();
            assert_eq!(group.find(name), Some(slot));
            assert!(group.line(slot).hold_if_seen(name).is_some());
            assert!(group.line((slot + OF_LINE) % WIDTH).hold_if_seen(name).is_none());
        }
        assert!(group.is_full());
    }

    /// Two words that belong together are never seen apart, and no write is lost.
    #[test]
    fn one_at_a_time_holds_a_line() {
        const EACH: u64 = 20_000;
        let words = <[Words; 2]>::default();
        let group = Group::new([Line::new(&words[0]), Line::new(&words[1])]);
        let name = fingerprint("one");
        group.lock_all();
        group.set(1, Entry { fingerprint: name, state: Packed::of_words([0, 0]) });
        group.unlock_all();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let held = group.line(1).hold(name).unwrap();
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
