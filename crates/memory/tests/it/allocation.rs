//! A known key is decided without allocating.

use allocation_counter::measure;
use tollkeeper_core::{Check, LeakMode, ManualClock, Quota, Rate, Request};
use tollkeeper_memory::{MemoryStore, Settings};

#[test]
fn a_known_key_is_decided_without_allocating() {
    let clock = ManualClock::at(1_700_000_000_000_000);
    let store = MemoryStore::new(Settings::default(), clock.clone());
    let rate = Rate::new(1000, 1_000_000).unwrap();
    let quotas = [
        Quota::token_bucket(10, rate).unwrap(),
        Quota::gcra(10, rate).unwrap(),
        Quota::leaking_bucket(10, rate, LeakMode::Shape, None).unwrap(),
        Quota::fixed_window(10, 1_000_000).unwrap(),
    ];
    let decide = || {
        let checks = quotas.iter().map(|quota| Check::new("api", quota, "alice", 1));
        let request = Request::new(checks, None).unwrap();
        store.decide_now(&request).unwrap().allowed
    };
    assert!(decide(), "the first call remembers the key");
    let mut allowed = 0;
    let allocations = measure(|| {
        for _ in 0..1000 {
            clock.advance(100);
            allowed += u32::from(decide());
        }
    });
    assert_eq!(allocations.count_total, 0);
    let check = Check::new("api", &quotas[0], "alice", 1);
    let allocations = measure(|| {
        for _ in 0..1000 {
            clock.advance(100);
            store.check_now(&check).unwrap();
        }
    });
    assert_eq!(allocations.count_total, 0);
    assert!((1..1000).contains(&allowed), "both answers were given: {allowed} admitted");
}
