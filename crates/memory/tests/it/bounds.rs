//! The table's bounds: how many keys, what a full table does, and what a flood costs.

use tollkeeper_core::limits::{MAX_KEY_BYTES, MAX_NAME_BYTES, MAX_PART_BYTES};
use tollkeeper_core::{
    Answer, Check, Consistency, Filter, ManualClock, Quota, Ran, Rate, Request, Store as _, Ticket,
    WhenFull,
};
use tollkeeper_memory::{MemoryStore, Settings};

type Store = MemoryStore<ManualClock>;

fn store(max_keys: usize, when_full: WhenFull) -> (Store, ManualClock) {
    let clock = ManualClock::at(1_700_000_000_000_000);
    (
        MemoryStore::new(Settings { max_keys, when_full, ..Settings::default() }, clock.clone()),
        clock,
    )
}

fn per_minute(count: u64) -> Quota {
    Quota::token_bucket(count, Rate::new(count, 60_000_000).unwrap()).unwrap()
}

fn ask(store: &Store, quota: &Quota, key: &str, cost: u64) -> Answer {
    let check = Check::new("api", quota, key, cost);
    store.decide_now(&Request::new([check], None).unwrap()).unwrap()
}

fn keys(store: &Store) -> usize {
    store.inspect_now(Filter::default(), usize::MAX).len()
}

#[test]
fn a_full_table_evicts_the_entry_nearest_to_being_as_new() {
    let (store, _) = store(10, WhenFull::Evict);
    let quota = per_minute(100);
    // Ten keys that owe from 10 to 100 tokens; a sample of 8 misses some.
    for nth in 1..=10u64 {
        ask(&store, &quota, &format!("key {nth}"), 10 * nth);
    }
    for nth in 0..50 {
        ask(&store, &quota, &format!("new {nth}"), 1);
        assert_eq!(keys(&store), 10);
    }
    assert_eq!(store.stats().evicted, 50);
    // The one that owes most is still at its limit.
    assert!(!ask(&store, &quota, "key 10", 1).allowed);
}

#[test]
fn a_full_table_that_denies_denies_new_keys_alone() {
    let (store, clock) = store(3, WhenFull::Deny);
    let quota = per_minute(60);
    for key in ["a", "b", "c"] {
        assert!(ask(&store, &quota, key, 1).allowed);
    }
    let denied = ask(&store, &quota, "d", 1);
    assert!(!denied.allowed);
    // A second refills one token, which is when a place comes free.
    assert_eq!(denied.outcomes()[0].retry_after_us, Some(1_000_000));
    assert!(ask(&store, &quota, "a", 1).allowed, "a known key is decided as ever");
    assert!(ask(&store, &quota, "e", 0).allowed, "a look needs no place");
    assert_eq!((keys(&store), store.stats().denied_full), (3, 1));

    clock.advance(2_000_000);
    assert!(ask(&store, &quota, "d", 1).allowed, "what has expired makes room");
}

#[test]
fn a_full_table_that_allows_forgets_new_keys() {
    let (store, _) = store(1, WhenFull::Allow);
    let quota = per_minute(1);
    assert!(ask(&store, &quota, "a", 1).allowed);
    for _ in 0..5 {
        let answer = ask(&store, &quota, "b", 1);
        assert!(answer.allowed && answer.charged_at_us.is_none());
    }
    assert!(!ask(&store, &quota, "a", 1).allowed, "a known key is decided as ever");
    assert_eq!((keys(&store), store.stats().allowed_full), (1, 5));
}

#[test]
fn a_denial_for_want_of_room_charges_nothing_and_takes_no_place() {
    let (store, _) = store(2, WhenFull::Deny);
    let quota = per_minute(10);
    ask(&store, &quota, "known", 1);
    let check = |key| Check::new("api", &quota, key, 1);
    // Needs two places where there is one.
    let request = Request::new(["known", "x", "y"].map(check), None).unwrap();
    assert!(!store.decide_now(&request).unwrap().allowed);
    assert_eq!(ask(&store, &quota, "known", 0).outcomes()[0].remaining, 9);
    assert!(ask(&store, &quota, "z", 1).allowed, "the place is free again");
}

#[test]
fn reservations_are_bounded_and_a_refused_one_charges_nothing() {
    let (store, clock) = store(2, WhenFull::Evict);
    let quota = per_minute(10);
    let reserve = |id: u128| {
        let check = Check::new("api", &quota, "a", 1);
        let ticket = Ticket { id, reserve_for_us: Some(1_000_000) };
        store.decide_now(&Request::new([check], Some(ticket)).unwrap())
    };
    assert!(reserve(1).is_ok() && reserve(2).is_ok());
    let error = reserve(3).unwrap_err();
    assert_eq!(error.ran(), tollkeeper_core::Ran::No);
    assert_eq!(error.to_string(), "all 2 places for reservations are taken");
    assert_eq!(ask(&store, &quota, "a", 0).outcomes()[0].remaining, 8);
    clock.advance(1_000_000);
    // Sweeping is a few entries a call.
    (0..40).for_each(|_| drop(ask(&store, &quota, "a", 0)));
    assert!(reserve(4).is_ok());
}

/// They were swept as seldom as keys are, though each is made anew: after a while all places were
/// taken, nearly all of them by those that had expired.
#[test]
fn reservations_that_have_expired_make_room_for_as_many_new_ones() {
    let (store, clock) = store(1_000, WhenFull::Evict);
    let quota = per_minute(1_000_000_000);
    // 100 live at a time, and ten times as many places.
    for id in 0..20_000u128 {
        let check = Check::new("api", &quota, "a", 1);
        let ticket = Ticket { id, reserve_for_us: Some(100_000) };
        let reserved = store.decide_now(&Request::new([check], Some(ticket)).unwrap());
        assert!(reserved.is_ok(), "{id}: {reserved:?}");
        clock.advance(1_000);
    }
}

#[test]
fn idle_keys_are_swept_by_ordinary_calls() {
    let (store, clock) = store(1_000_000, WhenFull::Evict);
    let quota = per_minute(60);
    for nth in 0..10_000 {
        ask(&store, &quota, &format!("idle {nth}"), 1);
    }
    clock.advance(3_600_000_000);
    for nth in 0..60_000 {
        ask(&store, &quota, &format!("busy {}", nth % 500), 1);
    }
    assert!(store.stats().keys <= 600, "{:?}", store.stats());
}

#[test]
fn ten_million_keys_flood_in_and_a_key_at_its_limit_stays_denied() {
    let (store, clock) = store(1_000_000, WhenFull::Evict);
    let quota = per_minute(100);
    assert!(ask(&store, &quota, "victim", 100).allowed);
    let mut key = String::new();
    let mut flood = |numbers: std::ops::Range<u64>| {
        for nth in numbers {
            use std::fmt::Write;
            key.clear();
            write!(key, "flood:{nth}").unwrap();
            assert!(ask(&store, &quota, &key, 1).allowed);
            if nth % 100_000 == 0 {
                clock.advance(1);
                assert!(!ask(&store, &quota, "victim", 1).allowed, "after {nth} others");
            }
        }
    };
    flood(0..2_000_000);
    // Where entries lie was asked for at the start. All else is asked for by this thread, whatever others do.
    let grown = allocation_counter::measure(|| flood(2_000_000..10_000_000)).bytes_current;
    let stats = store.stats();
    assert!(stats.keys <= 1_000_000 && stats.evicted >= 8_900_000, "{stats:?}");
    assert!(grown < 1 << 20, "{grown} bytes more after ten million keys than after two");
}

#[test]
fn a_limit_by_itself_is_decided_as_in_a_request() {
    let ((one, one_clock), (other, other_clock)) =
        (store(100, WhenFull::Evict), store(100, WhenFull::Evict));
    let quota = per_minute(3);
    for step in 0..40u64 {
        let key = if step % 3 == 0 { "a" } else { "b" };
        let check = Check {
            limit: "api",
            quota: &quota,
            key,
            cost: step % 4,
            shadow: step % 7 == 0,
            consistency: Consistency::Exact,
        };
        let alone = one.check_at_once(&check).unwrap().unwrap();
        let asked = other.decide_now(&Request::new([check], None).unwrap()).unwrap();
        assert_eq!(alone.decision(), asked.fold().unwrap());
        assert_eq!(alone.answer(), asked);
        one_clock.advance(5_000_000);
        other_clock.advance(5_000_000);
    }
    let permits = Quota::concurrency(1, 1).unwrap();
    let check = Check::new("api", &permits, "a", 1);
    assert!(one.check_now(&check).is_err(), "permits need a name");
    let empty = Check::new("api", &quota, "", 1);
    assert!(one.check_now(&empty).is_err());
}

/// A clock of a machine whose processors differ by a little.
#[derive(Debug)]
struct Uneven(std::sync::Mutex<Vec<u64>>);

impl tollkeeper_core::Clock for Uneven {
    fn now_us(&self) -> u64 {
        self.0.lock().unwrap().pop().unwrap()
    }

    fn may_step_back(&self) -> bool {
        false
    }
}

#[test]
fn a_reading_before_another_threads_does_not_drain_twice() {
    // A token a microsecond, all ten taken. Of the readings each comes after the one before, but the
    // second and fourth are a little old.
    let readings = vec![1_002, 1_000, 1_002, 999, 1_000];
    let store = MemoryStore::new(Settings::default(), Uneven(readings.into()));
    let quota = Quota::token_bucket(10, Rate::new(1, 1).unwrap()).unwrap();
    let check = Check::new("api", &quota, "hot", 10);
    let seen = |cost| {
        let checked = store.check_now(&Check { cost, ..check }).unwrap();
        (checked.now_us, checked.outcome.remaining)
    };
    // The first goes the long way, since the key is new.
    assert_eq!(seen(10), (1_000, 0));
    assert_eq!(seen(1), (1_000, 0));
    assert_eq!(seen(2), (1_002, 0));
    let both = [check, Check { limit: "other", ..check }].map(|check| Check { cost: 1, ..check });
    let answer = store.decide_now(&Request::new(both, None).unwrap()).unwrap();
    // Two limits may lie in two shards, and the request in the later of their times.
    assert_eq!((answer.now_us, answer.outcomes()[0].remaining), (1_002, 0));
    assert_eq!(seen(0), (1_002, 0));
}

/// A sample had been of as many entries as there were behind a random place. So nothing filled up what had
/// become sparse by chance; in one table of twenty, a flood of ten times its keys made a part so sparse
/// that a sample had nobody to choose but a key at its limit, or nobody at all.
#[test]
fn however_long_a_flood_lasts_a_sample_has_somebody_better_to_choose() {
    let quota = per_minute(100);
    for table in 0..100 {
        let (store, _) = store(1_000, WhenFull::Evict);
        assert!(ask(&store, &quota, "victim", 100).allowed);
        for nth in 0..10_000 {
            assert!(ask(&store, &quota, &format!("flood:{nth}"), 1).allowed);
        }
        assert!(!ask(&store, &quota, "victim", 1).allowed, "table {table}");
        assert_eq!(store.stats().allowed_full, 0, "table {table}");
    }
}

/// A part's key used to be found by nobody, so that everybody was admitted and kept once more.
#[test]
fn a_part_of_the_longest_key_is_counted_and_what_is_longer_is_refused() {
    let (store, _) = store(100, WhenFull::Evict);
    let quota = per_minute(1);
    let (key, name) = ("k".repeat(MAX_KEY_BYTES + MAX_PART_BYTES), "l".repeat(MAX_NAME_BYTES + 1));
    let ask = |limit, checks| {
        let long = Check::new(limit, &quota, &key, 1);
        let checks = [long, Check::new("api", &quota, "other", 1)].into_iter().take(checks);
        store.decide_now(&Request::of_parts(checks, None).unwrap())
    };
    assert!(ask(&name[1..], 1).unwrap().allowed);
    for checks in [1, 2] {
        assert!(!ask(&name[1..], checks).unwrap().allowed);
        assert_eq!(ask(&name, checks).unwrap_err().ran(), Ran::No);
    }
    assert_eq!(store.stats().keys, 1);
}

/// Sixteen thousand limits have a row, for ever. What comes after them has none, and lies elsewhere.
#[test]
fn a_limit_that_comes_after_a_flood_of_others_is_counted_as_exactly() {
    let (store, clock) = store(100_000, WhenFull::Evict);
    for nth in 0..60_000 {
        let quota = Quota::fixed_window(1, 1_000_000 + nth).unwrap();
        let name = format!("limit {nth}");
        let check = Check::new(&name, &quota, "a", 1);
        assert!(store.check_now(&check).is_ok());
    }
    let (quota, same) = (per_minute(3), Quota::fixed_window(3, 60_000_000).unwrap());
    for _ in 0..3 {
        for quota in [&quota, &same] {
            for left in [2, 1, 0] {
                let answer = ask(&store, quota, "alice", 1);
                assert_eq!((answer.allowed, answer.outcomes()[0].remaining), (true, left));
            }
            assert!(!ask(&store, quota, "alice", 1).allowed);
        }
        assert_eq!(ask(&store, &quota, "alice", 1).outcomes()[0].retry_after_us, Some(20_000_000));
        let api = Filter { limits: Some(&["api"]), ..Filter::default() };
        assert_eq!(store.inspect_now(api, 10).len(), 2);
        clock.advance(60_000_000);
        assert_eq!(store.inspect_now(api, 10).len(), 0, "they have expired");
    }
}
