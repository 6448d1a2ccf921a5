//! Leases never admit more than the limit in any interval, use it up where it is asked for, and ask
//! the store no oftener than they say.

#![allow(clippy::cast_precision_loss, reason = "numbers of requests are small")]

use tollkeeper_core::{LeakMode, Quota, Rate};
use tollkeeper_testkit::fleet::{Dated, Report, Scenario, Spread, StoreSickness, run};

use crate::hoarder::Hoarder;
use crate::judged;
use crate::node::{Leasing, period_us};

/// Units a second of every limit here.
pub(crate) const PER_SECOND: u64 = 1_000;

/// Fleets of each limit to which anything may happen.
const FLEETS: u64 = 1_000;

/// Calm fleets of each limit, by chance.
const SEEDS: u64 = 32;

/// How much longer random fleets are looked at, so that what they begin with matters little.
const LONGER_US: u64 = 20_000_000;

/// A key that becomes busy costs so many calls before it is leased.
const CALLS_AT_FIRST: u64 = 9;

/// One of each kind, each enough for fifty nodes.
pub(crate) fn quotas() -> [Quota; 4] {
    let rate = Rate::new(PER_SECOND, 1_000_000).unwrap();
    [
        Quota::token_bucket(4_000, rate).unwrap(),
        Quota::gcra(10_000, rate).unwrap(),
        Quota::fixed_window(10_000, 10_000_000).unwrap(),
        Quota::leaking_bucket(6_000, rate, LeakMode::Meter, None).unwrap(),
    ]
}

/// How often a store that forgets lets a limit be used anew.
pub(crate) fn forgotten(scenario: &Scenario) -> u64 {
    let troubles = scenario.store.troubles.iter();
    let emptied = troubles.filter(|trouble| trouble.kind == StoreSickness::Emptied);
    u64::try_from(emptied.count()).unwrap()
}

#[test]
fn no_interval_admits_more_than_the_limit_and_it_is_used_whatever_happens() {
    let (mut forgetful, mut ill, mut strict) = (0, 0, 0);
    for quota in quotas() {
        let (mut judged, mut least, mut in_bursts) = (0, f64::MAX, Vec::new());
        for seed in 0..FLEETS {
            let mut scenario = Scenario::random(seed, quota);
            scenario.duration_us += LONGER_US;
            if seed % 2 == 1 {
                judged::spare(&mut scenario);
            }
            let report = run(&scenario, Leasing::new);
            judged::assert_seldom(&scenario, &report);
            match judged::used(&scenario, &report) {
                Some(used) if scenario.demand.bursts.is_none() => {
                    assert!(used.part() >= 0.97, "seed {seed}: {used:?}: {scenario:?}");
                    judged += 1;
                    strict += u64::from(used.excused <= used.usable / 50.0);
                    least = least.min(used.part());
                }
                // What was drawn for a burst that has ended, nobody spends.
                Some(used) if seed % 2 == 1 => in_bursts.push(used.part().min(1.0)),
                _ => {}
            }
            let most = forgotten(&scenario) * quota.limit();
            let excess = report.excess(Dated::Decided).unwrap();
            assert!(excess <= most, "seed {seed}: {excess} too many: {scenario:?}");
            assert!(report.admitted() > 0, "seed {seed}: {scenario:?}");
            forgetful += u64::from(excess > 0);
            ill += u64::from(report.failed > 0 && report.faults.crashes > 0);
        }
        let worst = in_bursts.iter().copied().fold(f64::MAX, f64::min);
        let mean = in_bursts.iter().sum::<f64>() / in_bursts.len() as f64;
        println!(
            "{}: {judged} judged, the least used {least:.3}; of {} in bursts {worst:.3}, {mean:.3} on average",
            quota.algorithm(),
            in_bursts.len()
        );
        assert!(worst >= 0.97 && mean >= 0.99, "{worst}, {mean}");
    }
    // They were not spared, nor excused.
    assert!(forgetful > 10 && ill > 100, "{forgetful} forgot, {ill} were ill");
    println!("{strict} with hardly an excuse");
    assert!(strict > 1_200, "{strict}");
}

#[test]
fn not_even_if_all_keep_what_they_can_and_spend_it_at_once() {
    for quota in quotas() {
        let mut most_at_once = 0;
        for seed in 0..FLEETS / 50 {
            let mut scenario = Scenario::random(seed, quota);
            scenario.demand.percent = 20_000;
            scenario.demand.most_cost = 50;
            scenario.demand.spread = Spread::Even;
            scenario.demand.bursts = None;
            scenario.duration_us = 45_000_000;
            let report = run(&scenario, |seat| Hoarder::new(seat, 9 + seed % 3 * 10));
            let most = forgotten(&scenario) * quota.limit();
            let excess = report.excess(Dated::Decided).unwrap();
            assert!(excess <= most, "seed {seed}: {excess} too many: {scenario:?}");
            most_at_once = most_at_once.max(at_once(&report, 1_000_000));
        }
        // The bound is not a wide one: they came near it.
        assert!(most_at_once > quota.limit() * 9 / 10, "{most_at_once} of {}", quota.limit());
    }
}

/// The most units that were admitted within a time.
pub(crate) fn at_once(report: &Report, us: u64) -> u64 {
    let (mut first, mut units, mut most) = (0, 0, 0);
    for admission in &report.admissions {
        units += admission.units;
        while report.admissions[first].told_us + us < admission.told_us {
            units -= report.admissions[first].units;
            first += 1;
        }
        most = most.max(units);
    }
    most
}

/// A fleet that nothing happens to but more demand than the limit allows, long enough that what it
/// began with does not matter.
fn crowded(quota: Quota, nodes: usize, percent: u64, spread: Spread) -> (Scenario, Report) {
    let mut scenario = Scenario::calm(1, quota, nodes);
    scenario.demand.percent = percent;
    scenario.demand.spread = spread;
    scenario.duration_us = 120_000_000;
    scenario.warm_up_us = 100_000_000;
    let report = run(&scenario, Leasing::new);
    (scenario, report)
}

/// Calls of each node in a period, but for those with which it began.
pub(crate) fn calls(scenario: &Scenario, report: &Report, nodes: usize) -> f64 {
    let periods = scenario.duration_us as f64 / period_us(&scenario.quota, nodes) as f64;
    let calls = report.calls.saturating_sub(CALLS_AT_FIRST * nodes as u64);
    calls as f64 / nodes as f64 / periods
}

/// One fleet may be lucky.
#[test]
fn what_is_asked_for_is_used_however_it_comes() {
    for quota in quotas() {
        for seed in 2..SEEDS {
            let mut scenario = Scenario::calm(seed, quota, 5);
            scenario.demand.percent = 150;
            (scenario.warm_up_us, scenario.duration_us) = (20_000_000, 40_000_000);
            let report = run(&scenario, Leasing::new);
            let named = format!("seed {seed}: {}", quota.algorithm());
            assert_eq!(report.excess(Dated::Told), Some(0), "{named}");
            let used = report.admitted() as f64 / (PER_SECOND * 20) as f64;
            let calls = calls(&scenario, &report, 5);
            println!("{named}: {used:.3} used, {calls:.2} calls");
            assert!(used >= 0.97 && calls <= 1.2, "{named}: {used}, {calls}");
        }
    }
}

#[test]
fn what_is_asked_for_is_used_and_the_store_is_asked_seldom() {
    for quota in quotas() {
        for (nodes, percent) in [(2, 110), (2, 1000), (5, 150), (20, 200), (50, 400), (50, 1000)] {
            for spread in [Spread::Even, Spread::Zipf] {
                let (scenario, report) = crowded(quota, nodes, percent, spread);
                let named =
                    format!("{nodes} nodes, {percent} %, {spread:?}: {}", quota.algorithm());
                assert_eq!(report.excess(Dated::Told), Some(0), "{named}");
                let allowed = PER_SECOND * (scenario.duration_us - scenario.warm_up_us) / 1_000_000;
                let used = report.admitted() as f64 / allowed as f64;
                let calls = calls(&scenario, &report, nodes);
                println!(
                    "{named}: {used:.3} used, {calls:.2} calls, fair {:.2}",
                    report.fairness()
                );
                assert!(used >= 0.97, "{named}: {used}");
                assert!(calls <= 1.2, "{named}: {calls}");
            }
        }
    }
}

#[test]
fn below_the_limit_nobody_is_denied() {
    for quota in quotas() {
        for nodes in [2, 5, 10] {
            let (scenario, report) = crowded(quota, nodes, 80, Spread::Even);
            let named = format!("{nodes} nodes: {}", quota.algorithm());
            let denied = 1.0 - report.admitted() as f64 / report.demanded() as f64;
            let calls = calls(&scenario, &report, nodes);
            println!("{named}: {denied:.5} denied, {calls:.2} calls");
            assert!(denied < 0.001, "{named}: {denied}");
            assert!(calls <= 1.2, "{named}: {calls}");
        }
    }
}

/// A period of such a limit takes half an hour. Who got little of what may be out once waited an eighth of that for
/// the others, who had spent theirs within a second; and drew little at first, as if such a flood were to be
/// told from a process that had stood still for minutes.
#[test]
fn what_a_slow_limit_has_saved_is_had_within_seconds() {
    const SAVED: u64 = 1_000;
    let rate = Rate::new(SAVED, 86_400_000_000).unwrap();
    let quota = Quota::token_bucket(SAVED, rate).unwrap();
    for nodes in [1, 2, 4] {
        let mut scenario = Scenario::calm(1, quota, nodes);
        // A thousand a second.
        scenario.demand.percent = 86_400 * 100;
        (scenario.warm_up_us, scenario.duration_us) = (0, 3_000_000);
        let report = run(&scenario, Leasing::new);
        println!("{nodes} nodes: {} of {SAVED}", report.admitted());
        assert!(report.admitted() >= SAVED / 2, "{nodes} nodes: {}", report.admitted());
        assert!(report.calls <= CALLS_AT_FIRST * nodes as u64, "{nodes} nodes: {}", report.calls);
    }
}

/// Two thousand processes are asked for fifty million units a second, of which a tenth is allowed:
/// what `docs/consistency.md` works out.
#[test]
fn a_large_fleet_asks_the_store_once_a_period_each() {
    const NODES: usize = 2_000;
    const ALLOWED: u64 = 5_000_000;
    let rate = Rate::new(ALLOWED, 1_000_000).unwrap();
    let quota = Quota::token_bucket(8 * ALLOWED, rate).unwrap();
    let period_us = period_us(&quota, NODES);
    assert_eq!(period_us, 1_000_000);
    let mut scenario = Scenario::calm(1, quota, NODES);
    scenario.demand.percent = 1_000;
    scenario.demand.most_cost = 200;
    (scenario.warm_up_us, scenario.duration_us) = (6_000_000, 9_000_000);
    let report = run(&scenario, Leasing::new);
    assert_eq!(report.excess(Dated::Decided), Some(0));
    let seconds = (scenario.duration_us - scenario.warm_up_us) as f64 / 1e6;
    let used = report.admitted() as f64 / (ALLOWED as f64 * seconds);
    let asked = report.demanded() as f64 / seconds;
    let calls = report.calls - CALLS_AT_FIRST * NODES as u64;
    let calls = calls as f64 / NODES as f64 / (scenario.duration_us / period_us) as f64;
    println!(
        "{asked:.0} a second, {used:.3} used, {calls:.2} calls, fair {:.2}",
        report.fairness()
    );
    assert!(asked > 48e6, "{asked}");
    assert!(used >= 0.97, "{used}");
    assert!(calls <= 1.2, "{calls}");
}
