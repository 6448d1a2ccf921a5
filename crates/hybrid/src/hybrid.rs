//! Owns [`Hybrid`]: a store some of whose limits are decided here, with its leave.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollkeeper_core::{
    Amended, Amendment, Answer, Change, Check, Clock, Consistency, Entry, Filter, Hears, Outcome,
    Part, Request, Store, StoreError,
};

use crate::local::{Decided, Local, Taken};
use crate::members::Members;
use crate::plan::Spent;
use crate::share::{Place, Standing};
use crate::shares::Shares;
use crate::stats::Stats;
use crate::stored::{Changed, ToAmend, ToDecide, split_keys};

/// A store, and what of it is decided here.
///
/// Limits that a request meets and that are decided here are taken first; then the store decides
/// the others, and if it denies, what was taken is put back.
#[derive(Debug)]
pub struct Hybrid<S> {
    local: Arc<Local<S>>,
    shares: Shares,
    members: Arc<Members>,
    /// When this process began.
    since_us: u64,
    /// Whether the store decides everything.
    is_exact: bool,
}

/// Units that were taken here, put back unless the request goes.
struct Held<'a, S: Store + 'static> {
    hybrid: &'a Hybrid<S>,
    checks: SmallVec<[(Check<'a>, Spent); 4]>,
}

impl<S: Store + 'static> Held<'_, S> {
    fn keep(mut self) {
        self.checks.clear();
    }
}

impl<S: Store + 'static> Drop for Held<'_, S> {
    fn drop(&mut self) {
        self.checks.iter().for_each(|(check, spent)| self.hybrid.put_back(check, *spent));
    }
}

impl<S: Store + 'static> Hybrid<S> {
    /// Decides on `store`, here by a `clock` that only goes forward. Calls of its own may take as
    /// long as `patience`. `chance` is any number, another in each process.
    pub fn new(store: S, clock: Arc<dyn Clock>, patience: Duration, chance: u32) -> Self {
        let since_us = clock.now_us();
        let shares = Shares::new(Arc::clone(&clock));
        let local = Arc::new(Local::new(store, clock, patience, chance));
        Self { local, shares, members: Arc::new(Members::new()), since_us, is_exact: false }
    }

    /// Lets the store decide everything, whatever checks say: for a run that is to be repeatable.
    pub fn exact(store: S, clock: Arc<dyn Clock>) -> Self {
        Self { is_exact: true, ..Self::new(store, clock, Duration::ZERO, 0) }
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
        self.members.begin(&self.local);
    }

    fn is_any_here(&self, request: &Request<'_>) -> bool {
        let is_here = |check: &Check<'_>| check.consistency != Consistency::Exact;
        !self.is_exact && request.checks().iter().any(is_here)
    }

    /// Decides a check, if it can be decided here.
    #[inline]
    fn take(&self, check: &Check<'_>, now_us: u64) -> Taken {
        let Consistency::Share { nodes } = check.consistency else {
            return self.local.take(check, now_us);
        };
        let place = match nodes {
            Some(nodes) => Place::Serves(Standing { nodes: nodes.into(), since_us: self.since_us }),
            None => {
                self.count_nodes();
                self.members.place(now_us)
            }
        };
        let standing = match place {
            Place::Serves(standing) => standing,
            Place::Waits { us } => return Taken::Decided(nothing_yet(check, us)),
            Place::Lost => return Taken::Lost,
        };
        match self.shares.take(check, standing, now_us) {
            // Less than one for each is the store's to hand out.
            None => Taken::Store,
            Some(outcome) => {
                let spent = Spent { left: outcome.remaining, ends_us: u64::MAX };
                let spent = outcome.allowed.then_some(spent);
                Taken::Decided(Decided { outcome, spent, store_us: None })
            }
        }
    }

    fn put_back(&self, check: &Check<'_>, spent: Spent) {
        if !matches!(check.consistency, Consistency::Share { .. }) {
            return self.local.put_back(check, spent);
        }
        let Check { limit, quota, key, cost: units, consistency, .. } = *check;
        if units > 0 {
            let charged_at_us = Some(self.local.clock.now_us());
            let change = Change::Refund { units, charged_at_us };
            self.shares.amend(&Amendment { limit, quota, key, change, consistency });
        }
    }

    /// Changes what lies here; or says what of it is the store's.
    fn amend_here<'a>(&self, amendment: &Amendment<'a>) -> Changed<'a> {
        let (mut change, mut part) = (amendment.change, 0);
        match (amendment.consistency, amendment.change) {
            (Consistency::Share { .. }, _) => {
                // What is as new here has nothing in the store either.
                if let Some(amended) = self.shares.amend(amendment) {
                    return Changed::Here(amended);
                }
            }
            (Consistency::Sync { .. }, Change::Refund { units, charged_at_us }) => {
                let (units, of_part) = self.local.refund(amendment, units);
                if units == 0 {
                    return Changed::Here(Amended::Done { forgiven: 0 });
                }
                change = Change::Refund { units, charged_at_us };
                part = of_part;
            }
            _ => {}
        }
        Changed::There(ToAmend::new(amendment, change, part))
    }

    /// Decides what lies here alone, without waiting.
    fn decide_here(&self, request: &Request<'_>) -> Option<Answer> {
        if !request.checks().iter().all(|check| is_taken_here(request, check)) {
            return None;
        }
        let now_us = self.local.clock.now_us();
        let mut held = Held { hybrid: self, checks: SmallVec::new() };
        let mut here: SmallVec<[Decided; 4]> = SmallVec::new();
        for (nth, check) in request.checks().iter().enumerate() {
            match self.take(check, now_us) {
                Taken::Decided(decided) => {
                    held.checks.extend(decided.spent.map(|spent| (*check, spent)));
                    here.push(decided);
                }
                _ => {
                    // Whoever waits for it asks for all of them again.
                    request.checks()[..=nth].iter().for_each(|check| self.local.unask(check));
                    return None;
                }
            }
        }
        Some(answer(&here, held, now_us))
    }

    /// Decides what lies here, and then what the store has to.
    async fn decide_both(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        let mut held = Held { hybrid: self, checks: SmallVec::new() };
        let mut here: SmallVec<[Option<Decided>; 4]> = SmallVec::new();
        for check in request.checks() {
            let decided = match is_taken_here(request, check) {
                true => self.take_waiting(check).await?,
                false => None,
            };
            let spent = decided.and_then(|decided| decided.spent);
            held.checks.extend(spent.map(|spent| (*check, spent)));
            here.push(decided);
        }
        let is_denied = here.iter().flatten().any(|decided| decided.outcome.denies());
        let rest = request.checks().iter().zip(&here).filter(|(_, here)| here.is_none());
        let rest: SmallVec<[ToDecide<'_>; 4]> =
            rest.map(|(check, _)| ToDecide::new(check, self.local.any_part(check))).collect();
        if rest.is_empty() {
            let here: SmallVec<[Decided; 4]> = here.into_iter().flatten().collect();
            return Ok(answer(&here, held, self.local.clock.now_us()));
        }
        // The numbers as they are, if it does not go anyway.
        let checks = rest.iter().map(|rest| rest.check(is_denied));
        let rest = Request::new(checks, request.ticket())
            .map_err(|error| StoreError::did_not_run(error.to_string()))?;
        let there = self.local.store.decide_one(&rest).await?;
        let mut answered = there.outcomes().iter();
        let outcomes = here.iter().zip(request.checks()).map(|(here, check)| match here {
            Some(decided) => decided.outcome,
            None => answered.next().map_or_else(
                || unknown(check),
                |outcome| Outcome { limit: check.quota.limit(), ..*outcome },
            ),
        });
        let outcomes: SmallVec<[Outcome; 4]> = outcomes.collect();
        let mut answer = Answer::new(there.now_us, there.charged_at_us.is_some(), outcomes);
        if answer.allowed {
            let charged = held.checks.iter().any(|(check, _)| check.cost > 0);
            answer.charged_at_us = answer.charged_at_us.or(charged.then_some(there.now_us));
            held.keep();
        }
        Ok(answer)
    }

    /// Decides a check here, if it can be.
    async fn take_waiting(&self, check: &Check<'_>) -> Result<Option<Decided>, StoreError> {
        let mut taken = self.take(check, self.local.clock.now_us());
        if let Taken::Waits(answered) = taken {
            answered.await;
            taken = self.local.take_again(check, self.local.clock.now_us());
        }
        match taken {
            Taken::Decided(decided) => Ok(Some(decided)),
            Taken::Lost => {
                Err(StoreError::did_not_run("the store gave no leave to decide without it"))
            }
            Taken::Store | Taken::Waits(_) => Ok(None),
        }
    }
}

/// The answer of limits that were all decided here.
fn answer<S: Store + 'static>(here: &[Decided], held: Held<'_, S>, now_us: u64) -> Answer {
    let store_us = here.iter().find_map(|decided| decided.store_us).unwrap_or(now_us);
    let charged = held.checks.iter().any(|(check, _)| check.cost > 0);
    let mut answer = Answer::new(store_us, charged, here.iter().map(|decided| decided.outcome));
    if answer.allowed {
        held.keep();
    } else {
        answer.charged_at_us = None;
    }
    answer
}

/// What a limit says of which this process has no part yet.
fn nothing_yet(check: &Check<'_>, us: u64) -> Decided {
    let (allowed, retry_after_us) = (check.cost == 0, Some(us));
    let outcome = Outcome { allowed, retry_after_us, reset_after_us: us, ..unknown(check) };
    Decided { outcome, spent: None, store_us: None }
}

/// Whether a check is decided here. What is reserved is the store's to settle.
fn is_taken_here(request: &Request<'_>, check: &Check<'_>) -> bool {
    let is_reserved = request.ticket().is_some_and(|ticket| ticket.reserve_for_us.is_some());
    check.consistency != Consistency::Exact && !is_reserved
}

/// The numbers of a limit of which nothing was told.
fn unknown(check: &Check<'_>) -> Outcome {
    Outcome {
        allowed: true,
        shadow: check.shadow,
        limit: check.quota.limit(),
        remaining: 0,
        retry_after_us: Some(0),
        reset_after_us: 0,
        delay_us: 0,
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
        let each = here.iter().map(|here| match here {
            Changed::Here(amended) => Ok(*amended),
            Changed::There(_) => there.next().unwrap_or_else(untold),
        });
        each.collect()
    }

    async fn reset(&self, filter: Filter<'_>) -> Result<u64, StoreError> {
        let mut reset = self.local.store.reset(filter).await?;
        if let Some(key) = filter.key {
            for part in split_keys(key, self.local.parts()) {
                reset += self.local.store.reset(Filter { key: Some(&part), ..filter }).await?;
            }
        }
        self.local.forget(filter);
        Ok(reset + self.shares.reset(filter))
    }

    async fn inspect(&self, filter: Filter<'_>, most: usize) -> Result<Vec<Entry>, StoreError> {
        let mut shown = self.local.store.inspect(filter, most).await?;
        if let Some(key) = filter.key {
            for part in split_keys(key, self.local.parts()) {
                let filter = Filter { key: Some(&part), ..filter };
                shown.extend(self.local.store.inspect(filter, most - shown.len()).await?);
            }
        }
        Ok(shown)
    }

    fn tell(&self, hears: Arc<dyn Hears>) {
        self.local.store.tell(hears);
    }

    fn nodes(&self) -> Option<u64> {
        self.members.nodes()
    }

    fn left_per_mille(&self, check: &Check<'_>) -> Option<u64> {
        self.local.left_per_mille(check)
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
