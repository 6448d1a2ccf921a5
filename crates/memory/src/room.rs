//! Making room: sweeping what has expired, and what happens to a new key when the table is full.

use std::sync::atomic::{AtomicUsize, Ordering};

use tollkeeper_core::WhenFull;

use crate::fingerprint::Fingerprint;
use crate::settings::Settings;
use crate::shard::Keys;
use crate::slots::Budget;
use crate::stats::{Counters, count};
use crate::table::{Locked, Table};

/// Entries that a sweep looks at, to see whether they have expired, and how many more if one has.
const SWEEP_FIRST: usize = 16;
const SWEEP_MORE: usize = 40;

/// Records that a sweep looks at.
const SWEEP_RECORDS: usize = 4;

/// Entries among which the one to evict is chosen, where the budget allows.
const SAMPLE: usize = 8;

/// Whether a new key may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// There is a place, and it is taken.
    Yes,
    /// The request goes on, and this limit does not remember it.
    Untracked,
    /// The request is denied; a place may come free after this time.
    Denied { retry_after_us: u64 },
}

/// Makes room for one call, within its budget.
pub(crate) struct RoomMaker<'a> {
    table: &'a Table,
    counters: &'a Counters,
    pub(crate) settings: &'a Settings,
    now_us: u64,
    pub(crate) budget: Budget,
}

impl<'a> RoomMaker<'a> {
    pub(crate) fn new(
        table: &'a Table,
        counters: &'a Counters,
        settings: &'a Settings,
        now_us: u64,
    ) -> Self {
        Self { table, counters, settings, now_us, budget: Budget::new() }
    }

    /// Takes away some entries of the shard whose turn it is. Nobody is waited for. Whether there were any.
    pub(crate) fn sweep_next(&mut self) -> bool {
        self.table.try_lock_next().is_some_and(|mut shard| self.sweep(&mut shard))
    }

    /// Takes away a few entries of a shard that have expired; whether there were any.
    pub(crate) fn sweep(&mut self, shard: &mut Keys<'_>) -> bool {
        let mut sweep = |most| shard.sweep(most, &self.table.common, self.now_us, &mut self.budget);
        let mut swept = sweep(SWEEP_FIRST);
        if swept > 0 {
            swept += sweep(SWEEP_MORE);
        }
        if swept > 0 {
            self.table.keys.fetch_sub(swept, Ordering::Relaxed);
            self.counters.swept.fetch_add(swept as u64, Ordering::Relaxed);
        }
        self.sweep_records(shard, SWEEP_RECORDS) || swept > 0
    }

    /// Makes room in the shards of a request that reserves, with each one that is new: so those that
    /// have expired are never many more than those that have not.
    pub(crate) fn sweep_for_new(&mut self, locked: &mut Locked<'_>) {
        let ids = locked.ids.clone();
        // Half of the budget is for keys.
        let most = (Budget::MOST / 2 / ids.len().max(1)).clamp(1, SWEEP_RECORDS);
        ids.into_iter().for_each(|id| _ = self.sweep_records(locked.shard(id), most));
    }

    /// Takes away a few records of a shard that have expired; whether there were any.
    fn sweep_records(&mut self, shard: &mut Keys<'_>, most: usize) -> bool {
        let swept = shard.records().sweep(most, self.now_us, &mut self.budget);
        if swept > 0 {
            self.table.records.fetch_sub(swept, Ordering::Relaxed);
        }
        swept > 0
    }

    /// Takes a place for a new key of `shard`. `own` are the states of the request itself, which
    /// never make room for each other.
    pub(crate) fn take_key(&mut self, shard: &mut Keys<'_>, own: &[Fingerprint]) -> Room {
        if shard.has_room() && try_take(&self.table.keys, self.settings.max_keys) {
            return Room::Yes;
        }
        let sample = (self.budget.left() / own.len().max(1)).clamp(1, SAMPLE);
        let common = &self.table.common;
        let may_go = |fingerprint| !own.contains(&fingerprint);
        let first = shard.first_to_expire(sample, common, &mut self.budget, may_go);
        let expired = first.is_some_and(|(expires_us, _)| expires_us <= self.now_us);
        if let Some((_, at)) = first
            && (expired || self.settings.when_full == WhenFull::Evict)
        {
            shard.remove(at);
            count(if expired { &self.counters.swept } else { &self.counters.evicted });
            return Room::Yes;
        }
        if self.settings.when_full == WhenFull::Deny {
            count(&self.counters.denied_full);
            let retry_after_us = first.map_or(1, |(expires_us, _)| expires_us - self.now_us);
            return Room::Denied { retry_after_us };
        }
        count(&self.counters.allowed_full);
        Room::Untracked
    }

    /// Gives places back that were taken and are not needed.
    pub(crate) fn give_back_keys(&self, places: usize) {
        self.table.keys.fetch_sub(places, Ordering::Relaxed);
    }

    /// Takes places for `wanted` records, all or none. Where there are none, some of another
    /// shard may have expired.
    pub(crate) fn take_records(&mut self, wanted: usize) -> bool {
        let most = self.settings.max_keys;
        let more = |taken: usize| (taken + wanted <= most).then_some(taken + wanted);
        let places = &self.table.records;
        let take = || places.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        take() || {
            self.sweep_next();
            take()
        }
    }
}

/// Takes one of `most` places, if one is free.
fn try_take(places: &AtomicUsize, most: usize) -> bool {
    let more = |taken: usize| (taken < most).then_some(taken + 1);
    places.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}
