//! Owns [`Shares`]: what this process admits of limits of which it has a part.
//!
//! The states of one number of processes lie in one table. When the number changes, a new table
//! begins, and what a key had left in the old one is all that it has in the new one: what a part
//! grows by has to flow in, as what a process begins with. From then on it flows in as fast as into
//! a part of the new size, also for keys that are asked for much later.
//!
//! Times are handed in, of one clock that only goes forward.

use std::sync::Arc;

use parking_lot::RwLock;
use tollkeeper_core::{
    Amended, Amendment, Change, Check, Clock, Consistency, Entry, Filter, Outcome, Quota, Request,
    Settled, StoreError, Ticket,
};
use tollkeeper_memory::{MemoryStore, Settings};

use crate::share::Standing;

/// The most limits whose parts are remembered; of others they are worked out each time.
const MOST_PARTS: usize = 256;

/// What is decided by parts.
#[derive(Debug)]
pub struct Shares {
    settings: Settings,
    clock: Arc<dyn Clock>,
    now: RwLock<Option<Arc<Epoch>>>,
}

/// A while in which there are so many processes.
#[derive(Debug)]
struct Epoch {
    standing: Standing,
    states: Arc<States>,
    /// Those of the while before, if this process served in it.
    before: Option<Arc<States>>,
}

/// What keys have left of a part.
#[derive(Debug)]
struct States {
    /// The part: one of so many.
    nodes: u64,
    from_us: u64,
    table: MemoryStore<Arc<dyn Clock>>,
    /// The parts of limits, as far as they have been asked for.
    parts: RwLock<Vec<(Quota, Option<Quota>)>>,
}

impl Shares {
    /// Nothing is decided yet. Tables have the bounds of `settings`, and are shown by `clock`.
    #[must_use]
    pub fn new(settings: Settings, clock: Arc<dyn Clock>) -> Self {
        Self { settings, clock, now: RwLock::new(None) }
    }

    /// So many were counted: this process has its part of them from now on, whether anybody asks for
    /// it or not.
    pub fn stand(&self, standing: Standing, now_us: u64) {
        let is_told = |epoch: &Arc<Epoch>| !epoch.standing.is_counted;
        if !self.now.read().as_ref().is_some_and(is_told) {
            self.epoch(standing, now_us);
        }
    }

    /// Decides a check by this process's part; `None` if it has none, since there is less than one
    /// unit for each. With a ticket for a reservation, the part remembers it, too.
    pub fn take(
        &self,
        check: &Check<'_>,
        ticket: Option<Ticket>,
        standing: Standing,
        now_us: u64,
    ) -> Result<Option<Outcome>, StoreError> {
        let epoch = self.epoch(standing, now_us);
        let Some(share) = epoch.states.part(check.quota) else { return Ok(None) };
        let of_part = Check { quota: &share, consistency: Consistency::Exact, ..*check };
        epoch.begin(&of_part, check.quota, standing.parted_us, now_us);
        let table = &epoch.states.table;
        let outcome = match ticket {
            None => Some(table.check_at(&of_part, now_us)?.outcome),
            Some(_) => {
                let request = Request::new([of_part], ticket)
                    .map_err(|error| StoreError::did_not_run(error.to_string()))?;
                table.decide_at(&request, now_us)?.outcomes().first().copied()
            }
        };
        Ok(outcome.map(|outcome| Outcome { limit: check.quota.limit(), here: true, ..outcome }))
    }

    /// Puts back what a check took at `at_us`, since the request does not go.
    pub fn put_back(&self, check: &Check<'_>, ticket: Option<Ticket>, at_us: u64, now_us: u64) {
        let Check { limit, quota, key, cost: units, consistency, .. } = *check;
        let put_back = |change| {
            let amendment = Amendment { limit, quota, key, change, consistency };
            self.amend(&amendment, 0, now_us)
        };
        if let Some(Ticket { id, .. }) = ticket
            && let Some(Amended::Settled(_)) = put_back(Change::Settle { id, actual: 0 })
        {
            return;
        }
        if units > 0 {
            put_back(Change::Refund { units, charged_at_us: Some(at_us) });
        }
    }

    /// Changes what was decided; `None` if this process has no part of it. There are parts of the
    /// limit since `parted_us`.
    pub fn amend(&self, amendment: &Amendment<'_>, parted_us: u64, now_us: u64) -> Option<Amended> {
        let epoch = self.now.read().clone()?;
        epoch.states.part(amendment.quota)?;
        let change = epoch.states.aged(amendment.quota, amendment.change, parted_us, now_us);
        let mut states = [&epoch.states].into_iter().chain(&epoch.before);
        let amended = states.find_map(|states| {
            let quota = states.part(amendment.quota)?;
            match states.table.amend_at(&Amendment { quota: &quota, change, ..*amendment }, now_us)
            {
                Amended::Unknown => None,
                amended => Some(amended),
            }
        });
        Some(amended.unwrap_or(Amended::Unknown))
    }

    /// Ends a reservation that the store has ended, as `settled` tells; what of it nobody pays. It
    /// may have been made in another process: then what it did not use is given back here, and what
    /// it used on top is charged here.
    #[must_use]
    pub fn settle(
        &self,
        amendment: &Amendment<'_>,
        actual: u64,
        settled: Settled,
        standing: Standing,
        now_us: u64,
    ) -> u64 {
        let epoch = self.epoch(standing, now_us);
        // Less than one for each is the store's alone.
        let Some(quota) = epoch.states.part(amendment.quota) else { return settled.forgiven };
        let of_part = Amendment { quota: &quota, ..*amendment };
        let table = &epoch.states.table;
        if let Amended::Settled(here) = table.amend_at(&of_part, now_us) {
            return here.forgiven;
        }
        let Some(more) = actual.checked_sub(settled.reserved).filter(|more| *more > 0) else {
            let charged_at_us = Some(now_us.saturating_sub(settled.age_us));
            let change = Change::Refund { units: settled.reserved - actual, charged_at_us };
            self.amend(&Amendment { change, ..*amendment }, standing.parted_us, now_us);
            return 0;
        };
        let look = Check::new(amendment.limit, &quota, amendment.key, 0);
        epoch.begin(&look, amendment.quota, standing.parted_us, now_us);
        let change = Change::Spend { units: more };
        match table.amend_at(&Amendment { change, ..of_part }, now_us) {
            Amended::Drawn(drawn) => more.saturating_sub(drawn.units),
            _ => more,
        }
    }

    /// Forgets keys; how many there were.
    pub fn reset(&self, filter: Filter<'_>) -> u64 {
        let Some(epoch) = self.now.read().clone() else { return 0 };
        if let Some(before) = &epoch.before {
            before.table.reset_now(filter);
        }
        epoch.states.table.reset_now(filter)
    }

    /// Shows at most `most` keys.
    #[must_use]
    pub fn inspect(&self, filter: Filter<'_>, most: usize) -> Vec<Entry> {
        let epoch = self.now.read().clone();
        epoch.map_or_else(Vec::new, |epoch| epoch.states.table.inspect_now(filter, most))
    }

    /// How many keys there are, some of which may have expired.
    #[must_use]
    pub fn keys(&self) -> u64 {
        let epoch = self.now.read().clone();
        epoch.map_or(0, |epoch| epoch.states.table.stats().keys)
    }

    /// What a key has left of its part, in thousandths, if this process has or had one.
    pub fn left_per_mille(&self, check: &Check<'_>, now_us: u64) -> Option<u64> {
        let epoch = self.now.read().clone()?;
        let part = epoch.states.part(check.quota)?;
        let of_part = Check { quota: &part, consistency: Consistency::Exact, ..*check };
        epoch.begin(&of_part, check.quota, 0, now_us);
        let left = u128::from(epoch.states.left(&of_part, now_us));
        u64::try_from(left * 1000 / u128::from(part.limit().max(1))).ok()
    }

    fn epoch(&self, standing: Standing, now_us: u64) -> Arc<Epoch> {
        let is_it = |epoch: &&Arc<Epoch>| epoch.standing.is_same(&standing);
        if let Some(epoch) = self.now.read().as_ref().filter(is_it) {
            return Arc::clone(epoch);
        }
        let mut now = self.now.write();
        // Somebody was faster, or has heard more.
        let is_later = |epoch: &&Arc<Epoch>| is_it(epoch) || epoch.standing.is_after(&standing);
        if let Some(epoch) = now.as_ref().filter(is_later) {
            return Arc::clone(epoch);
        }
        let last = now.take();
        // Who did not serve without a break has nothing left.
        let before = last.as_ref().map(|last| &last.states);
        let before = before.filter(|before| standing.since_us <= before.from_us).map(Arc::clone);
        let from_us = match &before {
            None => standing.since_us,
            // Who is told so many by a new policy is it from now on.
            Some(before) if standing.from_us <= before.from_us => now_us,
            Some(_) => standing.from_us,
        };
        let table = MemoryStore::new(self.settings, Arc::clone(&self.clock));
        let parts = RwLock::default();
        let states = Arc::new(States { nodes: standing.nodes, from_us, table, parts });
        let epoch = Arc::new(Epoch { standing, states, before });
        *now = Some(Arc::clone(&epoch));
        drop(now);
        // A large table takes its time to go.
        drop(last);
        epoch
    }
}

impl Epoch {
    /// Lowers a key that nobody has asked for in this epoch to what it had before; and any to what
    /// has flown in since `parted_us`.
    fn begin(&self, check: &Check<'_>, whole: &Quota, parted_us: u64, now_us: u64) {
        let from_us = self.states.from_us.max(parted_us);
        let is_parted = parted_us > self.states.from_us;
        if !is_young(check.quota, from_us, now_us)
            || !is_parted && self.states.left(check, now_us) < check.quota.limit()
        {
            return;
        }
        let units = match &self.before {
            Some(before) if !is_parted => before.had(check, whole, from_us, now_us),
            _ => flown_in(check.quota, from_us, now_us),
        };
        let Check { limit, quota, key, consistency, .. } = *check;
        let change = Change::LeaveAtMost { units };
        let amendment = Amendment { limit, quota, key, change, consistency };
        self.states.table.amend_at(&amendment, now_us);
    }
}

impl States {
    /// The part of a limit, if there is a unit in it.
    fn part(&self, quota: &Quota) -> Option<Quota> {
        let known = |parts: &[(Quota, Option<Quota>)]| {
            parts.iter().find(|(whole, _)| whole == quota).map(|(_, part)| *part)
        };
        if let Some(part) = known(&self.parts.read()) {
            return part;
        }
        let part = part_of(quota, self.nodes);
        let mut parts = self.parts.write();
        if parts.len() < MOST_PARTS && known(&parts).is_none() {
            parts.push((*quota, part));
        }
        part
    }

    /// A refund of what was charged before this while. How many parts there were then is not known
    /// here: of a bucket, as much as has flown into the whole of it since is not given back.
    fn aged(&self, whole: &Quota, change: Change, parted_us: u64, now_us: u64) -> Change {
        match (change, whole.bucket()) {
            (Change::Refund { units, charged_at_us: Some(at_us) }, Some(bucket))
                if at_us < self.from_us.max(parted_us) =>
            {
                let age_us = u128::from(now_us.saturating_sub(at_us));
                let gone = (age_us * u128::from(bucket.drain())).div_ceil(bucket.unit().into());
                let gone = u64::try_from(gone).unwrap_or(u64::MAX);
                Change::Refund { units: units.saturating_sub(gone), charged_at_us: None }
            }
            _ => change,
        }
    }

    /// What a key has left by a part of its own of the while after this, which began at `until_us`.
    fn had(&self, check: &Check<'_>, whole: &Quota, until_us: u64, now_us: u64) -> u64 {
        // What flows in by the new part; a window's units come back when they would have.
        let since_us = if whole.bucket().is_some() { until_us } else { now_us };
        let flown = flown_in(check.quota, since_us, now_us);
        let Some(share) = self.part(whole) else { return flown };
        let left = self.left(&Check { quota: &share, ..*check }, since_us);
        // One that nobody asked for in a short while looks as if it had all.
        let left = match is_young(&share, self.from_us, until_us) {
            true => left.min(flown_in(&share, self.from_us, since_us)),
            false => left,
        };
        left.saturating_add(flown)
    }

    fn left(&self, check: &Check<'_>, now_us: u64) -> u64 {
        let look = self.table.check_at(&Check { cost: 0, ..*check }, now_us);
        look.map_or(0, |checked| checked.outcome.remaining)
    }
}

/// One of so many parts of a limit, if there is a unit in it.
pub(crate) fn part_of(quota: &Quota, nodes: u64) -> Option<Quota> {
    let share = quota.share(nodes);
    (share.limit() == quota.limit() / nodes.max(1)).then_some(share)
}

/// What an empty state that began at `from_us` has at most, unless it is as new by now.
#[must_use]
pub fn begun_with(quota: &Quota, from_us: u64, now_us: u64) -> Option<u64> {
    is_young(quota, from_us, now_us).then(|| flown_in(quota, from_us, now_us))
}

/// Whether an empty state that began at `from_us` would not be as new yet.
fn is_young(quota: &Quota, from_us: u64, now_us: u64) -> bool {
    let age_us = now_us.saturating_sub(from_us);
    match quota {
        Quota::FixedWindow(window) => from_us / window.size_us() == now_us / window.size_us(),
        Quota::SlidingWindowLog(window) => age_us < window.size_us(),
        Quota::SlidingWindowCounter(window) => age_us < 2 * window.size_us(),
        _ => quota.bucket().is_some_and(|of| age_us < of.full_debt().div_ceil(of.drain())),
    }
}

/// What an empty state has got since `from_us`. A window has to end first.
fn flown_in(quota: &Quota, from_us: u64, now_us: u64) -> u64 {
    let Some(bucket) = quota.bucket() else { return 0 };
    let age_us = u128::from(now_us.saturating_sub(from_us));
    let units = age_us * u128::from(bucket.drain()) / u128::from(bucket.unit());
    u64::try_from(units).unwrap_or(u64::MAX)
}
