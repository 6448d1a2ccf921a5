//! Idle, then a flood: whatever the history and however long the rest, what passes at once is what
//! has come back in the meantime, and never more than the limit.

use crate::common::{
    Key, SECOND_US, START_US, amounts, asks, bucket_of, buckets, config, one_of_each,
};
use crate::common::{histories, quotas, rates, starts};
use proptest::prelude::*;
use tollkeeper_core::limits::{EXACT, MAX_PERIOD_US};
use tollkeeper_core::{Algorithm, Quota, Rate};

fn awkward_rates() -> [Rate; 5] {
    let rates = [
        Rate::new(7, 13 * SECOND_US),
        Rate::fraction(25, 10, SECOND_US),
        Rate::new(30_000, SECOND_US),
        Rate::new(700_000, SECOND_US),
        Rate::new(1, MAX_PERIOD_US),
    ];
    rates.map(Result::unwrap)
}

/// Units that a flood finds `idle_us` after `used` of the capacity were taken.
fn flood_after(quota: &Quota, used: u64, idle_us: u64) -> u64 {
    let mut key = Key::new(*quota, START_US);
    assert!(key.ask(used).is_yes());
    key.now_us += idle_us;
    key.flood(1)
}

/// floor(B − used + r · t), and never above B.
fn refilled(quota: &Quota, used: u64, idle_us: u64) -> u64 {
    let bucket = bucket_of(quota).unwrap();
    let back = u128::from(bucket.drain()) * u128::from(idle_us) / u128::from(bucket.unit());
    let back = u64::try_from(back).unwrap().min(used);
    bucket.capacity() - used + back
}

/// From no rest at all to half as long again as it takes to be full, in odd steps.
#[test]
fn a_flood_finds_exactly_what_has_refilled() {
    for rate in awkward_rates() {
        for quota in buckets(10, rate) {
            let bucket = bucket_of(&quota).unwrap();
            let full_us = bucket.full_debt().div_ceil(bucket.drain());
            let step_us = (full_us / 777) | 1;
            let mut idle_us = 0;
            while idle_us < full_us + full_us / 2 + 3 {
                for used in [1, 5, 10] {
                    let found = flood_after(&quota, used, idle_us);
                    assert_eq!(found, refilled(&quota, used, idle_us), "{quota:?} {idle_us} µs");
                }
                idle_us += step_us;
            }
        }
    }
}

/// At every unit's own moment, and on both sides of it.
#[test]
fn each_unit_comes_back_at_its_microsecond() {
    for rate in awkward_rates() {
        for quota in buckets(10, rate) {
            let bucket = bucket_of(&quota).unwrap();
            for units in 1..=10 {
                let due_us = (units * bucket.unit()).div_ceil(bucket.drain());
                let before = flood_after(&quota, 10, due_us - 1);
                assert!(before < units, "{quota:?}: unit {units} before its time");
                // At a fast rate a microsecond can bring more than one.
                assert!(flood_after(&quota, 10, due_us) >= units, "{quota:?}: unit {units} late");
            }
        }
    }
}

/// One hit, then a rest of any length: at most B.
#[test]
fn no_rest_is_long_enough_for_more_than_the_capacity() {
    proptest!(config(500), |(b in 1..=100u64, rate in rates(), idle_us in 0..EXACT)| {
        for quota in buckets(b, rate) {
            let mut key = Key::new(quota, 0);
            prop_assert!(key.ask(1).is_yes());
            key.now_us = idle_us;
            prop_assert_eq!(key.remaining(), refilled(&quota, 1, idle_us));
            prop_assert_eq!(key.flood(1), refilled(&quota, 1, idle_us));
        }
    });
}

/// Every algorithm: `remaining` says how many single units pass, and that it is no more than L.
#[test]
fn a_flood_finds_what_remaining_said() {
    for algorithm in Algorithm::ALL {
        let inputs = (quotas(algorithm), starts(), histories(), amounts(130));
        proptest!(config(500), |((quota, start_us, steps, idle) in inputs)| {
            let mut key = Key::lived(quota, start_us, &steps);
            key.now_us += idle.of(key.reset_after_us());
            let said = key.remaining();
            prop_assert!(said <= key.limit());
            // What has room may still have to wait too long.
            if matches!(quota, Quota::LeakingBucket(leak) if leak.max_delay_us().is_some()) {
                prop_assert!(key.flood(1) <= said);
            } else {
                let mut whole = key.clone();
                prop_assert!(said == 0 || whole.ask(said).is_yes());
                prop_assert!(!key.look(said + 1).is_yes());
                prop_assert_eq!(key.flood(1), said);
                prop_assert_eq!((key.remaining(), whole.remaining()), (0, 0));
            }
        });
    }
}

/// The time to reset runs down like a clock, and at its end the key is as new, not sooner.
#[test]
fn a_key_is_as_new_at_its_reset_and_not_before() {
    for algorithm in Algorithm::ALL {
        let inputs = (quotas(algorithm), starts(), histories(), any::<u64>());
        proptest!(config(500), |((quota, start_us, steps, any) in inputs)| {
            let key = Key::lived(quota, start_us, &steps);
            let reset_us = key.reset_after_us();
            let part_us = any % (reset_us + 1);
            prop_assert_eq!(key.later(part_us).reset_after_us(), reset_us - part_us);
            prop_assert_eq!(key.later(reset_us + any % 100).reset_after_us(), 0);
            prop_assert_eq!(key.later(reset_us).remaining(), key.limit());
            prop_assert!(key.later(reset_us).ask(key.limit()).is_yes());
            // The last traces of a sliding counter weigh less than a unit.
            if reset_us > 0 && algorithm != Algorithm::SlidingWindowCounter {
                prop_assert!(!key.later(reset_us - 1).ask(key.limit()).is_yes());
            }
        });
    }
}

/// Where there is nothing to wait for the reset is 0, and a whole limit taken has the longest.
#[test]
fn a_reset_is_as_long_as_the_window() {
    for quota in one_of_each(10, SECOND_US) {
        let mut key = Key::new(quota, 42 * SECOND_US + 1);
        assert_eq!(key.reset_after_us(), 0);
        assert!(key.ask(10).is_yes());
        let expected_us = match quota.algorithm() {
            Algorithm::FixedWindow => SECOND_US - 1,
            Algorithm::SlidingWindowCounter => 2 * SECOND_US - 1,
            _ => SECOND_US,
        };
        assert_eq!(key.reset_after_us(), expected_us, "{quota:?}");
    }
}

/// Requests of any cost at one moment, whatever came before.
#[test]
fn at_one_moment_nobody_passes_more_than_the_limit() {
    for algorithm in Algorithm::ALL {
        let costs = proptest::collection::vec(1..=100u64, 1..40);
        let inputs = (quotas(algorithm), starts(), asks(), costs);
        proptest!(config(300), |((quota, start_us, steps, costs) in inputs)| {
            // Away from what was admitted at the history's last moment.
            let mut key = Key::lived(quota, start_us, &steps).later(1);
            let passed: u64 = costs.into_iter().filter(|cost| key.ask(*cost).is_yes()).sum();
            prop_assert!(passed <= key.limit());
            prop_assert!(key.remaining() <= key.limit() - passed);
        });
    }
}
