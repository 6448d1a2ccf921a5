//! What is kept of a key: read back from elsewhere, read with the wrong quota, grown old.

use crate::common::starts;
use crate::common::{
    Key, SECOND_US, START_US, amounts, asks, config, histories, one_of_each, quotas,
};
use proptest::prelude::*;
use tollkeeper_core::algorithm::concurrency::{Lease, Leases};
use tollkeeper_core::algorithm::fixed_window::WindowCount;
use tollkeeper_core::algorithm::gcra::arrival_us;
use tollkeeper_core::algorithm::sliding_window_log::{Log, LogEntry};
use tollkeeper_core::{Admission, Algorithm, Quota, Rate, State};

/// A state read back from elsewhere: the sum of a log is its entries', and leases come in any order.
#[test]
fn a_restored_state_is_the_one_that_was_kept() {
    let [.., permits] = one_of_each(9, SECOND_US);
    let mut key = Key::new(permits, START_US);
    for cost in 1..=3 {
        assert!(key.ask(cost).is_yes());
        key.now_us += 7;
    }
    let State::Leases(held) = &key.state else { unreachable!() };
    let mut newest_first: Vec<Lease> = held.leases().copied().collect();
    newest_first.reverse();
    assert_eq!(&Leases::new(newest_first), held.as_ref());

    let log = Quota::sliding_window_log(9, 100).unwrap();
    let entries = [(10, 1), (20, 2), (30, 3)].map(|(time_us, units)| LogEntry { time_us, units });
    let key = Key { state: State::Log(Box::new(Log::new(entries.into()))), ..Key::new(log, 109) };
    assert_eq!([0, 1, 11, 21].map(|us| key.later(us).remaining()), [3, 4, 6, 9]);
    assert_eq!(key.look(5), Admission::after(11));
}

/// The short way through a single limit does what its parts do.
#[test]
fn a_step_is_the_sum_of_its_parts() {
    for algorithm in Algorithm::ALL {
        let back_us = prop_oneof![Just(0), 0..100u64, 0..START_US];
        let inputs = (quotas(algorithm), histories(), amounts(120), back_us);
        proptest!(config(1_000), |((quota, steps, cost, back_us) in inputs)| {
            let mut key = Key::lived(quota, START_US, &steps);
            key.now_us -= back_us;
            let cost = cost.of(key.limit());
            let mut state = key.state.clone();
            let step = state.step(&quota, cost, key.permits + 1, key.now_us);
            let before = key.state.clone();
            prop_assert_eq!(step.admission, key.ask(cost));
            prop_assert_eq!(&state, &key.state);
            prop_assert_eq!(step.remaining, key.remaining());
            prop_assert_eq!(step.reset_after_us, key.reset_after_us());
            prop_assert_eq!(step.written, state != before);
        });
    }
}

/// A window from however far ahead is now's.
#[test]
fn a_window_of_the_far_future_counts_now() {
    let quota = Quota::fixed_window(5, 1_000).unwrap();
    for (window, size_us) in [(1 << 60, 1 << 10), (u64::MAX / 1_000 - 1, 1_000), (1 << 62, 12)] {
        let state = State::Count(WindowCount { window, size_us, count: 3 });
        let mut key = Key { state, ..Key::new(quota, START_US) };
        assert_eq!(key.remaining(), 2);
        assert_eq!(key.ask(3), Admission::after(1_000 - START_US % 1_000));
        assert_eq!(key.later(1_000).remaining(), 5);
    }
}

/// What has left the window goes with the next charge, so that no log grows for ever.
#[test]
fn a_log_keeps_no_more_than_its_window() {
    let inputs = (quotas(Algorithm::SlidingWindowLog), starts(), asks());
    proptest!(config(1_000), |((quota, start_us, steps) in inputs)| {
        let Quota::SlidingWindowLog(window) = quota else { unreachable!() };
        let mut key = Key::new(quota, start_us);
        for step in &steps {
            let entries_before = key.state.clone();
            key.live(step);
            let State::Log(log) = &key.state else { unreachable!() };
            if key.state == entries_before {
                continue;
            }
            prop_assert!(log.entries().all(|e| e.time_us + window.size_us() > key.now_us));
            prop_assert!(log.entries().map(|e| e.units).sum::<u64>() <= key.limit());
        }
    });
}

/// One entry for each moment, however many are admitted at it.
#[test]
fn a_log_has_one_entry_for_each_moment() {
    let quota = Quota::sliding_window_log(100, 1_000).unwrap();
    let mut key = Key::new(quota, 5_000);
    assert_eq!(key.flood(1), 100);
    let State::Log(log) = &key.state else { unreachable!() };
    assert_eq!(log.entries().collect::<Vec<_>>(), [&LogEntry { time_us: 5_000, units: 100 }]);
}

/// The debt read as a time: when it will have drained, rounded up.
#[test]
fn the_theoretical_arrival_is_when_the_debt_has_drained() {
    let quota = Quota::gcra(10, Rate::new(3, 10).unwrap()).unwrap();
    let (mut key, Quota::Gcra(bucket)) = (Key::new(quota, START_US), quota) else { unreachable!() };
    let arrival = |key: &Key| match &key.state {
        State::Debt(debt) => arrival_us(&bucket, debt) - START_US,
        _ => unreachable!(),
    };
    assert_eq!(arrival(&key), 0);
    assert!(key.ask(4).is_yes());
    assert_eq!(arrival(&key), 14);
    key.now_us += 5;
    // A denial moves nothing.
    assert!(!key.ask(9).is_yes());
    assert_eq!(arrival(&key), 14);
    assert!(key.ask(2).is_yes());
    assert_eq!(arrival(&key), 20);
}

/// Another algorithm is another key, so a state says which quotas it can be read with.
#[test]
fn a_state_fits_its_own_algorithm_alone() {
    for (nth, quota) in one_of_each(3, SECOND_US).iter().enumerate() {
        let state = State::fresh(quota, START_US);
        let fits = one_of_each(3, SECOND_US).map(|other| state.fits(&other));
        // The three buckets keep the same numbers; that they are apart is the store's business.
        let expected = std::array::from_fn(|other| other == nth || (other < 3 && nth < 3));
        assert_eq!(fits, expected, "{quota:?}");
    }
}

/// A debt under a window's quota frees nothing.
#[test]
fn a_mixed_up_debt_has_nothing_left() {
    let [tokens, _, _, windows @ .., _] = one_of_each(3, SECOND_US);
    for quota in windows {
        let mut state = State::fresh(&tokens, START_US);
        assert_eq!((state.remaining(&quota, 0), state.reset_after_us(&quota, 0)), (0, 0));
        assert!(!state.anchor(&quota, 0));
        assert_eq!(state.overcharge(&quota, 7, 0), 7);
        assert_eq!(state, State::fresh(&tokens, START_US));
    }
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "is of another algorithm")]
fn a_mixed_up_key_is_noticed() {
    let [tokens, _, _, window, ..] = one_of_each(3, SECOND_US);
    State::fresh(&window, START_US).charge(&tokens, 1, 0, START_US);
}
