//! Owns [`Striped`]: counters that threads add to without waiting for each other.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Threads beyond that many share.
const STRIPES: usize = 8;

/// A fixed number of counters, each in several pieces.
#[derive(Debug)]
pub(super) struct Striped {
    stripes: [Box<[AtomicU64]>; STRIPES],
}

impl Striped {
    pub(super) fn new(counters: usize) -> Self {
        let stripe = || (0..counters).map(|_| AtomicU64::new(0)).collect();
        Self { stripes: std::array::from_fn(|_| stripe()) }
    }

    /// Adds one to a counter. One that there is not is not counted.
    pub(super) fn add(&self, counter: usize) {
        if let Some(piece) = self.stripes[own_stripe()].get(counter) {
            piece.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What a counter has come to.
    pub(super) fn sum(&self, counter: usize) -> u64 {
        let pieces = self.stripes.iter().filter_map(|stripe| stripe.get(counter));
        pieces.map(|piece| piece.load(Ordering::Relaxed)).sum()
    }
}

fn own_stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    let own = OWN.get();
    if own < STRIPES {
        return own;
    }
    let own = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
    OWN.set(own);
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_threads_add_up() {
        let counters = Striped::new(2);
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..1000).for_each(|_| counters.add(1)));
            }
        });
        counters.add(2);
        assert_eq!((counters.sum(0), counters.sum(1), counters.sum(2)), (0, 20_000, 0));
    }
}
