//! The contract's integer formulas against the model, over long traces.

use super::*;

/// A step forward: often none, mostly short, sometimes past everything.
fn step_us(dice: &mut Dice, typical_us: u64) -> u64 {
    match dice.below(10) {
        0..=2 => 0,
        3..=8 => dice.below(typical_us + 1),
        _ => dice.below(20 * typical_us + 1),
    }
}

#[test]
fn a_bucket_is_a_debt_in_units_of_token_times_period() {
    // R and P in lowest terms, P in µs.
    for (capacity, rate, r, p) in [
        (5u64, per(3, 7), 3u64, 7u64),
        (10, per(100, MINUTE_US), 1, 600_000),
        (3, per(700_000, SECOND_US), 7, 10),
        (4, per(11, 4), 11, 4),
    ] {
        let mut model = single(token_bucket(capacity, rate));
        let mut dice = Dice(capacity);
        let (mut debt, mut last_us, mut denials) = (0, START_US, 0);
        let mut now_us = START_US;
        for _ in 0..2_000 {
            now_us += step_us(&mut dice, p / r + 1);
            let cost = dice.below(capacity + 2);
            let drained: u64 = debt - debt.min(r * (now_us - last_us));
            let allowed = cost <= capacity && cost * p + drained <= capacity * p;
            let after = if allowed { drained + cost * p } else { drained };
            let retry_after_us = match allowed {
                true => Some(0),
                false if cost > capacity => None,
                false => Some((cost * p - (capacity * p - drained)).div_ceil(r)),
            };
            let expected = Numbers {
                allowed,
                limit: capacity,
                remaining: (capacity * p - after) / p,
                retry_after_us,
                reset_after_us: after.div_ceil(r),
                delay_us: 0,
            };
            assert_eq!(ask(&mut model, now_us, cost), expected);
            denials += u64::from(!allowed);
            if allowed && cost > 0 {
                (debt, last_us) = (after, now_us);
            }
        }
        assert!((100..1_900).contains(&denials));
    }
}

/// The first `e` from `from` on in a window with `previous · (W − e) < (L − n − current + 1) · W`, if there is one.
fn first_elapsed(from: u64, w: u64, previous: u64, free_after: i128) -> Option<u64> {
    (from..w).find(|e| i128::from(previous * (w - e)) < (free_after + 1) * i128::from(w))
}

#[test]
fn the_counter_keeps_two_counts() {
    for (max, w) in [(5u64, 40u64), (60, 40), (1, 7), (1_000, 10)] {
        let mut model = single(counter(max, w));
        let mut dice = Dice(max);
        let (mut id, mut current, mut previous) = (START_US / w, 0, 0);
        let mut now_us = START_US;
        for _ in 0..2_000 {
            now_us += step_us(&mut dice, w / 4);
            let cost = dice.below(max + 2);
            (id, current, previous) = match now_us / w - id {
                0 => (id, current, previous),
                1 => (id + 1, 0, current),
                _ => (now_us / w, 0, 0),
            };
            let e = now_us % w;
            let allowed = previous * (w - e) / w + current + cost <= max;
            let free = i128::from(max) - i128::from(cost);
            let retry_after_us = if cost > max {
                None
            } else {
                let here = first_elapsed(e, w, previous, free - i128::from(current));
                let next = || first_elapsed(0, w, current, free).map(|next| w + next);
                Some(here.or_else(next).unwrap_or(2 * w) - e)
            };
            if allowed {
                current += cost;
            }
            let expected = Numbers {
                allowed,
                limit: max,
                remaining: max - previous * (w - e) / w - current,
                retry_after_us,
                reset_after_us: match (current, previous) {
                    (0, 0) => 0,
                    (0, _) => w - e,
                    _ => w - e + w,
                },
                delay_us: 0,
            };
            assert_eq!(ask(&mut model, now_us, cost), expected);
        }
    }
}

/// A model at the end of a trace that belongs to the seed, and the time then. Some of its charges go into debt.
fn traced(spec: &Spec, seed: u64) -> (Model, u64) {
    let mut dice = Dice(seed);
    let mut now_us = START_US;
    let mut model = single(spec.clone());
    let limit = ask(&mut model, now_us, 0).limit;
    for id in 0..12 {
        now_us += dice.below(8);
        model.check_as(now_us, dice.below(limit / 2 + 1), id, Some(1_000));
        if dice.below(4) == 0 {
            model.settle(now_us, id, limit);
        }
    }
    (model, now_us)
}

#[test]
fn once_admitted_always_admitted_while_nobody_comes() {
    // The search stands on this: try every microsecond, to beyond the point where the state is as new.
    for spec in [
        token_bucket(6, per(3, 7)),
        shaped(6, per(3, 7), Some(5)),
        fixed(6, 30),
        log(6, 30),
        counter(6, 30),
        counter(90, 30),
        in_flight(6, 30),
    ] {
        let mut waits = 0;
        for seed in 0..8 {
            let (mut model, now_us) = traced(&spec, seed);
            let look = ask(&mut model, now_us, 0);
            for cost in [1, look.limit / 2, look.limit] {
                let answers_after: Vec<bool> = (0..look.reset_after_us + 4)
                    .map(|after_us| {
                        let (mut model, _) = traced(&spec, seed);
                        ask(&mut model, now_us + after_us, cost).allowed
                    })
                    .collect();
                assert!(answers_after.is_sorted(), "{spec:?} {seed} {cost}");
                let denials = answers_after.iter().filter(|&&allowed| !allowed).count();
                let (mut model, _) = traced(&spec, seed);
                let retry_after_us = ask(&mut model, now_us, cost).retry_after_us;
                assert_eq!(retry_after_us, u64::try_from(denials).ok());
                waits += denials;
            }
        }
        assert!(waits > 0, "{spec:?}");
    }
}
