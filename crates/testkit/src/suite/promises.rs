//! What a decision promises: retry then and not before, never more than a capacity after idling.

use tollkeeper_core::{Quota, Rate};

use super::{SECOND_US, START_US, Verdict, ask, require};
use crate::case::quota;
use crate::dice::Dice;
use crate::random::random_spec;
use crate::replay::Harness;

/// Floods keys of random limits until they deny, then asks again a microsecond before the promised
/// time, and at it.
pub(super) fn both_sides_of_every_retry<H: Harness>(harness: &H) -> Verdict {
    for seed in 0..210u64 {
        let mut dice = Dice::new(seed);
        let spec = random_spec(&mut dice, seed % 7);
        let quota = quota(&spec).map_err(|error| error.to_string())?;
        let key = format!("retry {seed}");
        let mut now_us = START_US + dice.below(3_600 * SECOND_US);
        for _ in 0..20 {
            harness.clock().set(now_us);
            let cost = dice.between(1, quota.limit());
            let answer = ask(harness, &quota, &key, cost)?;
            let retry_us = answer.outcomes()[0].retry_after_us;
            match (answer.allowed, retry_us) {
                (true, Some(0)) => now_us += dice.below(3),
                (false, Some(retry_us @ 1..)) => {
                    let asked_us = now_us;
                    let told = || format!("{spec:?}, cost {cost} at {asked_us}, retry {retry_us}");
                    harness.clock().set(now_us + retry_us - 1);
                    let early = ask(harness, &quota, &key, cost)?;
                    require(!early.allowed, || format!("{}: admitted early", told()))?;
                    let left_us = early.outcomes()[0].retry_after_us;
                    require(left_us == Some(1), || format!("{}: then {left_us:?}", told()))?;
                    now_us += retry_us;
                    harness.clock().set(now_us);
                    let then = ask(harness, &quota, &key, cost)?;
                    require(then.allowed, || format!("{}: denied at its time", told()))?;
                }
                other => return Err(format!("{spec:?}: cost {cost} gave {other:?}")),
            }
        }
        let never = ask(harness, &quota, &key, quota.limit() + 1)?.outcomes()[0];
        require(!never.allowed && never.retry_after_us.is_none(), || format!("{never:?}"))?;
    }
    Ok(())
}

/// One hit, any idle time, then a flood: at most a capacity at once, and exactly what has refilled.
pub(super) fn idle_then_flood<H: Harness>(harness: &H) -> Verdict {
    let rate = Rate::new(7, 13 * SECOND_US).map_err(|error| error.to_string())?;
    let capacity = 10;
    let quotas = [Quota::token_bucket(capacity, rate), Quota::gcra(capacity, rate)];
    for quota in quotas.into_iter().flatten() {
        let full_us = 10 * 13 * SECOND_US / 7 + 1;
        for part in 0..=60u64 {
            let key = format!("idle {} {part}", quota.algorithm());
            harness.clock().set(START_US);
            ask(harness, &quota, &key, capacity)?;
            let idle_us = full_us * part / 40;
            harness.clock().set(START_US + idle_us);
            let mut admitted = 0;
            while ask(harness, &quota, &key, 1)?.allowed {
                admitted += 1;
            }
            let refilled = (idle_us * 7 / (13 * SECOND_US)).min(capacity);
            require(admitted == refilled, || {
                format!("{key}: {admitted} admitted after {idle_us} µs, {refilled} refilled")
            })?;
        }
    }
    Ok(())
}

/// Token bucket and GCRA decide alike on every trace.
pub(super) fn gcra_is_a_token_bucket<H: Harness>(harness: &H) -> Verdict {
    for seed in 0..60u64 {
        let mut dice = Dice::new(seed);
        let rate = Rate::new(dice.between(1, 999), dice.between(1, 60) * SECOND_US);
        let rate = rate.map_err(|error| error.to_string())?;
        let burst = dice.between(1, 50);
        let pair = (Quota::token_bucket(burst, rate), Quota::gcra(burst, rate));
        let (Ok(token_bucket), Ok(gcra)) = pair else { continue };
        let key = format!("alike {seed}");
        let mut now_us = START_US;
        for _ in 0..60 {
            now_us += dice.pick(&[0, 1, 977, 40_000, SECOND_US]);
            harness.clock().set(now_us);
            let cost = dice.between(0, burst / 2 + 2);
            let one = ask(harness, &token_bucket, &key, cost)?;
            let other = ask(harness, &gcra, &key, cost)?;
            require(one == other, || format!("{rate} burst {burst}: {one:?} and {other:?}"))?;
        }
    }
    Ok(())
}
