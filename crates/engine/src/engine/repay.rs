//! Permits that the store may hold though it never said so: a call that takes one and misses its deadline may
//! have run, or may still. Whoever asked was told something else, so nobody else would give it back.

use std::future::Future;
use std::sync::Arc;

use tollkeeper_core::{Amended, Change, Quota, Store, Ticket};

use super::amend::{which, whole};
use super::{Engine, Safety};
use crate::error::EngineError;
use crate::met::{Met, MetLimit};
use crate::parts::Which;
use crate::returns::Returns;
use crate::verdict::{Decided, Verdict};

/// Between two tries.
const PAUSE_US: u64 = 1_000_000;

/// A permit that the store may hold for nobody.
#[derive(Clone, Debug)]
pub(crate) struct Owed {
    met: Box<Met>,
    which: Which,
    id: u128,
    /// When it has ended by itself.
    lease_us: u64,
}

impl Owed {
    /// What a store may hold after `decided`, whose answer was lost.
    #[cold]
    #[inline(never)]
    pub(crate) fn of(met: &Met, ticket: Option<Ticket>, decided: &Decided) -> Option<Box<Self>> {
        let Ticket { id, .. } = ticket?;
        let lease_us = |met: &MetLimit<'_>| match met.quota {
            Quota::Concurrency(in_flight) if met.cost > 0 => Some(in_flight.lease_us()),
            _ => None,
        };
        let lost = which(met, |it| lease_us(it).is_some());
        // What fell and surely did not run is asked for in vain, once.
        let which = lost.without(lost.without(decided.fell));
        let lease_us = which.of(met.limits()).filter_map(|it| lease_us(&it)).max()?;
        Some(Box::new(Self { met: Box::new(met.clone()), which, id, lease_us }))
    }
}

impl<S: Store, L: Store> Engine<S, L> {
    /// Waits until all that was held or waited for by requests that have ended has been given back: for a
    /// program that is about to end, and has no requests any more. One that ends before leaves its permits to
    /// their leases. While a store is away this lasts for as long as the leases do.
    pub async fn given_back(&self) {
        self.returns.done().await;
    }

    /// What is given back beside requests.
    #[must_use]
    pub fn returns(&self) -> &Arc<Returns> {
        &self.returns
    }
}

impl<S: Store + 'static, L: Store + 'static> Engine<S, L> {
    /// What gives back a permit that the store may hold for `verdict` though it never said so; `None` is as a
    /// rule. For a task: where the store is away it is tried again, until the permit has ended by itself.
    pub fn repaying(
        self: &Arc<Self>,
        verdict: &Verdict,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        let owed = verdict.inner.owed.clone()?;
        let returning = self.returns.begin_owed()?;
        let engine = Arc::clone(self);
        Some(async move {
            if let Some(safety) = &engine.safety {
                engine.repay(safety, &owed).await;
            }
            drop(returning);
        })
    }

    async fn repay(&self, safety: &Safety<L>, owed: &Owed) {
        let until_us = safety.guards.now_us().saturating_add(owed.lease_us);
        let mut was_unknown = false;
        loop {
            match self.returns.in_turn(self.repay_once(safety, owed)).await {
                // The call that takes it may still be on its way.
                Ok(Amended::Unknown) if !was_unknown => was_unknown = true,
                Err(EngineError::Store(_)) => {}
                _ => return,
            }
            let now_us = safety.guards.now_us();
            if now_us >= until_us {
                return;
            }
            safety.timer.at(now_us + PAUSE_US).await;
        }
    }

    /// In the store alone: in this process the same permit may be held by who was admitted without it.
    async fn repay_once(&self, safety: &Safety<L>, owed: &Owed) -> Result<Amended, EngineError> {
        let change = |_: &MetLimit<'_>| Change::Release { id: owed.id };
        let amended = self.amend_there(safety, &owed.met, owed.which, change).await;
        let amended: Vec<_> =
            amended.into_iter().map(|(_, done)| done).collect::<Result<_, _>>()?;
        whole(amended.into_iter().flatten().map(Ok))
    }
}
