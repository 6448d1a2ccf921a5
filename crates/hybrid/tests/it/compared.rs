//! Leases beside what they could be instead, in the same fleets: units that the store does not count
//! ([`Living`]), and parts of what flows in, bit by bit or at once ([`Trickle`]). On this rests why leases are
//! as they are: see `docs/consistency.md`, whose figures these tests print.
//!
//! What is asserted holds for other seeds, too; the third figure after the point is a matter of chance.
//!
//! A `fixed_window` is not compared. Nothing flows in that could be parted, and its units end with it,
//! so that there is nothing to count.

#![allow(clippy::cast_precision_loss, reason = "numbers of requests are small")]
#![allow(clippy::print_stdout, reason = "the figures are to be read")]

use tollkeeper_core::Quota;
use tollkeeper_testkit::fleet::{
    Bursts, Dated, NodeSickness, NodeTrouble, Report, Scenario, Served, Spread, run,
};

use crate::hoarding::Hoarding;
use crate::judged;
use crate::leases::{PER_SECOND, at_once, calls, forgotten, quotas};
use crate::living::Living;
use crate::node::{Leasing, period_us};
use crate::otherwise::Otherwise;
use crate::trickling::Trickle;

/// What is compared.
const WAYS: [&str; 4] = ["lease", "not counted", "part, bit by bit", "part, at once"];

/// How long each fleet is looked at.
const LOOK_US: u64 = 20_000_000;

const SPREADS: [Spread; 2] = [Spread::Even, Spread::Zipf];

/// More than there is.
const OVER: [u64; 3] = [150, 400, 1_000];

/// Random fleets of each limit.
const FLEETS: u64 = 80;

fn buckets() -> Vec<Quota> {
    quotas().into_iter().filter(|quota| quota.bucket().is_some()).collect()
}

fn each_way(scenario: &Scenario) -> [Report; 4] {
    [
        run(scenario, Leasing::new),
        run(scenario, Otherwise::<Living>::new),
        run(scenario, Otherwise::<Trickle<true>>::new),
        run(scenario, Otherwise::<Trickle<false>>::new),
    ]
}

/// What fleets of a kind did, in one way.
#[derive(Clone, Copy, Debug)]
struct Tally {
    fleets: f64,
    /// Of what the limit would have admitted, had every request asked it: on average, and the least.
    used: f64,
    least: f64,
    fair: f64,
    /// The most calls of a process in a period, and the longest that all but one in a hundred waited
    /// of those who did.
    calls: f64,
    waited_us: u64,
}

impl Tally {
    const NONE: Self =
        Self { fleets: 0.0, used: 0.0, least: 1.0, fair: 0.0, calls: 0.0, waited_us: 0 };

    fn add(&mut self, scenario: &Scenario, report: &Report) {
        // What was saved before is used now, which is no merit.
        let used = report.utilisation().min(1.0);
        self.fleets += 1.0;
        self.used += (used - self.used) / self.fleets;
        self.fair += (report.fairness() - self.fair) / self.fleets;
        self.least = self.least.min(used);
        self.calls = self.calls.max(calls(scenario, report, scenario.nodes.len()));
        self.waited_us = self.waited_us.max(report.waited_us(99));
    }
}

/// Lets each scenario happen in every way, of which none may be over nor call too often.
fn compare(kind: &str, scenarios: impl IntoIterator<Item = Scenario>) -> [Tally; 4] {
    let mut tallies = [Tally::NONE; 4];
    for scenario in scenarios {
        let most = forgotten(&scenario) * scenario.quota.limit();
        for (nth, report) in each_way(&scenario).iter().enumerate() {
            let excess = report.excess(Dated::Decided).unwrap();
            assert!(excess <= most, "{}: {excess} too many: {scenario:?}", WAYS[nth]);
            judged::assert_seldom(&scenario, report);
            tallies[nth].add(&scenario, report);
        }
    }
    for (way, tally) in WAYS.iter().zip(&tallies) {
        let Tally { fleets, used, least, fair, calls, waited_us } = tally;
        println!(
            "{kind}, {fleets}: {way}: used {used:.3}, the least {least:.3}; fair {fair:.3}; \
             {calls:.2} calls; waited {:.1} ms",
            *waited_us as f64 / 1_000.0
        );
    }
    tallies
}

/// A fleet that nothing happens to, looked at when what the limit had saved is gone. Bursts are in
/// quarters of a period: so long, and so long none.
fn fleet(
    quota: Quota,
    nodes: usize,
    percent: u64,
    spread: Spread,
    bursts: Option<(u64, u64)>,
) -> Scenario {
    let mut scenario = Scenario::calm(1, quota, nodes);
    let quarter_us = period_us(&quota, nodes) / 4;
    let bursts = bursts.map(|(on, off)| (on * quarter_us, off * quarter_us));
    scenario.demand.percent = percent;
    scenario.demand.spread = spread;
    scenario.demand.bursts = bursts.map(|(on_us, off_us)| Bursts { on_us, off_us });
    let surplus = PER_SECOND * percent.saturating_sub(100).max(50) / 100;
    scenario.warm_up_us = quota.limit() * 1_000_000 / surplus + 5_000_000;
    scenario.duration_us = scenario.warm_up_us + LOOK_US;
    scenario
}

/// One limit in fleets of all sizes, the others in those of one.
fn fleets(percents: &[u64], spreads: &[Spread], bursts: Option<(u64, u64)>) -> Vec<Scenario> {
    let mut all = Vec::new();
    for (nth, quota) in buckets().into_iter().enumerate() {
        let nodes: &[usize] = if nth == 0 { &[2, 5, 20, 50] } else { &[20] };
        for (nodes, percent) in
            nodes.iter().flat_map(|it| percents.iter().map(move |of| (*it, *of)))
        {
            all.extend(spreads.iter().map(|it| fleet(quota, nodes, percent, *it, bursts)));
        }
    }
    all
}

#[test]
fn below_the_limit_nobody_is_denied_in_any_way() {
    let tallies = compare("80 %, steady", fleets(&[80], &SPREADS, None));
    assert!(tallies.iter().all(|it| it.least >= 0.999), "{tallies:?}");
}

#[test]
fn steady_demand_is_used_as_well_in_every_way_and_parts_are_fairer() {
    let even = compare("above, steady, even", fleets(&OVER, &SPREADS[..1], None));
    let zipf = compare("above, steady, Zipf", fleets(&OVER, &SPREADS[1..], None));
    for tallies in [&even, &zipf] {
        let lease = tallies[0];
        assert!(lease.least >= 0.97, "{lease:?}");
        assert!(tallies.iter().all(|it| lease.used >= it.used - 0.01), "{tallies:?}");
        assert!(tallies.iter().all(|it| it.calls <= 1.2 && it.waited_us <= 2_000), "{tallies:?}");
    }
    assert!(even.iter().all(|it| it.fair >= 0.98), "{even:?}");
    let [lease, uncounted, bit_by_bit, at_once] = zipf.map(|it| it.fair);
    assert!(bit_by_bit.min(at_once) >= 0.98, "{zipf:?}");
    assert!((0.8..0.92).contains(&lease), "{zipf:?}");
    assert!(uncounted <= lease + 0.02, "{zipf:?}");
}

/// Where demand is uneven, draws give each process as many units, and parts each request the same chance.
#[test]
fn leases_are_alike_for_processes_and_parts_for_requests() {
    let scenario = fleet(buckets()[0], 5, 400, Spread::Zipf, None);
    let range = |report: &Report, of: fn(&Served) -> f64| {
        let each = || report.nodes.iter().map(of);
        (each().fold(f64::MAX, f64::min), each().fold(0.0, f64::max))
    };
    let ranges = each_way(&scenario).map(|report| {
        let units = range(&report, |node| node.admitted as f64 * 1e6 / LOOK_US as f64);
        (units, range(&report, |node| node.admitted as f64 / node.demanded as f64))
    });
    for (way, (units, part)) in WAYS.iter().zip(&ranges) {
        println!(
            "400 %, Zipf, 5 processes: {way}: {:.0} to {:.0} units a second for each, {:.2} to {:.2} admitted",
            units.0, units.1, part.0, part.1
        );
    }
    let [lease, _, bit_by_bit, at_once] = ranges;
    assert!(lease.0.1 < lease.0.0 * 1.4 && lease.1.1 > lease.1.0 * 3.0, "{ranges:?}");
    for parts in [bit_by_bit, at_once] {
        assert!(parts.0.1 > parts.0.0 * 4.0 && parts.1.1 < parts.1.0 * 1.2, "{ranges:?}");
    }
}

#[test]
fn bursts_are_used_as_well_while_what_is_left_of_one_lives_until_the_next() {
    for (kind, bursts) in [("bursts of ¼ in 1 period", (1, 3)), ("bursts of 1 in 2", (4, 4))] {
        let tallies = compare(kind, fleets(&[80, 150, 400], &SPREADS, Some(bursts)));
        let lease = tallies[0];
        assert!(lease.least >= 0.96, "{lease:?}");
        assert!(tallies.iter().all(|it| lease.used >= it.used - 0.01), "{tallies:?}");
    }
}

/// What is left of a burst comes back whole if it is counted; else it has died, or flown in, before the next.
#[test]
fn rare_bursts_are_used_as_well_and_in_every_other_way_less() {
    for percents in [&[80][..], &OVER[..2]] {
        let kind = format!("{percents:?} %, bursts of ¼ in 3¼");
        let tallies = compare(&kind, fleets(percents, &SPREADS, Some((1, 12))));
        assert!(tallies[0].least >= 0.97, "{tallies:?}");
        let [lease, uncounted, bit_by_bit, at_once] = tallies.map(|it| it.used);
        assert!(lease >= uncounted + 0.005 && lease >= at_once + 0.1, "{tallies:?}");
        assert!(at_once >= bit_by_bit + 0.05, "{tallies:?}");
    }
}

/// Fleets to which anything may happen, long enough that what they begin with matters little.
fn random(in_bursts: bool) -> Vec<Scenario> {
    let seeds = buckets().into_iter().flat_map(|quota| (0..FLEETS).map(move |seed| (seed, quota)));
    let all = seeds.map(|(seed, quota)| {
        let mut scenario = Scenario::random(seed, quota);
        scenario.duration_us += LOOK_US;
        scenario.warm_up_us = LOOK_US / 2;
        scenario
    });
    all.filter(|it| it.demand.bursts.is_some() == in_bursts).collect()
}

#[test]
fn whatever_happens_none_is_over_and_steady_demand_is_used_as_well() {
    let (steady, bursts) = (random(false), random(true));
    let is_ill = |it: &&Scenario| it.nodes.iter().any(|node| !node.troubles.is_empty());
    assert!(steady.iter().chain(&bursts).filter(is_ill).count() > 100, "they were spared");
    let steady = compare("random, steady", steady);
    assert!(steady.iter().all(|it| steady[0].used >= it.used - 0.01), "{steady:?}");
    let bursts = compare("random, in bursts", bursts);
    let [lease, uncounted, bit_by_bit, at_once] = bursts.map(|it| it.used);
    assert!(lease >= uncounted && lease >= at_once && lease >= bit_by_bit + 0.03, "{bursts:?}");
}

/// Lets all processes crash so many times, a second apart, and come back at once.
fn crash(mut scenario: Scenario, times: u64) -> Scenario {
    let begun_us = scenario.warm_up_us;
    let troubles = (0..times).map(|nth| {
        let from_us = begun_us + nth * 1_000_000;
        NodeTrouble { from_us, to_us: from_us + 10_000, kind: NodeSickness::Crashed }
    });
    let troubles: Vec<NodeTrouble> = troubles.collect();
    scenario.nodes.iter_mut().for_each(|node| node.troubles.clone_from(&troubles));
    scenario.duration_us = begun_us + 5_000_000;
    scenario
}

/// Of the dead, a store that counts must believe for some periods that they hold what they held.
#[test]
fn what_the_dead_held_is_out_for_some_periods() {
    for times in [1, 4] {
        let fleets = fleets(&OVER[..2], &SPREADS, None).into_iter();
        let kind = format!("above, {times} × all crash");
        let tallies = compare(&kind, fleets.map(|scenario| crash(scenario, times)));
        let [lease, uncounted, bit_by_bit, _] = tallies.map(|it| it.used);
        assert!(lease >= uncounted - 0.05 && lease >= bit_by_bit, "{tallies:?}");
    }
}

/// That none is over would say little if none could hold much. These do: they begin so many tenths of a
/// period before they spend, and ask every so many.
#[test]
fn nor_do_hoarders_get_too_much_in_any_way() {
    let hoards = [(9, 1), (19, 1), (29, 1), (39, 10)];
    for quota in buckets() {
        let mut most_at_once = [0; 2];
        for (seed, hoard) in (0..).zip(hoards.repeat(4)) {
            let mut scenario = Scenario::random(seed, quota);
            scenario.demand.percent = 4_000;
            scenario.demand.most_cost = 50;
            scenario.demand.spread = Spread::Even;
            scenario.demand.bursts = None;
            scenario.duration_us = 45_000_000;
            let reports = [
                run(&scenario, |seat| Hoarding::<Trickle<false>>::new(seat, hoard)),
                run(&scenario, |seat| Hoarding::<Living>::new(seat, hoard)),
            ];
            for (report, at_most) in reports.iter().zip(&mut most_at_once) {
                let most = forgotten(&scenario) * quota.limit();
                let excess = report.excess(Dated::Decided).unwrap();
                assert!(excess <= most, "seed {seed}: {excess} too many: {scenario:?}");
                *at_most = at_once(report, 1_000_000).max(*at_most);
            }
        }
        // The bound is not a wide one: they came near it.
        assert!(most_at_once.iter().all(|it| *it > quota.limit() * 9 / 10), "{most_at_once:?}");
    }
}
