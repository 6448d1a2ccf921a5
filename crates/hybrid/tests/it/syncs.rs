//! What is told now and then is exceeded by no more than what comes in between, and paid back.

#![allow(clippy::cast_precision_loss, reason = "numbers of requests are small")]

use tollkeeper_core::{Quota, Rate};
use tollkeeper_testkit::fleet::{Dated, Report, Scenario, Spread, run};

use crate::leases::{at_once, forgotten};
use crate::syncing::{Syncing, Untold, terms};

/// Units a second of every limit here.
const PER_SECOND: u64 = 1_000;

/// Fleets of each limit to which anything may happen.
const FLEETS: u64 = 300;

/// There and back.
const TRIP_US: u64 = 1_000;

fn quotas() -> [Quota; 4] {
    let rate = Rate::new(PER_SECOND, 1_000_000).unwrap();
    [
        Quota::token_bucket(1_000, rate).unwrap(),
        Quota::gcra(10_000, rate).unwrap(),
        Quota::fixed_window(10_000, 10_000_000).unwrap(),
        Quota::sliding_window_log(1_000, 1_000_000).unwrap(),
    ]
}

/// A fleet that nothing happens to but demand.
fn crowded(quota: Quota, nodes: usize, percent: u64, spread: Spread, parts: u64) -> (Report, f64) {
    let mut scenario = Scenario::calm(1, quota, nodes);
    scenario.demand.percent = percent;
    scenario.demand.spread = spread;
    scenario.duration_us = 60_000_000;
    scenario.warm_up_us = 40_000_000;
    let untold = Untold::default();
    let report = run(&scenario, |seat| Syncing::new(seat, parts, &untold));
    let allowed = PER_SECOND * (scenario.duration_us - scenario.warm_up_us) / 1_000_000;
    let used = report.admitted() as f64 / allowed as f64;
    (report, used)
}

#[test]
fn the_excess_is_at_most_what_is_asked_in_a_period_and_a_call() {
    for quota in quotas() {
        for (nodes, percent) in [(2, 110), (2, 1000), (5, 150), (20, 200), (50, 400), (50, 1000)] {
            for (spread, parts) in [(Spread::Even, 1), (Spread::Zipf, 1), (Spread::Even, 16)] {
                let (report, used) = crowded(quota, nodes, percent, spread, parts);
                let named = format!(
                    "{}: {nodes} nodes, {percent} %, {spread:?}, {parts} parts",
                    quota.algorithm()
                );
                let period_us = terms(&quota, parts).period_us;
                let asked = PER_SECOND * percent / 100 * (period_us + TRIP_US) / 1_000_000;
                // They come by chance.
                let asked = asked + 4 * asked.isqrt();
                let excess = report.excess(Dated::Told).unwrap();
                println!("{named}: {excess} of {asked}, {used:.3} used, {} calls", report.calls);
                assert!(excess <= asked, "{named}: {excess} of {asked}");
                // A call for each period, and the first; two where the key is split.
                let calls = report.calls as f64 / nodes as f64 / (60_000_000 / period_us) as f64;
                assert!(calls <= if parts == 1 { 1.05 } else { 2.1 }, "{named}: {calls} calls");
                // What flows is paid back, and nothing of it is wasted. Windows forget.
                if !matches!(quota, Quota::SlidingWindowLog(_)) {
                    assert!(used > 0.96, "{named}: {used}");
                }
            }
        }
    }
}

#[test]
fn below_the_limit_nobody_is_denied() {
    for quota in quotas() {
        for nodes in [1, 2, 10] {
            let (report, _) = crowded(quota, nodes, 70, Spread::Even, 1);
            let named = format!("{nodes} nodes: {}", quota.algorithm());
            let denied = 1.0 - report.admitted() as f64 / report.demanded() as f64;
            assert!(denied < 0.001, "{named}: {denied}");
        }
    }
}

#[test]
fn what_the_store_never_hears_of_is_all_that_comes_on_top() {
    let mut lossy = 0;
    for quota in quotas() {
        for seed in 0..FLEETS {
            let scenario = Scenario::random(seed, quota);
            let untold = Untold::default();
            let parts = if seed % 3 == 0 { 4 } else { 1 };
            let report = run(&scenario, |seat| Syncing::new(seat, parts, &untold));
            let life_us = 2 * terms(&quota, parts).period_us + scenario.network.time_out_us;
            let most = at_once(&report, life_us)
                + untold.lost.get()
                + untold.forgiven.get()
                + forgotten(&scenario) * quota.limit();
            let excess = report.excess(Dated::Told).unwrap();
            assert!(excess <= most, "seed {seed}: {excess} of {most}: {scenario:?}");
            assert!(report.admitted() > 0, "seed {seed}: {scenario:?}");
            lossy += u64::from(untold.lost.get() > 0);
        }
    }
    // They were not spared.
    assert!(lossy > 100, "{lossy}");
}
