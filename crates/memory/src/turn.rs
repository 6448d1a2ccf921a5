//! Which calls sweep, and which bring home what they find elsewhere. Each thread counts its own, so that counting
//! makes nobody wait.
//!
//! The more they find, the more often they come.
//!
//! A thread may use several stores in turn, and then each has to get its share. So turns are not every
//! 64th call but fall as the multiples of the golden ratio do: evenly, and as evenly in every second
//! call, or every third.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// Of a thread's calls one in so many sweeps at first, and at least and at most.
const AT_FIRST: u32 = 64;
const SELDOM: u32 = 512;
const OFTEN: u32 = 32;

/// Of the calls that find a key elsewhere than at home one in so many brings it there.
const HOME: u32 = 8;

/// What a call adds: 2^32 divided by the golden ratio.
const STEP: u32 = 0x9E37_79B9;

/// How many threads there have been.
static THREADS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// What calls have added so far. The first one comes to 0.
    static ADDED: Cell<u32> = const { Cell::new(0u32.wrapping_sub(STEP)) };
    /// The same of calls that found a key elsewhere than at home.
    static AWAY: Cell<u32> = const { Cell::new(0) };
    /// Below which sum it is a call's turn.
    static TURN: Cell<u32> = const { Cell::new(u32::MAX / AT_FIRST) };
}

/// Counts a call; whether it is one of those that sweep.
#[inline]
pub(crate) fn is_due() -> bool {
    let added = ADDED.with(|added| {
        added.set(added.get().wrapping_add(STEP));
        added.get()
    });
    added < TURN.get() && is_due_or_first(added)
}

/// Counts a call that found a key elsewhere than at home; whether it is one of those that bring it there.
#[inline]
pub(crate) fn brings_home() -> bool {
    AWAY.with(|away| {
        away.set(away.get().wrapping_add(STEP));
        away.get() < u32::MAX / HOME
    })
}

/// A sweep has found something, or nothing: then the next one comes later. Whoever sweeps reads what
/// others are about to write, which takes them and him much longer than the look itself.
pub(crate) fn found(anything: bool) {
    let next = if anything { u32::MAX / OFTEN } else { (TURN.get() / 2).max(u32::MAX / SELDOM) };
    TURN.set(next);
}

/// Threads begin at different places: those that end after a few calls sweep as often as others.
#[cold]
fn is_due_or_first(added: u32) -> bool {
    if added == 0 {
        ADDED.set(begins_at(THREADS.fetch_add(1, Ordering::Relaxed)));
    }
    added > 0
}

/// What the `nth` thread begins with.
fn begins_at(nth: u32) -> u32 {
    nth.wrapping_mul(STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_in_so_many_is_due_whichever_calls_are_of_a_store() {
        is_due();
        for stores in [1, 2, 3, 4, 5, 8, 16, 32] {
            let mut due = vec![0; stores];
            for _ in 0..100 * AT_FIRST {
                due.iter_mut().for_each(|due| *due += u32::from(is_due()));
            }
            assert!(due.iter().all(|due| (90..=110).contains(due)), "{due:?}");
        }
    }

    #[test]
    fn it_is_due_more_often_where_something_is_found() {
        is_due();
        let due = || (0..512_000).filter(|_| is_due()).count();
        found(true);
        assert!((15_900..16_100).contains(&due()));
        (0..10).for_each(|_| found(false));
        assert!((990..1_010).contains(&due()));
    }

    #[test]
    fn threads_that_call_once_sweep_too() {
        let second = |nth| begins_at(nth).wrapping_add(STEP);
        let due = (0..10 * AT_FIRST).filter(|nth| second(*nth) < u32::MAX / AT_FIRST).count();
        assert!((9..=11).contains(&due), "{due}");
        // And each begins at a place of its own.
        let begins = || {
            is_due();
            ADDED.get()
        };
        let [one, other] = [(); 2].map(|()| std::thread::spawn(begins).join().unwrap());
        assert_ne!(one, other);
    }
}
