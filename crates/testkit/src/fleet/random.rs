//! Makes random [`Scenario`]s: what befalls fleets, in all combinations.

use tollkeeper_core::Quota;

use super::demand::{Bursts, Demand, Spread};
use super::scenario::{
    Network, NodePlan, NodeSickness, NodeTrouble, Scenario, StorePlan, StoreSickness, StoreTrouble,
};
use super::skew::Skew;
use crate::dice::Dice;

const SECOND_US: u64 = 1_000_000;

/// What may go wrong in a scenario; each by itself.
#[derive(Clone, Copy, Debug)]
struct Ills {
    crashes: bool,
    pauses: bool,
    cuts: bool,
    skews: bool,
    losses: bool,
    comings: bool,
}

impl Scenario {
    /// A random scenario under a quota. The same seed gives the same one for ever. It has from 2.5
    /// to 200 seconds' worth of the limit in requests, so a large limit makes a long run.
    #[must_use]
    pub fn random(seed: u64, quota: Quota) -> Self {
        let mut dice = Dice::new(seed);
        let duration_us = dice.between(5 * SECOND_US, 20 * SECOND_US);
        let mut ill = || dice.one_in(2);
        let ills = Ills {
            crashes: ill(),
            pauses: ill(),
            cuts: ill(),
            skews: ill(),
            losses: ill(),
            comings: ill(),
        };
        let nodes = dice.pick(&[4, 10, 25, 50]);
        let nodes = dice.between(2, nodes);
        Self {
            seed,
            quota,
            duration_us,
            warm_up_us: SECOND_US,
            demand: demand(&mut dice, quota.limit()),
            network: network(&mut dice, ills),
            store: store(&mut dice, ills, duration_us),
            nodes: (0..nodes).map(|_| node(&mut dice, ills, duration_us)).collect(),
        }
    }
}

fn demand(dice: &mut Dice, limit: u64) -> Demand {
    let most_percent = dice.pick(&[100, 200, 400, 1000]);
    let bursts = Bursts {
        on_us: dice.between(20_000, SECOND_US),
        off_us: dice.between(20_000, 2 * SECOND_US),
    };
    Demand {
        percent: dice.between(50, most_percent),
        spread: dice.pick(&[Spread::Even, Spread::Zipf]),
        most_cost: dice.pick(&[1, 1, 3, 10]).min(limit),
        bursts: dice.one_in(3).then_some(bursts),
    }
}

fn network(dice: &mut Dice, ills: Ills) -> Network {
    let round_trip_us = dice.between(200, 5_000);
    // From a network that hardly trembles to one that does little else.
    let jitter_us = round_trip_us / 2 / dice.pick(&[2, 4, 20]);
    let mut loss_ppm = || if ills.losses { dice.between(1, 20_000) } else { 0 };
    Network {
        one_way_us: round_trip_us / 2 - jitter_us,
        jitter_us,
        lost_calls_ppm: loss_ppm(),
        lost_answers_ppm: loss_ppm(),
        time_out_us: dice.between(10_000, 50_000),
    }
}

fn store(dice: &mut Dice, ills: Ills, duration_us: u64) -> StorePlan {
    let mut kinds = Vec::new();
    if ills.crashes {
        kinds.extend([StoreSickness::Crashed, StoreSickness::Emptied]);
    }
    if ills.pauses {
        kinds.push(StoreSickness::Paused);
    }
    let troubles = spans(dice, !kinds.is_empty(), duration_us)
        .into_iter()
        .map(|(from_us, to_us)| StoreTrouble { from_us, to_us, kind: dice.pick(&kinds) });
    let troubles = troubles.collect();
    StorePlan { offset_us: offset_us(dice, ills), troubles }
}

fn node(dice: &mut Dice, ills: Ills, duration_us: u64) -> NodePlan {
    let kinds = [
        (ills.crashes, NodeSickness::Crashed),
        (ills.pauses, NodeSickness::Paused),
        (ills.cuts, NodeSickness::CutOff),
    ];
    let kinds = kinds.into_iter().filter(|(may, _)| *may).map(|(_, kind)| kind);
    let kinds: Vec<NodeSickness> = kinds.collect();
    let troubles = spans(dice, !kinds.is_empty(), duration_us)
        .into_iter()
        .map(|(from_us, to_us)| NodeTrouble { from_us, to_us, kind: dice.pick(&kinds) });
    let troubles = troubles.collect();
    let half_us = duration_us / 2;
    let joins_us = if ills.comings && dice.one_in(4) { dice.below(half_us) } else { 0 };
    let leaves = ills.comings && dice.one_in(4);
    NodePlan {
        skew: Skew {
            offset_us: offset_us(dice, ills),
            drift_ppm: if ills.skews { signed(dice, 200) } else { 0 },
        },
        joins_us,
        leaves_us: leaves.then(|| half_us + dice.below(half_us)),
        troubles,
    }
}

/// A few spans of a few milliseconds to two seconds, none of which meets another.
fn spans(dice: &mut Dice, any: bool, duration_us: u64) -> Vec<(u64, u64)> {
    let mut spans = Vec::new();
    let mut from_us = 0;
    while any && dice.one_in(2) {
        let most_us = dice.pick(&[10_000, 100_000, 2 * SECOND_US]);
        from_us += dice.between(1, duration_us / 2);
        let to_us = from_us + dice.between(1_000, most_us);
        spans.push((from_us, to_us));
        from_us = to_us;
    }
    spans
}

fn offset_us(dice: &mut Dice, ills: Ills) -> i64 {
    let most_us = dice.pick(&[1_000, 50_000, 5_000_000]);
    if ills.skews { signed(dice, most_us) } else { 0 }
}

fn signed(dice: &mut Dice, most: u64) -> i64 {
    let size = i64::try_from(dice.between(0, most)).unwrap_or(0);
    if dice.one_in(2) { -size } else { size }
}
