//! Without the keys' text: the same decisions, and what can still be shown and forgotten.

use tollkeeper_core::{
    Algorithm, Amended, Amendment, Change, Check, Consistency, Filter, ManualClock, Quota, Rate,
    Request, Settled, Ticket,
};
use tollkeeper_memory::{MemoryStore, Settings};
use tollkeeper_testkit::ready::Ready;
use tollkeeper_testkit::suite;

type Store = MemoryStore<ManualClock>;

fn store(names: bool) -> Store {
    let clock = ManualClock::at(1_700_000_000_000_000);
    MemoryStore::new(Settings { names, ..Settings::default() }, clock)
}

fn quotas() -> [Quota; 3] {
    [
        Quota::token_bucket(10, Rate::new(10, 60_000_000).unwrap()).unwrap(),
        Quota::sliding_window_log(10, 60_000_000).unwrap(),
        // Too large a count to be packed.
        Quota::sliding_window_counter(1 << 32, 60_000_000).unwrap(),
    ]
}

fn fill(store: &Store) {
    for quota in &quotas() {
        for limit in ["one", "another"] {
            for key in ["alice", "bob", "carol"] {
                let check = Check::new(limit, quota, key, quota.limit() / 2);
                assert!(store.check_now(&check).unwrap().outcome.allowed);
            }
        }
    }
}

/// What is shown, in an order of its own.
fn shown(store: &Store, filter: Filter<'_>) -> Vec<(String, Algorithm, String, u64)> {
    let entries = store.inspect_now(filter, usize::MAX).into_iter();
    let mut shown: Vec<_> = entries.map(|e| (e.limit, e.algorithm, e.key, e.ttl_us)).collect();
    shown.sort();
    shown
}

#[test]
fn a_state_is_shown_to_who_names_its_key() {
    let (with, without) = (store(true), store(false));
    fill(&with);
    fill(&without);
    for limits in [None, Some(&["one"][..]), Some(&["one", "another"]), Some(&["none"])] {
        for key in ["alice", "nobody"] {
            let filter = Filter { limits, key: Some(key), ..Filter::default() };
            assert_eq!(shown(&with, filter), shown(&without, filter));
        }
        let all = Filter { limits, key: None, ..Filter::default() };
        assert_eq!(
            shown(&with, all).len(),
            limits.map_or(18, |limits| {
                9 * limits.iter().filter(|limit| **limit != "none").count()
            })
        );
        assert_eq!(shown(&without, all), []);
    }
    let state = |store: &Store| {
        let filter = Filter { limits: Some(&["one"]), key: Some("bob"), ..Filter::default() };
        let mut entries = store.inspect_now(filter, usize::MAX);
        entries.sort_by_key(|entry| entry.algorithm);
        entries
    };
    assert_eq!(state(&with), state(&without));
}

#[test]
fn any_filter_forgets_the_same() {
    for limits in [None, Some(&["one"][..]), Some(&["one", "none"])] {
        for key in [None, Some("alice"), Some("nobody")] {
            let (with, without) = (store(true), store(false));
            fill(&with);
            fill(&without);
            let filter = Filter { limits, key, ..Filter::default() };
            assert_eq!(with.reset_now(filter), without.reset_now(filter), "{filter:?}");
            assert_eq!(with.stats().keys, without.stats().keys);
            assert_eq!(without.reset_now(filter), 0);
        }
    }
}

/// Whoever is forgotten makes place for others, who once moved to where nobody looked any more: one in
/// hundreds of a full table's keys was still there after its limit had been reset.
#[test]
fn a_full_table_forgets_every_key_of_a_limit() {
    for names in [true, false] {
        let settings = Settings { names, max_keys: 8_000, ..Settings::default() };
        let store = MemoryStore::new(settings, ManualClock::at(1_700_000_000_000_000));
        let [quota, ..] = quotas();
        for nth in 0..3_500 {
            for limit in ["one", "another"] {
                let key = format!("key {nth}");
                let check = Check::new(limit, &quota, &key, 1);
                assert!(store.check_now(&check).unwrap().outcome.allowed);
            }
        }
        let one = Filter { limits: Some(&["one"]), ..Filter::default() };
        assert_eq!(store.reset_now(one), 3_500);
        assert_eq!(store.reset_now(one), 0);
        assert_eq!(store.reset_now(Filter::default()), 3_500);
        assert_eq!(store.stats().keys, 0);
    }
}

#[test]
fn a_reservation_is_settled_without_names() {
    let store = store(false);
    let [quota, ..] = quotas();
    let check = Check::new("one", &quota, "alice", 5);
    let ticket = Ticket { id: 7, reserve_for_us: Some(1_000_000) };
    store.decide_now(&Request::new([check], Some(ticket)).unwrap()).unwrap();
    let settle = Change::Settle { id: 7, actual: 2 };
    let settle = Amendment {
        limit: "one",
        quota: &quota,
        key: "alice",
        change: settle,
        consistency: Consistency::Exact,
    };
    let ended = Settled { forgiven: 0, reserved: 5, age_us: 0 };
    assert_eq!(store.amend_now(&settle), Amended::Settled(ended));
    assert_eq!(store.amend_now(&settle), Amended::Repeated);
    let look = Check { cost: 0, ..check };
    assert_eq!(store.check_now(&look).unwrap().outcome.remaining, 8);
}

#[test]
fn names_longer_than_any_are_nobodys() {
    let store = store(false);
    let [quota, ..] = quotas();
    let long = "k".repeat(5_000);
    for (limit, key) in [("one", &*long), (&*long, "alice")] {
        let change = Change::LeaveAtMost { units: 1 };
        let amendment =
            Amendment { limit, quota: &quota, key, change, consistency: Consistency::Exact };
        assert_eq!(store.amend_now(&amendment), Amended::Unknown);
        let check = Check::new(limit, &quota, key, 1);
        assert!(store.check_now(&check).is_err());
    }
    assert_eq!(store.stats().keys, 0);
}

#[test]
fn a_store_without_names_conforms() {
    let settings = Settings { names: false, ..Settings::default() };
    let harness = Ready::new(|clock| MemoryStore::new(settings, clock));
    if let Err(failures) = suite::run(&harness, 20) {
        panic!("{failures}");
    }
}
