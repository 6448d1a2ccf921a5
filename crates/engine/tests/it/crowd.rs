//! Many callers at once on limits in two parts: nobody is admitted beyond a limit, at most what is
//! under way is denied wrongly, and afterwards no charge is left that nobody was admitted for.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tollkeeper_core::{Check, LeakMode, ManualClock, Quota, Rate, Request, Store, Ticket};
use tollkeeper_engine::Whole;
use tollkeeper_memory::{MemoryStore, Settings};
use tollkeeper_testkit::parted::Parted;

use crate::kit::{Memory, ready};

const CALLERS: u64 = 64;
const EACH: u64 = 40;
const DAY_US: u64 = 86_400_000_000;

fn quotas(limit: u64) -> Vec<Quota> {
    let rate = Rate::new(1, DAY_US).unwrap();
    vec![
        Quota::token_bucket(limit, rate).unwrap(),
        Quota::gcra(limit, rate).unwrap(),
        Quota::leaking_bucket(limit, rate, LeakMode::Shape, None).unwrap(),
        Quota::fixed_window(limit, DAY_US).unwrap(),
        Quota::sliding_window_log(limit, DAY_US).unwrap(),
        Quota::sliding_window_counter(limit, DAY_US).unwrap(),
        Quota::concurrency(limit, DAY_US).unwrap(),
    ]
}

/// How many of the callers' requests are admitted that meet `wide` and `narrow`, and what is left
/// of both.
fn storm(wide: &Quota, narrow: &Quota, keys: [&str; 2], cost: u64) -> (u64, [u64; 2]) {
    let clock = ManualClock::at(1_700_000_000_000_000);
    let memory = || -> Memory { MemoryStore::new(Settings::default(), clock.clone()) };
    let store = Whole(Parted::new(vec![memory(), memory()]));
    assert_ne!(store.0.part(keys[0]), store.0.part(keys[1]));
    let ask = |id: u128, costs: [u64; 2]| {
        let check = |(quota, (key, cost))| Check::new("l", quota, key, cost);
        let mut checks: Vec<_> =
            [wide, narrow].into_iter().zip(keys.into_iter().zip(costs)).map(check).collect();
        // In either order.
        checks.rotate_left(usize::from(id.is_multiple_of(2)));
        let ticket = Some(Ticket { id, reserve_for_us: None });
        let request = Request::new(checks, ticket).unwrap();
        let answer = ready(store.decide(&[request])).remove(0).unwrap();
        let mut left: Vec<u64> = answer.outcomes().iter().map(|o| o.remaining).collect();
        left.rotate_left(usize::from(id.is_multiple_of(2)));
        (answer.allowed, [left[0], left[1]])
    };
    let (gate, admitted) = (Barrier::new(64), AtomicU64::new(0));
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (gate, admitted, ask) = (&gate, &admitted, &ask);
            scope.spawn(move || {
                gate.wait();
                for nth in 1..=EACH {
                    let (allowed, _) = ask(u128::from(caller * EACH + nth), [cost, cost]);
                    admitted.fetch_add(u64::from(allowed), Ordering::SeqCst);
                }
            });
        }
    });
    (admitted.into_inner(), ask(1 << 64 | 1, [0, 0]).1)
}

#[test]
fn limits_on_two_shards_admit_the_limit_less_what_was_under_way_and_nothing_leaks() {
    for wide in quotas(1000) {
        for (narrow, cost) in quotas(100).into_iter().zip([1, 2, 3].into_iter().cycle()) {
            for keys in [["a", "b"], ["a", "c"]] {
                let (admitted, left) = storm(&wide, &narrow, keys, cost);
                let told = format!("{wide:?} {narrow:?} {keys:?}: {admitted} of cost {cost}");
                let most = 100 / cost;
                assert!(admitted <= most, "{told}");
                assert!(admitted + CALLERS > most, "{told}");
                assert_eq!(left, [1000 - admitted * cost, 100 - admitted * cost], "{told}");
            }
        }
    }
}
