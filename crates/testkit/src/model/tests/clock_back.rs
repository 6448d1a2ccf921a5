//! A clock that steps back: no time passed, nobody is locked out.

use super::*;

const BACK_US: u64 = START_US - 10 * DAY_US;

#[test]
fn a_bucket_drains_from_the_time_it_was_denied_at() {
    let mut model = single(token_bucket(2, per(1, SECOND_US)));
    ask(&mut model, START_US, 2);
    let denied = ask(&mut model, BACK_US, 1);
    assert_eq!((denied.allowed, denied.retry_after_us), (false, Some(SECOND_US)));
    assert_eq!(retry_both_sides(&mut model, BACK_US, 1), SECOND_US);
}

#[test]
fn a_look_does_not_re_anchor() {
    let mut model = single(token_bucket(2, per(1, SECOND_US)));
    ask(&mut model, START_US, 2);
    let look = ask(&mut model, BACK_US, 0);
    assert_eq!((look.remaining, look.reset_after_us), (0, 2 * SECOND_US));
    assert_eq!(ask(&mut model, BACK_US + SECOND_US, 0).remaining, 0);
    // The denial does.
    ask(&mut model, BACK_US, 1);
    assert_eq!(ask(&mut model, BACK_US + SECOND_US, 0).remaining, 1);
}

#[test]
fn every_limit_of_a_denied_request_is_re_anchored() {
    let bucket = || token_bucket(10, per(1, SECOND_US));
    let mut model =
        Model::new(vec![enforcing(bucket()), watching(bucket()), enforcing(fixed(5, MINUTE_US))]);
    assert!(model.check(START_US, 5).allowed);
    let denied = model.check(BACK_US, 1);
    assert_eq!((denied.allowed, denied.binding), (false, 2));
    assert!(denied.limits[0].allowed && denied.limits[1].allowed);
    let later = model.check(BACK_US + 3 * SECOND_US, 0);
    assert_eq!((later.limits[0].remaining, later.limits[1].remaining), (8, 8));
}

#[test]
fn a_later_window_counts_as_this_one() {
    let edge_us = BACK_US / MINUTE_US * MINUTE_US;
    let mut model = single(fixed(2, MINUTE_US));
    ask(&mut model, START_US, 2);
    assert_eq!(retry_both_sides(&mut model, edge_us + 1, 1), MINUTE_US - 1);
}

#[test]
fn the_counters_two_windows_move_back_together() {
    let edge_us = START_US / 1_000 * 1_000;
    let mut model = single(counter(20, 1_000));
    ask(&mut model, edge_us, 4);
    ask(&mut model, edge_us + 1_000, 6);
    let back_us = edge_us - 5_000;
    // 6 of this window, and 4 · 750 / 1000 of the one before.
    assert_eq!(ask(&mut model, back_us + 250, 0).remaining, 20 - 6 - 3);
    assert!(ask(&mut model, back_us + 250, 1).allowed);
    // Written down there: a window later 7 · 500 / 1000 of it count.
    assert_eq!(ask(&mut model, back_us + 1_500, 0).remaining, 20 - 3);
    // One window back is enough.
    let mut model = single(counter(20, 1_000));
    ask(&mut model, edge_us, 4);
    ask(&mut model, edge_us + 1_000, 6);
    assert_eq!(ask(&mut model, edge_us + 250, 0).remaining, 20 - 6 - 3);
}

#[test]
fn later_log_entries_count_as_now() {
    let mut model = single(log(3, 100));
    ask(&mut model, START_US, 1);
    ask(&mut model, START_US + 30, 2);
    let back_us = START_US - 1_000;
    assert_eq!(ask(&mut model, back_us, 0).reset_after_us, 100);
    assert_eq!(ask(&mut model, START_US + 10, 0).reset_after_us, 100);
    assert_eq!(retry_both_sides(&mut model, back_us, 1), 100);
}

#[test]
fn a_lease_never_lives_longer_than_its_own_time() {
    let mut model = single(in_flight(1, 100));
    model.check_as(START_US, 1, 1, None);
    model.reconfigure(0, in_flight(1, 500));
    let back_us = START_US - 1_000;
    assert_eq!(ask(&mut model, back_us, 0).reset_after_us, 100);
    assert_eq!(ask(&mut model, back_us + 50, 0).reset_after_us, 100);
    assert_eq!(retry_both_sides(&mut model, back_us, 1), 100);
}

#[test]
fn a_shadow_that_would_deny_is_re_anchored_too() {
    let mut model = Model::new(vec![
        enforcing(fixed(100, MINUTE_US)),
        watching(token_bucket(2, per(1, SECOND_US))),
    ]);
    model.check(START_US, 2);
    let answer = model.check(BACK_US, 1);
    assert!(answer.allowed && !answer.limits[1].allowed);
    assert_eq!(answer.limits[1].retry_after_us, Some(SECOND_US));
    assert!(model.check(BACK_US + SECOND_US, 1).limits[1].allowed);
}

#[test]
fn a_look_that_is_denied_does_not_re_anchor_either() {
    let mut model = single(token_bucket(2, per(1, SECOND_US)));
    model.check_as(START_US, 2, 7, Some(MINUTE_US));
    model.settle(START_US, 7, 4);
    let look = ask(&mut model, BACK_US, 0);
    let two_us = Some(2 * SECOND_US);
    assert_eq!((look.allowed, look.retry_after_us), (false, two_us));
    let again = ask(&mut model, BACK_US + SECOND_US, 0);
    assert_eq!((again.allowed, again.retry_after_us), (false, two_us));
}
