//! Never over: what was admitted, counted in every interval.

use tollkeeper_core::{LeakMode, Quota, Rate};

use super::{START_US, Verdict, ask, require};
use crate::case::quota;
use crate::dice::Dice;
use crate::model::Spec;
use crate::random::random_spec;
use crate::replay::Harness;

/// Units admitted at a moment.
type Admitted = (u64, u64);

/// Random traffic on random limits: no interval holds more than the contract allows.
pub(super) fn never_over<H: Harness>(harness: &H, seeds: u64) -> Verdict {
    for seed in 0..seeds * 7 {
        let mut dice = Dice::new(seed);
        let spec = random_spec(&mut dice, seed % 7);
        let quota = quota(&spec).map_err(|error| error.to_string())?;
        let key = format!("over {seed}");
        let mut now_us = START_US + dice.below(1_000_000_000);
        let mut admitted: Vec<Admitted> = Vec::new();
        for _ in 0..60 {
            harness.clock().set(now_us);
            let cost = dice.between(1, quota.limit().div_ceil(3));
            let answer = ask(harness, &quota, &key, cost)?;
            if answer.allowed {
                admitted.push((now_us, cost));
            }
            let outcome = answer.outcomes()[0];
            now_us += match dice.below(4) {
                0 => 0,
                1 => outcome.retry_after_us.unwrap_or(0),
                2 => dice.below(outcome.reset_after_us.max(1)),
                _ => dice.below(outcome.reset_after_us.max(1) / 8 + 1),
            };
        }
        within_bounds(&spec, &admitted)
            .map_err(|error| format!("{spec:?}, seed {seed}: {error}"))?;
    }
    Ok(())
}

/// Units admitted in every interval that begins and ends with an admission.
fn intervals(admitted: &[Admitted]) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
    admitted.iter().enumerate().flat_map(move |(first, &(from_us, _))| {
        let mut units = 0;
        admitted[first..].iter().map(move |&(to_us, more)| {
            units += more;
            (from_us, to_us, units)
        })
    })
}

fn within_bounds(spec: &Spec, admitted: &[Admitted]) -> Verdict {
    for (from_us, to_us, units) in intervals(admitted) {
        let told = || format!("{units} units from {from_us} to {to_us}");
        match spec {
            Spec::TokenBucket { capacity, rate }
            | Spec::Gcra { capacity, rate }
            | Spec::LeakingBucket { capacity, rate, .. } => {
                // units ≤ B + R·t/P, multiplied out.
                let unit = u128::from(rate.count_denominator) * u128::from(rate.period_us);
                let refilled = u128::from(rate.count_numerator) * u128::from(to_us - from_us);
                require(u128::from(units) * unit <= u128::from(*capacity) * unit + refilled, told)?;
            }
            Spec::FixedWindow { max, window_us } => {
                let same = from_us / window_us == to_us / window_us;
                require(!same || units <= *max, told)?;
            }
            Spec::SlidingWindowLog { max, window_us } => {
                require(to_us - from_us >= *window_us || units <= *max, told)?;
            }
            Spec::SlidingWindowCounter { max, window_us } => {
                require(to_us - from_us >= *window_us || units <= 2 * max, told)?;
            }
            Spec::Concurrency { max, lease_us } => {
                require(to_us - from_us >= *lease_us || units <= *max, told)?;
            }
        }
    }
    Ok(())
}

/// Requests that wait as they are told leave at the rate: in any interval at most one of them and
/// what drains in it.
pub(super) fn shaped_departures<H: Harness>(harness: &H) -> Verdict {
    let mut dice = Dice::new(1);
    for nth in 0..40 {
        let (count, period_us) = (dice.between(1, 50), dice.between(1_000, 1_000_000));
        let capacity = dice.between(1, 40);
        let rate = Rate::new(count, period_us).map_err(|error| error.to_string())?;
        let quota = Quota::leaking_bucket(capacity, rate, LeakMode::Shape, None)
            .map_err(|error| error.to_string())?;
        let key = format!("shape {nth}");
        let mut now_us = START_US;
        let mut departures: Vec<Admitted> = Vec::new();
        for _ in 0..100 {
            harness.clock().set(now_us);
            let cost = dice.between(1, capacity.min(3));
            let answer = ask(harness, &quota, &key, cost)?;
            if answer.allowed {
                departures.push((now_us + answer.outcomes()[0].delay_us, cost));
            }
            now_us += dice.below(period_us / count * 2 + 1);
        }
        for (from_us, to_us, units) in intervals(&departures) {
            // What leaves strictly after the first in the interval has drained before it, so the
            // last one's own cost is the "one request"; a rounded-up start gives it a microsecond.
            let last = departures.iter().rev().find(|(at_us, _)| *at_us == to_us);
            let last_cost = last.map_or(0, |(_, cost)| *cost);
            let drained = u128::from(count) * u128::from(to_us - from_us + 1);
            let before = u128::from(units - last_cost.min(units)) * u128::from(period_us);
            require(before <= drained, || {
                format!("{count} in {period_us}: {units} left from {from_us} to {to_us}")
            })?;
        }
    }
    Ok(())
}
