//! Judges how much of a limit a fleet used that leases it, and how often it called the store,
//! whatever befell it.

#![allow(clippy::cast_precision_loss, reason = "numbers of requests are small")]

use tollkeeper_testkit::fleet::{NodePlan, NodeSickness, Report, Scenario, Slice, Spread};

use crate::leases::PER_SECOND;
use crate::node::period_us;

/// Calls of a process in a period, and those it may make on top, once in its life.
const CALLS: f64 = 1.1;
const SPARE_CALLS: f64 = 8.0;

/// Requests that come to a process in a period if leasing is to use the limit.
const PAYS: f64 = 4.0;

/// How much was used of what could be.
#[derive(Debug)]
pub(crate) struct Use {
    /// In each slice of time what was asked for or what the limit allows, whichever is less.
    pub(crate) usable: f64,
    pub(crate) used: f64,
    /// What may be lost by what befell nodes and calls.
    pub(crate) excused: f64,
}

impl Use {
    /// The part that was used, if what is excused had been.
    pub(crate) fn part(&self) -> f64 {
        (self.used + self.excused) / self.usable
    }
}

/// Lets nothing befall a fleet but clocks that are off, a network that trembles, and its demand.
pub(crate) fn spare(scenario: &mut Scenario) {
    scenario.store.troubles.clear();
    (scenario.network.lost_calls_ppm, scenario.network.lost_answers_ppm) = (0, 0);
    for plan in &mut scenario.nodes {
        *plan = NodePlan { skew: plan.skew, ..NodePlan::default() };
    }
}

/// Asserts that no process calls the store oftener than it may, but for calls that failed.
pub(crate) fn assert_seldom(scenario: &Scenario, report: &Report) {
    let periods = scenario.duration_us as f64 / of(scenario) as f64;
    for (plan, node) in scenario.nodes.iter().zip(&report.nodes) {
        let crashes = plan.troubles.iter().filter(|it| it.kind == NodeSickness::Crashed).count();
        let most = CALLS * periods + SPARE_CALLS * (crashes + 1) as f64;
        // Clocks may run fast, and a call can begin just before the end.
        let calls = (node.calls - node.failed) as f64;
        assert!(calls <= most * 1.001 + 1.0, "{calls} calls where {most}: {scenario:?}");
    }
}

/// How much of its limit a fleet used. `None` where nobody promises anything: if hardly any requests come to
/// some of the nodes, or if there is no slice of time in which the store is well.
pub(crate) fn used(scenario: &Scenario, report: &Report) -> Option<Use> {
    let period_us = of(scenario);
    let periods_per_s = 1e6 / period_us as f64;
    let mean_cost = (1 + scenario.demand.most_cost) as f64 / 2.0;
    let is_few = |rate: &f64| rate / mean_cost / periods_per_s < PAYS;
    let rates = rates(scenario);
    if rates.iter().any(is_few) {
        return None;
    }
    let begun_us = scenario.warm_up_us.max(4 * period_us);
    // Who got no answer asks again within a second, and then has to learn what there is.
    let after_us = scenario.network.time_out_us + 1_250_000 + 4 * period_us;
    let is_judged = |from_us: u64, to_us: u64| {
        let mut troubles = scenario.store.troubles.iter();
        from_us >= begun_us
            && to_us <= scenario.duration_us
            && troubles.all(|it| to_us <= it.from_us || it.to_us + after_us <= from_us)
    };
    let pairs = report.slices.windows(2).filter_map(|pair| match pair {
        [slice, next] if is_judged(slice.from_us, next.from_us) => Some((slice, next.from_us)),
        _ => None,
    });
    let slices: Vec<(&Slice, u64)> = pairs.collect();
    let allowed = |slice: &Slice, to_us: u64| match scenario.quota.bucket() {
        Some(_) => PER_SECOND as f64 * (to_us - slice.from_us) as f64 / 1e6,
        None => scenario.quota.limit() as f64,
    };
    let usable: f64 =
        slices.iter().map(|(slice, to_us)| allowed(slice, *to_us).min(slice.asked as f64)).sum();
    let used = slices.iter().map(|(slice, _)| slice.admitted as f64).sum();
    // What a node holds is lost with it; of what it is asked while it can draw nothing, its part of the
    // limit is not used, and of what comes at once afterwards.
    let part = (PER_SECOND as f64 / rates.iter().sum::<f64>()).min(1.0);
    let later_us = scenario.network.time_out_us + 3 * period_us;
    let each = rates.iter().zip(&scenario.nodes).zip(&report.nodes);
    let excused = each.map(|((rate, plan), node)| {
        let ill_us = plan.troubles.iter().map(|it| it.to_us - it.from_us + later_us);
        let moves = u64::from(plan.joins_us > 0) + u64::from(plan.leaves_us.is_some());
        // Who got no answer waits for a period, more or less, until it asks again.
        let lost_us = node.failed * (scenario.network.time_out_us + period_us * 5 / 4);
        rate * part * (ill_us.sum::<u64>() + moves * later_us + lost_us) as f64 / 1e6
    });
    let excused = excused.sum();
    (usable > 0.0).then_some(Use { usable, used, excused })
}

fn of(scenario: &Scenario) -> u64 {
    period_us(&scenario.quota, scenario.nodes.len())
}

/// Units a second that each node is asked for.
fn rates(scenario: &Scenario) -> Vec<f64> {
    let weight = |nth: usize| match scenario.demand.spread {
        Spread::Even => 1.0,
        Spread::Zipf => 1.0 / (nth + 1) as f64,
    };
    let nodes = scenario.nodes.len();
    let all: f64 = (0..nodes).map(weight).sum();
    let rate = (PER_SECOND * scenario.demand.percent) as f64 / 100.0;
    (0..nodes).map(|nth| rate * weight(nth) / all).collect()
}
