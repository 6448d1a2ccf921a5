//! Owns [`Versioned`]: a few numbers that belong together, which anybody may read and one at a time writes.

use crate::atomic::{AtomicU64, Ordering, fence, spin_loop};

/// So many numbers that are only ever read together.
#[derive(Debug)]
pub(crate) struct Versioned<const N: usize> {
    /// Odd while they are being written.
    version: AtomicU64,
    numbers: [AtomicU64; N],
}

impl<const N: usize> Versioned<N> {
    pub(crate) fn new(numbers: [u64; N]) -> Self {
        Self { version: AtomicU64::new(0), numbers: numbers.map(AtomicU64::new) }
    }

    /// As they were written together. Whoever comes while they are being written waits.
    #[inline]
    pub(crate) fn read(&self) -> [u64; N] {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let numbers = self.numbers.each_ref().map(|number| number.load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version {
                return numbers;
            }
            spin_loop();
        }
    }

    /// Never by two at a time.
    pub(crate) fn write(&self, numbers: [u64; N]) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (kept, number) in self.numbers.iter().zip(numbers) {
            kept.store(number, Ordering::Relaxed);
        }
        self.version.store(version + 2, Ordering::Release);
    }
}
