//! Token bucket, GCRA and leaking bucket: one level, in exact tokens, that time drains.
//!
//! The level is what has been used and not come back yet: a token bucket holds `capacity − used` tokens, a leaking
//! bucket has `used` units queued. The three differ in the delay, and in nothing else.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;

use super::Spec;
use super::algorithm::Algorithm;
use super::exact::{ceil_or_zero, floor_or_zero, tokens_per_us, whole};

/// The largest number of token·P that a level has after a conversion to another `P`.
const MOST_CONVERTED: u64 = (1 << 53) - 1;

/// A bucket's parameters.
#[derive(Debug)]
pub(super) struct Bucket {
    capacity: u64,
    tokens_per_us: BigRational,
    shape: bool,
    max_delay_us: Option<u64>,
}

/// What a bucket remembers.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// Tokens used and not come back, as of `last_us`.
    used: BigRational,
    /// The time of the last write.
    last_us: u64,
    /// The level is a whole multiple of 1/`unit`: the `P` of the rate it was written under.
    unit: BigInt,
}

impl Bucket {
    /// The `P` of this rate: levels are whole multiples of 1/P.
    fn unit(&self) -> &BigInt {
        self.tokens_per_us.denom()
    }

    /// How long the level takes to drain.
    fn drained_after_us(&self, used: &BigRational) -> u64 {
        ceil_or_zero(&(used / &self.tokens_per_us))
    }

    /// The level in this rate's unit, rounded up.
    fn converted(&self, state: &Level) -> BigRational {
        if state.unit == *self.unit() {
            return state.used.clone();
        }
        let units = (&state.used * self.unit()).ceil().to_integer();
        BigRational::new(units.min(BigInt::from(MOST_CONVERTED)), self.unit().clone())
    }
}

/// A level with `tokens` taken off, but not below empty.
fn lowered(used: &BigRational, tokens: &BigRational) -> BigRational {
    (used - tokens).max(BigRational::zero())
}

impl Algorithm for Bucket {
    type State = Level;

    fn from_spec(spec: &Spec) -> Option<Self> {
        let (capacity, rate, shape, max_delay_us) = match spec {
            Spec::TokenBucket { capacity, rate } | Spec::Gcra { capacity, rate } => {
                (capacity, rate, false, None)
            }
            Spec::LeakingBucket { capacity, rate, shape, max_delay_us } => {
                (capacity, rate, *shape, *max_delay_us)
            }
            _ => return None,
        };
        Some(Self { capacity: *capacity, tokens_per_us: tokens_per_us(rate), shape, max_delay_us })
    }

    fn limit(&self) -> u64 {
        self.capacity
    }

    fn fresh(&self, now_us: u64) -> Level {
        Level { used: BigRational::zero(), last_us: now_us, unit: self.unit().clone() }
    }

    fn seen_at(&self, state: &Level, now_us: u64) -> Level {
        // A clock that stepped back means that no time passed.
        let elapsed_us = now_us.saturating_sub(state.last_us);
        let drained = &self.tokens_per_us * whole(elapsed_us);
        Level {
            used: lowered(&self.converted(state), &drained),
            last_us: now_us,
            unit: self.unit().clone(),
        }
    }

    fn is_stale(&self, state: &Level, now_us: u64) -> bool {
        state.last_us > now_us
    }

    fn admits(&self, state: &Level, _now_us: u64, cost: u64) -> bool {
        let fits = state.used <= whole(self.capacity - cost);
        let in_time = match self.max_delay_us {
            Some(max_delay_us) if cost > 0 => self.drained_after_us(&state.used) <= max_delay_us,
            _ => true,
        };
        fits && in_time
    }

    fn charge(&self, state: &mut Level, _now_us: u64, cost: u64, _id: u128) {
        state.used += whole(cost);
    }

    fn remaining(&self, state: &Level, _now_us: u64) -> u64 {
        floor_or_zero(&(whole(self.capacity) - &state.used))
    }

    fn reset_after_us(&self, state: &Level, _now_us: u64) -> u64 {
        self.drained_after_us(&state.used)
    }

    fn delay_us(&self, state: &Level) -> u64 {
        if self.shape { self.drained_after_us(&state.used) } else { 0 }
    }

    fn give_back(&self, state: &mut Level, now_us: u64, units: u64, charged_at_us: Option<u64>) {
        let charged = whole(units);
        // What has drained since the charge came back by itself.
        let age_us = charged_at_us.map_or(0, |at_us| now_us.saturating_sub(at_us));
        let left = lowered(&charged, &(&self.tokens_per_us * whole(age_us)));
        state.used = lowered(&state.used, &left);
    }

    fn take_regardless(&self, state: &mut Level, _now_us: u64, units: u64) {
        let deepest = (whole(self.capacity) * whole(2)).max(state.used.clone());
        state.used = (&state.used + whole(units)).min(deepest);
    }
}
