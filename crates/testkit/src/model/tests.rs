//! The contract's own examples, put to the model; this file owns what the tests share.

use super::{Answer, Limit, Model, Numbers, RateSpec, Spec};

mod after_the_fact;
mod buckets;
mod clock_back;
mod concurrency;
mod formulas;
mod reconfigured;
mod several;
mod windows;

const SECOND_US: u64 = 1_000_000;
const MINUTE_US: u64 = 60 * SECOND_US;
const DAY_US: u64 = 24 * 60 * MINUTE_US;

/// A moment like today's, in the middle of no window in particular.
const START_US: u64 = 1_700_000_000_123_457;

fn per(count: u64, period_us: u64) -> RateSpec {
    RateSpec { count_numerator: count, count_denominator: 1, period_us }
}

fn token_bucket(capacity: u64, rate: RateSpec) -> Spec {
    Spec::TokenBucket { capacity, rate }
}

fn shaped(capacity: u64, rate: RateSpec, max_delay_us: Option<u64>) -> Spec {
    Spec::LeakingBucket { capacity, rate, shape: true, max_delay_us }
}

fn fixed(max: u64, window_us: u64) -> Spec {
    Spec::FixedWindow { max, window_us }
}

fn log(max: u64, window_us: u64) -> Spec {
    Spec::SlidingWindowLog { max, window_us }
}

fn counter(max: u64, window_us: u64) -> Spec {
    Spec::SlidingWindowCounter { max, window_us }
}

fn in_flight(max: u64, lease_us: u64) -> Spec {
    Spec::Concurrency { max, lease_us }
}

fn enforcing(spec: Spec) -> Limit {
    Limit { spec, shadow: false }
}

fn watching(spec: Spec) -> Limit {
    Limit { spec, shadow: true }
}

/// A model with one limit that enforces.
fn single(spec: Spec) -> Model {
    Model::new(vec![enforcing(spec)])
}

/// The numbers of a model with one limit.
fn ask(model: &mut Model, now_us: u64, cost: u64) -> Numbers {
    let Answer { allowed, binding, folded, limits } = model.check(now_us, cost);
    assert_eq!((limits.len(), binding), (1, 0));
    assert_eq!(limits[0], folded);
    assert_eq!(folded.allowed, allowed);
    folded
}

/// Asks for something that must be denied, and shows that the time to retry is exact: the same request is denied a
/// microsecond before it, and admitted then. Gives the time.
fn retry_both_sides(model: &mut Model, now_us: u64, cost: u64) -> u64 {
    let denied = ask(model, now_us, cost);
    assert!(!denied.allowed);
    let Some(retry_after_us) = denied.retry_after_us else {
        panic!("never, where a time was expected");
    };
    assert!(retry_after_us > 0);
    let before = ask(model, now_us + retry_after_us - 1, cost);
    assert!(!before.allowed, "admitted a microsecond early");
    assert_eq!(before.retry_after_us, Some(1));
    let then = ask(model, now_us + retry_after_us, cost);
    assert!(then.allowed, "denied at its time");
    assert_eq!(then.retry_after_us, Some(0));
    retry_after_us
}

/// Small numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
