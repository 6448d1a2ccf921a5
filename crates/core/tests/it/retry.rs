//! A retry is a promise with two sides: a microsecond before it the same request is still denied,
//! and at its time it is admitted.

use crate::common;
use crate::common::{Key, Step, amounts, asks, config, histories, quotas, starts};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollkeeper_core::{Admission, Algorithm, Answer, Outcome, Quota, Rate};

/// Both sides of what `key` says to `cost`, and one moment in between.
fn keeps_its_word(key: &Key, cost: u64, between: u64) -> Result<(), TestCaseError> {
    let said = key.look(cost);
    let outcome = Outcome::new(&key.quota, &key.state, said, false, key.now_us);
    prop_assert_eq!(outcome.allowed, said.is_yes());
    match said {
        Admission::Yes { .. } => prop_assert_eq!(outcome.retry_after_us, Some(0)),
        Admission::No { retry_after_us: None } => prop_assert!(cost > key.limit()),
        Admission::No { retry_after_us: Some(us) } => {
            prop_assert!(us > 0, "denied, yet it may come back at once");
            let before = key.look_in(cost, us - 1);
            prop_assert_eq!(before, Admission::after(1), "a microsecond early");
            let us_between = between % us;
            let then = key.look_in(cost, us_between);
            prop_assert_eq!(then, Admission::after(us - us_between), "after {} µs", us_between);
            prop_assert!(key.look_in(cost, us).is_yes(), "denied at its time");
            prop_assert_eq!((outcome.retry_after_us, outcome.delay_us), (Some(us), 0));
        }
    }
    Ok(())
}

/// Random histories of every algorithm; `cost` is chosen by the caller.
fn for_every_algorithm(
    cases: u32,
    histories: fn() -> BoxedStrategy<Vec<Step>>,
    costs: impl Fn(&Key, u64) -> u64,
) {
    for algorithm in Algorithm::ALL {
        let inputs =
            (quotas(algorithm), starts(), histories(), any::<u64>(), amounts(130), any::<u64>());
        proptest!(config(cases), |((quota, start_us, steps, any, share, between) in inputs)| {
            let mut key = Key::lived(quota, start_us, &steps);
            key.now_us += share.of(key.reset_after_us());
            keeps_its_word(&key, costs(&key, any), between)?;
        });
    }
}

#[test]
fn what_does_not_fit_is_admitted_exactly_at_its_retry() {
    for_every_algorithm(
        2_000,
        || histories().boxed(),
        // More than there is, so that it is a denial unless the key is as new.
        |key, any| (key.remaining() + 1 + any % key.limit()).min(key.limit()),
    );
}

#[test]
fn any_cost_is_admitted_exactly_at_its_retry() {
    for_every_algorithm(1_000, || asks().boxed(), |key, any| any % (key.limit() + 3));
}

#[test]
fn a_look_at_a_key_in_debt_is_admitted_exactly_at_its_retry() {
    for_every_algorithm(500, || histories().boxed(), |_, _| 0);
}

#[test]
fn never_is_said_to_a_cost_above_the_limit_and_to_no_other() {
    for algorithm in Algorithm::ALL {
        proptest!(config(300), |(quota in quotas(algorithm), steps in histories())| {
            let key = Key::lived(quota, common::START_US, &steps);
            let limit = key.limit();
            for cost in [0, 1, limit.div_ceil(2), limit] {
                prop_assert_ne!(key.look(cost), Admission::NEVER);
            }
            for cost in [limit + 1, 2 * limit + 1, u64::MAX] {
                prop_assert_eq!(key.look(cost), Admission::NEVER);
                let mut asked = key.clone();
                asked.ask(cost);
                prop_assert_eq!(&asked.state, &key.state);
            }
        });
    }
}

/// A caller who always comes back when he was told to is never denied twice in a row.
#[test]
fn nobody_who_waits_as_told_is_starved() {
    for algorithm in Algorithm::ALL {
        let costs = proptest::collection::vec(amounts(100), 1..12);
        proptest!(config(300), |(quota in quotas(algorithm), costs in costs, start in starts())| {
            let mut key = Key::new(quota, start);
            for cost in costs {
                let cost = cost.of(key.limit()).clamp(1, key.limit());
                if let Admission::No { retry_after_us } = key.ask(cost) {
                    key.now_us += retry_after_us.unwrap();
                    prop_assert!(key.ask(cost).is_yes());
                }
            }
        });
    }
}

/// The answer to a single limit is the answer to a list of one, whatever it said.
#[test]
fn one_limit_is_a_list_of_one() {
    for algorithm in Algorithm::ALL {
        let inputs = (quotas(algorithm), histories(), amounts(120), any::<bool>(), any::<bool>());
        proptest!(config(300), |((quota, steps, cost, shadow, charged) in inputs)| {
            let key = Key::lived(quota, common::START_US, &steps);
            let said = key.look(cost.of(key.limit()));
            let outcome = Outcome::new(&quota, &key.state, said, shadow, key.now_us);
            let answer = Answer::one(key.now_us, charged, outcome);
            prop_assert_eq!(answer.allowed, shadow || said.is_yes());
            prop_assert_eq!(answer.charged_at_us, charged.then_some(key.now_us));
            prop_assert_eq!(&answer, &Answer::new(key.now_us, charged, [outcome]));
            let retry_us = answer.fold().unwrap().retry_after_us;
            prop_assert_eq!(retry_us == Some(0), answer.allowed);
        });
    }
}

/// Room at the limit is not enough where the wait is bounded: the retry is the later of the two.
#[test]
fn a_bounded_wait_has_a_retry_of_its_own() {
    let rate = Rate::new(1, 10).unwrap();
    let ask = |max_delay_us, waited_us| {
        let mode = tollkeeper_core::LeakMode::Shape;
        let quota = Quota::leaking_bucket(10, rate, mode, max_delay_us).unwrap();
        let mut key = Key::new(quota, 1_000);
        assert!(key.ask(8).is_yes());
        key.look_in(2, waited_us)
    };
    assert_eq!(ask(None, 0), Admission::Yes { delay_us: 80 });
    assert_eq!(ask(Some(80), 0), Admission::Yes { delay_us: 80 });
    assert_eq!(ask(Some(79), 0), Admission::after(1));
    assert_eq!(ask(Some(30), 0), Admission::after(50));
    assert_eq!(ask(Some(30), 49), Admission::after(1));
    assert_eq!(ask(Some(30), 50), Admission::Yes { delay_us: 30 });
    assert_eq!(ask(Some(0), 79), Admission::after(1));
    assert_eq!(ask(Some(0), 80), Admission::NOW);
}
