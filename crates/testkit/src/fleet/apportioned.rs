//! Owns [`Demands`]: who asks for how much of a limit, and which part of what flows in is whose.
//!
//! No store of ours does this. It is here so that it can be compared with draws, which need to know
//! nobody.

use std::collections::BTreeMap;

use tollkeeper_core::Quota;

/// The most nodes that are known of one limit. Who is not known gets nothing.
const MAX_NODES: usize = 4_096;

/// What is left beyond one period's flow, or is missing from it, is evened out in so many periods.
const EVENED: u128 = 4;

/// What a node asks for, for the period that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Who asks.
    pub node: u64,
    /// Units that it is asked for in a period.
    pub demand: u64,
    /// How many it wants at most.
    pub most: u64,
    /// How long a period is.
    pub period_us: u64,
}

/// What each node that asked lately is asked for.
#[derive(Debug, Default)]
pub(super) struct Demands {
    of: BTreeMap<u64, Known>,
}

#[derive(Debug)]
struct Known {
    demand: u64,
    until_us: u64,
}

impl Demands {
    /// How many of the units that are left a node gets: all that it wants while that is so for
    /// everybody, otherwise by its demand.
    pub(super) fn part(&mut self, quota: &Quota, asked: &Part, left: u64, now_us: u64) -> u64 {
        self.of.retain(|_, known| known.until_us > now_us);
        if self.of.len() >= MAX_NODES && !self.of.contains_key(&asked.node) {
            return 0;
        }
        // Who still wants some asks again within a period, or a little later.
        let until_us = now_us.saturating_add(asked.period_us + asked.period_us / 2);
        self.of.insert(asked.node, Known { demand: asked.demand, until_us });
        let all: u128 = self.of.values().map(|known| u128::from(known.demand)).sum();
        let flow = flow(quota, asked.period_us);
        let left = u128::from(left);
        let part = match all <= flow.max(left) {
            true => left,
            // What is left settles at one period's flow, so that nobody finds nothing.
            false => {
                let shared = flow * (EVENED - 1) + left;
                shared * u128::from(asked.demand) / (all * EVENED)
            }
        };
        u64::try_from(part.min(left)).unwrap_or(u64::MAX).min(asked.most)
    }
}

/// What flows in during a period.
fn flow(quota: &Quota, period_us: u64) -> u128 {
    let bucket = quota.bucket();
    bucket.map_or(0, |it| u128::from(it.drain()) * u128::from(period_us) / u128::from(it.unit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollkeeper_core::Rate;

    const PERIOD_US: u64 = 100_000;

    /// 100 in a period.
    fn quota() -> Quota {
        Quota::token_bucket(1_000, Rate::new(1_000, 1_000_000).unwrap()).unwrap()
    }

    fn ask(node: u64, demand: u64) -> Part {
        Part { node, demand, most: demand, period_us: PERIOD_US }
    }

    #[test]
    fn who_wants_less_than_there_is_gets_it() {
        let mut demands = Demands::default();
        assert_eq!(demands.part(&quota(), &ask(1, 60), 60, 0), 60);
        assert_eq!(demands.part(&quota(), &ask(2, 30), 10, 0), 10, "no more than is left");
        assert_eq!(demands.part(&quota(), &ask(3, 500), 590, 0), 500, "all of it is there");
    }

    #[test]
    fn otherwise_each_gets_its_part_of_the_flow() {
        let mut demands = Demands::default();
        demands.part(&quota(), &ask(1, 300), 0, 0);
        assert_eq!(demands.part(&quota(), &ask(2, 100), 100, 0), 25);
        assert_eq!(demands.part(&quota(), &ask(1, 300), 100, 0), 75);
        assert_eq!(
            demands.part(&quota(), &ask(1, 300), 140, 0),
            82,
            "what was saved is evened out"
        );
        assert_eq!(demands.part(&quota(), &ask(1, 300), 60, 0), 60, "no more than is left");
    }

    #[test]
    fn who_asks_no_longer_is_forgotten() {
        let mut demands = Demands::default();
        demands.part(&quota(), &ask(1, 300), 0, 0);
        let later_us = PERIOD_US * 3 / 2;
        assert_eq!(demands.part(&quota(), &ask(2, 200), 100, later_us - 1), 40);
        assert_eq!(demands.part(&quota(), &ask(2, 200), 100, later_us), 100);
    }

    #[test]
    fn no_more_nodes_are_known_than_may_be() {
        let mut demands = Demands::default();
        let nodes = MAX_NODES as u64;
        (0..nodes).for_each(|node| assert_eq!(demands.part(&quota(), &ask(node, 0), 9, 0), 0));
        assert_eq!(demands.part(&quota(), &ask(nodes, 1), 9, 0), 0);
        assert_eq!(demands.part(&quota(), &ask(nodes - 1, 1), 9, 0), 1);
    }
}
