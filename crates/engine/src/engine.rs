//! Owns [`Engine`]: one policy on one store.

use std::sync::Arc;

use tollkeeper_core::limits::DEFAULT_RESERVATION_US;
use tollkeeper_core::{
    Amended, Amendment, Change, Check, Entry, Filter, Request, Store, StoreError, Ticket,
    validate_key,
};
use tollkeeper_policy::Policy;

use crate::ask::{Ask, GLOBAL_KEY, Target};
use crate::error::EngineError;
use crate::handle::{Handle, HandleError, HandleKind, OwnedTarget};
use crate::met::Met;
use crate::verdict::Verdict;

/// Decides by a policy, on a store.
#[derive(Debug)]
pub struct Engine<S> {
    policy: Arc<Policy>,
    store: S,
}

/// An [`Ask`] that is ready for the store.
struct Ready<'a> {
    met: Met,
    key: &'a str,
    cost: u64,
    ticket: Option<Ticket>,
    handle: Option<Handle>,
}

impl Ready<'_> {
    fn request(&self) -> Result<Request<'_>, EngineError> {
        let checks = self.met.limits().map(|met| Check {
            limit: met.limit,
            quota: met.quota,
            key: self.key,
            cost: self.cost,
            shadow: met.shadow,
        });
        Ok(Request::new(checks, self.ticket)?)
    }
}

impl<S: Store> Engine<S> {
    /// Decides by `policy`, on `store`.
    pub fn new(policy: Policy, store: S) -> Self {
        Self { policy: Arc::new(policy), store }
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Decides one request.
    pub async fn check(&self, ask: Ask<'_>) -> Result<Verdict, EngineError> {
        self.decide(self.ready(ask, None)?).await
    }

    /// Decides many requests, each by itself, in one pass over the store.
    pub async fn check_many(&self, asks: &[Ask<'_>]) -> Vec<Result<Verdict, EngineError>> {
        let ready: Vec<Result<Ready<'_>, EngineError>> =
            asks.iter().map(|ask| self.ready(*ask, None)).collect();
        let (answers, problems) = {
            let requests =
                ready.iter().map(|ready| ready.as_ref().map_err(Clone::clone)?.request());
            let (valid, problems): (Vec<_>, Vec<_>) = requests
                .map(|request| match request {
                    Ok(request) => (Some(request), None),
                    Err(problem) => (None, Some(problem)),
                })
                .unzip();
            let valid: Vec<Request<'_>> = valid.into_iter().flatten().collect();
            (self.store.decide(&valid).await, problems)
        };
        let mut answers = answers.into_iter();
        let told = ready.into_iter().zip(problems).map(|(ready, problem)| match problem {
            Some(problem) => Err(problem),
            None => verdict(ready?, answers.next()),
        });
        told.collect()
    }

    /// Charges an estimate that can be settled later, for `ttl_us` or ten minutes.
    pub async fn reserve(&self, ask: Ask<'_>, ttl_us: Option<u64>) -> Result<Verdict, EngineError> {
        if ask.cost == 0 {
            return Err(EngineError::Unfit("`cost` is 0; expected at least 1 to reserve"));
        }
        let ttl_us = ttl_us.unwrap_or(DEFAULT_RESERVATION_US);
        self.decide(self.ready(ask, Some(ttl_us))?).await
    }

    /// Ends a reservation: charges or gives back the difference to what it really cost.
    pub async fn settle(&self, handle: &Handle, actual: u64) -> Result<Amended, EngineError> {
        expect_kind(handle, HandleKind::Reservation)?;
        self.amend_handle(handle, Change::Settle { id: handle.id, actual }).await
    }

    /// Gives a permit back.
    pub async fn release(&self, handle: &Handle) -> Result<Amended, EngineError> {
        expect_kind(handle, HandleKind::Permit)?;
        self.amend_handle(handle, Change::Release { id: handle.id }).await
    }

    /// Lets a permit last a whole lease from now.
    pub async fn renew(&self, handle: &Handle) -> Result<Amended, EngineError> {
        expect_kind(handle, HandleKind::Permit)?;
        self.amend_handle(handle, Change::Renew { id: handle.id }).await
    }

    /// Gives back a request that should not have counted. Without the time of its charge all of
    /// its cost comes back, which may let through that much more than the limit once.
    pub async fn refund(
        &self,
        ask: Ask<'_>,
        charged_at_us: Option<u64>,
    ) -> Result<Amended, EngineError> {
        let met = Met::find(&self.policy, ask.target)?;
        if met.holds_permits() {
            return Err(EngineError::Unfit(
                "a concurrency limit cannot be refunded: release its permit",
            ));
        }
        let key = ask.key.unwrap_or(GLOBAL_KEY);
        validate_key(key)?;
        self.amend(&met, key, Change::Refund { units: ask.cost, charged_at_us }).await
    }

    /// Shows at most `most` stored states of a rule, or of everything, for a key, or for all.
    pub async fn inspect(
        &self,
        rule: Option<&str>,
        key: Option<&str>,
        most: usize,
    ) -> Result<Vec<Entry>, EngineError> {
        let met = rule.map(|name| Met::find(&self.policy, Target::Rule(name))).transpose()?;
        let limits = met.as_ref().map(limit_names);
        let filter = Filter { limits: limits.as_deref(), key };
        Ok(self.store.inspect(filter, most).await?)
    }

    /// Forgets the stored states of a rule, or of everything, for a key, or for all.
    pub async fn reset(&self, rule: Option<&str>, key: Option<&str>) -> Result<u64, EngineError> {
        let met = rule.map(|name| Met::find(&self.policy, Target::Rule(name))).transpose()?;
        let limits = met.as_ref().map(limit_names);
        Ok(self.store.reset(Filter { limits: limits.as_deref(), key }).await?)
    }

    fn ready<'a>(
        &self,
        ask: Ask<'a>,
        reserve_for_us: Option<u64>,
    ) -> Result<Ready<'a>, EngineError> {
        let met = Met::find(&self.policy, ask.target)?;
        let key = ask.key.unwrap_or(GLOBAL_KEY);
        validate_key(key)?;
        let mut ready = Ready { met, key, cost: ask.cost, ticket: None, handle: None };
        let kind = match reserve_for_us {
            Some(_) => HandleKind::Reservation,
            None if ready.met.holds_permits() => HandleKind::Permit,
            None => return Ok(ready),
        };
        let id = random_id()?;
        let target = OwnedTarget::new(ask.target);
        ready.ticket = Some(Ticket { id, reserve_for_us });
        ready.handle = Some(Handle { kind, id, target, key: key.to_owned() });
        Ok(ready)
    }

    async fn decide(&self, ready: Ready<'_>) -> Result<Verdict, EngineError> {
        let answer = self.store.decide(&[ready.request()?]).await.into_iter().next();
        verdict(ready, answer)
    }

    async fn amend_handle(&self, handle: &Handle, change: Change) -> Result<Amended, EngineError> {
        let met = Met::find(&self.policy, handle.target.borrow())?;
        self.amend(&met, &handle.key, change).await
    }

    /// Amends every limit; as a whole it is done if any was.
    async fn amend(&self, met: &Met, key: &str, change: Change) -> Result<Amended, EngineError> {
        let amendments: Vec<Amendment<'_>> = met
            .limits()
            .map(|met| Amendment { limit: met.limit, quota: met.quota, key, change })
            .collect();
        let mut whole = Amended::Unknown;
        for amended in self.store.amend(&amendments).await {
            whole = match (whole, amended?) {
                (Amended::Done { forgiven: one }, Amended::Done { forgiven: other }) => {
                    Amended::Done { forgiven: one.max(other) }
                }
                (done @ Amended::Done { .. }, _) | (_, done @ Amended::Done { .. }) => done,
                (Amended::Repeated, _) => Amended::Repeated,
                (_, amended) => amended,
            };
        }
        Ok(whole)
    }
}

fn limit_names(met: &Met) -> Vec<&str> {
    met.limits().map(|met| met.limit).collect()
}

fn verdict(
    ready: Ready<'_>,
    answer: Option<Result<tollkeeper_core::Answer, StoreError>>,
) -> Result<Verdict, EngineError> {
    let answer = answer.unwrap_or_else(|| Err(StoreError::may_have_run("no answer came")))?;
    let decision = answer.fold().ok_or(EngineError::Unfit("the policy has no rules"))?;
    let handle = ready.handle.filter(|_| answer.charged_at_us.is_some());
    Ok(Verdict { met: ready.met, answer, decision, handle, cost: ready.cost })
}

fn expect_kind(handle: &Handle, kind: HandleKind) -> Result<(), EngineError> {
    if handle.kind == kind { Ok(()) } else { Err(HandleError.into()) }
}

fn random_id() -> Result<u128, EngineError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| EngineError::NoRandom)?;
    Ok(u128::from_ne_bytes(bytes))
}
