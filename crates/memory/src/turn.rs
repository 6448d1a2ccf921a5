//! Owns [`Turns`]: which calls sweep. Each thread counts its own, in a line of its own, so that
//! counting makes nobody wait.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Of a thread's calls, one in so many sweeps.
const CALLS_PER_SWEEP: u32 = 32;

/// Counters; more threads than these share them, and miss a turn now and then.
const COUNTERS: usize = 32;

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Which counter is this thread's; none is `COUNTERS`.
    static OWN: Cell<usize> = const { Cell::new(COUNTERS) };
}

/// Calls so far.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counter(AtomicU32);

#[derive(Debug, Default)]
pub(crate) struct Turns([Counter; COUNTERS]);

impl Turns {
    /// Counts a call; whether it is one of those that sweep.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let Some(Counter(calls)) = self.0.get(OWN.get()) else { return first_of_thread() };
        let nth = calls.load(Ordering::Relaxed).wrapping_add(1);
        calls.store(nth, Ordering::Relaxed);
        nth.is_multiple_of(CALLS_PER_SWEEP)
    }
}

/// Gives this thread a counter.
#[cold]
fn first_of_thread() -> bool {
    OWN.set(THREADS.fetch_add(1, Ordering::Relaxed) % COUNTERS);
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_in_32_is_due_in_each_store() {
        let (one, other) = (Turns::default(), Turns::default());
        one.is_due();
        for turns in [&one, &other] {
            let due = (0..3_200).filter(|_| turns.is_due()).count();
            assert_eq!(due, 100);
        }
    }
}
