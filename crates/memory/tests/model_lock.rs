//! The orders in which threads can meet at the lock of a line, by a model checker: all in which each thread is
//! taken off the processor three times at most. What is checked is the source that the table uses, with the
//! checker's atomics in place of the processor's.

#[path = "../src/lock.rs"]
mod lock;

use std::array::from_fn;

use loom::sync::Arc;
use loom::thread;

use atomic::{AtomicU64, Ordering};
use lock::{lock, unlock};

mod atomic {
    //! What stands for `src/atomic.rs`.

    pub(crate) use loom::sync::atomic::Ordering;
    pub(crate) use loom::thread::yield_now;
    /// Who spins lets others go on: otherwise he would do so for ever.
    pub(crate) use loom::thread::yield_now as spin_loop;

    /// Each look more is only more of the same.
    pub(crate) const SPINS: u32 = 1;

    /// The checker lets a store come between the two halves of somebody's `fetch_or`, and nothing can. So a
    /// store is an exchange for it, with the same ordering.
    pub(crate) struct AtomicU64(loom::sync::atomic::AtomicU64);

    impl AtomicU64 {
        pub(crate) fn new(value: u64) -> Self {
            Self(loom::sync::atomic::AtomicU64::new(value))
        }

        pub(crate) fn load(&self, ordering: Ordering) -> u64 {
            self.0.load(ordering)
        }

        pub(crate) fn store(&self, value: u64, ordering: Ordering) {
            self.0.swap(value, ordering);
        }

        pub(crate) fn fetch_or(&self, bits: u64, ordering: Ordering) -> u64 {
            self.0.fetch_or(bits, ordering)
        }
    }
}

const BIT: u64 = 1 << 63;

/// The first word of a line is its lock, too. What belongs together is seen together, and no write is lost.
#[test]
fn one_at_a_time_holds_a_line() {
    let mut builder = loom::model::Builder::new();
    // Each thread is taken off the processor so often at most, at any moment. More takes long.
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let line: Arc<[AtomicU64; 2]> = Arc::new(from_fn(|_| AtomicU64::new(0)));
        let other = Arc::clone(&line);
        let other = thread::spawn(move || (0..2).for_each(|_| add_one(&other)));
        (0..2).for_each(|_| add_one(&line));
        other.join().unwrap();
        let words = [0, 1].map(|word| line[word].load(Ordering::Relaxed));
        assert_eq!(words, [4, 4]);
    });
}

fn add_one(line: &[AtomicU64; 2]) {
    lock(&line[0], BIT);
    let [low, high] = [0, 1].map(|word| line[word].load(Ordering::Relaxed));
    assert_eq!(low & !BIT, high);
    line[0].store((high + 1) | BIT, Ordering::Relaxed);
    line[1].store(high + 1, Ordering::Relaxed);
    unlock(&line[0], BIT);
}
