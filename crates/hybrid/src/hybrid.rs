//! Owns [`Hybrid`]: a store some of whose limits are decided here, with its leave.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollkeeper_core::{
    Amended, Amendment, Answer, Check, Clock, Consistency, Entry, Filter, Hears, Outcome, Part,
    Quota, Request, Store, StoreError,
};

use crate::leased::{Decided, Leases, Taken};
use crate::plan::Spent;

/// A store, and what of it is decided here.
///
/// Limits that a request meets and that are leased are taken here first; then the store decides
/// the others, and if it denies, what was taken is put back.
#[derive(Debug)]
pub struct Hybrid<S> {
    leases: Arc<Leases<S>>,
    /// Whether the store decides everything.
    is_exact: bool,
}

/// Units that were taken here, put back unless the request goes.
struct Held<'a, S: Store + 'static> {
    leases: &'a Leases<S>,
    checks: SmallVec<[(Check<'a>, Spent); 4]>,
}

impl<S: Store + 'static> Held<'_, S> {
    fn keep(mut self) {
        self.checks.clear();
    }
}

impl<S: Store + 'static> Drop for Held<'_, S> {
    fn drop(&mut self) {
        self.checks.iter().for_each(|(check, spent)| self.leases.put_back(check, *spent));
    }
}

impl<S: Store + 'static> Hybrid<S> {
    /// Decides on `store`, here by a `clock` that only goes forward. Draws from the store may take
    /// as long as `patience`. `chance` is any number, another in each process.
    pub fn new(store: S, clock: Arc<dyn Clock>, patience: Duration, chance: u32) -> Self {
        let leases = Arc::new(Leases::new(store, clock, patience, chance));
        Self { leases, is_exact: false }
    }

    /// Lets the store decide everything, whatever checks say: for a run that is to be repeatable.
    pub fn exact(store: S, clock: Arc<dyn Clock>) -> Self {
        Self { is_exact: true, ..Self::new(store, clock, Duration::ZERO, 0) }
    }

    /// The store itself.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.leases.store
    }

    fn is_any_leased(&self, request: &Request<'_>) -> bool {
        let is_leased = |check: &Check<'_>| check.consistency != Consistency::Exact;
        !self.is_exact && request.checks().iter().any(is_leased)
    }

    /// Decides what lies here alone, without waiting.
    fn decide_here(&self, request: &Request<'_>) -> Option<Answer> {
        if !request.checks().iter().all(|check| leased(request, check).is_some()) {
            return None;
        }
        let now_us = self.leases.clock.now_us();
        let mut held = Held { leases: &self.leases, checks: SmallVec::new() };
        let mut here: SmallVec<[Decided; 4]> = SmallVec::new();
        for (nth, check) in request.checks().iter().enumerate() {
            let period_us = leased(request, check)?;
            match self.leases.take(check, period_us, now_us) {
                Taken::Decided(decided) => {
                    held.checks.extend(decided.spent.map(|spent| (*check, spent)));
                    here.push(decided);
                }
                _ => {
                    // Whoever waits for it asks for all of them again.
                    request.checks()[..=nth].iter().for_each(|check| self.leases.unask(check));
                    return None;
                }
            }
        }
        Some(answer(&here, held, now_us))
    }

    /// Decides what lies here, and then what the store has to.
    async fn decide_both(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        let mut held = Held { leases: &self.leases, checks: SmallVec::new() };
        let mut here: SmallVec<[Option<Decided>; 4]> = SmallVec::new();
        for check in request.checks() {
            let decided = match leased(request, check) {
                Some(period_us) => self.take(check, period_us).await?,
                None => None,
            };
            let spent = decided.and_then(|decided| decided.spent);
            held.checks.extend(spent.map(|spent| (*check, spent)));
            here.push(decided);
        }
        let stored: SmallVec<[Quota; 4]> =
            request.checks().iter().map(|check| check.consistency.stored(check.quota)).collect();
        let is_denied = here.iter().flatten().any(|decided| decided.outcome.denies());
        let rest = request.checks().iter().zip(&stored).zip(&here);
        let rest = rest.filter(|(_, here)| here.is_none()).map(|((check, quota), _)| Check {
            quota,
            // The numbers as they are, if it does not go anyway.
            cost: if is_denied { 0 } else { check.cost },
            ..*check
        });
        let rest = Request::new(rest, request.ticket())
            .map_err(|error| StoreError::did_not_run(error.to_string()))?;
        if rest.checks().is_empty() {
            let here: SmallVec<[Decided; 4]> = here.into_iter().flatten().collect();
            return Ok(answer(&here, held, self.leases.clock.now_us()));
        }
        let there = self.leases.store.decide_one(&rest).await?;
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
    async fn take(&self, check: &Check<'_>, period_us: u32) -> Result<Option<Decided>, StoreError> {
        let now_us = self.leases.clock.now_us();
        let mut taken = self.leases.take(check, period_us, now_us);
        if let Taken::Waits(answered) = taken {
            answered.await;
            taken = self.leases.take_again(check, self.leases.clock.now_us());
        }
        match taken {
            Taken::Decided(decided) => Ok(Some(decided)),
            Taken::Lost => Err(StoreError::did_not_run("the store gave no units to lease")),
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

/// How long a check is leased, if it is. What is reserved is the store's to settle.
fn leased(request: &Request<'_>, check: &Check<'_>) -> Option<u32> {
    match check.consistency {
        Consistency::Lease { period_us } if request.ticket().is_none() => Some(period_us),
        _ => None,
    }
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
        if !requests.iter().any(|request| self.is_any_leased(request)) {
            return self.leases.store.decide(requests).await;
        }
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            answers.push(self.decide_one(request).await);
        }
        answers
    }

    async fn decide_one(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        match self.is_any_leased(request) {
            true => self.decide_both(request).await,
            false => self.leases.store.decide_one(request).await,
        }
    }

    fn decide_at_once(&self, request: &Request<'_>) -> Option<Result<Answer, StoreError>> {
        match self.is_any_leased(request) {
            true => self.decide_here(request).map(Ok),
            false => self.leases.store.decide_at_once(request),
        }
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        if self.is_exact {
            return self.leases.store.amend(amendments).await;
        }
        let quotas: SmallVec<[Quota; 4]> = amendments
            .iter()
            .map(|amendment| amendment.consistency.stored(amendment.quota))
            .collect();
        let stored = amendments.iter().zip(&quotas);
        let stored: SmallVec<[Amendment<'_>; 4]> =
            stored.map(|(amendment, quota)| Amendment { quota, ..*amendment }).collect();
        self.leases.store.amend(&stored).await
    }

    async fn reset(&self, filter: Filter<'_>) -> Result<u64, StoreError> {
        let reset = self.leases.store.reset(filter).await;
        self.leases.forget(filter);
        reset
    }

    async fn inspect(&self, filter: Filter<'_>, most: usize) -> Result<Vec<Entry>, StoreError> {
        self.leases.store.inspect(filter, most).await
    }

    fn tell(&self, hears: Arc<dyn Hears>) {
        self.leases.store.tell(hears);
    }

    fn part(&self, key: &str) -> Part {
        self.leases.store.part(key)
    }

    fn shards(&self) -> usize {
        self.leases.store.shards()
    }

    fn is_used(&self, shard: usize) -> bool {
        self.leases.store.is_used(shard)
    }

    fn shard_name(&self, shard: usize) -> String {
        self.leases.store.shard_name(shard)
    }
}
