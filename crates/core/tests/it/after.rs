//! What may follow a charge: a refund, or excess that is settled. See `permits.rs` for permits.

use crate::common;
use crate::common::{Key, START_US, amounts, bucket_of, config, debt_of, histories, quotas};
use crate::common::{SECOND_US, one_of_each, starts, window_of};
use proptest::prelude::*;
use tollkeeper_core::algorithm::sliding_window_log::{Log, LogEntry};
use tollkeeper_core::limits::EXACT;
use tollkeeper_core::{Algorithm, Quota, Rate, State};

/// Those that have units to give back; permits are released instead.
fn with_units() -> impl Iterator<Item = Algorithm> {
    Algorithm::ALL.into_iter().filter(|algorithm| *algorithm != Algorithm::Concurrency)
}

/// The units that the state's own bound is about: the debt in token·P, or the count.
fn held(key: &Key) -> u64 {
    match &key.state {
        State::Count(count) => count.count,
        State::Pair(pair) => pair.current,
        State::Log(log) => log.entries().map(|entry| entry.units).sum(),
        _ => debt_of(key).unwrap(),
    }
}

/// What one unit is in terms of [`held`].
fn unit(quota: &Quota) -> u64 {
    bucket_of(quota).map_or(1, |bucket| bucket.unit())
}

#[test]
fn a_refund_gives_back_no_more_than_it_says_and_never_above_the_limit() {
    for algorithm in with_units() {
        let age = proptest::option::of(amounts(150));
        let inputs = (quotas(algorithm), starts(), histories(), amounts(250), age);
        proptest!(config(1_000), |((quota, start_us, steps, units, age) in inputs)| {
            let key = Key::lived(quota, start_us, &steps);
            let units = units.of(key.limit());
            let at_us = age.map(|age| key.now_us.saturating_sub(age.of(key.reset_after_us())));
            let mut after = key.clone();
            after.state.refund(&quota, units, at_us, key.now_us);
            prop_assert!(after.remaining() >= key.remaining());
            prop_assert!(after.remaining() <= key.limit());
            prop_assert!(after.reset_after_us() <= key.reset_after_us());
            // What the estimate of a sliding counter rounds away may come back with it.
            let rounded = u64::from(algorithm == Algorithm::SlidingWindowCounter);
            prop_assert!(after.remaining() <= key.remaining() + units + rounded);
        });
    }
}

/// A charge taken back at once leaves no trace; taken back later it leaves no more than if it had
/// never been.
#[test]
fn a_refunded_charge_never_leaves_more_than_none() {
    for algorithm in with_units() {
        let inputs = (quotas(algorithm), starts(), histories(), amounts(100), amounts(150));
        proptest!(config(1_000), |((quota, start_us, steps, units, age) in inputs)| {
            let without = Key::lived(quota, start_us, &steps);
            let units = units.of(without.remaining());
            let mut with = without.clone();
            if !with.ask(units).is_yes() {
                return Ok(());
            }
            let age_us = age.of(with.reset_after_us());
            let at_us = with.now_us;

            let mut at_once = with.clone();
            at_once.state.refund(&quota, units, Some(at_us), at_us);
            prop_assert_eq!(debt_of(&at_once), debt_of(&without));
            prop_assert_eq!(at_once.remaining(), without.remaining());
            prop_assert_eq!(at_once.reset_after_us(), without.reset_after_us());

            let mut later = with.later(age_us);
            later.state.refund(&quota, units, Some(at_us), later.now_us);
            prop_assert!(later.remaining() <= without.later(age_us).remaining());
        });
    }
}

/// A bucket gives back what has not drained since: max(0, n·P − R·age), to the microsecond.
#[test]
fn a_bucket_gives_back_what_has_not_drained_by_itself() {
    let rate = Rate::new(3, 10).unwrap();
    for quota in common::buckets(20, rate) {
        // The 8 units are a debt of 80, which has drained after 27 µs.
        for (age_us, owed) in [(0, 120), (1, 120), (26, 120), (27, 119), (40, 80), (67, 0)] {
            let mut key = Key::new(quota, START_US);
            assert!(key.ask(20).is_yes());
            key.now_us += age_us;
            key.state.refund(&quota, 8, Some(START_US), key.now_us);
            assert_eq!(debt_of(&key), Some(owed), "after {age_us} µs");
        }
        let mut key = Key::new(quota, START_US);
        assert!(key.ask(20).is_yes());
        key.state.refund(&quota, u64::MAX, None, START_US);
        assert_eq!(debt_of(&key), Some(0));
    }
}

/// Where the time is not known all of it comes back, unit for unit, of the newest first.
#[test]
fn a_plain_refund_gives_back_what_it_says() {
    for algorithm in with_units() {
        let inputs = (quotas(algorithm), starts(), histories(), amounts(250));
        proptest!(config(1_000), |((quota, start_us, steps, units) in inputs)| {
            let mut key = Key::lived(quota, start_us, &steps);
            let units = units.of(key.limit());
            key.state.refund(&quota, 0, None, key.now_us);
            let before = key.clone();
            key.state.refund(&quota, units, None, key.now_us);
            prop_assert_eq!(held(&key), held(&before).saturating_sub(units * unit(&quota)));
            if let (State::Pair(before), State::Pair(after)) = (&before.state, &key.state) {
                let left = (before.current + before.previous).saturating_sub(units);
                prop_assert_eq!(after.current + after.previous, left);
            }
        });
    }
}

/// A charge that a clock which stepped back has not come to yet is one of now.
#[test]
fn a_charge_of_later_is_given_back_whole() {
    for quota in one_of_each(10, SECOND_US).into_iter().take(6) {
        let mut key = Key::new(quota, START_US);
        assert!(key.ask(4).is_yes());
        key.now_us -= 3 * SECOND_US;
        key.state.refund(&quota, 4, Some(START_US), key.now_us);
        assert_eq!((key.remaining(), key.reset_after_us()), (10, 0), "{quota:?}");
    }
}

/// Once it has no effect any more, there is nothing to give back.
#[test]
fn a_refund_of_what_is_gone_gives_nothing() {
    for algorithm in with_units() {
        let inputs = (quotas(algorithm), histories(), amounts(150), 0..5u64);
        proptest!(config(1_000), |((quota, steps, units, more_us) in inputs)| {
            // Late enough that the charge was after the epoch.
            let mut key = Key::lived(quota, EXACT, &steps);
            let units = units.of(key.limit());
            let age_us = match (bucket_of(&quota), window_of(&quota)) {
                (Some(bucket), _) => (units * bucket.unit()).div_ceil(bucket.drain()),
                (_, Some(window)) if algorithm == Algorithm::FixedWindow => {
                    key.now_us % window.size_us() + 1
                }
                (_, Some(window)) if algorithm == Algorithm::SlidingWindowCounter => {
                    key.now_us % window.size_us() + window.size_us() + 1
                }
                (_, window) => window.unwrap().size_us(),
            };
            let before = key.clone();
            let at_us = key.now_us - age_us - more_us;
            key.state.refund(&quota, units, Some(at_us), key.now_us);
            prop_assert_eq!(key.remaining(), before.remaining());
            prop_assert_eq!(key.reset_after_us(), before.reset_after_us());
        });
    }
}

/// Each window gives back its own charges alone.
#[test]
fn a_window_gives_back_what_it_still_holds_of_the_charge() {
    let left_of = |quota: Quota, units: u64, charged_at_us: Option<u64>| {
        let mut key = Key::new(quota, 1_050);
        assert!(key.ask(5).is_yes());
        key.now_us = 1_150;
        assert!(key.ask(2).is_yes());
        key.state.refund(&quota, units, charged_at_us, key.now_us);
        key.remaining()
    };
    let left = |quota, charged_at_us| left_of(quota, 4, charged_at_us);
    let fixed = Quota::fixed_window(10, 100).unwrap();
    let cases = [None, Some(1_150), Some(1_100), Some(1_099), Some(9_999)];
    assert_eq!(cases.map(|at_us| left(fixed, at_us)), [10, 10, 10, 8, 10]);

    // Half of the five weighs two and a half.
    let sliding = Quota::sliding_window_counter(10, 100).unwrap();
    let cases = [None, Some(1_150), Some(1_100), Some(1_099), Some(1_000), Some(999)];
    assert_eq!(cases.map(|at_us| left(sliding, at_us)), [9, 8, 8, 8, 8, 6]);

    // This window's own are enough for the first two.
    assert_eq!([1, 2, 3, 7, 9].map(|units| left_of(sliding, units, None)), [7, 8, 8, 10, 10]);

    let log = Quota::sliding_window_log(10, 101).unwrap();
    let cases = [None, Some(1_150), Some(1_149), Some(1_050), Some(1_051), Some(9_999)];
    assert_eq!(cases.map(|at_us| left(log, at_us)), [7, 5, 3, 7, 3, 5]);
}

/// A log drops the newest first where the time is not known, and entries without units never stay.
#[test]
fn a_log_drops_the_newest_first() {
    let quota = Quota::sliding_window_log(10, 100).unwrap();
    let mut key = Key::new(quota, 1_000);
    for _ in 0..3 {
        key.now_us += 10;
        assert!(key.ask(2).is_yes());
    }
    let entries = |key: &Key| match &key.state {
        State::Log(log) => log.entries().map(|e| (e.time_us, e.units)).collect::<Vec<_>>(),
        _ => unreachable!(),
    };
    key.state.refund(&quota, 3, None, key.now_us);
    assert_eq!(entries(&key), [(1_010, 2), (1_020, 1)]);
    key.state.refund(&quota, 1, Some(1_010), key.now_us);
    assert_eq!(entries(&key), [(1_010, 1), (1_020, 1)]);
    // Two at the same moment: both are of that time.
    let twice = [1_010, 1_010].map(|time_us| LogEntry { time_us, units: 2 });
    key.state = State::Log(Box::new(Log::new(twice.into())));
    assert_eq!(key.remaining(), 6);
    key.state.refund(&quota, 3, Some(1_010), key.now_us);
    assert_eq!(entries(&key), [(1_010, 1)]);
}

/// Excess is taken up to one further limit, the rest is forgiven, and every unit is accounted for.
#[test]
fn excess_is_bounded_and_what_is_forgiven_is_counted() {
    for algorithm in with_units() {
        let most = [1 << 44, 1 << 63, u64::MAX].map(common::Amount::Few);
        let excess = prop_oneof![amounts(350), proptest::sample::select(most.to_vec())];
        let inputs = (quotas(algorithm), starts(), histories(), excess);
        proptest!(config(1_000), |((quota, start_us, steps, units) in inputs)| {
            let mut key = Key::lived(quota, start_us, &steps);
            let units = units.of(key.limit());
            // Writes what holds now, so that before and after are of one moment.
            key.state.refund(&quota, 0, None, key.now_us);
            let before = key.clone();
            let forgiven = key.state.overcharge(&quota, units, key.now_us);
            let (unit, most) = (unit(&quota), 2 * key.limit() * unit(&quota));
            prop_assert!(held(&key) <= most);
            let added = u128::from(held(&key) - held(&before));
            let charged = u128::from(units) * u128::from(unit);
            if held(&key) < most {
                prop_assert_eq!((added, forgiven), (charged, 0));
            }
            prop_assert_eq!(u128::from(forgiven), (charged - added).div_ceil(u128::from(unit)));
            let taken = units - forgiven;
            prop_assert!(key.remaining() >= before.remaining().saturating_sub(taken + 1));
            prop_assert!(key.remaining() <= before.remaining().saturating_sub(taken));
        });
    }
}
