//! What the test files of this crate share: a key under a limit, asked as a store asks it, and how
//! random limits and histories are made. It holds no test of its own.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tollkeeper_core::limits::MAX_PERIOD_US;
use tollkeeper_core::{Admission, Algorithm, Bucket, LeakMode, Quota, Rate, State, Window};

pub(crate) const SECOND_US: u64 = 1_000_000;
pub(crate) const DAY_US: u64 = 86_400 * SECOND_US;
/// A moment like today's, in the middle of no window in particular.
pub(crate) const START_US: u64 = 1_700_000_000_123_457;

/// So many cases, the same ones in every run.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(1);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

/// The state of one key under one limit, and the time that it is.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) quota: Quota,
    pub(crate) state: State,
    pub(crate) now_us: u64,
    /// How many were given; their names count from 1.
    pub(crate) permits: u128,
}

impl Key {
    pub(crate) fn new(quota: Quota, now_us: u64) -> Self {
        Self { quota, state: State::fresh(&quota, now_us), now_us, permits: 0 }
    }

    /// Asks as a store does: what fits is charged, what does not is tied to the clock, and a look
    /// writes nothing.
    pub(crate) fn ask(&mut self, cost: u64) -> Admission {
        let admission = self.look(cost);
        if cost > 0 && admission.is_yes() {
            self.permits += 1;
            self.state.charge(&self.quota, cost, self.permits, self.now_us);
        } else if cost > 0 {
            self.state.anchor(&self.quota, self.now_us);
        }
        admission
    }

    /// How many requests of `cost` pass one after another at this moment.
    pub(crate) fn flood(&mut self, cost: u64) -> u64 {
        let mut admitted = 0;
        while self.ask(cost).is_yes() {
            admitted += 1;
            assert!(admitted <= self.limit(), "a flood without an end");
        }
        admitted
    }

    pub(crate) fn look(&self, cost: u64) -> Admission {
        self.look_in(cost, 0)
    }

    /// What a request of `cost` would be told `us` from now.
    pub(crate) fn look_in(&self, cost: u64, us: u64) -> Admission {
        self.state.admit(&self.quota, cost, self.now_us + us)
    }

    /// The same key `us` from now, untouched until then.
    pub(crate) fn later(&self, us: u64) -> Self {
        Self { now_us: self.now_us + us, ..self.clone() }
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.state.remaining(&self.quota, self.now_us)
    }

    pub(crate) fn reset_after_us(&self) -> u64 {
        self.state.reset_after_us(&self.quota, self.now_us)
    }

    pub(crate) fn limit(&self) -> u64 {
        self.quota.limit()
    }

    /// Lives through one step of a history.
    pub(crate) fn live(&mut self, step: &Step) {
        self.now_us += step.wait.of(self.reset_after_us());
        let limit = self.limit();
        match step.deed {
            Deed::Ask(cost) => {
                self.ask(cost.of(limit));
            }
            Deed::Overcharge(units) => {
                self.state.overcharge(&self.quota, units.of(limit), self.now_us);
            }
            Deed::Refund(units, age) => {
                let at_us = age.map(|age| self.now_us.saturating_sub(age.of(10)));
                self.state.refund(&self.quota, units.of(limit), at_us, self.now_us);
            }
            Deed::Release(back) => {
                let permit = self.permits.saturating_sub(back);
                if let State::Leases(leases) = &mut self.state {
                    leases.release(permit, self.now_us);
                }
            }
        }
    }

    pub(crate) fn lived(quota: Quota, start_us: u64, steps: &[Step]) -> Self {
        let mut key = Self::new(quota, start_us);
        steps.iter().for_each(|step| key.live(step));
        key
    }
}

/// A number, or a share of one that is known only later.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Amount {
    Few(u64),
    Percent(u64),
}

impl Amount {
    pub(crate) fn of(self, whole: u64) -> u64 {
        match self {
            Self::Few(number) => number,
            Self::Percent(percent) => {
                u64::try_from(u128::from(whole) * u128::from(percent) / 100).unwrap()
            }
        }
    }
}

pub(crate) fn amounts(most_percent: u64) -> impl Strategy<Value = Amount> {
    prop_oneof![
        (0..=3u64).prop_map(Amount::Few),
        (0..=most_percent).prop_map(Amount::Percent),
        Just(Amount::Percent(100)),
    ]
}

/// Time passes, then something happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Of the time until the state is as new.
    pub(crate) wait: Amount,
    pub(crate) deed: Deed,
}

/// Amounts are of the limit; an age is in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deed {
    Ask(Amount),
    Overcharge(Amount),
    Refund(Amount, Option<Amount>),
    /// So many permits back.
    Release(u128),
}

/// Requests only.
pub(crate) fn asks() -> impl Strategy<Value = Vec<Step>> {
    steps(amounts(120).prop_map(Deed::Ask).boxed())
}

/// Requests, and what may follow them.
pub(crate) fn histories() -> impl Strategy<Value = Vec<Step>> {
    let deeds = prop_oneof![
        6 => amounts(120).prop_map(Deed::Ask),
        1 => amounts(250).prop_map(Deed::Overcharge),
        1 => (amounts(120), proptest::option::of(amounts(120)))
            .prop_map(|(units, age)| Deed::Refund(units, age)),
        1 => (0..4u128).prop_map(Deed::Release),
    ];
    steps(deeds.boxed())
}

fn steps(deeds: BoxedStrategy<Deed>) -> impl Strategy<Value = Vec<Step>> {
    let step = (amounts(70), deeds).prop_map(|(wait, deed)| Step { wait, deed });
    proptest::collection::vec(step, 0..16)
}

pub(crate) fn starts() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(START_US), 0..100u64, 0..1u64 << 50]
}

/// Rates whose interval is no whole number of microseconds, and any others.
pub(crate) fn rates() -> impl Strategy<Value = Rate> {
    let parts = prop_oneof![
        Just((7, 1, 13 * SECOND_US)),
        Just((25, 10, SECOND_US)),
        Just((30_000, 1, SECOND_US)),
        Just((700_000, 1, SECOND_US)),
        Just((1, 1, MAX_PERIOD_US)),
        (1..=20u64, Just(1), 1..=20u64),
        (1..=1_000u64, 1..=10u64, 1..=60 * SECOND_US),
    ];
    parts.prop_map(|(count, of, period_us)| Rate::fraction(count, of, period_us).unwrap())
}

pub(crate) fn sizes_us() -> impl Strategy<Value = u64> {
    prop_oneof![1..=20u64, 1..=60 * SECOND_US, Just(DAY_US), Just(MAX_PERIOD_US)]
}

/// A limit of any algorithm: buckets take the rate, the others the time.
pub(crate) fn quota(algorithm: Algorithm, limit: u64, rate: Rate, us: u64) -> Quota {
    let quota = match algorithm {
        Algorithm::TokenBucket => Quota::token_bucket(limit, rate),
        Algorithm::Gcra => Quota::gcra(limit, rate),
        Algorithm::LeakingBucket => Quota::leaking_bucket(limit, rate, LeakMode::Shape, None),
        Algorithm::FixedWindow => Quota::fixed_window(limit, us),
        Algorithm::SlidingWindowLog => Quota::sliding_window_log(limit, us),
        Algorithm::SlidingWindowCounter => Quota::sliding_window_counter(limit, us),
        _ => Quota::concurrency(limit, us),
    };
    quota.unwrap()
}

/// Random limits of one algorithm.
pub(crate) fn quotas(algorithm: Algorithm) -> BoxedStrategy<Quota> {
    let counts = || prop_oneof![1..=3u64, 1..=10u64, 1..=100u64];
    if algorithm == Algorithm::LeakingBucket {
        let modes = prop_oneof![Just(LeakMode::Shape), Just(LeakMode::Meter)];
        let delays = proptest::option::weighted(0.4, 0..=3 * SECOND_US);
        return (counts(), rates(), modes, delays)
            .prop_map(|(b, rate, mode, most)| Quota::leaking_bucket(b, rate, mode, most).unwrap())
            .boxed();
    }
    (counts(), rates(), sizes_us())
        .prop_map(move |(limit, rate, us)| quota(algorithm, limit, rate, us))
        .boxed()
}

/// One limit of every algorithm: `limit` units in `us`.
pub(crate) fn one_of_each(limit: u64, us: u64) -> [Quota; 7] {
    let rate = Rate::new(limit, us).unwrap();
    Algorithm::ALL.map(|algorithm| quota(algorithm, limit, rate, us))
}

/// The three buckets of one capacity and rate.
pub(crate) fn buckets(capacity: u64, rate: Rate) -> [Quota; 3] {
    [Algorithm::TokenBucket, Algorithm::Gcra, Algorithm::LeakingBucket]
        .map(|algorithm| quota(algorithm, capacity, rate, 1))
}

pub(crate) fn bucket_of(quota: &Quota) -> Option<&Bucket> {
    match quota {
        Quota::TokenBucket(bucket) | Quota::Gcra(bucket) => Some(bucket),
        Quota::LeakingBucket(leak) => Some(leak.bucket()),
        _ => None,
    }
}

pub(crate) fn window_of(quota: &Quota) -> Option<&Window> {
    match quota {
        Quota::FixedWindow(window)
        | Quota::SlidingWindowLog(window)
        | Quota::SlidingWindowCounter(window) => Some(window),
        _ => None,
    }
}

/// What a bucket owes now, in token·P.
pub(crate) fn debt_of(key: &Key) -> Option<u64> {
    match (bucket_of(&key.quota), &key.state) {
        (Some(bucket), State::Debt(debt)) => Some(debt.at(bucket, key.now_us)),
        _ => None,
    }
}
