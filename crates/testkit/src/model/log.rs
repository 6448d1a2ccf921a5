//! The sliding window log: the time of every unit admitted.

use super::Spec;
use super::algorithm::{Algorithm, count_into_debt};

/// The log's parameters.
#[derive(Debug)]
pub(super) struct Log {
    max: u64,
    window_us: u64,
}

/// Units that share a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    at_us: u64,
    units: u128,
}

/// The units in the log.
fn held(entries: &[Entry]) -> u128 {
    entries.iter().map(|entry| entry.units).sum()
}

/// Drops up to `units` units among the entries that `is_meant` picks, the newest first.
fn drop_newest(entries: &mut [Entry], units: u64, is_meant: impl Fn(&Entry) -> bool) {
    let mut left = u128::from(units);
    // Entries are in the order of their times: charges are appended at a `now` that none of them is later than.
    for entry in entries.iter_mut().rev().filter(|entry| is_meant(entry)) {
        let off = entry.units.min(left);
        entry.units -= off;
        left -= off;
    }
}

impl Algorithm for Log {
    type State = Vec<Entry>;

    fn from_spec(spec: &Spec) -> Option<Self> {
        match spec {
            Spec::SlidingWindowLog { max, window_us } => {
                Some(Self { max: *max, window_us: *window_us })
            }
            _ => None,
        }
    }

    fn limit(&self) -> u64 {
        self.max
    }

    fn fresh(&self, _now_us: u64) -> Vec<Entry> {
        Vec::new()
    }

    fn seen_at(&self, state: &Vec<Entry>, now_us: u64) -> Vec<Entry> {
        let mut entries = Vec::new();
        for entry in state {
            // An entry later than now counts as now; one exactly a window old is out.
            let at_us = entry.at_us.min(now_us);
            if now_us - at_us < self.window_us && entry.units > 0 {
                entries.push(Entry { at_us, ..*entry });
            }
        }
        entries
    }

    fn is_stale(&self, state: &Vec<Entry>, now_us: u64) -> bool {
        state.iter().any(|entry| entry.at_us > now_us)
    }

    fn admits(&self, state: &Vec<Entry>, _now_us: u64, cost: u64) -> bool {
        held(state) + u128::from(cost) <= u128::from(self.max)
    }

    fn charge(&self, state: &mut Vec<Entry>, now_us: u64, cost: u64, _id: u128) {
        state.push(Entry { at_us: now_us, units: u128::from(cost) });
    }

    fn remaining(&self, state: &Vec<Entry>, _now_us: u64) -> u64 {
        let left = u128::from(self.max).saturating_sub(held(state));
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    fn reset_after_us(&self, state: &Vec<Entry>, now_us: u64) -> u64 {
        let with_units = state.iter().filter(|entry| entry.units > 0);
        let newest_us = with_units.map(|entry| entry.at_us).max();
        newest_us.map_or(0, |newest_us| newest_us + self.window_us - now_us)
    }

    fn give_back(
        &self,
        state: &mut Vec<Entry>,
        now_us: u64,
        units: u64,
        charged_at_us: Option<u64>,
    ) {
        match charged_at_us {
            Some(at_us) => drop_newest(state, units, |entry| entry.at_us == at_us.min(now_us)),
            None => drop_newest(state, units, |_| true),
        }
    }

    fn take_regardless(&self, state: &mut Vec<Entry>, now_us: u64, units: u64) {
        let count = held(state);
        state.push(Entry { at_us: now_us, units: count_into_debt(count, units, self.max) - count });
    }
}
