//! What changes after the decision: refunds, settled reservations, released and renewed permits.

use tollkeeper_core::{Amended, Amendment, Change, Store, StoreError, validate_key};

use super::Engine;
use crate::ask::{Ask, GLOBAL_KEY};
use crate::error::EngineError;
use crate::handle::{Handle, HandleError, HandleKind};
use crate::met::Met;

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
        let met = Met::find(&self.policy(), ask.target)?;
        if met.holds_permits() {
            return Err(EngineError::Unfit(
                "a concurrency limit cannot be refunded: release its permit",
            ));
        }
        let key = ask.key.unwrap_or(GLOBAL_KEY);
        validate_key(key)?;
        self.amend(&met, key, Change::Refund { units: ask.cost, charged_at_us }).await
    }

    async fn amend_handle(&self, handle: &Handle, change: Change) -> Result<Amended, EngineError> {
        let met = Met::find(&self.policy(), handle.target.borrow())?;
        match &self.safety {
            Some(safety) if handle.local => {
                let amended = safety.fallback.amend(&met, &handle.key, change).await;
                whole(amended)
            }
            _ => self.amend(&met, &handle.key, change).await,
        }
    }

    /// Amends every limit, in the store and in what this process remembers of it.
    async fn amend(&self, met: &Met, key: &str, change: Change) -> Result<Amended, EngineError> {
        let amendments: Vec<Amendment<'_>> = met
            .limits()
            .map(|met| Amendment { limit: met.limit, quota: met.quota, key, change })
            .collect();
        let call = async {
            let amended = self.store.amend(&amendments).await;
            amended.into_iter().collect::<Result<Vec<Amended>, StoreError>>()
        };
        let Some(safety) = &self.safety else {
            return whole(call.await?.into_iter().map(Ok));
        };
        let amended = safety.guard.call(safety.guard.begin(), call).await;
        let _ = safety.fallback.amend(met, key, change).await;
        whole(amended?.into_iter().map(Ok))
    }
}

/// As a whole it is done if any was.
fn whole(
    amended: impl IntoIterator<Item = Result<Amended, StoreError>>,
) -> Result<Amended, EngineError> {
    amended.into_iter().try_fold(Amended::Unknown, |whole, amended| {
        Ok(match (whole, amended?) {
            (Amended::Done { forgiven: one }, Amended::Done { forgiven: other }) => {
                Amended::Done { forgiven: one.max(other) }
            }
            (done @ Amended::Done { .. }, _) | (_, done @ Amended::Done { .. }) => done,
            (Amended::Repeated, _) => Amended::Repeated,
            (_, amended) => amended,
        })
    })
}

fn expect_kind(handle: &Handle, kind: HandleKind) -> Result<(), EngineError> {
    if handle.kind == kind { Ok(()) } else { Err(HandleError.into()) }
}
