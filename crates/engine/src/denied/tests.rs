//! What is kept, for how long, for whom, and who gives way to whom.

use tollkeeper_core::{Rate, State};
use tollkeeper_testkit::dice::Dice;

use super::*;

const SECOND: u64 = 1_000_000;

fn denial(retry_after_us: Option<u64>) -> Answer {
    let outcome = Outcome {
        allowed: false,
        shadow: false,
        limit: 10,
        remaining: 0,
        retry_after_us,
        reset_after_us: 10 * SECOND,
        delay_us: 0,
        here: false,
    };
    Answer::one(500, false, outcome)
}

fn bucket() -> Quota {
    "10/s".parse::<tollkeeper_core::ShortLimit>().unwrap().quota(None).unwrap()
}

fn check<'a>(quota: &'a Quota, key: &'a str, cost: u64) -> [Check<'a>; 1] {
    [Check::new("api", quota, key, cost)]
}

fn found_at(denied: &Denied, checks: &[Check<'_>], now_us: u64) -> Option<Answer> {
    denied.find(checks, now_us, now_us)
}

#[test]
fn it_holds_until_just_before_its_retry_and_no_longer_than_it_may() {
    let quota = bucket();
    let asked = check(&quota, "a", 1);
    for (retry_us, most_us, holds_us) in [
        (Some(100_000), SECOND, 99_900),
        (Some(10 * SECOND), SECOND, SECOND),
        (None, SECOND, SECOND),
    ] {
        let denied = Denied::new();
        denied.learn(&asked, &denial(retry_us), 1_000, most_us, None);
        assert!(found_at(&denied, &asked, 1_000 + holds_us).is_none());
        let found = found_at(&denied, &asked, 999 + holds_us).unwrap();
        assert!(!found.allowed);
        assert_eq!(found.now_us, 500 + holds_us - 1);
        let retry = retry_us.map(|us| us - (holds_us - 1));
        assert_eq!(found.outcomes()[0].retry_after_us, retry);
        assert_eq!(found.outcomes()[0].reset_after_us, 10 * SECOND - (holds_us - 1));
    }
}

#[test]
fn it_holds_for_as_much_and_more_and_not_for_less() {
    let quota = bucket();
    let denied = Denied::new();
    denied.learn(&check(&quota, "a", 3), &denial(Some(200_000)), 1_000, SECOND, None);
    let retry = |cost| {
        Some(found_at(&denied, &check(&quota, "a", cost), 1_000)?.outcomes()[0].retry_after_us)
    };
    assert_eq!(retry(2), None);
    assert_eq!(retry(0), None);
    assert_eq!(retry(3), Some(Some(200_000)));
    assert_eq!(retry(5), Some(Some(400_000)));
    assert_eq!(retry(11), Some(None));
    assert!(found_at(&denied, &check(&quota, "b", 3), 1_000).is_none());
    // When the log has room for more only the store knows.
    let log = Quota::sliding_window_log(10, SECOND).unwrap();
    denied.learn(&check(&log, "a", 1), &denial(Some(200_000)), 1_000, SECOND, None);
    assert!(found_at(&denied, &check(&log, "a", 1), 1_000).is_some());
    assert!(found_at(&denied, &check(&log, "a", 2), 1_000).is_none());
}

/// It used to hold for those alone who meet the same limits, as if another limit could admit them.
#[test]
fn one_limit_that_denies_is_enough() {
    let quota = bucket();
    let denied = Denied::new();
    let [alone] = check(&quota, "a", 1);
    let other = Check { limit: "other", ..alone };
    denied.learn(&[alone], &denial(Some(200_000)), 1_000, SECOND, None);
    let told = found_at(&denied, &[other, alone], 51_000).unwrap();
    assert_eq!(told.outcomes()[0], Outcome::unknown(&other));
    assert_eq!(told.outcomes()[1].retry_after_us, Some(150_000));
    assert!(!told.allowed && told.charged_at_us.is_none());
    assert!(found_at(&denied, &[other], 1_000).is_none());
    assert!(found_at(&denied, &[Check { shadow: true, ..alone }], 1_000).is_none());
    // Whoever meets the same again hears of both.
    let full = Outcome { allowed: true, remaining: 7, ..denial(None).outcomes()[0] };
    let both = Answer::new(1_000, false, [full, denial(Some(200_000)).outcomes()[0]]);
    denied.learn(&[other, alone], &both, 2_000, SECOND, None);
    let told = found_at(&denied, &[other, alone], 2_000).unwrap();
    assert_eq!(told.outcomes()[0].remaining, 7);
}

/// Inline limits of one period share a state: who was denied by 10/s was denied by 1000/s too.
#[test]
fn it_is_of_the_quota_that_denied() {
    let (quota, wider) = (bucket(), Quota::fixed_window(1000, SECOND).unwrap());
    let narrow = Quota::fixed_window(10, SECOND).unwrap();
    let denied = Denied::new();
    denied.learn(&check(&narrow, "a", 1), &denial(Some(200_000)), 1_000, SECOND, None);
    assert!(found_at(&denied, &check(&narrow, "a", 1), 1_000).is_some());
    assert!(found_at(&denied, &check(&wider, "a", 1), 1_000).is_none());
    assert!(found_at(&denied, &check(&quota, "a", 1), 1_000).is_none());
}

#[test]
fn what_comes_back_at_any_moment_is_not_kept() {
    let permits = Quota::concurrency(10, SECOND).unwrap();
    let quota = bucket();
    let denied = Denied::new();
    denied.learn(&check(&permits, "a", 1), &denial(Some(200_000)), 1_000, SECOND, None);
    denied.learn(&check(&quota, "a", 1), &denial(Some(200_000)), 1_000, 0, None);
    assert_eq!(denied.count(), 0);
}

#[test]
fn what_was_asked_before_something_was_given_back_is_not_kept() {
    let quota = bucket();
    let asked = check(&quota, "a", 1);
    let denied = Denied::new();
    denied.learn(&asked, &denial(Some(200_000)), 1_000, SECOND, None);
    denied.forget("api", Algorithm::TokenBucket, "a", 2_000);
    assert!(found_at(&denied, &asked, 2_000).is_none());
    denied.learn(&asked, &denial(Some(200_000)), 2_000, SECOND, None);
    assert!(found_at(&denied, &asked, 2_001).is_none());
    denied.learn(&asked, &denial(Some(200_000)), 2_001, SECOND, None);
    assert!(found_at(&denied, &asked, 2_001).is_some());
    denied.forget_all(3_000);
    assert_eq!(denied.count(), 0);
}

/// A table full of denials that hold for a second, who has a place in it, and who has none.
fn full(quota: &Quota) -> (Denied, Vec<String>, Vec<String>) {
    let denied = Denied::new();
    let same = |key: &String| {
        let table = denied.table(&named(&check(quota, key, 1)[0]));
        std::ptr::eq(table, &raw const denied.tables[0])
    };
    let mut kept: Vec<String> =
        (0..).map(|nth| nth.to_string()).filter(same).take(MOST + 100).collect();
    let others = kept.split_off(MOST);
    for key in kept.iter().chain(&others) {
        denied.learn(&check(quota, key, 1), &denial(None), 0, SECOND, None);
    }
    assert!(kept.iter().all(|key| found_at(&denied, &check(quota, key, 1), 0).is_some()));
    assert_eq!(denied.count(), MOST);
    (denied, kept, others)
}

#[test]
fn it_is_bounded_and_what_has_passed_makes_room() {
    let quota = bucket();
    let (denied, _, others) = full(&quota);
    for (sent_us, kept) in [(SECOND - 1, 0), (SECOND, others.len())] {
        for key in &others {
            denied.learn(&check(&quota, key, 1), &denial(None), sent_us, SECOND, None);
        }
        let found =
            others.iter().filter_map(|key| found_at(&denied, &check(&quota, key, 1), sent_us));
        assert_eq!(found.count(), kept);
    }
}

/// A full table used to be looked through every 50 ms, and had no room meanwhile.
#[test]
fn one_that_has_passed_makes_room_at_once() {
    let quota = bucket();
    let (denied, kept, others) = full(&quota);
    denied.learn(&check(&quota, &kept[0], 1), &denial(Some(1_000)), 1, SECOND, None);
    for (now_us, found) in [(999, false), (1_000, true)] {
        denied.learn(&check(&quota, &others[0], 1), &denial(None), now_us, SECOND, None);
        assert_eq!(found_at(&denied, &check(&quota, &others[0], 1), now_us).is_some(), found);
    }
}

/// A full table used to have no room for who was in it.
#[test]
fn a_denial_is_renewed_where_nobody_else_finds_room() {
    let quota = bucket();
    let (denied, kept, _) = full(&quota);
    for key in &kept {
        denied.learn(&check(&quota, key, 1), &denial(None), 1, SECOND, None);
        assert!(found_at(&denied, &check(&quota, key, 1), SECOND).is_some());
    }
}

/// Where only the store knows a dearer request's retry, two costs used to take turns at it.
#[test]
fn a_dearer_denial_does_not_drive_out_a_cheaper_one() {
    let log = Quota::sliding_window_log(10, SECOND).unwrap();
    let denied = Denied::new();
    let holds = |cost, now_us| found_at(&denied, &check(&log, "a", cost), now_us).is_some();
    let learn = |cost, sent_us| {
        denied.learn(&check(&log, "a", cost), &denial(Some(200_000)), sent_us, SECOND, None);
    };
    learn(2, 1_000);
    learn(1, 1_001);
    learn(2, 1_002);
    assert!(holds(1, 1_002) && !holds(2, 1_002));
    // Unless it has passed.
    learn(2, 200_801);
    assert!(!holds(1, 200_801) && holds(2, 200_801));
}

#[test]
fn the_names_of_one_table_are_spread_over_it() {
    let (quota, denied) = (bucket(), Denied::new());
    let keys: Vec<String> = (0..10_000).map(|nth| nth.to_string()).collect();
    let names = keys.iter().map(|key| named(&check(&quota, key, 1)[0]));
    let first = |name: &Named<'_>| std::ptr::eq(denied.table(name), &raw const denied.tables[0]);
    let lowest = names.filter(first).map(|name| denied.hasher.hash_one(name) % 64);
    assert!(lowest.collect::<std::collections::HashSet<_>>().len() > 32);
}

/// What an admission tells of the next request is what that would be told by the store.
#[test]
fn an_admission_tells_the_next_what_the_store_would() {
    let mut dice = Dice::new(11);
    let (mut told, mut untold) = (0, 0);
    for _ in 0..20_000 {
        let (count, period_us) = (1 + dice.below(12), 1 + dice.below(2_000));
        let rate = Rate::new(count, period_us).unwrap();
        let capacity = 1 + dice.below(20);
        let quota = match dice.below(4) {
            0 => Quota::token_bucket(capacity, rate),
            1 => Quota::gcra(capacity, rate),
            2 => Quota::fixed_window(capacity, period_us),
            _ => Quota::sliding_window_counter(capacity, period_us),
        };
        let quota = quota.unwrap();
        let mut now_us = 1_700_000_000_000_000 + dice.below(10_000);
        let mut state = State::fresh(&quota, now_us);
        for _ in 0..20 {
            now_us += dice.below(period_us);
            let asked = check(&quota, "a", 1 + dice.below(capacity));
            let mut ask = || {
                let step = state.step(&quota, asked[0].cost, 0, now_us);
                let outcome = Outcome::of_step(&quota, &step, false);
                Answer::one(now_us, outcome.allowed, outcome)
            };
            let admitted = ask();
            if !admitted.allowed {
                continue;
            }
            let Some(denial) = next_denied(&asked, &admitted) else {
                untold += 1;
                continue;
            };
            told += 1;
            assert_eq!(denial, ask(), "{quota:?} {asked:?}");
        }
    }
    assert!(told > 20_000 && untold > 20_000, "{told} {untold}");
}
