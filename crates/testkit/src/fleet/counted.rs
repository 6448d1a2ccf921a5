//! Owns [`Holders`]: how many units of a limit are held by whom, so that they are never too many.
//!
//! No store of ours does this. It is here so that it can be compared with units that are bounded by
//! their life, which nobody has to count.

use std::collections::BTreeMap;

/// The most nodes that may hold units of one limit.
const MAX_NODES: usize = 4_096;

/// What a node says of the units that it holds, and what more it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Who reports.
    pub node: u64,
    /// Which of its reports: one that comes after a later one does not count.
    pub nth: u64,
    /// Units that it holds.
    pub held: u64,
    /// Units that it has spent since it began.
    pub spent: u64,
    /// How many more it wants.
    pub most: u64,
    /// How many the request that waits for them needs.
    pub least: u64,
    /// How many may be held by all together.
    pub most_out: u64,
    /// How long it may hold them without another report.
    pub life_us: u64,
}

/// Who holds units.
#[derive(Debug, Default)]
pub(super) struct Holders {
    of: BTreeMap<u64, Holder>,
}

#[derive(Debug)]
struct Holder {
    nth: u64,
    held: u64,
    spent: u64,
    until_us: u64,
}

impl Holders {
    /// Takes a report down. Units of which the node never heard, or which it gives back, are returned:
    /// they will not be spent. `None` if it does not count.
    pub(super) fn report(&mut self, count: &Count, now_us: u64) -> Option<u64> {
        self.of.retain(|_, holder| holder.until_us > now_us);
        let Count { node, nth, held, spent, .. } = *count;
        let until_us = now_us.saturating_add(count.life_us);
        let before = self.of.get(&node);
        let is_late = before.is_some_and(|before| before.nth >= nth);
        if is_late || before.is_none() && self.of.len() >= MAX_NODES {
            return None;
        }
        let unspent = before.map_or(0, |before| {
            before.held.saturating_sub(spent.saturating_sub(before.spent)).saturating_sub(held)
        });
        self.of.insert(node, Holder { nth, held, spent, until_us });
        Some(unspent)
    }

    /// How many units are held.
    pub(super) fn out(&self) -> u64 {
        self.of.values().map(|holder| holder.held).sum()
    }

    /// A node that has reported gets more.
    pub(super) fn grant(&mut self, node: u64, units: u64) {
        if let Some(holder) = self.of.get_mut(&node) {
            holder.held += units;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE_US: u64 = 1_000;

    fn report(node: u64, nth: u64, held: u64, spent: u64) -> Count {
        Count { node, nth, held, spent, most: 0, least: 0, most_out: 0, life_us: LIFE_US }
    }

    #[test]
    fn what_was_neither_spent_nor_held_comes_back() {
        let mut holders = Holders::default();
        assert_eq!(holders.report(&report(1, 1, 0, 0), 0), Some(0));
        holders.grant(1, 50);
        assert_eq!(holders.out(), 50);
        assert_eq!(holders.report(&report(1, 2, 20, 30), 0), Some(0));
        holders.grant(1, 10);
        assert_eq!(holders.report(&report(1, 3, 15, 35), 0), Some(10), "it never heard of ten");
        assert_eq!(holders.report(&report(1, 4, 0, 40), 0), Some(10), "it wants ten no more");
        assert_eq!(holders.out(), 0);
    }

    #[test]
    fn a_report_that_comes_late_does_not_count() {
        let mut holders = Holders::default();
        holders.report(&report(1, 2, 7, 0), 0);
        assert_eq!(holders.report(&report(1, 1, 0, 0), 0), None);
        assert_eq!(holders.out(), 7);
    }

    #[test]
    fn who_reports_no_longer_holds_nothing_in_the_end() {
        let mut holders = Holders::default();
        holders.report(&report(1, 1, 7, 0), 0);
        holders.report(&report(2, 1, 5, 0), LIFE_US - 1);
        assert_eq!(holders.out(), 12);
        holders.report(&report(2, 2, 5, 0), LIFE_US);
        assert_eq!(holders.out(), 5);
    }

    #[test]
    fn no_more_nodes_hold_units_than_may() {
        let mut holders = Holders::default();
        let nodes = MAX_NODES as u64;
        (0..nodes).for_each(|node| assert_eq!(holders.report(&report(node, 1, 1, 0), 0), Some(0)));
        assert_eq!(holders.report(&report(nodes, 1, 1, 0), 0), None);
        assert_eq!((holders.report(&report(0, 2, 1, 0), 0), holders.out()), (Some(0), nodes));
    }
}
