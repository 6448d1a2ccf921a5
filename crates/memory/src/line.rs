//! Owns [`Line`]: two entries in one line of the processor's cache, and the lock that guards them in
//! the same line.
//!
//! A decision on a known key needs this line and nothing else. Its words are atomics, so that anybody
//! may look before he has the lock; but what was seen counts only when it is seen again under it.
//! Writing is for who holds the lock. Nobody waits for anything else while he holds one, unless he
//! holds the mutex of the line's shard as well; so nobody waits for ever.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::fingerprint::Fingerprint;
use crate::packed::Packed;

/// Entries in a line.
pub(crate) const WIDTH: usize = 2;

/// Words of an entry: a fingerprint, a state.
const WORDS: usize = 4;

/// The bit of the first word that is the lock. No fingerprint has it.
const LOCKED: u64 = Fingerprint::SPARE;

/// How often a lock is looked at before the processor is offered to others.
const SPINS: u32 = 100;

/// One key's state under one limit; what has no fingerprint is a free place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) state: Packed,
}

#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Line([[AtomicU64; WORDS]; WIDTH]);

const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    pub(crate) const fn new() -> Self {
        Self([const { [const { AtomicU64::new(0) }; WORDS] }; WIDTH])
    }

    #[inline]
    fn read(&self, slot: usize, word: usize) -> u64 {
        self.0[slot][word].load(Ordering::Relaxed)
    }

    /// Under the lock: changes a word, and never the lock.
    #[inline]
    fn write(&self, slot: usize, word: usize, value: u64) {
        let locked = if (slot, word) == (0, 0) { LOCKED } else { 0 };
        self.0[slot][word].store(value | locked, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn lock(&self) {
        if self.0[0][0].fetch_or(LOCKED, Ordering::Acquire) & LOCKED != 0 {
            self.wait();
        }
    }

    #[cold]
    fn wait(&self) {
        let word = &self.0[0][0];
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

    /// Under the lock: gives it back.
    #[inline]
    pub(crate) fn unlock(&self) {
        // Nobody else writes this word, but for the lock's own bit.
        let word = self.0[0][0].load(Ordering::Relaxed);
        self.0[0][0].store(word & !LOCKED, Ordering::Release);
    }

    #[inline]
    pub(crate) fn fingerprint(&self, slot: usize) -> Fingerprint {
        Fingerprint::of_words([self.read(slot, 0) & !LOCKED, self.read(slot, 1)])
    }

    /// In which place the entry of a fingerprint lies.
    #[inline]
    pub(crate) fn find(&self, fingerprint: Fingerprint) -> Option<usize> {
        (0..WIDTH).find(|slot| self.fingerprint(*slot) == fingerprint)
    }

    /// In which place it seems to lie, by half of it.
    #[inline]
    pub(crate) fn spot(&self, fingerprint: Fingerprint) -> Option<usize> {
        let [_, high] = fingerprint.words();
        (0..WIDTH).find(|slot| self.read(*slot, 1) == high)
    }

    #[inline]
    pub(crate) fn is_taken(&self, slot: usize) -> bool {
        self.read(slot, 1) != 0
    }

    /// Whether it has no free place. The first is taken first.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.is_taken(WIDTH - 1)
    }

    #[inline]
    pub(crate) fn state(&self, slot: usize) -> Packed {
        Packed::of_words([self.read(slot, 2), self.read(slot, 3)])
    }

    /// Under the lock.
    #[inline]
    pub(crate) fn set_state(&self, slot: usize, state: Packed) {
        let [low, high] = state.words();
        self.write(slot, 2, low);
        self.write(slot, 3, high);
    }

    #[inline]
    pub(crate) fn entry(&self, slot: usize) -> Entry {
        Entry { fingerprint: self.fingerprint(slot), state: self.state(slot) }
    }

    /// Under the lock.
    pub(crate) fn set(&self, slot: usize, Entry { fingerprint, state }: Entry) {
        let [low, high] = fingerprint.words();
        self.write(slot, 0, low);
        self.write(slot, 1, high);
        self.set_state(slot, state);
    }
}

/// An entry under its line's lock.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    line: &'a Line,
    slot: usize,
}

impl<'a> Held<'a> {
    /// Locks the line, if the entry still lies there.
    #[inline]
    pub(crate) fn new(line: &'a Line, slot: usize, fingerprint: Fingerprint) -> Option<Self> {
        line.lock();
        let held = Self { line, slot };
        (line.fingerprint(slot) == fingerprint).then_some(held)
    }

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
        let line = Line::new();
        let (one, other) = (fingerprint("one"), fingerprint("other"));
        let state = Packed::of_words([u64::MAX, u64::MAX]);
        line.lock();
        line.set(0, Entry { fingerprint: one, state });
        assert!(!line.is_full() && line.find(one) == Some(0) && line.find(other).is_none());
        line.set(1, Entry { fingerprint: other, state });
        line.unlock();
        assert!(line.is_full());
        for (slot, name) in [one, other].into_iter().enumerate() {
            let held = Held::new(&line, slot, name).unwrap();
            assert_eq!((line.find(name), held.state()), (Some(slot), state));
        }
        assert!(Held::new(&line, 0, other).is_none());
        line.lock();
        line.set(0, Entry::default());
        line.unlock();
        assert!(!line.fingerprint(0).is_some() && line.find(other) == Some(1));
    }

    /// Two words that belong together are never seen apart, and no write is lost.
    #[test]
    fn one_at_a_time_holds_a_line() {
        const EACH: u64 = 20_000;
        let line = Line::new();
        let name = fingerprint("one");
        line.lock();
        line.set(1, Entry { fingerprint: name, state: Packed::of_words([0, 0]) });
        line.unlock();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let held = Held::new(&line, 1, name).unwrap();
                        let [low, high] = held.state().words();
                        assert_eq!(low, high);
                        held.set_state(Packed::of_words([low + 1, high + 1]));
                    }
                });
            }
        });
        assert_eq!(line.state(1).words(), [4 * EACH, 4 * EACH]);
    }
}
