//! Limits that change while states are there: what counts under the next limit, and what does not.

use tollkeeper_core::{
    Amended, Amendment, Change, Check, Consistency, LeakMode, Quota, Rate, Request, Store, Ticket,
};

use super::{MINUTE_US, SECOND_US, START_US, Verdict, ask, require};
use crate::replay::Harness;

/// Of each algorithm a limit of 10 that forgets in seconds, and one that takes days.
fn quick_and_slow() -> Vec<(Quota, Quota)> {
    let bucket = |make: &dyn Fn(Rate) -> Option<Quota>| {
        Some((make(rate(SECOND_US)?)?, make(rate(DAY_US)?)?))
    };
    let window = |make: &dyn Fn(u64) -> Option<Quota>| Some((make(2 * SECOND_US)?, make(DAY_US)?));
    let pairs = [
        bucket(&|rate| Quota::token_bucket(10, rate).ok()),
        bucket(&|rate| Quota::gcra(10, rate).ok()),
        bucket(&|rate| Quota::leaking_bucket(10, rate, LeakMode::Shape, None).ok()),
        window(&|us| Quota::fixed_window(10, us).ok()),
        window(&|us| Quota::sliding_window_log(10, us).ok()),
        window(&|us| Quota::sliding_window_counter(10, us).ok()),
        window(&|us| Quota::concurrency(10, us).ok()),
    ];
    pairs.into_iter().flatten().collect()
}

const DAY_US: u64 = 24 * 60 * MINUTE_US;

fn rate(period_us: u64) -> Option<Rate> {
    Rate::new(1, period_us).ok()
}

/// A state counts until it is as new by the limit that wrote it, and not a microsecond longer, however
/// slow the limit of now is: for whoever asks, and for what follows.
pub(super) fn as_new_is_absent<H: Harness>(harness: &H) -> Verdict {
    let pairs = quick_and_slow();
    require(pairs.len() == 7, || format!("only {} limits", pairs.len()))?;
    for (quick, slow) in pairs {
        let algorithm = quick.algorithm();
        let key = format!("as new {algorithm}");
        let fresh_at_us = charge(harness, &quick, &key, 1)?;
        for (at_us, is_there) in [(fresh_at_us - 1, true), (fresh_at_us, false)] {
            harness.clock().set(at_us);
            let seen = ask(harness, &slow, &key, 0)?.outcomes()[0];
            let counts = seen.remaining < 10 && seen.reset_after_us > 0;
            require(counts == is_there, || format!("{key}: {seen:?} at {at_us}"))?;
        }
        let left = ask(harness, &slow, &key, 1)?.outcomes()[0].remaining;
        require(left == 9, || format!("{key}: {left} left after one"))?;
        if matches!(quick, Quota::Concurrency(_)) {
            continue;
        }
        let steps = [
            (Change::Refund { units: 1, charged_at_us: None }, 10),
            (Change::Settle { id: 2, actual: 3 }, 10),
            (Change::Settle { id: 3, actual: 0 }, 10),
            (Change::Settle { id: 4, actual: 4 }, 9),
            (Change::LeaveAtMost { units: 7 }, 7),
            (Change::Draw { most: 9, least: 1 }, 5),
            (Change::Spend { units: 4 }, 6),
        ];
        for (id, (change, left)) in (1..).zip(steps) {
            let key = format!("as new {algorithm} {change:?}");
            harness.clock().set(charge(harness, &quick, &key, id)?);
            let amended = amend(harness, &slow, &key, change)?;
            let seen = ask(harness, &slow, &key, 0)?.outcomes()[0];
            require(seen.remaining == left, || format!("{key}: {seen:?} after {amended:?}"))?;
            let is_refund = matches!(change, Change::Refund { .. });
            require(is_refund == (amended == Amended::Unknown), || format!("{key}: {amended:?}"))?;
        }
    }
    Ok(())
}

/// What a quick limit writes is all that is left for a slow one that follows, also if it is nothing.
pub(super) fn what_is_written_is_all<H: Harness>(harness: &H) -> Verdict {
    // Soon enough for a window of the day before to weigh, and too late for one of seconds.
    let next_day_us = DAY_US - START_US % DAY_US + MINUTE_US;
    for (quick, slow) in quick_and_slow() {
        if matches!(quick, Quota::Concurrency(_)) {
            continue;
        }
        for after_us in [MINUTE_US, next_day_us] {
            let key = format!("given back {} {after_us}", quick.algorithm());
            charge(harness, &slow, &key, 1)?;
            harness.clock().set(START_US + after_us);
            let before = ask(harness, &quick, &key, 0)?.outcomes()[0];
            if before.remaining < 10 {
                // A window counts whole until it ends.
                continue;
            }
            amend(harness, &quick, &key, Change::Refund { units: 1, charged_at_us: None })?;
            let seen = ask(harness, &slow, &key, 0)?.outcomes()[0];
            require(seen.remaining == 10, || format!("{key}: {seen:?}"))?;
        }
    }
    log_that_is_written(harness)?;
    settled_by_the_next(harness)
}

/// What writes a log writes it as the limit of now sees it: what has left a short window does not come
/// back with a long one. A denial writes only after a clock that stepped back.
fn log_that_is_written<H: Harness>(harness: &H) -> Verdict {
    let log = |max, us| Quota::sliding_window_log(max, us).map_err(|error| error.to_string());
    let (long, short) = (log(10, MINUTE_US)?, log(1, 10 * SECOND_US)?);
    let nothing_taken =
        [Change::Spend { units: 1 }, Change::Refund { units: 1, charged_at_us: Some(1) }].map(Some);
    let steps = [None].into_iter().chain(nothing_taken).map(|change| (20, change));
    for (at_s, change) in steps.chain(nothing_taken.map(|change| (35, change))) {
        let key = format!("written log {at_s} {change:?}");
        for (after_s, cost) in [(0, 1), (30, 2)] {
            harness.clock().set(START_US + after_s * SECOND_US);
            ask(harness, &long, &key, cost)?;
        }
        harness.clock().set(START_US + at_s * SECOND_US);
        match change {
            Some(change) => drop(amend(harness, &short, &key, change)?),
            None => drop(ask(harness, &short, &key, 1)?),
        }
        let seen = ask(harness, &long, &key, 0)?.outcomes()[0];
        let reset_after_us = MINUTE_US - at_s.saturating_sub(30) * SECOND_US;
        let told = (seen.remaining, seen.reset_after_us);
        require(told == (8, reset_after_us), || format!("{key}: {seen:?}"))?;
    }
    Ok(())
}

/// A settlement at the estimate takes nothing, and leaves the state to the limit of now: it is as new
/// by that one.
fn settled_by_the_next<H: Harness>(harness: &H) -> Verdict {
    for (quick, slow) in quick_and_slow() {
        if matches!(quick, Quota::Concurrency(_)) {
            continue;
        }
        let key = format!("settled by the next {}", quick.algorithm());
        let fresh_at_us = charge(harness, &quick, &key, 1)?;
        harness.clock().set(START_US + 1);
        amend(harness, &slow, &key, Change::Settle { id: 1, actual: 3 })?;
        harness.clock().set(fresh_at_us);
        let seen = ask(harness, &slow, &key, 0)?.outcomes()[0];
        require(seen.remaining == 7, || format!("{key}: {seen:?}"))?;
    }
    let log = |us| Quota::sliding_window_log(10, us).map_err(|error| error.to_string());
    let (key, short, long) = ("settled log", log(10 * SECOND_US)?, log(MINUTE_US)?);
    charge(harness, &short, key, 1)?;
    harness.clock().set(START_US + 8 * SECOND_US);
    ask(harness, &short, key, 1)?;
    // What was reserved is out of the window by now, and does not come back.
    harness.clock().set(START_US + 12 * SECOND_US);
    amend(harness, &short, key, Change::Settle { id: 1, actual: 3 })?;
    let seen = ask(harness, &long, key, 0)?.outcomes()[0];
    require(seen.remaining == 9, || format!("{key}: {seen:?}"))
}

/// Charges three units as a reservation at the start; when the state is as new.
fn charge<H: Harness>(harness: &H, quota: &Quota, key: &str, id: u128) -> Result<u64, String> {
    harness.clock().set(START_US);
    let reserve_for_us = (!matches!(quota, Quota::Concurrency(_))).then_some(10 * MINUTE_US);
    let ticket = Some(Ticket { id, reserve_for_us });
    let request = Request::new([Check::new("suite", quota, key, 3)], ticket);
    let request = request.map_err(|error| error.to_string())?;
    let answer = harness.block_on(harness.store().decide_one(&request));
    let answer = answer.map_err(|error| error.to_string())?;
    Ok(START_US + answer.outcomes()[0].reset_after_us)
}

fn amend<H: Harness>(
    harness: &H,
    quota: &Quota,
    key: &str,
    change: Change,
) -> Result<Amended, String> {
    let consistency = Consistency::Exact;
    let amendment = Amendment { limit: "suite", quota, key, change, consistency };
    let amended = harness.block_on(harness.store().amend(&[amendment])).pop();
    amended.ok_or("no answer came")?.map_err(|error| error.to_string())
}
