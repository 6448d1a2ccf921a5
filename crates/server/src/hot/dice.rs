//! A number that looks random, for every decision: each thread has dice of its own, so that nobody
//! waits and nobody outside can foresee which request is sampled.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

/// The next number of this thread, of 32 bits (`xorshift64*`).
#[inline]
pub(super) fn roll() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = const { Cell::new(0) };
    }
    let mut state = STATE.get();
    if state == 0 {
        state = seed();
    }
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    STATE.set(state);
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
}

/// The system's random number, and another for each thread. 0 would stay 0.
#[cold]
fn seed() -> u64 {
    RandomState::new().hash_one(0) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_64_comes_up_as_often_as_it_should_on_every_thread() {
        let hits = || (0..640_000).filter(|_| roll().is_multiple_of(64)).count();
        let all = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(hits));
            threads.map(|thread| thread.join().unwrap())
        });
        // 10 000 each, of a deviation of 99: by chance beyond eight of them never.
        assert!(all.iter().all(|hits| hits.abs_diff(10_000) < 800), "{all:?}");
        assert!(all.iter().any(|hits| *hits != all[0]), "they roll the same: {all:?}");
    }
}
