//! Processes that have parts of a limit never admit more than the limit, however many come and go.

#![allow(clippy::cast_precision_loss, reason = "numbers of requests are small")]

use tollkeeper_core::{Quota, Rate};
use tollkeeper_testkit::fleet::{Dated, Scenario, Spread, run};

use crate::sharing::Sharing;

/// Units a second of every limit here.
const PER_SECOND: u64 = 1_000;

/// Fleets of each limit to which anything may happen.
const FLEETS: u64 = 250;

fn quotas() -> [Quota; 4] {
    let rate = Rate::new(PER_SECOND, 1_000_000).unwrap();
    [
        Quota::token_bucket(1_000, rate).unwrap(),
        Quota::gcra(30_000, rate).unwrap(),
        Quota::fixed_window(10_000, 10_000_000).unwrap(),
        Quota::sliding_window_log(5_000, 5_000_000).unwrap(),
    ]
}

/// What clocks bring that run fast: what flows in, flows in by them.
fn by_fast_clocks(scenario: &Scenario) -> u64 {
    let fastest = scenario.nodes.iter().map(|node| node.skew.drift_ppm).max();
    let fastest = u64::try_from(fastest.unwrap_or(0)).unwrap_or(0);
    let units = PER_SECOND * scenario.duration_us / 1_000_000;
    (units * fastest).div_ceil(1_000_000)
}

#[test]
fn no_interval_admits_more_than_the_limit_whoever_comes_and_goes() {
    let (mut served, mut changed) = (0, 0);
    for quota in quotas() {
        for seed in 0..FLEETS {
            let mut scenario = Scenario::random(seed, quota);
            if let Quota::FixedWindow(_) = quota {
                // Each process has windows by its own clock.
                let clock = scenario.store.clock();
                scenario.nodes.iter_mut().for_each(|node| node.skew = clock);
            }
            let report = run(&scenario, Sharing::new);
            let excess = report.excess(Dated::Told).unwrap();
            let most = by_fast_clocks(&scenario);
            assert!(excess <= most, "seed {seed}: {excess} of {most}: {scenario:?}");
            served += u64::from(report.admitted() > 0);
            changed += u64::from(report.faults.crashes > 0 && report.admitted() > 0);
        }
    }
    // Most had the time to serve.
    assert!(served > 3 * FLEETS && changed > FLEETS, "{served}, {changed}");
}

#[test]
fn when_all_are_asked_alike_nothing_is_wasted() {
    for quota in quotas() {
        for nodes in [1, 4, 25] {
            let mut scenario = Scenario::calm(1, quota, nodes);
            scenario.demand.percent = 300;
            scenario.demand.spread = Spread::Even;
            scenario.duration_us = 60_000_000;
            scenario.warm_up_us = 20_000_000;
            let report = run(&scenario, Sharing::new);
            let named = format!("{nodes} nodes: {}", quota.algorithm());
            assert_eq!(report.excess(Dated::Told), Some(0), "{named}");
            let allowed = PER_SECOND * (scenario.duration_us - scenario.warm_up_us) / 1_000_000;
            let used = report.admitted() as f64 / allowed as f64;
            assert!(used > 0.97, "{named}: {used}");
            // Two calls a second each, whatever comes.
            assert!(report.calls <= 2 * 62 * nodes as u64, "{named}: {} calls", report.calls);
        }
    }
}
