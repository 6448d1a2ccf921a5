//! The edges of everything: the least and the largest cost, time, window, count and capacity.
//! Tests run with overflow checks, so that what does not fit would panic.

use crate::common::{Key, START_US, bucket_of, buckets, config, debt_of};
use proptest::prelude::*;
use tollkeeper_core::algorithm::sliding_window_counter::WindowPair;
use tollkeeper_core::limits::{EXACT, MAX_PERIOD_US, MAX_WINDOW_COUNT};
use tollkeeper_core::{Admission, Answer, LeakMode, Outcome, Quota, QuotaError, Rate, State};

/// The smallest and the largest limit of every algorithm, on the shortest and the longest time.
fn extremes() -> Vec<Quota> {
    let most = (EXACT - 1) / 2;
    let slow = Rate::new(1, MAX_PERIOD_US).unwrap();
    let fast = Rate::new(EXACT - 1, 1).unwrap();
    let plain = Rate::new(1, 1).unwrap();
    let mut quotas = Vec::new();
    let pairs = [(1, slow), (most / MAX_PERIOD_US, slow), (1, fast), (most, fast), (most, plain)];
    for (capacity, rate) in pairs {
        quotas.extend(buckets(capacity, rate));
        for max_delay_us in [0, MAX_PERIOD_US] {
            let mode = LeakMode::Meter;
            quotas.push(Quota::leaking_bucket(capacity, rate, mode, Some(max_delay_us)).unwrap());
        }
    }
    for count in [1, MAX_WINDOW_COUNT] {
        for us in [1, MAX_PERIOD_US] {
            quotas.push(Quota::fixed_window(count, us).unwrap());
            quotas.push(Quota::sliding_window_log(count, us).unwrap());
            quotas.push(Quota::sliding_window_counter(count, us).unwrap());
            quotas.push(Quota::concurrency(count, us).unwrap());
        }
    }
    quotas
}

/// Everything that can be done with a key, at the ends of time and of cost.
#[test]
fn nothing_overflows_at_the_ends() {
    let last_us = EXACT - 1;
    for quota in extremes() {
        let limit = quota.limit();
        let costs = [0, 1, limit - 1, limit, limit + 1, EXACT, u64::MAX];
        for times in [[0, 0, 1], [0, 1, last_us], [last_us, 0, last_us], [last_us, last_us, 0]] {
            for first in costs {
                for second in costs {
                    let mut key = Key::new(quota, times[0]);
                    key.ask(first);
                    key.now_us = times[1];
                    let forgiven = key.state.overcharge(&quota, second, key.now_us);
                    assert!(forgiven <= second);
                    assert!(key.remaining() <= limit);
                    key.now_us = times[2];
                    let said = key.ask(second);
                    assert_eq!(said == Admission::NEVER, second > limit, "{quota:?}");
                    key.state.refund(&quota, first, Some(times[0]), key.now_us);
                    key.state.refund(&quota, second, None, key.now_us);
                    assert!(key.remaining() <= limit);
                    key.state.anchor(&quota, key.now_us);
                    assert!(key.later(key.reset_after_us()).look(limit).is_yes());
                }
            }
        }
    }
}

#[test]
fn a_look_is_free_and_a_whole_limit_passes_once() {
    for quota in extremes() {
        for now_us in [0, 1, EXACT - 1] {
            let mut key = Key::new(quota, now_us);
            let limit = key.limit();
            let fresh = key.state.clone();
            assert_eq!(key.ask(0), Admission::NOW);
            assert_eq!(
                (key.ask(limit + 1), key.ask(u64::MAX)),
                (Admission::NEVER, Admission::NEVER)
            );
            assert_eq!(key.state, fresh);
            assert_eq!(key.remaining(), limit);
            assert_eq!(key.ask(limit), Admission::NOW);
            assert_eq!(key.remaining(), 0);
            // What is used up to the last unit still admits a look.
            assert_eq!(key.ask(0), Admission::NOW);
            let Admission::No { retry_after_us: Some(us) } = key.ask(1) else {
                unreachable!("{quota:?}: more than the limit");
            };
            assert!(!key.look_in(1, us - 1).is_yes());
            assert!(key.look_in(1, us).is_yes(), "{quota:?} from {now_us}");
        }
    }
}

/// A look waits for nothing, in whatever mode, and is denied only beyond the limit.
#[test]
fn a_look_is_never_delayed() {
    let rate = Rate::new(1, 10).unwrap();
    for (mode, max_delay_us) in [(LeakMode::Shape, None), (LeakMode::Shape, Some(0))] {
        let quota = Quota::leaking_bucket(5, rate, mode, max_delay_us).unwrap();
        let mut key = Key::new(quota, START_US);
        assert!(key.ask(5).is_yes());
        assert_eq!(key.look(0), Admission::NOW);
        key.state.overcharge(&quota, 1, START_US);
        assert_eq!(key.look(0), Admission::after(10));
    }
    let quota = Quota::leaking_bucket(5, rate, LeakMode::Meter, None).unwrap();
    let mut key = Key::new(quota, START_US);
    assert_eq!(
        (key.ask(2), key.ask(2), key.ask(1)),
        (Admission::NOW, Admission::NOW, Admission::NOW)
    );
}

/// Where the product of count and time passes 2^64, the share is exact all the same: of a whole
/// limit L·e/W has come back after e, rounded up.
#[test]
fn the_largest_sliding_counter_is_exact() {
    let (limit, size_us) = (MAX_WINDOW_COUNT, MAX_PERIOD_US);
    let quota = Quota::sliding_window_counter(limit, size_us).unwrap();
    let full = |previous, current| {
        let pair = WindowPair { window: 1, size_us, current, previous };
        Key { state: State::Pair(pair), ..Key::new(quota, size_us) }
    };
    let back = |e: u64| {
        let units = (u128::from(limit) * u128::from(e)).div_ceil(u128::from(size_us));
        u64::try_from(units).unwrap()
    };
    // Around where the product passes 2^64, and anywhere.
    let border = size_us - (1 << 32);
    let moments = prop_oneof![0..size_us, border - 3..border + 3, 0..9u64, size_us - 9..size_us];
    proptest!(config(500), |(e in moments, current in 0..=limit, cost in 0..=limit)| {
        let key = full(limit, 0).later(e);
        prop_assert_eq!(key.remaining(), back(e));
        prop_assert_eq!(full(limit, current).later(e).remaining(), back(e).saturating_sub(current));
        // Twice the limit weighs twice as much, but for the rounding of one.
        let doubled = full(2 * limit, 0).later(e).remaining();
        prop_assert!(doubled <= (2 * back(e)).saturating_sub(limit));
        prop_assert!(doubled + 1 >= (2 * back(e)).saturating_sub(limit));
        if let Admission::No { retry_after_us } = key.look(cost) {
            let us = retry_after_us.unwrap();
            prop_assert!(!key.look_in(cost, us - 1).is_yes());
            prop_assert!(key.look_in(cost, us).is_yes());
        }
    });
}

/// The window before counts whole at the edge, and the one before that not at all.
#[test]
fn a_window_of_one_microsecond() {
    for (quota, later) in [
        (Quota::fixed_window(2, 1).unwrap(), [0, 2, 2]),
        (Quota::sliding_window_log(2, 1).unwrap(), [0, 2, 2]),
        (Quota::sliding_window_counter(2, 1).unwrap(), [0, 0, 2]),
        (Quota::concurrency(2, 1).unwrap(), [0, 2, 2]),
    ] {
        for now_us in [0, START_US, EXACT - 1] {
            let mut key = Key::new(quota, now_us);
            assert!(key.ask(2).is_yes());
            assert_eq!([0, 1, 2].map(|us| key.later(us).remaining()), later, "{quota:?}");
        }
    }
}

/// The last microsecond of a window and the first of the next.
#[test]
fn windows_begin_with_their_first_microsecond() {
    let fixed = Quota::fixed_window(3, 100).unwrap();
    let mut key = Key::new(fixed, 100);
    assert!(key.ask(3).is_yes());
    assert_eq!((key.reset_after_us(), key.look(1)), (100, Admission::after(100)));
    assert_eq!((key.later(99).remaining(), key.later(100).remaining()), (0, 3));

    let log = Quota::sliding_window_log(3, 100).unwrap();
    let mut key = Key::new(log, 0);
    assert!(key.ask(3).is_yes());
    assert_eq!((key.later(99).remaining(), key.later(100).remaining()), (0, 3));
    assert_eq!((key.later(99).reset_after_us(), key.later(100).reset_after_us()), (1, 0));

    let permits = Quota::concurrency(3, 100).unwrap();
    let mut key = Key::new(permits, 0);
    assert!(key.ask(3).is_yes());
    assert_eq!((key.later(99).remaining(), key.later(100).remaining()), (0, 3));

    let sliding = Quota::sliding_window_counter(3, 100).unwrap();
    let mut key = Key::new(sliding, 199);
    assert!(key.ask(3).is_yes());
    // Three weigh three until 200, less than three from 201 on, and nothing from 300 on.
    assert_eq!([0, 1, 2, 100, 101].map(|us| key.later(us).remaining()), [0, 0, 1, 3, 3]);
    assert_eq!([0, 1, 100, 101].map(|us| key.later(us).reset_after_us()), [101, 100, 1, 0]);
}

/// The largest bucket that is exact loses not a unit at the largest debt there can be.
#[test]
fn a_bucket_at_the_edge_of_exactness() {
    let rate = Rate::new(1, 1 << 20).unwrap();
    let most = (1 << 32) - 1;
    for quota in buckets(most, rate) {
        let bucket = bucket_of(&quota).unwrap();
        let mut key = Key::new(quota, 0);
        assert!(key.ask(most).is_yes());
        assert_eq!(key.state.overcharge(&quota, most + 5, 0), 5);
        assert_eq!(debt_of(&key), Some(2 * bucket.full_debt()));
        assert!(2 * bucket.full_debt() < EXACT);
        assert_eq!(key.reset_after_us(), 2 * bucket.full_debt());
        // To the last microsecond before a unit is there.
        let whole_us = bucket.full_debt();
        assert_eq!(key.look(1), Admission::after(whole_us + (1 << 20)));
        let key = key.later(whole_us + (1 << 20) - 1);
        assert_eq!((key.remaining(), key.later(1).remaining()), (0, 1));
    }
    assert!(matches!(Quota::token_bucket(most + 1, rate), Err(QuotaError::Inexact { .. })));
}

/// What drains is compared before it is multiplied: a product of exactly 2^64 is not nothing.
#[test]
fn a_long_rest_at_a_high_rate_does_not_wrap() {
    let rate = Rate::new(1 << 52, 1).unwrap();
    for quota in buckets((1 << 52) - 1, rate) {
        let mut key = Key::new(quota, 0);
        assert!(key.ask(key.limit()).is_yes());
        let rested = key.later(1 << 12);
        assert_eq!((rested.remaining(), rested.reset_after_us()), (key.limit(), 0));
        // All of it has drained by itself, so a refund has nothing to give.
        assert!(key.later(1).ask(key.limit()).is_yes());
        key.now_us = 1 << 12;
        assert!(key.ask(key.limit()).is_yes());
        key.state.refund(&quota, key.limit(), Some(0), key.now_us);
        assert_eq!(key.remaining(), 0);
    }
}

/// The numbers of a shadow are shown where there is nothing else, but nobody waits for it.
#[test]
fn where_every_limit_is_a_shadow_nobody_waits() {
    let shadow = Outcome {
        allowed: true,
        shadow: true,
        limit: 3,
        remaining: 2,
        retry_after_us: Some(0),
        reset_after_us: 9,
        delay_us: 5,
        here: false,
    };
    let decision = Answer::new(START_US, true, [shadow]).fold().unwrap();
    assert_eq!((decision.delay_us, decision.remaining, decision.reset_after_us), (0, 2, 9));
}
