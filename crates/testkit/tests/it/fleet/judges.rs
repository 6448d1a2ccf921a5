//! The judges against a look at every interval there is, and against core itself.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tollkeeper_core::{Bucket, Quota, Rate, State, Window};
use tollkeeper_testkit::fleet::{Skew, judge};

fn config() -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(1);
    ProptestConfig {
        cases: 2_000,
        rng_seed,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Times that never descend, often equal, and units.
fn admitted() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gaps = prop_oneof![Just(0u64), 1..5u64, 1..60u64];
    proptest::collection::vec((gaps, 1..5u64), 0..24).prop_map(|steps| {
        let mut at_us = 0;
        let place = |(gap_us, units)| {
            at_us += gap_us;
            (at_us, units)
        };
        steps.into_iter().map(place).collect()
    })
}

/// Every interval from one admission to another: its length, and what it admitted.
fn intervals(admitted: &[(u64, u64)]) -> impl Iterator<Item = (u64, u64)> {
    (0..admitted.len()).flat_map(move |from| {
        (from..admitted.len()).map(move |to| {
            let units = admitted[from..=to].iter().map(|(_, units)| units).sum();
            (admitted[to].0 - admitted[from].0, units)
        })
    })
}

fn naive_bucket(bucket: &Bucket, admitted: &[(u64, u64)]) -> u64 {
    let over = |(length_us, units): (u64, u64)| {
        let came = bucket.full_debt() + bucket.drain() * length_us;
        (units * bucket.unit()).saturating_sub(came).div_ceil(bucket.unit())
    };
    intervals(admitted).map(over).max().unwrap_or(0)
}

fn naive_log(window: &Window, admitted: &[(u64, u64)]) -> u64 {
    let within = intervals(admitted).filter(|(length_us, _)| *length_us < window.size_us());
    within.map(|(_, units)| units.saturating_sub(window.max_requests())).max().unwrap_or(0)
}

fn naive_windows(window: &Window, admitted: &[(u64, u64)], store: Skew) -> u64 {
    let number = |at_us| store.shows_us(at_us) / window.size_us();
    let of = |its: u64| {
        let same = admitted.iter().filter(|(at_us, _)| number(*at_us) == its);
        same.map(|(_, units)| units).sum::<u64>()
    };
    let counts = admitted.iter().map(|(at_us, _)| of(number(*at_us)));
    counts.max().unwrap_or(0).saturating_sub(window.max_requests())
}

/// Whether core's limit, asked at the same times, admits each.
fn core_admits(quota: &Quota, admitted: &[(u64, u64)], store: Skew) -> bool {
    let mut state = State::fresh(quota, store.shows_us(0));
    admitted.iter().all(|(at_us, units)| {
        state.step(quota, *units, 0, store.shows_us(*at_us)).admission.is_yes()
    })
}

#[test]
fn a_bucket_is_judged_as_by_every_interval() {
    let limits = (1..20u64, 1..7u64, 1..40u64);
    proptest!(config(), |((capacity, count, period_us) in limits, admitted in admitted())| {
        let rate = Rate::new(count, period_us).unwrap();
        let quota = Quota::token_bucket(capacity, rate).unwrap();
        let Quota::TokenBucket(bucket) = quota else { panic!("{quota}") };
        let over = judge::over_bucket(&bucket, &admitted);
        prop_assert_eq!(over, naive_bucket(&bucket, &admitted));
        prop_assert_eq!(judge::excess(&quota, &admitted, Skew::default()), Some(over));
        prop_assert_eq!(over == 0, core_admits(&quota, &admitted, Skew::default()));
    });
}

#[test]
fn windows_are_judged_as_by_counting_each() {
    let limits = (1..20u64, 1..60u64, -90..90i64);
    proptest!(config(), |((count, size_us, offset_us) in limits, admitted in admitted())| {
        let quota = Quota::fixed_window(count, size_us).unwrap();
        let Quota::FixedWindow(window) = quota else { panic!("{quota}") };
        let store = Skew { offset_us, drift_ppm: 0 };
        let over = judge::over_windows(&window, &admitted, store);
        prop_assert_eq!(over, naive_windows(&window, &admitted, store));
        prop_assert_eq!(judge::excess(&quota, &admitted, store), Some(over));
        prop_assert_eq!(over == 0, core_admits(&quota, &admitted, store));
    });
}

#[test]
fn a_log_is_judged_as_by_every_interval() {
    let limits = (1..20u64, 1..60u64);
    proptest!(config(), |((count, size_us) in limits, admitted in admitted())| {
        let quota = Quota::sliding_window_log(count, size_us).unwrap();
        let Quota::SlidingWindowLog(window) = quota else { panic!("{quota}") };
        let over = judge::over_log(&window, &admitted);
        prop_assert_eq!(over, naive_log(&window, &admitted));
        prop_assert_eq!(judge::excess(&quota, &admitted, Skew::default()), Some(over));
        prop_assert_eq!(over == 0, core_admits(&quota, &admitted, Skew::default()));
    });
}

#[test]
fn a_debt_far_beyond_what_a_bucket_can_owe_is_measured() {
    let quota = Quota::token_bucket(1, Rate::new(1, 86_400_000_000).unwrap()).unwrap();
    let admitted = [(0, 1 << 62), (5, 1 << 62)];
    assert_eq!(judge::excess(&quota, &admitted, Skew::default()), Some((1 << 63) - 1));
}
