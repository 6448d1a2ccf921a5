//! The suite that every store must pass, whatever it is made of.
//!
//! [`run`] plays all of it on one store. Each check has keys of its own, so that one store can
//! serve them all.

mod bounds;
mod callers;
mod facts;
mod lent;
mod promises;
mod reload;

use std::sync::atomic::{AtomicU64, Ordering};

use tollkeeper_core::{Answer, Check, Quota, Request, Store, StoreError, Ticket};

use crate::random::{Plot, random_case};
use crate::replay::{Harness, replay};
use crate::vectors;

/// A moment like today's, in the middle of no window in particular.
const START_US: u64 = 1_700_000_000_123_457;
const SECOND_US: u64 = 1_000_000;
const MINUTE_US: u64 = 60 * SECOND_US;

type Verdict = Result<(), String>;

/// Plays the whole suite. `seeds` is how many random stories of each kind are told.
///
/// The error names every check that failed.
pub fn run<H: Harness>(harness: &H, seeds: u64) -> Verdict {
    let checks: [(&str, &dyn Fn() -> Verdict); 23] = [
        ("golden vectors", &|| golden_vectors(harness)),
        ("random stories", &|| random_stories(harness, seeds)),
        ("both sides of every retry", &|| promises::both_sides_of_every_retry(harness)),
        ("idle, then a flood", &|| promises::idle_then_flood(harness)),
        ("token bucket and gcra alike", &|| promises::gcra_is_a_token_bucket(harness)),
        ("never over", &|| bounds::never_over(harness, seeds)),
        ("shaped departures", &|| bounds::shaped_departures(harness)),
        ("64 callers at once", &|| callers::exactly_the_limit(harness)),
        ("the second limit denies", &|| callers::the_second_denies(harness)),
        ("crossing keys", &|| callers::crossing_keys(harness)),
        ("a changed limit", &|| facts::changed_limit(harness)),
        ("as new is absent", &|| reload::as_new_is_absent(harness)),
        ("what is written is all", &|| reload::what_is_written_is_all(harness)),
        ("a look changes nothing", &|| facts::a_look_changes_nothing(harness)),
        ("at most so much is left", &|| facts::at_most_so_much_is_left(harness)),
        ("a settlement tells", &|| facts::a_settlement_tells(harness)),
        ("units are drawn and spent", &|| facts::units_are_drawn_and_spent(harness)),
        ("units are lent", &|| lent::stories(harness, seeds)),
        ("what is out", &|| lent::never_too_many_are_out(harness)),
        ("what has ended", &|| lent::what_has_ended_does_not_come_back(harness)),
        ("what takes nothing anchors", &|| facts::what_takes_nothing_anchors(harness)),
        ("idle keys vanish", &|| facts::idle_keys_vanish(harness)),
        ("reset and inspect", &|| facts::reset_and_inspect(harness)),
    ];
    let failures: Vec<String> = checks
        .iter()
        .filter_map(|(name, check)| check().err().map(|error| format!("{name}: {error}")))
        .collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n\n")) }
}

fn golden_vectors<H: Harness>(harness: &H) -> Verdict {
    for (file, cases) in vectors::load()? {
        for case in cases {
            let key = format!("{file} {}", case.name);
            replay(harness, &case, &key).map_err(|error| format!("{file}: {error}"))?;
        }
    }
    Ok(())
}

fn random_stories<H: Harness>(harness: &H, seeds: u64) -> Verdict {
    for plot in Plot::ALL {
        for algorithm in 0..7 {
            for seed in 0..seeds {
                let case = random_case(seed, plot, algorithm, 40);
                replay(harness, &case, &case.name)?;
            }
        }
    }
    Ok(())
}

/// One quota of each algorithm with limit `limit`, whose state outlives any test of a second.
fn slow_quotas(limit: u64) -> Vec<Quota> {
    use tollkeeper_core::{LeakMode, Rate};
    let rate = Rate::new(1, 60 * MINUTE_US);
    let day_us = 24 * 60 * MINUTE_US;
    let quotas = [
        rate.clone().and_then(|rate| Quota::token_bucket(limit, rate)),
        rate.clone().and_then(|rate| Quota::gcra(limit, rate)),
        rate.and_then(|rate| Quota::leaking_bucket(limit, rate, LeakMode::Shape, None)),
        Quota::fixed_window(limit, day_us),
        Quota::sliding_window_log(limit, day_us),
        Quota::sliding_window_counter(limit, day_us),
        Quota::concurrency(limit, day_us),
    ];
    quotas.into_iter().flatten().collect()
}

/// Asks for `cost` under one limit.
fn ask<H: Harness>(harness: &H, quota: &Quota, key: &str, cost: u64) -> Result<Answer, String> {
    // A ticket is never used twice.
    static LAST_ID: AtomicU64 = AtomicU64::new(1 << 32);
    let id = LAST_ID.fetch_add(1, Ordering::Relaxed);
    let check = Check::new("suite", quota, key, cost);
    ask_all(harness, &[check], id.into())
}

/// Asks for several limits at once. `id` names what it holds.
fn ask_all<H: Harness>(harness: &H, checks: &[Check<'_>], id: u128) -> Result<Answer, String> {
    let ticket = Some(Ticket { id, reserve_for_us: None });
    let request = Request::new(checks.iter().copied(), ticket).map_err(|e| e.to_string())?;
    let answers = harness.block_on(harness.store().decide(&[request]));
    let answer = answers.into_iter().next();
    answer
        .unwrap_or_else(|| Err(StoreError::did_not_run("no answer came")))
        .map_err(|e| e.to_string())
}

fn require(holds: bool, otherwise: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(otherwise()) }
}
