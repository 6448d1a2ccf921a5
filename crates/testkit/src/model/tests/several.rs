//! Several limits at once.

use super::*;
use crate::model::Settled;

#[test]
fn when_any_denies_none_is_charged() {
    let mut model = Model::new(vec![
        enforcing(token_bucket(10, per(10, SECOND_US))),
        enforcing(fixed(2, MINUTE_US)),
    ]);
    assert!(model.check(START_US, 2).allowed);
    let denied = model.check(START_US, 1);
    assert_eq!((denied.allowed, denied.binding), (false, 1));
    let [bucket, window] = &denied.limits[..] else {
        panic!("two limits, two numbers");
    };
    assert!(bucket.allowed && !window.allowed);
    assert_eq!((bucket.remaining, bucket.retry_after_us), (8, Some(0)));
    assert_eq!(denied.folded, *window);
    assert_eq!(model.check(START_US, 0).limits[0].remaining, 8);
}

#[test]
fn the_binding_limit_is_the_scarcest_or_the_longest() {
    let mut model = Model::new(vec![
        enforcing(fixed(100, MINUTE_US)),
        enforcing(token_bucket(10, per(1, SECOND_US))),
        enforcing(log(10, SECOND_US)),
    ]);
    let admitted = model.check(START_US, 5);
    assert_eq!((admitted.allowed, admitted.binding), (true, 1));
    assert_eq!((admitted.folded.limit, admitted.folded.remaining), (10, 5));
    let denied = model.check(START_US, 8);
    assert_eq!((denied.allowed, denied.binding), (false, 1));
    assert_eq!(denied.folded.retry_after_us, Some(3 * SECOND_US));
    let never = model.check(START_US, 11);
    assert_eq!((never.binding, never.folded.retry_after_us), (1, None));
}

#[test]
fn the_delay_is_the_largest_of_those_that_enforce() {
    let mut model = Model::new(vec![
        enforcing(shaped(10, per(2, SECOND_US), None)),
        enforcing(shaped(100, per(1, SECOND_US), None)),
        watching(shaped(100, per(1, 10 * SECOND_US), None)),
    ]);
    model.check(START_US, 1);
    let second = model.check(START_US, 1);
    assert_eq!((second.allowed, second.binding), (true, 0));
    assert_eq!(second.limits[0].delay_us, 500_000);
    assert_eq!(second.limits[2].delay_us, 10 * SECOND_US);
    assert_eq!(second.folded.delay_us, SECOND_US);
    let denied = model.check(START_US, 9);
    assert!(denied.limits[1].allowed);
    assert_eq!((denied.limits[1].delay_us, denied.folded.delay_us), (0, 0));
}

#[test]
fn a_shadow_is_charged_when_it_would_admit_in_an_admitted_request() {
    let mut model = Model::new(vec![enforcing(fixed(5, MINUTE_US)), watching(fixed(3, MINUTE_US))]);
    let first = model.check(START_US, 2);
    assert_eq!((first.binding, first.limits[1].remaining), (0, 1));
    let second = model.check(START_US, 2);
    assert!(second.allowed && !second.limits[1].allowed);
    assert_eq!(second.limits[1].remaining, 1);
    assert_eq!(second.limits[1].retry_after_us, second.limits[1].reset_after_us.into());
    assert_eq!(second.folded.retry_after_us, Some(0));
    let third = model.check(START_US, 1);
    assert_eq!((third.limits[0].remaining, third.limits[1].remaining), (0, 0));
    assert!(!model.check(START_US, 1).allowed);
}

#[test]
fn a_denied_request_does_not_charge_a_shadow() {
    let mut model =
        Model::new(vec![watching(fixed(10, MINUTE_US)), enforcing(fixed(1, MINUTE_US))]);
    model.check(START_US, 1);
    let denied = model.check(START_US, 1);
    assert!(!denied.allowed && denied.limits[0].allowed);
    assert_eq!(denied.limits[0].remaining, 9);
}

#[test]
fn shadows_alone_admit_everything() {
    let mut model = Model::new(vec![
        watching(fixed(4, MINUTE_US)),
        watching(shaped(2, per(1, SECOND_US), None)),
    ]);
    for _ in 0..2 {
        assert!(model.check(START_US, 1).allowed);
    }
    let answer = model.check(START_US, 1);
    assert!(answer.allowed && answer.folded.allowed && !answer.limits[1].allowed);
    assert_eq!(answer.binding, 1);
    let folded = answer.folded;
    assert_eq!((folded.retry_after_us, folded.delay_us), (Some(0), 0));
    assert_eq!((folded.limit, folded.remaining), (2, 0));
}

#[test]
fn a_reservation_is_settled_in_every_limit_it_was_charged_to() {
    let mut model = Model::new(vec![
        enforcing(token_bucket(10, per(1, SECOND_US))),
        watching(fixed(3, MINUTE_US)),
        enforcing(log(20, MINUTE_US)),
    ]);
    model.check_as(START_US, 5, 1, Some(MINUTE_US));
    assert_eq!(model.settle(START_US, 1, 1), Settled::Done);
    let left = model.check(START_US, 0).limits;
    let left: Vec<u64> = left.iter().map(|limit| limit.remaining).collect();
    // The shadow was not charged, so there is nothing to give back.
    assert_eq!(left, [9, 3, 19]);
    assert_eq!(model.settle(START_US, 1, 1), Settled::Repeated);
}

#[test]
fn a_look_at_several_binds_by_the_same_rules() {
    let mut model = Model::new(vec![
        enforcing(fixed(4, MINUTE_US)),
        enforcing(token_bucket(2, per(1, MINUTE_US))),
    ]);
    model.check(START_US, 2);
    let look = model.check(START_US, 0);
    assert_eq!((look.allowed, look.binding), (true, 1));
    assert_eq!(look.folded.retry_after_us, Some(0));
}
