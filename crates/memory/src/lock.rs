//! A lock that is one bit of a word. Whoever holds it may write the other bits; who does not reads them at most.

use crate::atomic::{AtomicU64, Ordering, SPINS, spin_loop, yield_now};

/// Sets the `bit` of a word when nobody else has.
#[inline]
pub(crate) fn lock(word: &AtomicU64, bit: u64) {
    if word.fetch_or(bit, Ordering::Acquire) & bit != 0 {
        wait(word, bit);
    }
}

#[cold]
fn wait(word: &AtomicU64, bit: u64) {
    loop {
        for _ in 0..SPINS {
            spin_loop();
            if word.load(Ordering::Relaxed) & bit == 0
                && word.fetch_or(bit, Ordering::Acquire) & bit == 0
            {
                return;
            }
        }
        // Whoever has it may be waiting for a processor.
        yield_now();
        if word.fetch_or(bit, Ordering::Acquire) & bit == 0 {
            return;
        }
    }
}

/// For whoever holds it: gives it back.
#[inline]
pub(crate) fn unlock(word: &AtomicU64, bit: u64) {
    // Nobody else writes this word, but for the lock's own bit.
    word.store(word.load(Ordering::Relaxed) & !bit, Ordering::Release);
}
