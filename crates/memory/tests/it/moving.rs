//! Keys are decided without the mutex under which others come, go and move: nothing is counted twice
//! and nothing is lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tollkeeper_core::{Check, Filter, Quota, Rate, Request};
use tollkeeper_memory::{MemoryStore, Settings, SystemClock};

const THREADS: u64 = 3;
const EACH: u64 = 8_000;
const HOT: [&str; 4] = ["a", "b", "c", "d"];

fn store() -> MemoryStore {
    let settings = Settings { max_keys: 50_000, names: false, ..Settings::default() };
    MemoryStore::new(settings, SystemClock::new())
}

/// So many at once, and hardly any after that.
fn at_once(count: u64) -> Quota {
    Quota::token_bucket(count, Rate::new(1, 3_600_000_000).unwrap()).unwrap()
}

/// Adds keys, which makes the table grow and others move, and takes them away again.
fn come_and_go(store: &MemoryStore, done: impl Fn() -> bool) {
    let quota = at_once(10);
    let flood = Filter { limits: Some(&["flood"]), key: None, ..Filter::default() };
    for nth in 0.. {
        if done() {
            break;
        }
        let key = format!("{nth}");
        let check = Check::new("flood", &quota, &key, 1);
        assert!(store.check_now(&check).unwrap().outcome.allowed);
        if nth % 20_000 == 19_999 {
            assert!(store.reset_now(flood) > 0);
        }
    }
}

#[test]
fn every_unit_is_counted_once_while_others_move() {
    let store = store();
    let quotas = [at_once(20_000), Quota::fixed_window(20_000, 400 * 86_400 * 1_000_000).unwrap()];
    let left = AtomicU64::new(THREADS);
    let admitted: Vec<AtomicU64> = (0..HOT.len() * 2).map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for nth in 0..EACH * admitted.len() as u64 {
                    let at = usize::try_from(nth).unwrap() % admitted.len();
                    let (key, quota) = (HOT[at / 2], &quotas[at % 2]);
                    let check = Check::new("hot", quota, key, 1);
                    let allowed = store.check_now(&check).unwrap().outcome.allowed;
                    admitted[at].fetch_add(u64::from(allowed), Ordering::Relaxed);
                }
                left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| come_and_go(&store, || left.load(Ordering::Relaxed) == 0));
    });
    const { assert!(THREADS * EACH > 20_000, "more are asked for than there are") };
    let admitted: Vec<u64> = admitted.into_iter().map(AtomicU64::into_inner).collect();
    assert_eq!(admitted, [20_000; HOT.len() * 2]);
}

#[test]
fn two_limits_are_charged_together_beside_one_alone() {
    let store = store();
    let (wide, narrow) = (at_once(100_000), at_once(5_000));
    let left = AtomicU64::new(2 * THREADS);
    let (both, alone) = (AtomicU64::new(0), AtomicU64::new(0));
    let check = |limit, quota| Check::new(limit, quota, "a", 1);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let checks = [check("wide", &wide), check("narrow", &narrow)];
                    let request = Request::new(checks, None).unwrap();
                    let allowed = store.decide_now(&request).unwrap().allowed;
                    both.fetch_add(u64::from(allowed), Ordering::Relaxed);
                }
                left.fetch_sub(1, Ordering::Relaxed);
            });
            scope.spawn(|| {
                for _ in 0..EACH {
                    let allowed = store.check_now(&check("wide", &wide)).unwrap().outcome.allowed;
                    alone.fetch_add(u64::from(allowed), Ordering::Relaxed);
                }
                left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| come_and_go(&store, || left.load(Ordering::Relaxed) == 0));
    });
    assert_eq!((both.into_inner(), alone.into_inner()), (5_000, THREADS * EACH));
    let look = Check { cost: 0, ..check("wide", &wide) };
    let remaining = store.check_now(&look).unwrap().outcome.remaining;
    assert_eq!(remaining, 100_000 - 5_000 - THREADS * EACH);
}
