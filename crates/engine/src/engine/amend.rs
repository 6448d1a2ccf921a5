//! What changes after the decision: refunds, settled reservations, released and renewed permits.

use futures_util::future::join_all;
use smallvec::SmallVec;
use tollkeeper_core::{Amended, Amendment, Change, Store, StoreError, validate_key};

use super::{Engine, Safety};
use crate::ask::{Ask, GLOBAL_KEY};
use crate::error::EngineError;
use crate::failure::Asked;
use crate::handle::{Handle, HandleError, HandleKind};
use crate::met::{Met, MetLimit};
use crate::parts::Which;
use crate::verdict::Verdict;

impl<S: Store, L: Store> Engine<S, L> {
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
        validate_key(ask.key.unwrap_or(GLOBAL_KEY))?;
        let met = Met::find(self.policy(), ask)?;
        if met.holds_permits() {
            return Err(EngineError::Unfit(
                "a concurrency limit cannot be refunded: release its permit",
            ));
        }
        self.amend(&met, |met| Change::Refund { units: met.cost, charged_at_us }).await
    }

    /// Gives back what a request was charged, under the rules that do so for an answer of
    /// `status`.
    pub async fn refund_on(&self, verdict: &Verdict, status: u16) -> Result<(), EngineError> {
        if !verdict.refunds_on(status) {
            return Ok(());
        }
        self.give_back(verdict, (*verdict.inner.met).clone().refunded(status)).await
    }

    /// Gives back all that a request was charged, since it did not go after all.
    pub async fn undo(&self, verdict: &Verdict) -> Result<(), EngineError> {
        self.give_back(verdict, (*verdict.inner.met).clone()).await
    }

    async fn give_back(&self, verdict: &Verdict, met: Met) -> Result<(), EngineError> {
        if verdict.decision().charged_at_us.is_none() || met.is_empty() {
            return Ok(());
        }
        let decided = &verdict.inner.decided;
        let place = |met: &MetLimit<'_>| verdict.inner.met.position(met);
        let charged_at_us = |met: &MetLimit<'_>| decided.answer.charged_at(place(met)?);
        let change = |met: &MetLimit<'_>| Change::Refund {
            units: met.cost,
            charged_at_us: charged_at_us(met),
        };
        // Each by its own clock. A shadow that would have denied was not charged.
        let charged = which(&met, |met| charged_at_us(met).is_some());
        let fell = which(&met, |met| place(met).is_some_and(|nth| decided.fell.has(nth)));
        let there = charged.without(fell);
        let here = charged.without(there);
        // What was charged in this process is given back in this process.
        if let Some(safety) = &self.safety
            && !here.is_none()
        {
            let asked = Asked::of(&self.store, &met, None, here);
            whole(safety.fallback.amend(asked, change).await)?;
        }
        if !there.is_none() {
            self.amend_only(&met, there, change).await?;
        }
        Ok(())
    }

    async fn amend_handle(&self, handle: &Handle, change: Change) -> Result<Amended, EngineError> {
        let met = Met::of_handle(self.policy(), handle)?;
        match &self.safety {
            Some(safety) if handle.local => {
                let asked = Asked::of(&self.store, &met, None, Which::ALL);
                whole(safety.fallback.amend(asked, |_| change).await)
            }
            _ if handle.is_apart() => self.amend_handle_apart(handle, &met, change).await,
            _ => self.amend(&met, |_| change).await,
        }
    }

    /// Amends every limit, in the store and in what this process remembers of it.
    pub(super) async fn amend(
        &self,
        met: &Met,
        change: impl Fn(&MetLimit<'_>) -> Change,
    ) -> Result<Amended, EngineError> {
        self.amend_only(met, Which::ALL, change).await
    }

    /// The same for some of the limits. Each server of the store amends its own; if one fails, the
    /// others have done theirs.
    pub(super) async fn amend_only(
        &self,
        met: &Met,
        which: Which,
        change: impl Fn(&MetLimit<'_>) -> Change,
    ) -> Result<Amended, EngineError> {
        let Some(safety) = &self.safety else {
            let amendments: Vec<Amendment<'_>> = amendments(met, which, &change).collect();
            return whole(self.store.amend(&amendments).await);
        };
        let answered = self.amend_there(safety, met, which, &change).await;
        // Also where it failed: it may have run.
        let now_us = safety.guards.now_us();
        for met in which.of(met.limits()).filter(|met| !is_of_permit(change(met))) {
            safety.denied.forget(met.limit, met.quota.algorithm(), met.key, now_us);
        }
        for (which, amended) in &answered {
            // A permit ends or lasts here whatever the store said: its request has ended, or goes on.
            let is_permit = |met: MetLimit<'_>| is_of_permit(change(&met));
            if amended.is_ok() || which.of(met.limits()).all(is_permit) {
                let asked = Asked::of(&self.store, met, None, *which);
                let _ = safety.fallback.amend(asked, &change).await;
            }
        }
        let answered = answered.into_iter().map(|(_, amended)| amended);
        let answered: Vec<Vec<Amended>> = answered.collect::<Result<_, _>>()?;
        whole(answered.into_iter().flatten().map(Ok))
    }

    /// Amends in the store and nowhere else, part by part.
    pub(super) async fn amend_there(
        &self,
        safety: &Safety<L>,
        met: &Met,
        which: Which,
        change: impl Fn(&MetLimit<'_>) -> Change,
    ) -> Vec<(Which, Result<Vec<Amended>, StoreError>)> {
        let mut shards: SmallVec<[(usize, Which); 2]> = SmallVec::new();
        for (nth, met) in met.limits().enumerate().filter(|(nth, _)| which.has(*nth)) {
            let shard = self.store.part(met.key).shard;
            match shards.iter_mut().find(|(known, _)| *known == shard) {
                Some((_, which)) => *which = which.with(nth),
                None => shards.push((shard, Which::NONE.with(nth))),
            }
        }
        let deadline = safety.guards.begin();
        let mut under_way = Vec::with_capacity(shards.len());
        for (shard, which) in &shards {
            let amendments: Vec<Amendment<'_>> = amendments(met, *which, &change).collect();
            under_way.push(async move {
                let call = async {
                    let amended = self.store.amend(&amendments).await;
                    amended.into_iter().collect::<Result<Vec<Amended>, StoreError>>()
                };
                let name = || self.store.shard_name(*shard);
                safety.guards.of(*shard).call(deadline, name, call).await
            });
        }
        let which = shards.iter().map(|(_, which)| *which);
        which.zip(join_all(under_way).await).collect()
    }
}

fn is_of_permit(change: Change) -> bool {
    matches!(change, Change::Release { .. } | Change::Renew { .. })
}

fn amendments<'a>(
    met: &'a Met,
    which: Which,
    change: impl Fn(&MetLimit<'_>) -> Change,
) -> impl Iterator<Item = Amendment<'a>> {
    which.of(met.limits()).map(move |met| Amendment {
        limit: met.limit,
        quota: met.quota,
        key: met.key,
        change: change(&met),
        consistency: met.consistency,
    })
}

/// Those of the limits that are meant.
pub(super) fn which(met: &Met, is_meant: impl Fn(&MetLimit<'_>) -> bool) -> Which {
    let meant = met.limits().enumerate().filter(|(_, met)| is_meant(met));
    meant.fold(Which::NONE, |which, (nth, _)| which.with(nth))
}

/// As a whole it is done if any was.
pub(super) fn whole(
    amended: impl IntoIterator<Item = Result<Amended, StoreError>>,
) -> Result<Amended, EngineError> {
    amended.into_iter().try_fold(Amended::Unknown, |whole, amended| {
        let amended = amended?;
        Ok(match (whole.forgiven(), amended.forgiven()) {
            (None, None) if whole == Amended::Repeated => whole,
            (None, None) => amended,
            (one, other) => Amended::Done { forgiven: one.max(other).unwrap_or(0) },
        })
    })
}

fn expect_kind(handle: &Handle, kind: HandleKind) -> Result<(), EngineError> {
    if handle.kind == kind { Ok(()) } else { Err(HandleError.into()) }
}
