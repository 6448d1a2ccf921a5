//! Single facts: a changed limit, a look, the life of a key, what can be seen and forgotten.

use tollkeeper_core::{
    Amended, Amendment, Change, Check, Consistency, Drawn, Filter, Lend, Quota, Rate, Request,
    Settled, Store, Ticket,
};

use super::{MINUTE_US, SECOND_US, START_US, Verdict, ask, require, slow_quotas};
use crate::replay::Harness;

/// 80 used of 100/min leaves 10 of 90/min and 120 of 200/min.
pub(super) fn changed_limit<H: Harness>(harness: &H) -> Verdict {
    let bucket = |count: u64| {
        let rate = Rate::new(count, MINUTE_US).map_err(|error| error.to_string())?;
        Quota::token_bucket(count, rate).map_err(|error| error.to_string())
    };
    for (count, left) in [(90, 10), (200, 120)] {
        let key = format!("changed to {count}");
        harness.clock().set(START_US);
        ask(harness, &bucket(100)?, &key, 80)?;
        let remaining = ask(harness, &bucket(count)?, &key, 0)?.outcomes()[0].remaining;
        require(remaining == left, || format!("{remaining} of {count} left, not {left}"))?;
    }
    Ok(())
}

/// Cost 0 creates no state, and changes none.
pub(super) fn a_look_changes_nothing<H: Harness>(harness: &H) -> Verdict {
    harness.clock().set(START_US);
    for quota in slow_quotas(10) {
        let key = format!("look {}", quota.algorithm());
        ask(harness, &quota, &key, 0)?;
        // A cost that can never fit creates nothing either.
        ask(harness, &quota, &key, 11)?;
        require(states(harness, &key)?.is_empty(), || format!("{key}: a look left a state"))?;
        ask(harness, &quota, &key, 4)?;
        let seen = || Ok::<_, String>(states(harness, &key)?.pop().map(|(_, state, _)| state));
        let before = seen()?;
        ask(harness, &quota, &key, 0)?;
        ask(harness, &quota, &key, 7)?;
        let after = seen()?;
        require(before == after, || format!("{key}: {before:?} became {after:?}"))?;
    }
    Ok(())
}

/// What ends a reservation hears what it had charged, and how long ago; what ends it again, nothing.
pub(super) fn a_settlement_tells<H: Harness>(harness: &H) -> Verdict {
    for quota in slow_quotas(10) {
        if matches!(quota, Quota::Concurrency(_)) {
            continue;
        }
        let all = u64::MAX;
        let settled = [(1, 0, 0), (2, 4, 0), (3, 16, 0), (4, 40, 20), (5, all, all - 20)];
        for (id, actual, forgiven) in settled {
            let key = format!("settled {} {id}", quota.algorithm());
            harness.clock().set(START_US);
            reserve(harness, &quota, &key, id, 4)?;
            harness.clock().advance(7);
            let amendment = Amendment {
                limit: "suite",
                quota: &quota,
                key: &key,
                change: Change::Settle { id, actual },
                consistency: Consistency::Exact,
            };
            let settle = || harness.block_on(harness.store().amend(&[amendment]));
            let settled = Amended::Settled(Settled { forgiven, reserved: 4, age_us: 7 });
            let amended = settle();
            require(amended == [Ok(settled)], || format!("{key}: {amended:?}"))?;
            let again = settle();
            require(again == [Ok(Amended::Repeated)], || format!("{key}: again {again:?}"))?;
        }
    }
    Ok(())
}

/// What is beyond so many units is taken, once, also from a key that nobody has used; permits are
/// held and not taken.
pub(super) fn at_most_so_much_is_left<H: Harness>(harness: &H) -> Verdict {
    harness.clock().set(START_US);
    for quota in slow_quotas(10) {
        let key = format!("left {}", quota.algorithm());
        let permits = matches!(quota, Quota::Concurrency(_));
        for (units, left) in [(12, 10), (7, 7), (7, 7), (9, 7), (0, 0)] {
            let change = Change::LeaveAtMost { units };
            let amendment = Amendment {
                limit: "suite",
                quota: &quota,
                key: &key,
                change,
                consistency: Consistency::Exact,
            };
            let amended = harness.block_on(harness.store().amend(&[amendment]));
            let expected = if permits { Amended::Unknown } else { Amended::Done { forgiven: 0 } };
            require(amended == [Ok(expected)], || format!("{key}: {amended:?}"))?;
            let remaining = ask(harness, &quota, &key, 0)?.outcomes()[0].remaining;
            let left = if permits { 10 } else { left };
            require(remaining == left, || format!("{key}: {remaining} left, not {left}"))?;
        }
    }
    Ok(())
}

/// Units are drawn in advance, half of what is left at most, or spent whether they fit or not, and
/// the numbers told are those that a look finds.
pub(super) fn units_are_drawn_and_spent<H: Harness>(harness: &H) -> Verdict {
    harness.clock().set(START_US);
    for quota in slow_quotas(10) {
        let key = format!("drawn {}", quota.algorithm());
        let draw = |most, least| Change::Draw { most, least };
        let spend = |units| Change::Spend { units };
        let steps = [
            (draw(3, 1), 3, 7),
            (draw(9, 1), 4, 3),
            (draw(9, 3), 3, 0),
            (draw(9, 1), 0, 0),
            (spend(4), 4, 0),
            (spend(0), 0, 0),
            (spend(9), 6, 0),
            (spend(u64::MAX), 0, 0),
        ];
        for (change, units, left) in steps {
            let amendment = Amendment {
                limit: "suite",
                quota: &quota,
                key: &key,
                change,
                consistency: Consistency::Exact,
            };
            let amended = harness.block_on(harness.store().amend(&[amendment]));
            let look = ask(harness, &quota, &key, 0)?.outcomes()[0];
            let reset_after_us = look.reset_after_us;
            let expected = match quota {
                Quota::Concurrency(_) => Amended::Unknown,
                _ => Amended::Drawn(Drawn { units, left, reset_after_us, at_us: START_US }),
            };
            require(amended == [Ok(expected)], || format!("{key}: {change:?}: {amended:?}"))?;
            let seen = if matches!(quota, Quota::Concurrency(_)) { 10 } else { left };
            require(look.remaining == seen, || format!("{key}: {change:?}: {look:?}"))?;
        }
    }
    Ok(())
}

/// Units that are all forgiven, a settlement at the estimate, and a draw that finds nothing still tie the state
/// to a clock that stepped back: it is as new when the look after them said. (Nobody could draw from an empty
/// window until the clock had caught up.)
pub(super) fn what_takes_nothing_anchors<H: Harness>(harness: &H) -> Verdict {
    for quota in slow_quotas(10) {
        if matches!(quota, Quota::Concurrency(_)) {
            continue;
        }
        let lend = Lend { most: 5, least: 1, most_out: 5, period_us: 1, back: Default::default() };
        let mut steps = vec![
            ("forgiven", 20, Change::Spend { units: 1 }, 0),
            ("settled", 0, settle(5), 6),
            ("drawn", 10, Change::Draw { most: 5, least: 1 }, 0),
            ("told", 15, Change::Spend { units: 0 }, 0),
        ];
        if quota.bucket().is_some() {
            steps.push(("lent", 10, Change::Lend(lend), 0));
        }
        for (name, spent, change, left) in steps {
            let key = format!("anchored {} {name}", quota.algorithm());
            let amend = |change| {
                let consistency = Consistency::Exact;
                let amendment =
                    Amendment { limit: "suite", quota: &quota, key: &key, change, consistency };
                harness.block_on(harness.store().amend(&[amendment])).remove(0)
            };
            harness.clock().set(START_US + SECOND_US);
            if spent > 0 {
                amend(Change::Spend { units: spent }).map_err(|error| error.to_string())?;
            } else {
                reserve(harness, &quota, &key, 5, 4)?;
            }
            harness.clock().set(START_US);
            amend(change).map_err(|error| error.to_string())?;
            let seen = ask(harness, &quota, &key, 0)?.outcomes()[0];
            require(seen.remaining == left, || format!("{key}: {seen:?} after {change:?}"))?;
            let reset_after_us = seen.reset_after_us;
            // Later than what was charged, when the state is not yet as new, and when it is.
            for (after_us, left_us) in
                [(2 * SECOND_US, reset_after_us - 2 * SECOND_US), (reset_after_us, 0)]
            {
                harness.clock().set(START_US + after_us);
                let seen = ask(harness, &quota, &key, 0)?.outcomes()[0];
                require(seen.reset_after_us == left_us, || {
                    format!("{key}: {seen:?} after {after_us} µs of {reset_after_us}")
                })?;
            }
        }
    }
    Ok(())
}

fn settle(id: u128) -> Change {
    Change::Settle { id, actual: 4 }
}

/// Charges `cost` as a reservation.
fn reserve<H: Harness>(harness: &H, quota: &Quota, key: &str, id: u128, cost: u64) -> Verdict {
    let ticket = Some(Ticket { id, reserve_for_us: Some(10 * MINUTE_US) });
    let request = Request::new([Check::new("suite", quota, key, cost)], ticket)
        .map_err(|error| error.to_string())?;
    let answer = harness.block_on(harness.store().decide_one(&request));
    require(answer.is_ok_and(|answer| answer.allowed), || format!("{key}: not reserved"))
}

/// A state lives at least until it is as new, and at most twice as long and 2 ms.
pub(super) fn idle_keys_vanish<H: Harness>(harness: &H) -> Verdict {
    for quota in slow_quotas(10) {
        let key = format!("idle {}", quota.algorithm());
        harness.clock().set(START_US);
        let reset_us = ask(harness, &quota, &key, 3)?.outcomes()[0].reset_after_us;
        let ttl_us = states(harness, &key)?.first().map_or(0, |(_, _, ttl_us)| *ttl_us);
        let life_us = match harness.lives_by_clock() {
            true => reset_us..=2 * reset_us + 2_000,
            false => 1..=u64::MAX,
        };
        require(life_us.contains(&ttl_us), || {
            format!("{key}: a life of {ttl_us} µs for {reset_us} µs")
        })?;
        harness.clock().set(START_US + reset_us - 1);
        let left = ask(harness, &quota, &key, 0)?.outcomes()[0];
        require(left.reset_after_us == 1, || format!("{key}: {left:?} just before"))?;
        harness.clock().set(START_US + reset_us);
        let left = ask(harness, &quota, &key, 0)?.outcomes()[0];
        require((left.remaining, left.reset_after_us) == (10, 0), || format!("{key}: {left:?}"))?;
    }
    Ok(())
}

/// What is stored can be seen by limit and key, and forgotten by limit and key.
pub(super) fn reset_and_inspect<H: Harness>(harness: &H) -> Verdict {
    harness.clock().set(START_US);
    let keys = ["reset a", "reset b"];
    for quota in slow_quotas(10) {
        for key in keys {
            ask(harness, &quota, key, 1)?;
        }
    }
    for key in keys {
        let seen = states(harness, key)?.len();
        require(seen == 7, || format!("{seen} states of {key}"))?;
    }
    let reset = |filter| harness.block_on(harness.store().reset(filter));
    let other = Filter { limits: Some(&["another"]), key: Some("reset a"), ..Filter::default() };
    let forgotten = reset(other).map_err(|error| error.to_string())?;
    require(forgotten == 0, || format!("{forgotten} forgotten of another limit"))?;
    let one = Filter { limits: Some(&["suite"]), key: Some("reset a"), ..Filter::default() };
    let forgotten = reset(one).map_err(|error| error.to_string())?;
    require(forgotten == 7, || format!("{forgotten} forgotten"))?;
    let left = (states(harness, "reset a")?.len(), states(harness, "reset b")?.len());
    require(left == (0, 7), || format!("{left:?} left"))
}

type Seen = (String, String, u64);

fn states<H: Harness>(harness: &H, key: &str) -> Result<Vec<Seen>, String> {
    let filter = Filter { key: Some(key), limits: None, ..Filter::default() };
    let entries = harness.block_on(harness.store().inspect(filter, 100));
    let entries = entries.map_err(|error| error.to_string())?;
    let seen = entries
        .into_iter()
        .map(|entry| (entry.algorithm.to_string(), format!("{:?}", entry.state), entry.ttl_us));
    let mut seen: Vec<Seen> = seen.collect();
    seen.sort();
    Ok(seen)
}
