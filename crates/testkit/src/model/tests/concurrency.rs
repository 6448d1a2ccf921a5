//! Permits.

use super::*;

/// Three permits, of 2, 1 and 1 units, at 0, 10 and 20.
fn three() -> Model {
    let mut model = single(in_flight(4, 100));
    for (at_us, units, id) in [(0, 2, 1), (10, 1, 2), (20, 1, 3)] {
        assert!(model.check_as(START_US + at_us, units, id, None).allowed);
    }
    model
}

#[test]
fn retry_is_when_enough_leases_have_expired() {
    let now_us = START_US + 50;
    let retry = |cost| ask(&mut three(), now_us, cost).retry_after_us;
    assert_eq!(retry(1), Some(50));
    assert_eq!(retry(2), Some(50));
    assert_eq!(retry(3), Some(60));
    assert_eq!(retry(4), Some(70));
    assert_eq!(retry(5), None);
    for cost in 1..=4 {
        retry_both_sides(&mut three(), now_us, cost);
    }
}

#[test]
fn reset_is_when_the_last_lease_expires() {
    let mut model = three();
    let look = ask(&mut model, START_US + 50, 0);
    assert_eq!((look.remaining, look.reset_after_us), (0, 70));
    assert_eq!(ask(&mut model, START_US + 119, 0).reset_after_us, 1);
    let over = ask(&mut model, START_US + 120, 0);
    assert_eq!((over.remaining, over.reset_after_us), (4, 0));
}

#[test]
fn release_takes_effect_once() {
    let mut model = three();
    assert!(model.release(START_US + 50, 1));
    assert_eq!(ask(&mut model, START_US + 50, 0).remaining, 2);
    assert!(!model.release(START_US + 51, 1));
    assert!(!model.release(START_US + 51, 99));
    assert_eq!(ask(&mut model, START_US + 51, 0).remaining, 2);
}

#[test]
fn renew_lets_a_permit_live_a_lease_time_from_now() {
    let mut model = three();
    assert!(model.renew(START_US + 99, 1));
    assert_eq!(ask(&mut model, START_US + 150, 0).remaining, 2);
    assert_eq!(ask(&mut model, START_US + 198, 0).remaining, 2);
    assert_eq!(ask(&mut model, START_US + 199, 0).remaining, 4);
    assert!(!model.renew(START_US + 199, 1));
    assert!(!model.release(START_US + 199, 1));
}

#[test]
fn a_permit_over_is_not_held() {
    let mut model = three();
    assert!(!model.renew(START_US + 100, 1));
    assert!(model.renew(START_US + 100, 2));
    assert!(!model.release(START_US + 100, 1));
}

#[test]
fn neither_refund_nor_settle_ends_a_permit() {
    let mut model = single(in_flight(4, 100));
    model.check_as(START_US, 3, 1, Some(1_000));
    model.refund(START_US + 1, 3, None);
    assert_eq!(model.settle(START_US + 2, 1, 0), crate::model::Settled::Done);
    assert_eq!(ask(&mut model, START_US + 3, 0).remaining, 1);
}

#[test]
fn a_permit_granted_again_holds_both() {
    let mut model = single(in_flight(4, 100));
    model.check_as(START_US, 1, 1, None);
    model.check_as(START_US + 10, 2, 1, None);
    assert_eq!(ask(&mut model, START_US + 10, 0).remaining, 1);
    assert!(model.release(START_US + 11, 1));
    assert_eq!(ask(&mut model, START_US + 11, 0).remaining, 4);
}

#[test]
fn permits_outlive_a_changed_limit() {
    let mut model = three();
    model.reconfigure(0, in_flight(1, 10));
    let look = ask(&mut model, START_US + 50, 0);
    assert!(!look.allowed, "four are held where one may be");
    assert_eq!(look.retry_after_us, Some(60));
    assert_eq!((look.remaining, look.reset_after_us), (0, 70));
    // A renewal is for the new lease time.
    assert!(model.renew(START_US + 99, 3));
    assert_eq!(ask(&mut model, START_US + 109, 0).remaining, 0);
    assert_eq!(ask(&mut model, START_US + 110, 0).remaining, 1);
}
