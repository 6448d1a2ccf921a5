//! A changed limit: what was used stays used, in whatever unit the new limit counts, and a
//! conversion never frees anything.

use std::ops::Range;

use crate::common::{
    DAY_US, Key, SECOND_US, START_US, bucket_of, buckets, config, debt_of, one_of_each,
};
use crate::common::{rates, sizes_us};
use proptest::prelude::*;
use tollkeeper_core::algorithm::debt::Debt;
use tollkeeper_core::algorithm::fixed_window::WindowCount;
use tollkeeper_core::algorithm::sliding_window_counter::WindowPair;
use tollkeeper_core::limits::{EXACT, MAX_PERIOD_US};
use tollkeeper_core::{Admission, Quota, Rate, State};

fn under(key: &Key, quota: Quota) -> Key {
    Key { quota, ..key.clone() }
}

/// 80 used of 100, whatever the algorithm: 10 left of 90, 120 of 200, none of 50.
#[test]
fn usage_survives_a_changed_limit() {
    let per_minute = |count| one_of_each(count, 60 * SECOND_US);
    for (count, left) in [(90, 10), (200, 120), (50, 0), (80, 0), (81, 1)] {
        for (before, after) in per_minute(100).into_iter().zip(per_minute(count)) {
            let mut key = Key::new(before, START_US);
            assert!(key.ask(80).is_yes());
            let key = under(&key, after);
            assert_eq!(key.remaining(), left, "{after:?}");
            assert!(!key.look(left + 1).is_yes(), "{after:?}");
            assert_eq!(key.look(left).is_yes(), count >= 80, "{after:?}");
        }
    }
}

/// To another unit: up to the next whole one, and not further.
#[test]
fn a_converted_debt_is_rounded_up_and_by_less_than_one() {
    let inputs = (1..=100u64, rates(), 1..=100u64, rates(), 0..=200u64, 0..=3 * SECOND_US);
    proptest!(config(2_000), |((old_b, old, new_b, new, percent, idle_us) in inputs)| {
        let old = Quota::token_bucket(old_b, old).unwrap();
        let mut key = Key::new(old, START_US);
        key.state.overcharge(&old, old_b * percent / 100 + 1, START_US);
        // What has drained since leaves a debt that is no whole number of units.
        key.now_us += idle_us.min(key.reset_after_us());
        key.state.charge(&old, 0, 0, key.now_us);
        let debt = u128::from(debt_of(&key).unwrap());
        let old_unit = u128::from(bucket_of(&old).unwrap().unit());
        for new in buckets(new_b, new) {
            let new_unit = u128::from(bucket_of(&new).unwrap().unit());
            let converted = u128::from(debt_of(&under(&key, new)).unwrap());
            prop_assume!(converted < u128::from(EXACT) - 1);
            prop_assert!(converted * old_unit >= debt * new_unit, "something was freed");
            prop_assert!(converted * old_unit < debt * new_unit + old_unit, "too much is owed");
            if new_unit == old_unit {
                prop_assert_eq!(converted, debt);
            }
        }
    });
}

/// There and back again, written each time: nobody gets rid of a debt by two reloads.
#[test]
fn a_debt_never_shrinks_by_being_converted() {
    let inputs = (1..=100u64, rates(), 1..=100u64, rates(), 0..EXACT / 4);
    proptest!(config(2_000), |((old_b, old, new_b, new, debt) in inputs)| {
        let (old, new) = (Quota::gcra(old_b, old).unwrap(), Quota::gcra(new_b, new).unwrap());
        let (old_unit, new_unit) =
            (bucket_of(&old).unwrap().unit(), bucket_of(&new).unwrap().unit());
        let debt = debt % (2 * bucket_of(&old).unwrap().full_debt() + 1);
        let mut state = State::Debt(Debt { debt, unit: old_unit, last_us: 7 });
        state.charge(&new, 0, 0, 7);
        let State::Debt(there) = state else { unreachable!() };
        prop_assert_eq!(there.unit, new_unit);
        prop_assume!(there.debt < EXACT - 1);
        state.charge(&old, 0, 0, 7);
        let State::Debt(back) = state else { unreachable!() };
        prop_assert!(back.debt >= debt);
        prop_assert!(back.debt - debt <= old_unit / new_unit + 1);
    });
}

/// A debt beyond what is exact is the largest that is, drains from there, and is still a debt.
#[test]
fn a_conversion_saturates_below_2_pow_53() {
    let most = (EXACT - 1) / 2;
    let fine = Quota::token_bucket(most, Rate::new(1, 1).unwrap()).unwrap();
    let mut key = Key::new(fine, START_US);
    assert_eq!(key.state.overcharge(&fine, u64::MAX, START_US), u64::MAX - 2 * most);
    let rate = Rate::new(3, MAX_PERIOD_US - 1).unwrap();
    for coarse in buckets(100, rate) {
        let mut key = under(&key, coarse);
        assert_eq!(debt_of(&key), Some(EXACT - 1));
        assert_eq!(key.remaining(), 0);
        assert_eq!(key.reset_after_us(), (EXACT - 1).div_ceil(bucket_of(&coarse).unwrap().drain()));
        for cost in [0, 1, 100] {
            let Admission::No { retry_after_us: Some(us) } = key.ask(cost) else {
                unreachable!("the debt is gone");
            };
            assert!(!key.look_in(cost, us - 1).is_yes());
            assert!(key.look_in(cost, us).is_yes());
        }
        // Below that nothing is cut off.
        let State::Debt(debt) = &mut key.state else { unreachable!() };
        debt.unit = bucket_of(&coarse).unwrap().unit() - 1;
        debt.debt = EXACT / 2;
        assert!((EXACT / 2..EXACT - 1).contains(&debt_of(&key).unwrap()));
    }
}

/// Whether any moment of a window is `from` or later.
fn can_reach(window: &Range<u64>, from: u64) -> bool {
    window.clone().any(|us| us >= from)
}

/// Every small size, every moment of the change: a count goes as a whole to the latest window in
/// which any of it can lie.
#[test]
fn windows_of_another_size_count_as_late_as_they_can() {
    for (old, new, window, now) in small_changes() {
        let start = now - now % new;
        // A window later than now's is now's.
        let last = window.min(now / old);
        let this = last * old..(last + 1) * old;
        let before = (last - 1) * old..last * old;

        let quota = Quota::fixed_window(1_000, new).unwrap();
        let count = WindowCount { window, size_us: old, count: 7 };
        let mut key = Key { state: State::Count(count), ..Key::new(quota, now) };
        let used = if can_reach(&this, start) { 7 } else { 0 };
        assert_eq!(key.remaining(), 1_000 - used, "{old} to {new} at {now}, window {window}");
        key.ask(2_000);
        assert_eq!(key.remaining(), 1_000 - used);

        let quota = Quota::sliding_window_counter(1_000, new).unwrap();
        let pair = WindowPair { window, size_us: old, current: 7, previous: 500 };
        let mut state = State::Pair(pair);
        let stale = old != new || window > now / new;
        assert_eq!(state.anchor(&quota, now), stale);
        state.charge(&quota, 0, 0, now);
        let mut counts = [0, 0];
        for (range, count) in [(this, 7), (before, 500)] {
            let windows = [start, start - new];
            if let Some(place) = windows.iter().position(|from| can_reach(&range, *from)) {
                counts[place] += count;
            }
        }
        let State::Pair(pair) = state else { unreachable!() };
        let (window, size_us) = (now / new, new);
        let [current, previous] = counts;
        assert_eq!(pair, WindowPair { window, size_us, current, previous }, "{old} {new} {now}");
    }
}

/// Old and new size, the window that was counted, and the moment of the change, from the third
/// window of any size on.
fn small_changes() -> impl Iterator<Item = (u64, u64, u64, u64)> {
    let sizes = (1..=7).flat_map(|old| (1..=7).map(move |new| (old, new)));
    sizes.flat_map(|(old, new)| {
        let windows = 4..12;
        windows.flat_map(move |window| (21..70).map(move |now| (old, new, window, now)))
    })
}

/// Units that the old window still held and that truly lie in the new one are counted in it.
#[test]
fn no_unit_of_the_current_window_is_lost() {
    let charges = proptest::collection::vec((1..=5u64, 0..=100u64), 1..12);
    let inputs = (sizes_us(), sizes_us(), charges, 0..=120u64);
    proptest!(config(2_000), |((old_us, new_us, charges, idle) in inputs)| {
        let fixed = |us| Quota::fixed_window(1_000, us).unwrap();
        let sliding = |us| Quota::sliding_window_counter(1_000, us).unwrap();
        let both = [(fixed(old_us), fixed(new_us), 0), (sliding(old_us), sliding(new_us), 1)];
        for (old, new, windows_before) in both {
            let mut key = Key::new(old, START_US);
            let mut units = Vec::new();
            for (cost, wait) in &charges {
                key.now_us += old_us * wait / 100;
                prop_assert!(key.ask(*cost).is_yes());
                units.push((key.now_us, *cost));
            }
            let held_from_us = (key.now_us / old_us - windows_before) * old_us;
            key.now_us += new_us * idle / 100;
            let key = under(&key, new);
            let from_us = (key.now_us - key.now_us % new_us).max(held_from_us);
            let true_units: u64 =
                units.iter().filter(|(at_us, _)| *at_us >= from_us).map(|(_, cost)| cost).sum();
            prop_assert!(1_000 - key.remaining() >= true_units);
        }
    });
}

/// A log keeps its times, so that it is exact under any other window.
#[test]
fn a_log_is_read_anew_with_every_window() {
    let log = |l, w| Quota::sliding_window_log(l, w).unwrap();
    let mut key = Key::new(log(10, 60), 1_000);
    assert!(key.ask(3).is_yes());
    key.now_us = 1_040;
    assert!(key.ask(4).is_yes());
    assert_eq!(under(&key, log(10, 41)).remaining(), 3);
    assert_eq!(under(&key, log(10, 40)).remaining(), 6);
    assert_eq!(under(&key, log(4, 41)).look(1), Admission::after(41));
    assert_eq!(under(&key, log(5, 41)).look(1), Admission::after(1));
    assert_eq!(under(&key, log(7, 41)).look(1), Admission::after(1));
    assert_eq!(under(&key, log(10, DAY_US)).reset_after_us(), DAY_US);
}

/// A lowered limit can leave more than twice itself in use: no further excess is taken, and what
/// is there stays.
#[test]
fn excess_beyond_twice_a_lowered_limit_is_forgiven() {
    let quotas = one_of_each(100, SECOND_US).into_iter().zip(one_of_each(10, SECOND_US));
    for (nth, (before, after)) in quotas.take(6).enumerate() {
        let mut key = Key::new(before, START_US);
        assert!(key.ask(100).is_yes());
        let mut key = under(&key, after);
        assert_eq!(key.state.overcharge(&after, 5, START_US), 5, "{after:?}");
        let wide = one_of_each(1_000, SECOND_US)[nth];
        assert_eq!(under(&key, wide).remaining(), 900, "{after:?}");
    }
}

/// What was taken under a higher limit comes back whole, also where that is more than the limit
/// now has.
#[test]
fn a_refund_of_a_charge_from_before_the_change_is_whole() {
    let quotas = one_of_each(100, SECOND_US).into_iter().zip(one_of_each(10, SECOND_US));
    for (before, after) in quotas.take(6) {
        for charged_at_us in [None, Some(START_US)] {
            let mut key = Key::new(before, START_US);
            assert!(key.ask(100).is_yes());
            let mut key = under(&key, after);
            key.state.refund(&after, 95, charged_at_us, START_US);
            assert_eq!(key.remaining(), 5, "{after:?}");
            key.state.refund(&after, u64::MAX, charged_at_us, START_US);
            assert_eq!((key.remaining(), key.reset_after_us()), (10, 0), "{after:?}");
        }
    }
}
