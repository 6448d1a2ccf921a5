//! Owns [`Case`]: limits, steps, and what each step must answer. It is plain data, so that other
//! languages can read it.

use serde::{Deserialize, Serialize};
use tollkeeper_core::{LeakMode, Quota, QuotaError, Rate};

use crate::model::{Numbers, RateSpec, Settled, Spec};

/// A story about one key: what happens to it, and what it must answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// What the story is about.
    pub name: String,
    /// The limits that every request of the story meets.
    pub limits: Vec<LimitCase>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One of the limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitCase {
    /// The algorithm and its parameters.
    #[serde(flatten)]
    pub spec: Spec,
    /// Whether it only counts.
    #[serde(default)]
    pub shadow: bool,
}

/// Something that happens at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The store's clock, in microseconds since the epoch. It can be earlier than the step before.
    pub at_us: u64,
    /// What happens.
    #[serde(flatten)]
    pub action: Action,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Action {
    /// A request. `id` names its permits, and its reservation if it has a `reserve_us`.
    Check {
        /// Its cost.
        cost: u64,
        /// Its ticket.
        id: u64,
        /// The life of its reservation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reserve_us: Option<u64>,
        /// The answer.
        expect: Expect,
    },
    /// Units are given back.
    Refund {
        /// How many.
        units: u64,
        /// When they were charged.
        charged_at_us: Option<u64>,
    },
    /// A reservation ends.
    Settle {
        /// Its ticket.
        id: u64,
        /// What it cost.
        actual: u64,
        /// What becomes of it.
        expect: Settled,
    },
    /// A permit is given back.
    Release {
        /// Its ticket.
        id: u64,
        /// Whether it was held.
        expect: bool,
    },
    /// A permit is renewed.
    Renew {
        /// Its ticket.
        id: u64,
        /// Whether it was held.
        expect: bool,
    },
    /// The key is forgotten.
    Reset,
    /// A limit gets other parameters, as after a reload.
    Change {
        /// Which.
        index: usize,
        /// The new ones, of the same algorithm.
        spec: Spec,
    },
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expect {
    /// The limit that binds.
    pub binding: usize,
    /// The request's own numbers.
    #[serde(flatten)]
    pub numbers: Numbers,
    /// Each limit's own numbers, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Numbers>,
}

/// The product's quota of a specification.
pub fn quota(spec: &Spec) -> Result<Quota, QuotaError> {
    let rate = |rate: &RateSpec| {
        Rate::fraction(rate.count_numerator, rate.count_denominator, rate.period_us)
    };
    match spec {
        Spec::TokenBucket { capacity, rate: r } => Quota::token_bucket(*capacity, rate(r)?),
        Spec::Gcra { capacity, rate: r } => Quota::gcra(*capacity, rate(r)?),
        Spec::LeakingBucket { capacity, rate: r, shape, max_delay_us } => {
            let mode = if *shape { LeakMode::Shape } else { LeakMode::Meter };
            Quota::leaking_bucket(*capacity, rate(r)?, mode, *max_delay_us)
        }
        Spec::FixedWindow { max, window_us } => Quota::fixed_window(*max, *window_us),
        Spec::SlidingWindowLog { max, window_us } => Quota::sliding_window_log(*max, *window_us),
        Spec::SlidingWindowCounter { max, window_us } => {
            Quota::sliding_window_counter(*max, *window_us)
        }
        Spec::Concurrency { max, lease_us } => Quota::concurrency(*max, *lease_us),
    }
}
