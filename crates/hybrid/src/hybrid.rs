//! Owns [`Hybrid`]: a store some of whose limits are decided here, with its leave.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollkeeper_core::{
    Alone, Amended, Amendment, Answer, Change, Check, Clock, Consistency, Entry, Filter, Hears,
    Part, Request, Settled, Store, StoreError,
};
use tollkeeper_memory::Settings;

use crate::local::Local;
use crate::members::Members;
use crate::share::Place;
use crate::shares::{Shares, part_of};
use crate::stats::Stats;
use crate::stored::{Changed, ToAmend};

mod decide;
mod owed;
mod there;

/// A store, and what of it is decided here.
///
/// Limits that a request meets and that are decided here are taken first; then the store decides
/// the others, and if it denies, what was taken is put back.
#[derive(Debug)]
pub struct Hybrid<S> {
    local: Arc<Local<S>>,
    shares: Arc<Shares>,
    members: Arc<Members>,
    /// When this process began.
    since_us: u64,
    /// Whether the store decides everything.
    is_exact: bool,
}

impl<S: Store + 'static> Hybrid<S> {
    /// Decides on `store`, here by a `clock` that only goes forward. Calls of its own may take as
    /// long as `patience`; tables of what this process has a part of have these `bounds`. `chance` is
    /// any number, another in each process.
    pub fn new(
        store: S,
        clock: Arc<dyn Clock>,
        patience: Duration,
        bounds: Settings,
        chance: u32,
    ) -> Self {
        let since_us = clock.now_us();
        let shares = Arc::new(Shares::new(bounds, Arc::clone(&clock)));
        let local = Arc::new(Local::new(store, clock, patience, chance));
        Self { local, shares, members: Arc::new(Members::new()), since_us, is_exact: false }
    }

    /// Lets the store decide everything, whatever checks say: for a run that is to be repeatable.
    pub fn exact(store: S, clock: Arc<dyn Clock>) -> Self {
        let bounds = Settings::default();
        Self { is_exact: true, ..Self::new(store, clock, Duration::ZERO, bounds, 0) }
    }

    /// The store itself.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.local.store
    }

    /// How it does. It looks at every key: this is for now and then.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (leased, synced) = self.local.keys();
        let keys = [("lease", leased), ("sync", synced), ("share", self.shares.keys())];
        Stats { keys, calls: self.local.calls.read(), nodes: self.members.nodes() }
    }

    /// Begins to count the processes that do so on this store. It is done by itself when a limit
    /// is met whose part depends on it; who begins sooner can serve sooner.
    pub fn count_nodes(&self) {
        self.members.begin(&self.local, &self.shares);
    }

    /// How long a process that has just begun to count has to wait for its first part, if it does.
    #[must_use]
    pub fn begins_in_us(&self) -> Option<u64> {
        self.members.begins_in_us(self.local.clock.now_us())
    }

    /// Changes what lies here; or says what of it is the store's.
    fn amend_here<'a>(&self, amendment: &Amendment<'a>) -> Changed<'a> {
        let (mut change, mut part) = (amendment.change, 0);
        match (amendment.consistency, amendment.change) {
            (Consistency::Share { nodes }, Change::Refund { .. }) => {
                // What is as new here has nothing in the store either, unless that hands it out.
                let now_us = self.local.clock.now_us();
                let parted_us = match self.place(amendment.quota, nodes, now_us) {
                    Place::Store { .. } => None,
                    Place::Serves(standing) => Some(standing.parted_us),
                    Place::Waits { .. } | Place::Lost => Some(now_us),
                };
                let amend = |parted_us| self.shares.amend(amendment, parted_us, now_us);
                if let Some(amended) = parted_us.and_then(amend) {
                    return Changed::Here(amended);
                }
            }
            (how, Change::Settle { id, .. }) => part = self.local.part(how, Some(id)),
            (Consistency::Sync { .. }, Change::Refund { units, charged_at_us }) => {
                let (units, of_part) = self.local.refund(amendment, units, charged_at_us);
                if units == 0 {
                    return Changed::Here(Amended::Done { forgiven: 0 });
                }
                change = Change::Refund { units, charged_at_us };
                part = of_part;
            }
            _ => {}
        }
        Changed::There(Box::new(ToAmend::new(amendment, change, part)))
    }

    /// The store has changed something: what that is to this process's part of it.
    fn amended(&self, amendment: &Amendment<'_>, amended: Amended) -> Amended {
        let Consistency::Share { nodes } = amendment.consistency else { return amended };
        let (Change::Settle { actual, .. }, Amended::Settled(settled)) =
            (amendment.change, amended)
        else {
            return amended;
        };
        let now_us = self.local.clock.now_us();
        let is_thin = |nodes| part_of(amendment.quota, nodes).is_none();
        let forgiven = match self.place(amendment.quota, nodes, now_us) {
            Place::Serves(standing) => {
                self.shares.settle(amendment, actual, settled, standing, now_us)
            }
            // What the store hands out has been paid there.
            Place::Store { .. } => settled.forgiven,
            _ if self.members.nodes().is_some_and(is_thin) => settled.forgiven,
            // Who has no part has nothing to pay with.
            _ => actual.saturating_sub(settled.reserved),
        };
        Amended::Settled(Settled { forgiven, ..settled })
    }
}

impl<S: Store + 'static> Store for Hybrid<S> {
    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        if !requests.iter().any(|request| self.is_any_here(request)) {
            return self.local.store.decide(requests).await;
        }
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            answers.push(self.decide_one(request).await);
        }
        answers
    }

    async fn decide_one(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        match self.is_any_here(request) {
            true => self.decide_both(request).await,
            false => self.local.store.decide_one(request).await,
        }
    }

    fn decide_at_once(&self, request: &Request<'_>) -> Option<Result<Answer, StoreError>> {
        match self.is_any_here(request) {
            true => self.decide_here(request).map(Ok),
            false => self.local.store.decide_at_once(request),
        }
    }

    fn decide_alone<'a, 'r: 'a>(&'a self, request: &Request<'r>) -> Option<Alone<'a>> {
        match self.is_any_here(request) {
            true => self.decide_some(request),
            false => self.local.store.decide_alone(request),
        }
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        if self.is_exact {
            return self.local.store.amend(amendments).await;
        }
        let here: SmallVec<[_; 4]> =
            amendments.iter().map(|amendment| self.amend_here(amendment)).collect();
        let rest: SmallVec<[Amendment<'_>; 4]> = here.iter().filter_map(Changed::rest).collect();
        let mut there = match rest.is_empty() {
            true => Vec::new(),
            false => self.local.store.amend(&rest).await,
        }
        .into_iter();
        let untold = || Err(StoreError::may_have_run("the store told nothing of a change"));
        let each = here.iter().zip(amendments).map(|(here, amendment)| match here {
            Changed::Here(amended) => Ok(*amended),
            Changed::There(_) => {
                let amended = there.next().unwrap_or_else(untold)?;
                Ok(self.amended(amendment, amended))
            }
        });
        each.collect()
    }

    async fn reset(&self, filter: Filter<'_>) -> Result<u64, StoreError> {
        let reset = self.local.store.reset(filter).await?;
        // What is known here is of whole keys.
        self.local.forget(Filter { split: &[], ..filter });
        Ok(reset + self.shares.reset(filter))
    }

    async fn inspect(&self, filter: Filter<'_>, most: usize) -> Result<Vec<Entry>, StoreError> {
        let mut shown = self.local.store.inspect(filter, most).await?;
        // What is reserved of a limit that is shared lies in the store, all else of it here.
        let here = self.shares.inspect(filter, most);
        let is_here = |entry: &Entry| {
            let same = |other: &Entry| (&other.limit, &other.key) == (&entry.limit, &entry.key);
            here.iter().any(same)
        };
        shown.retain(|entry| !is_here(entry));
        shown.extend(here);
        shown.truncate(most);
        Ok(shown)
    }

    async fn opened(&self) -> Result<(), StoreError> {
        self.local.store.opened().await
    }

    fn tell(&self, hears: Arc<dyn Hears>) {
        self.local.store.tell(hears);
    }

    fn set_timeout(&self, timeout_us: u64) {
        self.local.set_patience(timeout_us);
    }

    fn nodes(&self) -> Option<u64> {
        self.members.nodes()
    }

    fn left_per_mille(&self, check: &Check<'_>) -> Option<u64> {
        match check.consistency {
            Consistency::Share { .. } => {
                self.shares.left_per_mille(check, self.local.clock.now_us())
            }
            _ => self.local.left_per_mille(check),
        }
    }

    fn part(&self, key: &str) -> Part {
        self.local.store.part(key)
    }

    fn shards(&self) -> usize {
        self.local.store.shards()
    }

    fn is_used(&self, shard: usize) -> bool {
        self.local.store.is_used(shard)
    }

    fn shard_name(&self, shard: usize) -> String {
        self.local.store.shard_name(shard)
    }
}
