//! Entries are brought home while others read and write them with no more than the lock of a line.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::thread;

use super::*;

/// Of one home line, which has room for two.
const KEYS: usize = 5;
const THREADS: usize = 3;
const EACH: usize = 200_000;

/// The second line of the first group is home to all, of the 64 lines that there are.
const PLACE: u64 = 1 << 58;

/// Three of five keys are always away, so each find may exchange two of them, in a group or between two. Whatever is
/// counted in a key is counted once, in both of its words, wherever it lies meanwhile.
#[test]
fn what_is_counted_while_keys_change_places_is_counted_once() {
    let hasher = Fingerprinter::new(&RandomState::new());
    let names: Vec<_> =
        (0..KEYS).map(|nth| hasher.of("l", Algorithm::Gcra, &nth.to_string())).collect();
    let land = Land::new(1, 100).unwrap();
    let groups = land.shard(0);
    let mut beside = Beside::new(3, false);
    for fingerprint in &names {
        let entry = Entry { fingerprint: *fingerprint, state: Packed::of_words([0, 0]) };
        groups.insert(&mut beside, entry, || (), |_| PLACE);
        groups.release(&mut beside);
    }
    let mutex = Mutex::new(beside);
    let [homes, aways] = [(); 2].map(|()| AtomicU64::new(0));
    let one_more = |state: Packed| {
        let [low, high] = state.words();
        assert_eq!(low, high);
        Packed::of_words([low + 1, high + 1])
    };
    // As a table does: at home, away, and under the mutex for who was on his way.
    let count = |name: Fingerprint, nth: usize| {
        let mut found = groups.hold_home(name, PLACE);
        if found.is_some() {
            homes.fetch_add(1, Ordering::Relaxed);
        } else {
            found = groups.hold_away(name, PLACE);
            aways.fetch_add(u64::from(found.is_some()), Ordering::Relaxed);
        }
        if let Some(held) = found {
            held.set_state(one_more(held.state()));
            drop(held);
        } else {
            let mut beside = mutex.lock().unwrap();
            let at = groups.find(name, PLACE).unwrap();
            let entry = groups.locked(&mut beside, at).unwrap();
            assert_eq!(entry.fingerprint, name);
            groups.set_state(&mut beside, at, one_more(entry.state));
            groups.release(&mut beside);
        }
        if nth.is_multiple_of(3) {
            let mut beside = mutex.lock().unwrap();
            groups.bring_home(&mut beside, name, |_| PLACE);
            groups.release(&mut beside);
        }
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (names, count) = (&names, &count);
            scope.spawn(move || {
                // Each in another order, so that they meet at every key.
                (0..EACH).for_each(|nth| count(names[(nth * (thread + 1) + thread) % KEYS], nth));
            });
        }
    });
    for name in &names {
        let at = groups.find(*name, PLACE).unwrap();
        let counted = groups.get(at).unwrap().state;
        assert_eq!(counted.words(), [(THREADS * EACH / KEYS) as u64; 2]);
    }
    for ways in [homes, aways] {
        assert!(ways.load(Ordering::Relaxed) > 0, "{ways:?}");
    }
}
