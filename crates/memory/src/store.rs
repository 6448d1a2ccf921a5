//! Owns [`MemoryStore`]: the public face of the table.

use std::alloc::{Layout, handle_alloc_error};
use std::sync::atomic::Ordering;

use tollkeeper_core::{
    Amended, Amendment, Answer, Check, Clock, Entry, Filter, Request, Single, Store, StoreError,
};

use crate::amend::amend;
use crate::clock::{Moment, SystemClock};
use crate::decide::Checked;
use crate::settings::{Settings, TooManyKeys};
use crate::stats::{Counters, Stats};
use crate::table::Table;

/// The embedded store.
///
/// ```
/// use tollkeeper_core::{Check, Quota, Request};
/// use tollkeeper_memory::MemoryStore;
///
/// let store = MemoryStore::default();
/// let quota = Quota::fixed_window(1, 60_000_000)?;
/// let request = Request::new([Check::new("api", &quota, "alice", 1)], None)?;
/// assert!(store.decide_now(&request)?.allowed);
/// assert!(!store.decide_now(&request)?.allowed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MemoryStore<C = SystemClock> {
    pub(crate) table: Box<Table>,
    pub(crate) counters: Counters,
    pub(crate) settings: Settings,
    pub(crate) clock: C,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Settings::default(), SystemClock::new())
    }
}

impl<C: Clock> MemoryStore<C> {
    /// An empty table with these bounds, on this clock. Where the system has not the memory for so many keys,
    /// for half of them, or a quarter, …
    pub fn new(mut settings: Settings, clock: C) -> Self {
        settings.max_keys = settings.max_keys.max(1);
        let table = loop {
            match Table::new(&settings) {
                Some(table) => break table,
                None if settings.max_keys > 1 => settings.max_keys /= 2,
                None => handle_alloc_error(Layout::new::<Table>()),
            }
        };
        Self::of(table, settings, clock)
    }

    /// The same for all of [`Settings::max_keys`], or not at all.
    pub fn try_new(mut settings: Settings, clock: C) -> Result<Self, TooManyKeys> {
        settings.max_keys = settings.max_keys.max(1);
        let table = Table::new(&settings).ok_or(TooManyKeys { max_keys: settings.max_keys })?;
        Ok(Self::of(table, settings, clock))
    }

    fn of(table: Table, settings: Settings, clock: C) -> Self {
        Self { table: Box::new(table), counters: Counters::default(), settings, clock }
    }

    /// Decides one request: all of its limits or none, atomically, without waiting for anything
    /// but the locks of its keys. Allocates only to remember a new key.
    pub fn decide_now(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        self.decide_request(&self.clock, request, &mut 0)
    }

    /// The same at a time that the caller has read from a clock that only goes forward.
    pub fn decide_at(&self, request: &Request<'_>, now_us: u64) -> Result<Answer, StoreError> {
        self.decide_request(&Moment(now_us), request, &mut 0)
    }

    /// Decides one limit by itself: the shortest way through the table, and the same decision as
    /// [`decide_now`](Self::decide_now). Not for `concurrency`, whose permits need a name.
    #[inline]
    pub fn check_now(&self, check: &Check<'_>) -> Result<Checked, StoreError> {
        self.check(&self.clock, check)
    }

    /// The same at a time that the caller has read from a clock that only goes forward.
    #[inline]
    pub fn check_at(&self, check: &Check<'_>, now_us: u64) -> Result<Checked, StoreError> {
        self.check(&Moment(now_us), check)
    }

    /// Applies one amendment, atomically.
    pub fn amend_now(&self, amendment: &Amendment<'_>) -> Amended {
        amend(&self.table, &self.counters, &self.settings, &self.clock, amendment)
    }

    /// The same at a time that the caller has read from a clock that only goes forward.
    pub fn amend_at(&self, amendment: &Amendment<'_>, now_us: u64) -> Amended {
        amend(&self.table, &self.counters, &self.settings, &Moment(now_us), amendment)
    }

    /// Forgets every state and record that `filter` names; how many live states there were.
    pub fn reset_now(&self, filter: Filter<'_>) -> u64 {
        let now_us = self.clock.now_us();
        let mut forgotten = 0;
        for mut shard in self.table.each() {
            let (live, keys, records) = shard.reset(filter, &self.table.common, now_us);
            forgotten += live;
            self.table.keys.fetch_sub(keys, Ordering::Relaxed);
            self.table.records.fetch_sub(records, Ordering::Relaxed);
        }
        forgotten
    }

    /// Shows at most `most` of the states that `filter` names and that have not expired. Without
    /// [`Settings::names`], only those of the key that `filter` has.
    pub fn inspect_now(&self, filter: Filter<'_>, most: usize) -> Vec<Entry> {
        let now_us = self.clock.now_us();
        let mut shown = Vec::new();
        for mut shard in self.table.each() {
            let named = shard.show(filter, &self.table.common, now_us);
            shown.extend(named.take(most - shown.len()));
            if shown.len() == most {
                break;
            }
        }
        shown
    }

    /// What the table did by itself.
    pub fn stats(&self) -> Stats {
        self.counters.read(self.table.keys.load(Ordering::Relaxed) as u64)
    }

    /// The clock that the store decides by.
    pub fn clock(&self) -> &C {
        &self.clock
    }
}

impl<C: Clock> Store for MemoryStore<C> {
    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        requests.iter().map(|request| self.decide_now(request)).collect()
    }

    async fn decide_one(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        self.decide_now(request)
    }

    fn decide_at_once(&self, request: &Request<'_>) -> Option<Result<Answer, StoreError>> {
        Some(self.decide_now(request))
    }

    #[inline]
    fn check_at_once(&self, check: &Check<'_>) -> Option<Result<Single, StoreError>> {
        Some(self.check_now(check).map(|Checked { now_us, charged, outcome }| Single {
            now_us,
            charged,
            outcome,
        }))
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        amendments.iter().map(|amendment| Ok(self.amend_now(amendment))).collect()
    }

    async fn reset(&self, filter: Filter<'_>) -> Result<u64, StoreError> {
        Ok(self.reset_now(filter))
    }

    async fn inspect(&self, filter: Filter<'_>, most: usize) -> Result<Vec<Entry>, StoreError> {
        Ok(self.inspect_now(filter, most))
    }
}

#[cfg(test)]
mod tests {
    use tollkeeper_core::{ManualClock, Quota, limits::MAX_CHECKS};

    use super::*;
    use crate::slots::Budget;

    /// The most entries of others that any call touches, on a table that is always full.
    fn most_touched(checks_each: usize) -> usize {
        let clock = ManualClock::at(1_000_000);
        let settings = Settings { max_keys: 20_000, ..Settings::default() };
        let store = MemoryStore::new(settings, clock.clone());
        let quota = Quota::fixed_window(5, 1_000_000).unwrap();
        let mut most = 0;
        for nth in 0..40_000 / checks_each {
            clock.advance(7);
            let keys: Vec<String> = (0..checks_each).map(|at| format!("{nth}.{at}")).collect();
            let check = |key| Check::new("api", &quota, key, 1);
            let request = Request::new(keys.iter().map(|key| check(key)), None).unwrap();
            let mut touched = 0;
            let answer = store.decide_request(&clock, &request, &mut touched).unwrap();
            assert!(answer.allowed);
            most = most.max(touched);
        }
        assert!(store.stats().evicted > 0);
        most
    }

    #[test]
    fn a_call_touches_at_most_64_other_entries() {
        assert!((9..=Budget::MOST).contains(&most_touched(1)));
        assert!((10..=Budget::MOST).contains(&most_touched(MAX_CHECKS)));
    }
}
