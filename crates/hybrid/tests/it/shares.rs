//! Processes that have parts of a limit never admit more than the limit, however many come and go.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "numbers of requests are small"
)]

use std::sync::Arc;

use tollkeeper_core::{Check, Clock, ManualClock, Quota, Rate};
use tollkeeper_hybrid::share::Standing;
use tollkeeper_hybrid::shares::Shares;
use tollkeeper_memory::Settings;
use tollkeeper_testkit::dice::Dice;
use tollkeeper_testkit::fleet::judge::excess;
use tollkeeper_testkit::fleet::{
    Dated, NodePlan, NodeSickness, NodeTrouble, Scenario, Skew, Spread, StoreSickness, run,
};

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

/// Limits of so few units that sometimes nobody has a part, and sometimes all have one of one unit.
fn small() -> [Quota; 4] {
    let rate = Rate::new(12, 1_000_000).unwrap();
    [
        Quota::token_bucket(12, rate).unwrap(),
        Quota::gcra(12, Rate::new(4, 1_000_000).unwrap()).unwrap(),
        Quota::fixed_window(12, 2_000_000).unwrap(),
        Quota::sliding_window_log(12, 3_000_000).unwrap(),
    ]
}

/// As many as the limit has units, some of whom come, go and begin anew all the time.
fn about_as_many(seed: u64, quota: Quota) -> Scenario {
    let mut dice = Dice::new(seed ^ 0x7417);
    let mut scenario = Scenario::random(seed, quota);
    scenario.duration_us = 60_000_000;
    scenario.demand.percent = 400;
    scenario.demand.most_cost = 1;
    let clock = scenario.store.clock();
    // One that comes back empty has forgotten what was used, as it says.
    scenario.store.troubles.retain(|trouble| trouble.kind != StoreSickness::Emptied);
    scenario.nodes.clear();
    for nth in 0..16 {
        let second =
            |dice: &mut Dice, from: u64, to: u64| dice.between(from * 1_000_000, to * 1_000_000);
        let joins_us = if nth < 9 { 0 } else { second(&mut dice, 0, 40) };
        let leaves_us = (nth >= 7).then(|| joins_us + second(&mut dice, 2, 30));
        let mut plan = NodePlan { skew: clock, joins_us, leaves_us, troubles: Vec::new() };
        let mut from_us = joins_us;
        while nth >= 3 && dice.one_in(2) {
            from_us += second(&mut dice, 1, 15);
            let to_us = from_us + second(&mut dice, 0, 4) + 1;
            let kinds = [NodeSickness::Crashed, NodeSickness::Paused, NodeSickness::CutOff];
            plan.troubles.push(NodeTrouble { from_us, to_us, kind: dice.pick(&kinds) });
            from_us = to_us;
        }
        scenario.nodes.push(plan);
    }
    scenario
}

/// What the parts of ten had admitted, the store knew nothing of: when an eleventh came, it handed
/// out all of a limit of ten once more.
#[test]
fn nobody_is_over_when_there_are_more_processes_than_units_and_fewer_again() {
    let mut both = 0;
    for quota in small() {
        for seed in 0..FLEETS / 4 {
            let scenario = about_as_many(seed, quota);
            let report = run(&scenario, Sharing::new);
            let excess = report.excess(Dated::Decided).unwrap();
            assert_eq!(excess, 0, "seed {seed}: {scenario:?}");
            // By parts none waits.
            both += u64::from(!report.waited_us.is_empty() && report.admitted() > 100);
        }
    }
    assert!(both > FLEETS / 4, "{both}");
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
            // Two calls a second each, whatever comes: here they look for themselves what was noted.
            // It is noted again now and then.
            assert!(
                report.calls <= (3 * 62 + 20) * nodes as u64,
                "{named}: {} calls",
                report.calls
            );
        }
    }
}

/// Processes that come and go all at once, and each of which knows of it at that moment.
struct Crowd {
    shares: Vec<(Shares, u64)>,
    from_us: u64,
}

impl Crowd {
    /// So many are there from now on: those that were, as far as they go, and new ones.
    fn become_of(&mut self, nodes: usize, now_us: u64) {
        self.shares.truncate(nodes);
        while self.shares.len() < nodes {
            let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(now_us));
            self.shares.push((Shares::new(Settings::default(), clock), now_us));
        }
        self.from_us = now_us;
        (0..nodes).for_each(|nth| self.shares[nth].0.stand(self.standing(nth), now_us));
    }

    fn standing(&self, nth: usize) -> Standing {
        let (nodes, since_us) = (self.shares.len() as u64, self.shares[nth].1);
        Standing { nodes, is_counted: true, from_us: self.from_us, since_us, parted_us: 0 }
    }

    fn admits(&self, nth: usize, quota: &Quota, key: &str, cost: u64, now_us: u64) -> bool {
        let check = Check::new("api", quota, key, cost);
        let taken = self.shares[nth].0.take(&check, None, self.standing(nth), now_us);
        taken.unwrap().is_some_and(|outcome| outcome.allowed)
    }

    /// Everything that a process has left.
    fn drain(&self, nth: usize, quota: &Quota, now_us: u64) -> u64 {
        let admits = |_: &u64| self.admits(nth, quota, "a", 1, now_us);
        (0..=quota.limit()).take_while(admits).count() as u64
    }
}

/// Meanwhile the store handed out all of it, and nobody has anything of what his part had before.
#[test]
fn a_part_that_comes_back_begins_with_nothing() {
    let second_us = 1_000_000;
    let rate = Rate::new(60, 60 * second_us).unwrap();
    for quota in [
        Quota::token_bucket(60, rate).unwrap(),
        Quota::fixed_window(60, 60 * second_us).unwrap(),
        Quota::sliding_window_log(60, 60 * second_us).unwrap(),
    ] {
        let mut crowd = Crowd { shares: Vec::new(), from_us: 0 };
        crowd.become_of(2, 0);
        let begun_us = 600 * second_us;
        assert!(crowd.admits(0, &quota, "a", 1, begun_us));
        let (shares, now_us) = (&crowd.shares[0].0, begun_us + 20 * second_us);
        let standing = Standing { parted_us: begun_us + 10 * second_us, ..crowd.standing(0) };
        let check = Check::new("api", &quota, "a", 1);
        let take = |_: &u64| {
            shares.take(&check, None, standing, now_us).unwrap().is_some_and(|it| it.allowed)
        };
        let flown = if quota.bucket().is_some() { 5 } else { 0 };
        assert_eq!((0..60).take_while(take).count(), flown, "{}", quota.algorithm());
    }
}

/// A key that nobody asked for after the number had changed went on as a part of the old size: of a
/// thousand a minute, one process used all, and half a minute after a second had come they had 1725
/// together.
#[test]
fn a_part_is_smaller_also_for_keys_that_are_asked_for_later() {
    const MINUTE_US: u64 = 60_000_000;
    let quota = Quota::token_bucket(1_000, Rate::new(1_000, MINUTE_US).unwrap()).unwrap();
    let mut crowd = Crowd { shares: Vec::new(), from_us: 0 };
    crowd.become_of(1, 0);
    assert_eq!(crowd.drain(0, &quota, MINUTE_US), 1_000);
    crowd.become_of(2, MINUTE_US);
    let half_us = MINUTE_US + MINUTE_US / 2;
    assert_eq!([0, 1].map(|nth| crowd.drain(nth, &quota, half_us)), [250, 250]);
}

#[test]
fn nobody_is_over_whoever_is_asked_when_the_number_has_changed() {
    let mut admitted = 0;
    for quota in quotas() {
        for seed in 0..60 {
            let mut dice = Dice::new(seed);
            let mut crowd = Crowd { shares: Vec::new(), from_us: 0 };
            let begun_us = Skew::default().shows_us(0);
            let mut now_us = begun_us;
            crowd.become_of(1 + dice.below(4) as usize, now_us);
            let mut log: [Vec<(u64, u64)>; 3] = Default::default();
            for _ in 0..300 {
                // Some keys rest for long, and some moments see many requests.
                now_us += if dice.one_in(3) { dice.below(4_000_000) } else { dice.below(2_000) };
                if dice.one_in(20) {
                    crowd.become_of(1 + dice.below(6) as usize, now_us);
                }
                let key = dice.below(3) as usize;
                let nth = dice.below(crowd.shares.len() as u64) as usize;
                for cost in [quota.limit() / 3, quota.limit() / 17, 1] {
                    if crowd.admits(nth, &quota, ["a", "b", "c"][key], cost, now_us) {
                        log[key].push((now_us - begun_us, cost));
                        admitted += cost;
                    }
                }
            }
            for log in &log {
                let over = excess(&quota, log, Skew::default()).unwrap();
                assert_eq!(over, 0, "seed {seed}: {}", quota.algorithm());
            }
        }
    }
    assert!(admitted > 1_000_000, "{admitted}");
}
