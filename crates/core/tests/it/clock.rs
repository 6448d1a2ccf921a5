//! A clock that stands, jumps or steps back: bounds hold for its forward movements, and nobody is
//! locked out for longer than what was used takes to come back.

use crate::common;
use crate::common::{
    Amount, Key, SECOND_US, amounts, bucket_of, config, debt_of, quotas, window_of,
};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollkeeper_core::limits::EXACT;
use tollkeeper_core::{Admission, Algorithm, Quota, State};

/// Late enough that no story steps back behind the epoch by accident.
const START_US: u64 = EXACT / 2;

/// The clock moves by an amount of the limit's own span, then somebody asks.
#[derive(Clone, Copy, Debug)]
struct Tick {
    back: bool,
    by: Amount,
    cost: Amount,
}

fn ticks() -> impl Strategy<Value = Vec<Tick>> {
    let by = prop_oneof![3 => amounts(40), 1 => amounts(250), 1 => Just(Amount::Few(0))];
    let tick = (proptest::bool::weighted(0.4), by, amounts(100));
    let tick = tick.prop_map(|(back, by, cost)| Tick { back, by, cost });
    proptest::collection::vec(tick, 1..40)
}

/// How long a used-up limit takes to be as new, at most; for a sliding counter the half of it.
fn span_us(quota: &Quota) -> u64 {
    match quota {
        Quota::Concurrency(in_flight) => in_flight.lease_us(),
        _ => bucket_of(quota)
            .map(|bucket| bucket.full_debt().div_ceil(bucket.drain()))
            .or_else(|| window_of(quota).map(|window| window.size_us()))
            .unwrap(),
    }
}

/// What was admitted, on a clock that counts forward movements alone.
struct Story {
    key: Key,
    forward_us: u64,
    /// Window edges passed, forwards.
    edges: u64,
    admitted: Vec<(u64, u64, u64)>,
}

impl Story {
    fn told(quota: Quota, ticks: &[Tick]) -> Self {
        let key = Key::new(quota, START_US);
        let mut story = Self { key, forward_us: 0, edges: 0, admitted: Vec::new() };
        ticks.iter().for_each(|tick| story.tick(tick));
        story
    }

    fn tick(&mut self, tick: &Tick) {
        let by_us = tick.by.of(span_us(&self.key.quota));
        if tick.back {
            self.key.now_us = self.key.now_us.saturating_sub(by_us);
        } else {
            let size_us = window_of(&self.key.quota).map_or(1, |window| window.size_us());
            let before = self.key.now_us / size_us;
            self.key.now_us += by_us;
            self.forward_us += by_us;
            self.edges += u64::from(self.key.now_us / size_us > before);
        }
        let cost = tick.cost.of(self.key.limit());
        if self.key.ask(cost).is_yes() {
            self.admitted.push((self.forward_us, self.edges, cost));
        }
    }

    /// Every interval that begins and ends with an admission.
    fn is_within_bounds(&self) -> Result<(), TestCaseError> {
        let (quota, limit) = (&self.key.quota, u128::from(self.key.limit()));
        for (first, &(from_us, from_edges, _)) in self.admitted.iter().enumerate() {
            let mut units = 0;
            for &(to_us, to_edges, cost) in &self.admitted[first..] {
                units += u128::from(cost);
                let passed_us = to_us - from_us;
                let holds = match (bucket_of(quota), quota) {
                    (Some(bucket), _) => {
                        let unit = u128::from(bucket.unit());
                        let drained = u128::from(bucket.drain()) * u128::from(passed_us);
                        units * unit <= limit * unit + drained
                    }
                    (_, Quota::SlidingWindowLog(_) | Quota::Concurrency(_)) => {
                        units <= limit || passed_us >= span_us(quota)
                    }
                    _ => units <= limit || from_edges != to_edges,
                };
                prop_assert!(holds, "{} units in {} µs: {:?}", units, passed_us, self.admitted);
            }
        }
        Ok(())
    }
}

#[test]
fn bounds_hold_for_the_forward_movements() {
    for algorithm in Algorithm::ALL {
        proptest!(config(1_000), |(quota in quotas(algorithm), ticks in ticks())| {
            Story::told(quota, &ticks).is_within_bounds()?;
        });
    }
}

#[test]
fn a_step_back_locks_nobody_for_longer_than_the_debt_drains() {
    for algorithm in Algorithm::ALL {
        let back = prop_oneof![amounts(300), Just(Amount::Few(START_US))];
        let inputs = (quotas(algorithm), ticks(), back, amounts(100));
        proptest!(config(1_000), |((quota, ticks, back, cost) in inputs)| {
            let mut key = Story::told(quota, &ticks).key;
            let owed_before = debt_of(&key);
            key.now_us = key.now_us.saturating_sub(back.of(span_us(&quota)));
            prop_assert!(debt_of(&key) >= owed_before, "a step back pays nothing");
            let longest_us = match (&key.state, bucket_of(&quota)) {
                (State::Debt(written), Some(bucket)) => written.debt.div_ceil(bucket.drain()),
                _ if algorithm == Algorithm::SlidingWindowCounter => 2 * span_us(&quota),
                _ => span_us(&quota),
            };
            prop_assert!(key.reset_after_us() <= longest_us);
            let cost = cost.of(key.limit()).clamp(1, key.limit());
            if let Admission::No { retry_after_us } = key.ask(cost) {
                let us = retry_after_us.unwrap();
                prop_assert!(0 < us && us <= longest_us);
                prop_assert_eq!(key.look_in(cost, us - 1), Admission::after(1));
                prop_assert!(key.look_in(cost, us).is_yes());
            }
            prop_assert!(key.later(key.reset_after_us()).look(key.limit()).is_yes());
        });
    }
}

/// To be tied to the clock changes how the key will be seen, not how it is seen now; once is
/// enough, and `anchor` says whether anything changed.
#[test]
fn anchor_is_idempotent_and_changes_no_answer() {
    for algorithm in Algorithm::ALL {
        let inputs = (quotas(algorithm), ticks(), amounts(200), any::<bool>(), amounts(100));
        proptest!(config(1_000), |((quota, ticks, by, back, cost) in inputs)| {
            let mut key = Story::told(quota, &ticks).key;
            key.state.anchor(&quota, key.now_us);
            let by_us = by.of(span_us(&quota));
            key.now_us = if back { key.now_us.saturating_sub(by_us) } else { key.now_us + by_us };
            let seen = |key: &Key| {
                let cost = cost.of(key.limit());
                (key.look(cost), key.remaining(), key.reset_after_us())
            };
            let (before, seen_before) = (key.state.clone(), seen(&key));
            let moved = key.state.anchor(&quota, key.now_us);
            prop_assert_eq!(moved, key.state != before);
            prop_assert!(back || !moved, "a clock that went on moves nothing");
            prop_assert_eq!(seen(&key), seen_before);
            let once = key.state.clone();
            prop_assert!(!key.state.anchor(&quota, key.now_us));
            prop_assert_eq!(key.state, once);
        });
    }
}

/// The epoch is a moment like any other: the same story near it and a thousand spans later.
#[test]
fn answers_do_not_depend_on_the_distance_to_the_epoch() {
    for algorithm in Algorithm::ALL {
        let inputs = (quotas(algorithm), ticks(), amounts(250));
        proptest!(config(1_000), |((quota, ticks, start) in inputs)| {
            let start_us = start.of(span_us(&quota));
            let shift_us = 1_000 * window_of(&quota).map_or(1, |window| window.size_us());
            let mut keys = [start_us, start_us + shift_us].map(|us| Key::new(quota, us));
            for tick in ticks {
                let by_us = tick.by.of(span_us(&quota));
                let back_us = if tick.back { by_us.min(keys[0].now_us) } else { 0 };
                let forward_us = if tick.back { 0 } else { by_us };
                let [near, far] = keys.each_mut().map(|key| {
                    key.now_us = key.now_us - back_us + forward_us;
                    (key.ask(tick.cost.of(key.limit())), key.remaining(), key.reset_after_us())
                });
                prop_assert_eq!(near, far);
            }
        });
    }
}

/// What was denied at a moment is denied at that moment for ever, and leaves no trace.
#[test]
fn a_clock_that_stands_still_gives_the_same_answer() {
    for algorithm in Algorithm::ALL {
        proptest!(config(300), |(quota in quotas(algorithm), ticks in ticks())| {
            let mut key = Story::told(quota, &ticks).key;
            let cost = (key.remaining() + 1).min(key.limit());
            let said = key.ask(cost);
            prop_assume!(!said.is_yes());
            let state = key.state.clone();
            for _ in 0..5 {
                prop_assert_eq!(key.ask(cost), said);
                prop_assert_eq!(&key.state, &state);
            }
        });
    }
}

/// A jump far ahead is a long rest.
#[test]
fn a_jump_ahead_makes_the_key_as_new_and_no_more() {
    for algorithm in Algorithm::ALL {
        let inputs = (quotas(algorithm), ticks(), 0..EXACT);
        proptest!(config(200), |((quota, ticks, jump_us) in inputs)| {
            let mut key = Story::told(quota, &ticks).key;
            key.state.anchor(&quota, key.now_us);
            key.now_us += key.reset_after_us() + jump_us;
            prop_assert_eq!(key.reset_after_us(), 0);
            prop_assert!(key.ask(key.limit()).is_yes());
            prop_assert!(!key.ask(1).is_yes());
        });
    }
}

/// One fact for each kind of state: used at ten seconds, looked at from three.
#[test]
fn what_was_later_happened_now() {
    for quota in common::one_of_each(4, SECOND_US) {
        let mut key = Key::new(quota, 10 * SECOND_US);
        assert!(key.ask(4).is_yes());
        key.now_us = 3 * SECOND_US;
        let Admission::No { retry_after_us: Some(us) } = key.ask(4) else {
            unreachable!("{quota:?} forgot");
        };
        // The sliding counter weighs it through the next window too.
        let weighed = quota.algorithm() == Algorithm::SlidingWindowCounter;
        assert_eq!(us, if weighed { 2 * SECOND_US - SECOND_US / 4 + 1 } else { SECOND_US });
        match key.state {
            State::Debt(debt) => assert_eq!(debt.last_us, 3 * SECOND_US),
            State::Count(count) => assert_eq!(count.window, 3),
            State::Pair(pair) => assert_eq!((pair.window, pair.current), (3, 4)),
            State::Log(log) => assert_eq!(log.entries().next().unwrap().time_us, 3 * SECOND_US),
            State::Leases(held) => {
                assert_eq!(held.leases().next().unwrap().expires_us, 4 * SECOND_US);
            }
            _ => unreachable!(),
        }
    }
}

/// A log whose units were all forgiven stayed later than now, and denied beyond its window.
#[test]
fn units_that_are_all_forgiven_still_tie_a_state_to_a_clock_that_stepped_back() {
    for later_by_us in [1, 500, 999] {
        let quota = Quota::sliding_window_log(1, 1_000).unwrap();
        let mut key = Key::new(quota, START_US + later_by_us);
        assert_eq!(key.state.overcharge(&quota, 2, key.now_us), 0);
        key.now_us = START_US;
        assert_eq!(key.state.overcharge(&quota, 1, key.now_us), 1);
        key.now_us = START_US + 1_000 - 1;
        assert!(!key.look(1).is_yes());
        key.now_us = START_US + 1_000;
        assert_eq!(key.look(1), Admission::NOW, "{later_by_us}");
    }
}
