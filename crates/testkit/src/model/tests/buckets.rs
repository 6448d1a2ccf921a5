//! Token bucket, GCRA and leaking bucket.

use super::*;

#[test]
fn a_bucket_starts_full_and_refills_exactly() {
    let mut model = single(token_bucket(3, per(3, SECOND_US)));
    for remaining in [2, 1, 0] {
        let numbers = ask(&mut model, START_US, 1);
        assert!(numbers.allowed);
        assert_eq!((numbers.limit, numbers.remaining), (3, remaining));
    }
    // A third of a second is 333 333.3 µs: rounded up.
    assert_eq!(retry_both_sides(&mut model, START_US, 1), 333_334);
    // Nothing was lost by the rounding: three tokens came back after exactly one second, one of them is taken.
    assert_eq!(ask(&mut model, START_US + SECOND_US, 0).remaining, 2);
    assert_eq!(ask(&mut model, START_US + SECOND_US - 1, 0).remaining, 1);
}

#[test]
fn a_fast_rate_is_not_rounded_to_an_interval() {
    let mut model = single(token_bucket(1, per(700_000, SECOND_US)));
    let mut admitted = 0;
    for at_us in 0..1_000 {
        admitted += u64::from(ask(&mut model, START_US + at_us, 1).allowed);
    }
    // One every ten sevenths of a microsecond, and a capacity of one: every second microsecond.
    assert_eq!(admitted, 500);
    let mut model = single(token_bucket(2, per(700_000, SECOND_US)));
    let admitted = (0..1_000).filter(|at_us| ask(&mut model, START_US + at_us, 1).allowed);
    assert_eq!(admitted.count(), 701);
}

#[test]
fn an_idle_bucket_never_holds_more_than_its_capacity() {
    let mut model = single(token_bucket(5, per(1, SECOND_US)));
    ask(&mut model, START_US, 1);
    let later_us = START_US + 400 * DAY_US;
    let admitted = (0..100).filter(|_| ask(&mut model, later_us, 1).allowed);
    assert_eq!(admitted.count(), 5);
}

#[test]
fn a_cost_above_the_capacity_is_never_admitted() {
    for cost in [6, 1_000, u64::MAX] {
        let mut model = single(token_bucket(5, per(1, SECOND_US)));
        let never = ask(&mut model, START_US, cost);
        assert!(!never.allowed);
        assert_eq!(never.retry_after_us, None);
        assert_eq!((never.remaining, never.reset_after_us), (5, 0));
    }
}

#[test]
fn a_look_changes_nothing() {
    let mut model = single(token_bucket(2, per(1, SECOND_US)));
    ask(&mut model, START_US, 2);
    for at_us in [0, 7, SECOND_US - 1] {
        let look = ask(&mut model, START_US + at_us, 0);
        assert!(look.allowed);
        assert_eq!((look.remaining, look.retry_after_us), (0, Some(0)));
        assert_eq!(look.reset_after_us, 2 * SECOND_US - at_us);
    }
    assert!(ask(&mut model, START_US + SECOND_US, 1).allowed);
}

#[test]
fn gcra_decides_like_the_token_bucket() {
    let rate = per(25, 10 * SECOND_US);
    let mut dice = Dice(1);
    let mut bucket = single(token_bucket(7, rate));
    let mut gcra = single(Spec::Gcra { capacity: 7, rate });
    let mut now_us = START_US;
    for _ in 0..500 {
        now_us += dice.below(SECOND_US);
        let cost = dice.below(5);
        assert_eq!(ask(&mut bucket, now_us, cost), ask(&mut gcra, now_us, cost));
    }
}

#[test]
fn shaping_delays_by_what_was_queued_before() {
    let mut model = single(shaped(4, per(3, SECOND_US), None));
    for (delay_us, reset_after_us) in
        [(0, 333_334), (333_334, 666_667), (666_667, SECOND_US), (SECOND_US, 1_333_334)]
    {
        let numbers = ask(&mut model, START_US, 1);
        assert!(numbers.allowed);
        assert_eq!(numbers.delay_us, delay_us);
        assert_eq!(numbers.reset_after_us, reset_after_us);
    }
    let denied = ask(&mut model, START_US, 1);
    assert!(!denied.allowed);
    assert_eq!(denied.delay_us, 0);
    assert_eq!(ask(&mut model, START_US, 0).delay_us, 0);
    assert_eq!(retry_both_sides(&mut model, START_US, 1), 333_334);
}

#[test]
fn metering_differs_from_shaping_only_in_the_delay() {
    let rate = per(7, 3 * SECOND_US);
    let spec =
        |shape| Spec::LeakingBucket { capacity: 6, rate, shape, max_delay_us: Some(SECOND_US) };
    let (mut shape, mut meter) = (single(spec(true)), single(spec(false)));
    let mut dice = Dice(2);
    let mut now_us = START_US;
    let mut delayed = 0;
    for _ in 0..500 {
        now_us += dice.below(SECOND_US);
        let cost = dice.below(4);
        let shaped = ask(&mut shape, now_us, cost);
        let metered = ask(&mut meter, now_us, cost);
        delayed += u64::from(shaped.delay_us > 0);
        assert!(shaped.delay_us <= SECOND_US);
        let delay_us = 0;
        assert_eq!(metered, Numbers { delay_us, ..shaped });
    }
    assert!(delayed > 50);
}

#[test]
fn a_request_that_would_wait_too_long_is_denied() {
    let mut model = single(shaped(10, per(1, SECOND_US), Some(1_500_000)));
    for delay_us in [0, SECOND_US] {
        assert_eq!(ask(&mut model, START_US, 1).delay_us, delay_us);
    }
    let denied = ask(&mut model, START_US, 1);
    assert!(!denied.allowed);
    assert_eq!((denied.remaining, denied.retry_after_us), (8, Some(500_000)));
    // A look does not wait.
    assert!(ask(&mut model, START_US, 0).allowed);
    // When the capacity denies for longer than the delay does, that is the time to retry.
    assert_eq!(ask(&mut model, START_US, 10).retry_after_us, Some(2 * SECOND_US));
    assert_eq!(ask(&mut model, START_US, 11).retry_after_us, None);
    assert_eq!(retry_both_sides(&mut model, START_US, 1), 500_000);
}
