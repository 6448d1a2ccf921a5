//! Owns [`Engine`]: one policy on one store, and what is told when the store gives no answer.

use std::sync::Arc;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use tollkeeper_core::limits::DEFAULT_RESERVATION_US;
use tollkeeper_core::{Ran, Request, Store, StoreError, validate_key};
use tollkeeper_policy::Policy;

use crate::ask::{Ask, GLOBAL_KEY};
use crate::denied::{Denied, Hearsay, Told};
use crate::error::{EngineError, ReloadError};
use crate::failure::{Asked, Fallback};
use crate::guard::{Deadline, Health};
use crate::guards::Guards;
use crate::handle::OwnedTarget;
use crate::met::Met;
use crate::observe::{Deaf, Observer};
use crate::parts::{Spread, Which, spread};
use crate::returns::Returns;
use crate::timer::Timer;
use crate::verdict::{Decided, Inner, Verdict};

mod admin;
mod amend;
mod apart;
mod brief;
mod judge;
mod ready;
mod repay;

pub use brief::Brief;
pub use judge::{Encounter, Judgement};
use ready::{Ready, random_bytes, ready};
pub(crate) use repay::Owed;

/// Calls of one batch that are under way at once.
const BATCH_WIDTH: usize = 64;

/// Decides by a policy, on a store. `L` is the local limiter that decides when a guarded store
/// gives no answer.
#[derive(Debug)]
pub struct Engine<S, L = S> {
    policy: ArcSwap<Policy>,
    store: S,
    observer: Arc<dyn Observer>,
    /// Whether it is anybody who hears.
    is_heard: bool,
    safety: Option<Safety<L>>,
    returns: Arc<Returns>,
}

/// What a store that can fail needs beside it.
#[derive(Debug)]
struct Safety<L> {
    guards: Guards,
    fallback: Fallback<L>,
    denied: Arc<Denied>,
    timer: Arc<dyn Timer>,
}

/// What a store has to be waited for to decide.
#[derive(Debug)]
pub struct Undecided(Box<Ready>);

impl Undecided {
    /// Whether it takes a permit, which somebody has to give back.
    #[must_use]
    pub fn takes_permit(&self) -> bool {
        self.0.met.holds_permits()
    }
}

impl<S: Store> Engine<S> {
    /// Decides by `policy`, on a store that cannot fail, such as the embedded one.
    pub fn new(policy: Policy, store: S) -> Self {
        Self::unguarded(policy, store)
    }
}

impl<S: Store, L: Store> Engine<S, L> {
    /// The same as [`new`](Engine::new), where the type of a local limiter has to be named.
    pub fn unguarded(policy: Policy, store: S) -> Self {
        let policy = ArcSwap::from_pointee(policy);
        Self {
            policy,
            store,
            observer: Arc::new(Deaf),
            is_heard: false,
            safety: None,
            returns: Arc::new(Returns::new()),
        }
    }

    /// Decides by `policy`, on a store that can fail. Each decision has the deadline of the
    /// policy's store settings, by `timer`; without an answer each rule does what it says it does
    /// on failure, and `local` is the limiter of those that are static.
    pub fn guarded(
        policy: Policy,
        store: S,
        local: L,
        timer: Arc<dyn Timer>,
    ) -> Result<Self, EngineError> {
        let observer: Arc<dyn Observer> = Arc::new(Deaf);
        let settings = policy.store();
        let seed = u64::from_ne_bytes(random_bytes()?);
        let guards = Guards::new(&timer, &observer, settings.timeout_us, seed);
        let fallback = Fallback::new(local);
        let denied = Arc::new(Denied::new());
        let hearsay = Hearsay { denied: Arc::clone(&denied), timer: Arc::clone(&timer) };
        store.tell(Arc::new(hearsay));
        let safety = Some(Safety { guards, fallback, denied, timer });
        let policy = ArcSwap::from_pointee(policy);
        let returns = Arc::new(Returns::new());
        Ok(Self { policy, store, observer, is_heard: false, safety, returns })
    }

    /// The same engine, of which `observer` hears.
    #[must_use]
    pub fn observed(mut self, observer: Arc<dyn Observer>) -> Self {
        if let Some(safety) = &mut self.safety {
            safety.guards.observed(&observer);
        }
        self.observer = observer;
        self.is_heard = true;
        self
    }

    /// The policy of now. A request that is under way keeps the one that it began with.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    /// Decides by another policy from here on. Usage is kept, where limits keep their names. What
    /// of the store cannot change while it is in use is an error, and then nothing changes.
    pub fn reload(&self, policy: Policy) -> Result<(), ReloadError> {
        let (old, new) = (self.policy(), policy.store());
        let old = old.store();
        let fixed = [
            ("store.url", old.url == new.url),
            ("store.prefix", old.prefix == new.prefix),
            ("store.colocate", old.colocate == new.colocate),
            ("store.connections", old.connections == new.connections),
            ("store.merge", old.merge == new.merge),
            ("store.count_nodes", old.count_nodes == new.count_nodes),
            ("store.ca", old.ca == new.ca),
            ("store.max_keys", old.max_keys == new.max_keys),
            ("store.when_full", old.when_full == new.when_full),
            ("store.names", old.names == new.names),
        ];
        if let Some((field, _)) = fixed.into_iter().find(|(_, same)| !same) {
            return Err(ReloadError { field });
        }
        if let Some(safety) = &self.safety {
            safety.guards.set_timeout(new.timeout_us);
            self.store.set_timeout(new.timeout_us);
        }
        self.policy.store(Arc::new(policy));
        if let Some(safety) = &self.safety {
            safety.denied.forget_all(safety.guards.now_us());
        }
        Ok(())
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The limiter of this process that decides when the store gives no answer.
    #[must_use]
    pub fn local(&self) -> Option<&L> {
        self.safety.as_ref().map(|safety| safety.fallback.local())
    }

    /// How many denials are kept to be told again, some of which may have passed.
    #[must_use]
    pub fn denials(&self) -> usize {
        self.safety.as_ref().map_or(0, |safety| safety.denied.count())
    }

    /// How the store is: as the worst of its servers. One that cannot fail is well.
    #[must_use]
    pub fn health(&self) -> Health {
        let used = (0..self.store.shards()).filter(|shard| self.store.is_used(*shard));
        self.safety.as_ref().map_or(Health::WELL, |safety| safety.guards.worst(used))
    }

    /// How one of the store's servers is.
    #[must_use]
    pub fn shard_health(&self, shard: usize) -> Health {
        self.safety.as_ref().map_or(Health::WELL, |safety| safety.guards.of(shard).health())
    }

    /// Decides one request.
    pub async fn check(&self, ask: Ask<'_>) -> Result<Verdict, EngineError> {
        match self.check_at_once(ask) {
            Ok(decided) => decided,
            Err(undecided) => self.check_waiting(undecided).await,
        }
    }

    /// Decides one request without waiting, if the store can.
    pub fn check_at_once(&self, ask: Ask<'_>) -> Result<Result<Verdict, EngineError>, Undecided> {
        match self.ready_for(ask, None) {
            Ok(ready) => self.decide_at_once(ready),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Decides what could not be decided at once.
    pub async fn check_waiting(&self, undecided: Undecided) -> Result<Verdict, EngineError> {
        Box::pin(self.decide_waiting(*undecided.0)).await
    }

    /// Decides many requests, each by itself, in one pass over the store. Each has one key, and so
    /// lies in one part of the store.
    pub async fn check_many(&self, asks: &[Ask<'_>]) -> Vec<Result<Verdict, EngineError>> {
        if let Some(safety) = &self.safety {
            return self.check_many_guarded(safety, asks).await;
        }
        let ready: Vec<Result<Ready, EngineError>> =
            asks.iter().map(|ask| self.ready_for(*ask, None)).collect();
        let (answers, problems) = {
            let requests = ready.iter().map(|ready| {
                let ready = ready.as_ref().map_err(Clone::clone)?;
                ready.met.request(ready.ticket).map_err(EngineError::from)
            });
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
        let missing = || Err(StoreError::may_have_run("no answer came"));
        let told = ready.into_iter().zip(problems).map(|(ready, problem)| match problem {
            Some(problem) => Err(problem),
            None => {
                self.verdict(ready?, Decided::by_store(answers.next().unwrap_or_else(missing)?))
            }
        });
        told.collect()
    }

    /// Some at a time, each of which has its deadline from when it is sent: were it one for all,
    /// a large batch would be late by itself, and look like a store that is slow.
    async fn check_many_guarded(
        &self,
        safety: &Safety<L>,
        asks: &[Ask<'_>],
    ) -> Vec<Result<Verdict, EngineError>> {
        let mut verdicts = Vec::with_capacity(asks.len());
        for some in asks.chunks(BATCH_WIDTH) {
            let deadline = safety.guards.begin();
            let mut under_way = Vec::with_capacity(some.len());
            for ask in some {
                under_way.push(self.check_by(safety, *ask, deadline));
            }
            verdicts.extend(join_all(under_way).await);
        }
        verdicts
    }

    async fn check_by(
        &self,
        safety: &Safety<L>,
        ask: Ask<'_>,
        deadline: Deadline,
    ) -> Result<Verdict, EngineError> {
        // What needs no answer is not to fail with those that do.
        let ready = match self.check_at_once(ask) {
            Ok(decided) => return decided,
            Err(undecided) => *undecided.0,
        };
        let decided = self.decide_guarded(safety, &ready, deadline).await?;
        self.verdict(ready, decided)
    }

    /// Charges an estimate that can be settled later, for `ttl_us` or ten minutes.
    pub async fn reserve(&self, ask: Ask<'_>, ttl_us: Option<u64>) -> Result<Verdict, EngineError> {
        if ask.cost == 0 {
            return Err(EngineError::Unfit("`cost` is 0; expected at least 1 to reserve"));
        }
        let ttl_us = ttl_us.unwrap_or(DEFAULT_RESERVATION_US);
        self.decide(self.ready_for(ask, Some(ttl_us))?).await
    }

    fn ready_for(&self, ask: Ask<'_>, reserve_for_us: Option<u64>) -> Result<Ready, EngineError> {
        validate_key(ask.key.unwrap_or(GLOBAL_KEY))?;
        let met = Met::find(self.policy(), ask)?;
        let name = |_: &Met| {
            let key = ask.key.unwrap_or(GLOBAL_KEY).to_owned();
            (OwnedTarget::new(ask.target), key)
        };
        ready(met, reserve_for_us, name)
    }

    async fn decide(&self, ready: Ready) -> Result<Verdict, EngineError> {
        match self.decide_at_once(ready) {
            Ok(decided) => decided,
            // It is long, and a call to elsewhere: who needs none is not to carry it along.
            Err(undecided) => self.check_waiting(undecided).await,
        }
    }

    /// Decides without waiting, where the store can.
    fn decide_at_once(&self, ready: Ready) -> Result<Result<Verdict, EngineError>, Undecided> {
        // What goes to a server has to be waited for, unless it gave leave before.
        if self.safety.is_some() && !ready.met.is_local() {
            return Err(Undecided(Box::new(ready)));
        }
        let answered = match ready.met.request(ready.ticket) {
            Ok(request) => self.store.decide_at_once(&request),
            Err(error) => return Ok(Err(error.into())),
        };
        match answered {
            Some(Ok(answer)) => Ok(self.verdict(ready, Decided::by_store(answer))),
            Some(Err(error)) => Ok(Err(error.into())),
            None => Err(Undecided(Box::new(ready))),
        }
    }

    async fn decide_waiting(&self, ready: Ready) -> Result<Verdict, EngineError> {
        let decided = match &self.safety {
            None => {
                let request = ready.met.request(ready.ticket)?;
                match spread(&self.store, request.checks()) {
                    Spread::One(_) => Decided::by_store(self.store.decide_one(&request).await?),
                    Spread::Several(pieces) => self.decide_apart(&request, &pieces).await?,
                }
            }
            Some(safety) => self.decide_guarded(safety, &ready, safety.guards.begin()).await?,
        };
        self.verdict(ready, decided)
    }

    async fn decide_guarded(
        &self,
        safety: &Safety<L>,
        ready: &Ready,
        deadline: Deadline,
    ) -> Result<Decided, EngineError> {
        let Safety { guards, fallback, denied, .. } = safety;
        let request = ready.met.request(ready.ticket)?;
        let sent_us = deadline.began_us();
        let most_us = ready.met.denied_cache_us();
        if most_us > 0
            && let Some(answer) = denied.find(request.checks(), sent_us, sent_us)
        {
            return Ok(Decided { again: true, ..Decided::by_store(answer) });
        }
        let part = match spread(&self.store, request.checks()) {
            Spread::One(part) => part,
            Spread::Several(pieces) => {
                return self.decide_apart_guarded(safety, ready, &request, &pieces, deadline).await;
            }
        };
        let guard = guards.of(part.shard);
        let turn = match most_us {
            0 => Told::Ask { lead: None, sent_us: deadline.began_us() },
            _ => denied.wait(guard, request.checks(), deadline).await,
        };
        let (lead, sent_us) = match turn {
            Told::Denied(answer) => {
                return Ok(Decided { again: true, ..Decided::by_store(*answer) });
            }
            Told::Nothing => {
                return self.decide_without(safety, ready, &request, part, deadline).await;
            }
            Told::Ask { lead, sent_us } => (lead, sent_us),
        };
        let name = || self.store.shard_name(part.shard);
        let deadline = deadline.sent(sent_us);
        match guard.call(deadline, name, self.store.decide_one(&request)).await {
            Ok(answer) => {
                denied.learn(request.checks(), &answer, sent_us, most_us, lead);
                let asked = Asked::of(&self.store, &ready.met, ready.ticket, Which::ALL);
                fallback.learn(asked, &answer).await;
                Ok(Decided::by_store(answer))
            }
            Err(error) => {
                drop(lead);
                let decided = self.decide_without(safety, ready, &request, part, deadline).await?;
                Ok(Decided { lost: error.ran() == Ran::Perhaps, ..decided })
            }
        }
    }

    fn verdict(&self, ready: Ready, decided: Decided) -> Result<Verdict, EngineError> {
        let decision =
            decided.answer.fold().ok_or(EngineError::Unfit("the policy has no rules"))?;
        let Ready { met, ticket, handle } = ready;
        let owed = if decided.lost { Owed::of(&met, ticket, &decided) } else { None };
        let mut handle = handle.filter(|_| decided.answer.charged_at_us.is_some());
        if let Some(handle) = &mut handle
            && !decided.fell.is_none()
        {
            // Permits that lie in one part are held in one place.
            match decided.apart {
                false => handle.local = true,
                true => handle.mark_local(decided.fell.of(met.limits())),
            }
        }
        let verdict = Verdict { inner: Box::new(Inner { met, decision, handle, owed, decided }) };
        self.observer.decided(&verdict);
        Ok(verdict)
    }
}
