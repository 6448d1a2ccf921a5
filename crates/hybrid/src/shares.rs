//! Owns [`Shares`]: what this process admits of limits of which it has a part.
//!
//! The states of one number of processes lie in one table. When the number changes, a new table
//! begins, and what a key had left in the old one is all that it has in the new one: what a part
//! grows by has to flow in, as what a process begins with.

use std::sync::Arc;

use parking_lot::RwLock;
use tollkeeper_core::{
    Amended, Amendment, Change, Check, Clock, Consistency, Filter, Outcome, Quota,
};
use tollkeeper_memory::{MemoryStore, Settings};

use crate::share::Standing;

/// What is decided by parts.
#[derive(Debug)]
pub struct Shares {
    clock: Arc<dyn Clock>,
    now: RwLock<Option<Arc<Epoch>>>,
}

/// A while in which there are so many processes.
#[derive(Debug)]
struct Epoch {
    standing: Standing,
    states: States,
    /// Those of the while before, if this process served in it.
    before: Option<States>,
}

/// What keys have left of a part.
#[derive(Clone, Debug)]
struct States {
    /// The part: one of so many.
    nodes: u64,
    from_us: u64,
    table: Arc<MemoryStore<Arc<dyn Clock>>>,
}

impl Shares {
    /// Nothing is decided yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, now: RwLock::new(None) }
    }

    /// Decides a check by this process's part; `None` if it has none, since there is less than one
    /// unit for each.
    #[must_use]
    pub fn take(&self, check: &Check<'_>, standing: Standing, now_us: u64) -> Option<Outcome> {
        let share = part(check.quota, standing.nodes)?;
        let epoch = self.epoch(standing, now_us);
        let of_part = Check { quota: &share, consistency: Consistency::Exact, ..*check };
        if is_young(&share, epoch.states.from_us, now_us) {
            epoch.begin(&of_part, check.quota, now_us);
        }
        let outcome = epoch.states.table.check_now(&of_part).ok()?.outcome;
        Some(Outcome { limit: check.quota.limit(), ..outcome })
    }

    /// Changes what was decided; `None` if this process has no part of it.
    pub fn amend(&self, amendment: &Amendment<'_>) -> Option<Amended> {
        let epoch = self.now.read().clone()?;
        part(amendment.quota, epoch.standing.nodes)?;
        let mut states = [&epoch.states].into_iter().chain(&epoch.before);
        let amended = states.find_map(|states| {
            let quota = part(amendment.quota, states.nodes)?;
            match states.table.amend_now(&Amendment { quota: &quota, ..*amendment }) {
                Amended::Unknown => None,
                amended => Some(amended),
            }
        });
        Some(amended.unwrap_or(Amended::Unknown))
    }

    /// Forgets keys; how many there were.
    pub fn reset(&self, filter: Filter<'_>) -> u64 {
        let Some(epoch) = self.now.read().clone() else { return 0 };
        if let Some(before) = &epoch.before {
            before.table.reset_now(filter);
        }
        epoch.states.table.reset_now(filter)
    }

    /// How many keys there are, some of which may have expired.
    #[must_use]
    pub fn keys(&self) -> u64 {
        let epoch = self.now.read().clone();
        epoch.map_or(0, |epoch| epoch.states.table.stats().keys)
    }

    fn epoch(&self, standing: Standing, now_us: u64) -> Arc<Epoch> {
        let known = |epoch: &Option<Arc<Epoch>>| {
            epoch.as_ref().filter(|epoch| epoch.standing == standing).map(Arc::clone)
        };
        if let Some(epoch) = known(&self.now.read()) {
            return epoch;
        }
        let mut now = self.now.write();
        if let Some(epoch) = known(&now) {
            return epoch;
        }
        // Who did not serve without a break has nothing left.
        let before = now.take().filter(|epoch| epoch.standing.since_us == standing.since_us);
        let from_us = if before.is_some() { now_us } else { standing.since_us };
        let table = MemoryStore::new(Settings::default(), Arc::clone(&self.clock));
        let states = States { nodes: standing.nodes, from_us, table: Arc::new(table) };
        let before = before.map(|before| before.states.clone());
        let epoch = Arc::new(Epoch { standing, states, before });
        *now = Some(Arc::clone(&epoch));
        epoch
    }
}

impl Epoch {
    /// Lowers a key that nobody has asked for in this epoch to what it had before.
    fn begin(&self, check: &Check<'_>, whole: &Quota, now_us: u64) {
        if self.states.left(check) < check.quota.limit() {
            return;
        }
        let from_us = self.states.from_us;
        let units = match &self.before {
            None => flown_in(check.quota, from_us, now_us),
            Some(before) => before.had(check, whole, from_us, now_us),
        };
        let Check { limit, quota, key, consistency, .. } = *check;
        let change = Change::LeaveAtMost { units };
        self.states.table.amend_now(&Amendment { limit, quota, key, change, consistency });
    }
}

impl States {
    /// What a key would have left had the while of these, which ended at `until_us`, gone on.
    fn had(&self, check: &Check<'_>, whole: &Quota, until_us: u64, now_us: u64) -> u64 {
        let Some(share) = part(whole, self.nodes) else { return 0 };
        let left = self.left(&Check { quota: &share, ..*check });
        // One that nobody asked for in a short while looks as if it had all.
        match is_young(&share, self.from_us, until_us) {
            true => left.min(flown_in(&share, self.from_us, now_us)),
            false => left,
        }
    }

    fn left(&self, check: &Check<'_>) -> u64 {
        let look = self.table.check_now(&Check { cost: 0, ..*check });
        look.map_or(0, |checked| checked.outcome.remaining)
    }
}

/// One of so many parts of a limit, if there is a unit in it.
fn part(quota: &Quota, nodes: u64) -> Option<Quota> {
    let share = quota.share(nodes);
    (share.limit() == quota.limit() / nodes.max(1)).then_some(share)
}

/// Whether an empty state that began at `from_us` would not be as new yet.
fn is_young(quota: &Quota, from_us: u64, now_us: u64) -> bool {
    let age_us = now_us.saturating_sub(from_us);
    match quota {
        Quota::FixedWindow(window) => from_us / window.size_us() == now_us / window.size_us(),
        Quota::SlidingWindowLog(window) => age_us < window.size_us(),
        Quota::SlidingWindowCounter(window) => age_us < 2 * window.size_us(),
        _ => quota.bucket().is_some_and(|bucket| age_us < bucket.full_debt() / bucket.drain()),
    }
}

/// What an empty state has got since `from_us`. A window has to end first.
fn flown_in(quota: &Quota, from_us: u64, now_us: u64) -> u64 {
    let Some(bucket) = quota.bucket() else { return 0 };
    let age_us = u128::from(now_us.saturating_sub(from_us));
    let units = age_us * u128::from(bucket.drain()) / u128::from(bucket.unit());
    u64::try_from(units).unwrap_or(u64::MAX)
}
