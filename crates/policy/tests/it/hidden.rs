//! What is said to be hidden is: the hidden limit denies nothing that the other one admits, on any
//! trace, by core's own algorithms.

use proptest::prelude::*;
use tollkeeper_core::{LeakMode, Quota, Rate, State};
use tollkeeper_policy::{AdviceCode, Policy, Rule};

/// Whether a policy whose rule `all` has `stricter` is told that `looser` of its rule `one` is
/// hidden.
fn is_hidden(stricter: Quota, looser: Quota) -> bool {
    let all = Rule::new("all", [stricter]).unwrap();
    let one = Rule::new("one", [looser]).unwrap().keyed_by(["ip"]).unwrap();
    let advice = Policy::from_rules([all, one]).unwrap().advice();
    advice
        .iter()
        .any(|advice| advice.code == AdviceCode::Hidden && advice.rule.as_deref() == Some("one"))
}

fn bucket(most: u64) -> impl Strategy<Value = Quota> {
    let mode = prop_oneof![Just(LeakMode::Meter), Just(LeakMode::Shape)];
    let delay = prop_oneof![3 => Just(None), 1 => (0..20_u64).prop_map(Some)];
    let rate = (1..=most, prop_oneof![Just(1_u64), Just(7), Just(10), 1..40_u64]);
    (1..=most, rate, 0..3, mode, delay).prop_map(|(capacity, (count, us), which, mode, delay)| {
        let rate = Rate::new(count, us).unwrap();
        match which {
            0 => Quota::token_bucket(capacity, rate).unwrap(),
            1 => Quota::gcra(capacity, rate).unwrap(),
            _ => Quota::leaking_bucket(capacity, rate, mode, delay).unwrap(),
        }
    })
}

fn window(most: u64) -> impl Strategy<Value = Quota> {
    let size = prop_oneof![Just(5_u64), Just(10), Just(20), 1..40_u64];
    (1..=most, size, 0..3).prop_map(|(count, size, which)| match which {
        0 => Quota::fixed_window(count, size).unwrap(),
        1 => Quota::sliding_window_log(count, size).unwrap(),
        _ => Quota::sliding_window_counter(count, size).unwrap(),
    })
}

fn quota(most: u64) -> impl Strategy<Value = Quota> {
    let leases = (1..=most, 1..40_u64);
    let in_flight = leases.prop_map(|(count, us)| Quota::concurrency(count, us).unwrap());
    prop_oneof![4 => bucket(most), 4 => window(most), 1 => in_flight]
}

/// One request: how long after the one before, its cost, how much more the stricter limit takes,
/// and whether only that one meets it.
type Asked = (u64, u64, u64, bool);

fn trace() -> impl Strategy<Value = Vec<Asked>> {
    let pause = prop_oneof![4 => Just(0_u64), 4 => 1..4_u64, 2 => 1..30_u64];
    let more = prop_oneof![9 => Just(0_u64), 1 => 0..3_u64];
    let alone = prop_oneof![9 => Just(false), 1 => Just(true)];
    prop::collection::vec((pause, 1..4_u64, more, alone), 1..120)
}

/// Where the looser limit denies what the stricter one admits, if anywhere.
fn betrayed(stricter: &Quota, looser: &Quota, begin_us: u64, trace: &[Asked]) -> Option<usize> {
    let mut now_us = begin_us;
    let (mut mine, mut its) = (State::fresh(stricter, now_us), State::fresh(looser, now_us));
    for (nth, &(pause_us, cost, more, alone)) in trace.iter().enumerate() {
        now_us += pause_us;
        let permit = nth as u128 + 1;
        if !mine.admit(stricter, cost + more, now_us).is_yes() {
            continue;
        }
        if !alone && !its.admit(looser, cost, now_us).is_yes() {
            return Some(nth);
        }
        mine.charge(stricter, cost + more, permit, now_us);
        if !alone {
            its.charge(looser, cost, permit, now_us);
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20_000) })]

    #[test]
    fn a_hidden_limit_denies_nothing_that_the_other_admits(
        stricter in quota(6),
        looser in quota(30),
        begin_us in 1_000_000..1_000_200_u64,
        trace in trace(),
    ) {
        if is_hidden(stricter, looser) {
            let at = betrayed(&stricter, &looser, begin_us, &trace);
            prop_assert_eq!(at, None, "{:?} does not hide {:?}", stricter, looser);
        }
    }
}

const S: u64 = 1_000_000;

fn tokens(capacity: u64, count: u64, us: u64) -> Quota {
    Quota::token_bucket(capacity, Rate::new(count, us).unwrap()).unwrap()
}

fn fixed(count: u64, us: u64) -> Quota {
    Quota::fixed_window(count, us).unwrap()
}

fn log(count: u64, us: u64) -> Quota {
    Quota::sliding_window_log(count, us).unwrap()
}

fn counter(count: u64, us: u64) -> Quota {
    Quota::sliding_window_counter(count, us).unwrap()
}

#[test]
fn the_edge_of_what_is_hidden() {
    let meter = |capacity, count| {
        let rate = Rate::new(count, S).unwrap();
        Quota::leaking_bucket(capacity, rate, LeakMode::Meter, None).unwrap()
    };
    let in_flight = |count, lease| Quota::concurrency(count, lease).unwrap();
    for (stricter, hidden, not_hidden) in [
        (tokens(10, 10, S), tokens(10, 10, S), tokens(9, 10, S)),
        (tokens(10, 10, S), tokens(1000, 600, 60 * S), tokens(1000, 599, 60 * S)),
        (tokens(10, 10, S), meter(10, 10), meter(10, 9)),
        // Ten at once, and ten a second but for the last microsecond.
        (tokens(10, 10, S), fixed(19, S), fixed(18, S)),
        (tokens(10, 10, S), log(609, 60 * S), log(608, 60 * S)),
        (tokens(10, 10, S), counter(29, S), counter(28, S)),
        (fixed(10, S), fixed(600, 60 * S), fixed(599, 60 * S)),
        (fixed(100, 60 * S), fixed(100, S), fixed(99, S)),
        (fixed(10, S), log(20, S), log(19, S)),
        (fixed(10, S), tokens(20, 10, S), tokens(19, 10, S)),
        (log(10, S), log(600, 60 * S), log(599, 60 * S)),
        (log(10, S), fixed(10, S), fixed(9, S)),
        (log(10, S), tokens(10, 10, S), tokens(10, 9, S)),
        (counter(10, S), counter(10, S), counter(9, S)),
        (counter(10, S), fixed(10, S), fixed(9, S)),
        (in_flight(5, 30 * S), in_flight(5, 10 * S), in_flight(5, 31 * S)),
    ] {
        assert!(is_hidden(stricter, hidden), "{stricter:?} hides {hidden:?}");
        assert!(!is_hidden(stricter, not_hidden), "{stricter:?} does not hide {not_hidden:?}");
    }
}

/// The other side: just below the edge there is a trace on which the looser limit denies.
#[test]
fn beyond_the_edge_the_other_limit_does_deny() {
    // Ten, then one each time that a token is back.
    let steady: Vec<Asked> =
        (0..200).map(|nth| (if nth < 10 { 0 } else { S / 10 }, 1, 0, false)).collect();
    for looser in [fixed(18, S), log(608, 60 * S), tokens(1000, 300, 60 * S)] {
        let long: Vec<Asked> = steady.iter().copied().cycle().take(3_000).collect();
        assert!(betrayed(&tokens(10, 10, S), &looser, 1_000 * S, &long).is_some(), "{looser:?}");
    }
    let around_the_edge: Vec<Asked> =
        (0..20).map(|nth| (u64::from(nth == 10), 1, 0, false)).collect();
    assert!(betrayed(&fixed(10, S), &log(19, S), 1_000 * S - 1, &around_the_edge).is_some());
}

#[test]
fn one_that_lets_requests_wait_is_not_hidden() {
    let rate = Rate::new(10, S).unwrap();
    let shape = Quota::leaking_bucket(100, rate, LeakMode::Shape, None).unwrap();
    let hasty = Quota::leaking_bucket(100, rate, LeakMode::Meter, Some(S)).unwrap();
    assert!(!is_hidden(tokens(1, 1, S), shape));
    assert!(!is_hidden(tokens(1, 1, S), hasty));
}
