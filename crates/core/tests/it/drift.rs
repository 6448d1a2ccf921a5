//! Ten million steps at awkward rates, held against the closed form: not a token is gained or lost
//! on the way, and not a microsecond.

use crate::common::{Key, SECOND_US, START_US, bucket_of, buckets, debt_of};
use tollkeeper_core::limits::{EXACT, MAX_PERIOD_US};
use tollkeeper_core::{Admission, LeakMode, Quota, Rate, State};

const STEPS: u64 = 10_000_000;

/// A caller who comes back whenever he was told to. The k-th unit beyond the burst has refilled
/// at k · P / R, so that is when it is admitted, rounded up.
fn always_as_soon_as_told(quota: Quota, steps: u64) {
    let bucket = *bucket_of(&quota).unwrap();
    let (unit, drain) = (u128::from(bucket.unit()), u128::from(bucket.drain()));
    let mut key = Key::new(quota, START_US);
    assert_eq!(key.flood(1), bucket.capacity());
    for k in 1..=u128::from(steps) {
        let Admission::No { retry_after_us: Some(us) } = key.ask(1) else {
            unreachable!("unit {k} came early");
        };
        key.now_us += us;
        assert!(key.ask(1).is_yes(), "unit {k} is late");
        let passed_us = u128::from(key.now_us - START_US);
        assert!(drain * passed_us >= unit * k, "unit {k} before it was there");
        assert!(drain * (passed_us - 1) < unit * k, "unit {k} a microsecond late");
    }
    owes_the_closed_form(&key, u128::from(bucket.capacity()) + u128::from(steps));
}

/// A bucket that was never full again owes what it gave less what has drained, to the last digit.
fn owes_the_closed_form(key: &Key, admitted: u128) {
    let bucket = bucket_of(&key.quota).unwrap();
    let drained = u128::from(bucket.drain()) * u128::from(key.now_us - START_US);
    let owed = admitted * u128::from(bucket.unit()) - drained;
    assert_eq!(debt_of(key).map(u128::from), Some(owed), "{:?}", key.quota);
}

/// A caller who knocks every `every_us`: after each knock he has had floor(B + r · t) units.
///
/// He knocks too often for a second unit to come in between, so that a bucket of two or more is
/// never full again.
fn knocking(quota: Quota, every_us: u64, knocks: u64) {
    let bucket = *bucket_of(&quota).unwrap();
    let (unit, drain) = (u128::from(bucket.unit()), u128::from(bucket.drain()));
    let mut key = Key::new(quota, START_US);
    let mut admitted = u128::from(key.flood(1));
    for knock in 1..=knocks {
        key.now_us += every_us;
        admitted += u128::from(key.ask(1).is_yes());
        let had = u128::from(bucket.capacity()) * unit + drain * u128::from(key.now_us - START_US);
        assert!(admitted * unit <= had && had < (admitted + 1) * unit, "knock {knock}");
    }
    owes_the_closed_form(&key, admitted);
}

#[test]
fn seven_in_thirteen_seconds() {
    let rate = Rate::new(7, 13 * SECOND_US).unwrap();
    for quota in buckets(10, rate) {
        always_as_soon_as_told(quota, STEPS);
    }
    for quota in buckets(3, rate) {
        knocking(quota, 1_234_567, STEPS / 5);
    }
}

#[test]
fn two_and_a_half_in_a_second() {
    let rate = Rate::fraction(25, 10, SECOND_US).unwrap();
    for quota in buckets(5, rate) {
        always_as_soon_as_told(quota, STEPS);
    }
    for quota in buckets(2, rate) {
        knocking(quota, 399_999, STEPS / 5);
    }
}

/// 33 1/3 µs for each: a rounded interval would be a percent wrong.
#[test]
fn thirty_thousand_in_a_second() {
    let rate = Rate::new(30_000, SECOND_US).unwrap();
    for quota in buckets(100, rate) {
        always_as_soon_as_told(quota, STEPS);
    }
    for quota in buckets(100, rate) {
        knocking(quota, 33, STEPS / 5);
    }
}

/// 1 3/7 µs for each: a rounded interval would be a third wrong.
#[test]
fn seven_hundred_thousand_in_a_second() {
    let rate = Rate::new(700_000, SECOND_US).unwrap();
    for quota in buckets(1_000, rate) {
        always_as_soon_as_told(quota, STEPS);
    }
    for quota in buckets(1_000, rate) {
        knocking(quota, 1, STEPS / 5);
    }
}

/// Ten million knocks over more than two hundred years.
#[test]
fn one_in_four_hundred_days() {
    let rate = Rate::new(1, MAX_PERIOD_US).unwrap();
    let every_us = (EXACT - START_US) / STEPS;
    for quota in buckets(2, rate) {
        knocking(quota, every_us, STEPS);
    }
    for quota in buckets(1, rate) {
        always_as_soon_as_told(quota, 200);
    }
}

/// Those who wait as they are told leave at the rate: the k-th at (k − 1) · P / R, rounded up,
/// however long the queue.
#[test]
fn a_shaped_queue_departs_by_the_closed_form() {
    let rate = Rate::new(7, 13 * SECOND_US).unwrap();
    let quota = Quota::leaking_bucket(50, rate, LeakMode::Shape, None).unwrap();
    let mut key = Key::new(quota, START_US);
    let mut departed = 0u128;
    while departed < 1_000_000 {
        match key.ask(1) {
            Admission::Yes { delay_us } => {
                let at_us = u128::from(key.now_us + delay_us - START_US);
                assert_eq!(at_us, (13_000_000 * departed).div_ceil(7));
                departed += 1;
            }
            // Never so long that the queue runs empty.
            Admission::No { .. } => key.now_us += 40_000_003,
        }
    }
}

/// Requests come at a steady pace: each window admits what comes in it, up to the limit.
#[test]
fn every_fixed_window_is_exact() {
    let (size_us, every_us) = (700_001, 613);
    // Fewer than arrive in a window, and more.
    for limit in [1_000, 1_200] {
        let mut key = Key::new(Quota::fixed_window(limit, size_us).unwrap(), START_US);
        let (mut arrived, mut admitted) = (0, 0);
        for _ in 0..STEPS {
            arrived += 1;
            admitted += u64::from(key.ask(1).is_yes());
            let State::Count(count) = &key.state else { unreachable!() };
            assert_eq!((count.count, admitted), (admitted, arrived.min(limit)));
            let before = key.now_us / size_us;
            key.now_us += every_us;
            if key.now_us / size_us != before {
                (arrived, admitted) = (0, 0);
            }
        }
    }
}

/// Requests come at a steady pace: each is admitted exactly where the tallies of this window and of
/// the one before say so.
#[test]
fn every_pair_of_windows_is_exact() {
    let (limit, size_us, every_us) = (1_000u64, 700_001, 337);
    let mut key = Key::new(Quota::sliding_window_counter(limit, size_us).unwrap(), START_US);
    let (mut previous, mut current) = (0, 0);
    for _ in 0..STEPS {
        let overlap_us = size_us - key.now_us % size_us;
        // The previous window's share and this one's units leave room for one more.
        let fits = current < limit && previous * overlap_us < (limit - current) * size_us;
        assert_eq!(key.ask(1).is_yes(), fits);
        current += u64::from(fits);
        let State::Pair(pair) = &key.state else { unreachable!() };
        if fits {
            assert_eq!((pair.previous, pair.current), (previous, current));
        }
        let before = key.now_us / size_us;
        key.now_us += every_us;
        if key.now_us / size_us != before {
            (previous, current) = (current, 0);
        }
    }
}
