//! Refunds and reservations.

use super::*;
use crate::model::Settled;

const TTL_US: u64 = 600 * SECOND_US;

/// What is left of a model's only limit.
fn left(model: &mut Model, now_us: u64) -> u64 {
    ask(model, now_us, 0).remaining
}

#[test]
fn a_bucket_gives_back_what_has_not_come_back_by_itself() {
    let mut model = single(token_bucket(10, per(1, SECOND_US)));
    ask(&mut model, START_US, 4);
    ask(&mut model, START_US + SECOND_US, 4);
    // Used: 4 − 1 + 4 = 7. One of the first charge's four has drained: three are given back.
    model.refund(START_US + SECOND_US, 4, Some(START_US));
    assert_eq!(left(&mut model, START_US + SECOND_US), 6);
    // Too old to matter.
    model.refund(START_US + SECOND_US, 4, Some(START_US - 9 * SECOND_US));
    assert_eq!(left(&mut model, START_US + SECOND_US), 6);
    // A charge from the future has no age, and nothing goes above the capacity.
    model.refund(START_US + SECOND_US, 3, Some(START_US + DAY_US));
    assert_eq!(left(&mut model, START_US + SECOND_US), 9);
    model.refund(START_US + SECOND_US, u64::MAX, None);
    assert_eq!(left(&mut model, START_US + SECOND_US), 10);
}

#[test]
fn a_bucket_gives_back_a_whole_charge_that_its_limit_no_longer_allows() {
    let mut model = single(token_bucket(100, per(100, MINUTE_US)));
    ask(&mut model, START_US, 100);
    model.reconfigure(0, token_bucket(10, per(10, MINUTE_US)));
    model.refund(START_US, 100, Some(START_US));
    assert_eq!(left(&mut model, START_US), 10);
}

#[test]
fn a_window_gives_back_what_it_still_holds_of_a_charge() {
    let edge_us = START_US / MINUTE_US * MINUTE_US;
    let next_us = edge_us + MINUTE_US;
    let mut model = single(fixed(10, MINUTE_US));
    ask(&mut model, edge_us, 4);
    model.refund(edge_us + 5, 1, Some(edge_us));
    assert_eq!(left(&mut model, edge_us + 5), 7);
    ask(&mut model, next_us, 6);
    model.refund(next_us, 3, Some(edge_us));
    assert_eq!(left(&mut model, next_us), 4);
    model.refund(next_us, 2, None);
    assert_eq!(left(&mut model, next_us), 6);
    model.refund(next_us, 9, Some(next_us + DAY_US));
    assert_eq!(left(&mut model, next_us), 10);
}

#[test]
fn the_counter_gives_back_to_the_window_of_the_charge() {
    let edge_us = START_US / 1_000 * 1_000;
    let model = || {
        let mut model = single(counter(20, 1_000));
        ask(&mut model, edge_us, 8);
        ask(&mut model, edge_us + 1_000, 4);
        model
    };
    let now_us = edge_us + 1_500;
    let after = |units, charged_at_us| {
        let mut model = model();
        model.refund(now_us, units, charged_at_us);
        20 - left(&mut model, now_us)
    };
    assert_eq!(after(0, None), 4 + 4);
    assert_eq!(after(3, Some(edge_us + 1_000)), 4 + 1);
    assert_eq!(after(9, Some(edge_us + 1_000)), 4);
    assert_eq!(after(3, Some(edge_us + 999)), 2 + 4);
    assert_eq!(after(3, Some(edge_us - 1)), 4 + 4);
    // The current window first, the rest off the one before.
    assert_eq!(after(6, None), 3);
}

#[test]
fn the_log_drops_units_of_the_time() {
    let mut model = single(log(10, 100));
    for (at_us, units) in [(0, 2), (10, 3), (20, 1)] {
        ask(&mut model, START_US + at_us, units);
    }
    model.refund(START_US + 30, 5, Some(START_US + 10));
    assert_eq!(left(&mut model, START_US + 30), 7);
    model.refund(START_US + 30, 1, Some(START_US + 11));
    assert_eq!(left(&mut model, START_US + 30), 7);
    // The two newest: the one of 20, and one of those of 0.
    model.refund(START_US + 30, 2, None);
    let look = ask(&mut model, START_US + 30, 0);
    assert_eq!((look.remaining, look.reset_after_us), (9, 70));
}

#[test]
fn a_refund_of_nothing_or_to_nobody_changes_nothing() {
    let mut model = single(token_bucket(2, per(1, SECOND_US)));
    model.refund(START_US, 2, None);
    ask(&mut model, START_US, 2);
    model.refund(START_US - DAY_US, 0, None);
    assert_eq!(left(&mut model, START_US + SECOND_US), 1);
}

#[test]
fn settling_below_the_reserve_gives_the_difference_back_once() {
    let mut model = single(token_bucket(10, per(1, SECOND_US)));
    model.check_as(START_US, 8, 7, Some(TTL_US));
    assert_eq!(model.settle(START_US, 8, 3), Settled::Unknown);
    // Three of the five too many have come back by themselves.
    let now_us = START_US + 3 * SECOND_US;
    assert_eq!(model.settle(now_us, 7, 3), Settled::Done);
    assert_eq!(left(&mut model, now_us), 7);
    assert_eq!(model.settle(now_us, 7, 3), Settled::Repeated);
    assert_eq!(left(&mut model, now_us), 7);
    assert_eq!(model.settle(START_US + TTL_US, 7, 3), Settled::Unknown);
}

#[test]
fn settling_above_the_reserve_goes_into_debt_at_most_one_capacity_deep() {
    for (spec, back_us) in [
        (token_bucket(10, per(10, SECOND_US)), 200_000),
        (shaped(10, per(10, SECOND_US), None), 200_000),
    ] {
        let mut model = single(spec);
        model.check_as(START_US, 8, 7, Some(TTL_US));
        model.settle(START_US, 7, 12);
        let look = ask(&mut model, START_US, 0);
        assert_eq!((look.allowed, look.remaining), (false, 0));
        assert_eq!(look.retry_after_us, Some(back_us));
        assert_eq!(look.reset_after_us, 1_200_000);
    }
    let edge_us = START_US / SECOND_US * SECOND_US;
    for (spec, reset_after_us) in [
        (token_bucket(10, per(10, SECOND_US)), 2 * SECOND_US),
        (fixed(10, SECOND_US), SECOND_US),
        (log(10, SECOND_US), SECOND_US),
        (counter(10, SECOND_US), 2 * SECOND_US),
    ] {
        let mut model = single(spec);
        model.check_as(edge_us, 8, 7, Some(TTL_US));
        assert_eq!(model.settle(edge_us, 7, u64::MAX), Settled::Done);
        let look = ask(&mut model, edge_us, 0);
        assert!(!look.allowed);
        assert_eq!((look.remaining, look.reset_after_us), (0, reset_after_us));
        retry_both_sides(&mut model, edge_us, 10);
    }
}

#[test]
fn only_what_was_charged_is_reserved() {
    let mut model = single(token_bucket(10, per(1, SECOND_US)));
    model.check_as(START_US, 0, 1, Some(TTL_US));
    model.check_as(START_US, 11, 2, Some(TTL_US));
    model.check_as(START_US, 1, 3, None);
    for id in 1..=3 {
        assert_eq!(model.settle(START_US, id, 0), Settled::Unknown);
    }
    model.check_as(START_US, 5, 4, Some(TTL_US));
    assert_eq!(model.settle(START_US, 4, 0), Settled::Done, "a cancel");
    assert_eq!(left(&mut model, START_US), 9);
}

#[test]
fn a_reset_forgets_the_usage() {
    let mut model = single(log(3, MINUTE_US));
    ask(&mut model, START_US, 3);
    model.reset();
    let look = ask(&mut model, START_US, 0);
    assert_eq!((look.remaining, look.reset_after_us), (3, 0));
}
