//! The orders in which readers of the clock can meet the one who ties it, by a model checker: all in which each
//! thread is taken off the processor twice at most. What is checked is the source that the clock uses, with the
//! checker's atomics in place of the processor's.

#[path = "../src/clock/versioned.rs"]
mod versioned;

use loom::sync::Arc;
use loom::thread;

use versioned::Versioned;

mod atomic {
    //! What stands for `src/atomic.rs`.

    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
    /// Who spins lets others go on: otherwise he would do so for ever.
    pub(crate) use loom::thread::yield_now as spin_loop;
}

/// Who has read a later tie never reads an earlier one again, and nobody reads half of one.
#[test]
fn numbers_that_belong_together_are_read_together() {
    let mut builder = loom::model::Builder::new();
    // Each thread is taken off the processor so often at most, at any moment. More takes long.
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let numbers = Arc::new(Versioned::new([0, 0, 0]));
        let writer = {
            let numbers = Arc::clone(&numbers);
            thread::spawn(move || [1, 2].map(|nth| numbers.write([nth; 3])))
        };
        let mut last = 0;
        for _ in 0..2 {
            let [first, second, third] = numbers.read();
            assert!(first == second && second == third, "{first} {second} {third}");
            assert!(first >= last, "{first} after {last}");
            last = first;
        }
        writer.join().unwrap();
        assert_eq!(numbers.read(), [2; 3]);
    });
}
