//! Owns [`Members`]: the calls by which processes count each other.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ahash::RandomState;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tollkeeper_core::{
    Amended, Amendment, Change, Check, Clock, Consistency, Quota, Request, Store, StoreError,
    Ticket,
};

use crate::local::Local;
use crate::share::{BEAT_US, Count, PERMIT_US, Place};
use crate::shares::Shares;
use crate::stats::Kind;

/// The permits of processes. No rule can be called so.
const LIMIT: &str = "(nodes)";
const KEY: &str = "nodes";

/// More processes than ever share a limit.
const MOST: u64 = 1_000_000;

/// What this process knows of the others.
#[derive(Debug)]
pub(crate) struct Members {
    count: Mutex<Count>,
    is_counting: AtomicBool,
    /// Whether it has ever served, or was told to do without the others.
    has_begun: AtomicBool,
    id: u128,
}

impl Members {
    pub(crate) fn new() -> Self {
        let random = || u128::from(RandomState::new().hash_one(KEY));
        let id = random() << 64 | random();
        let [is_counting, has_begun] = [const { AtomicBool::new(false) }; 2];
        Self { count: Mutex::default(), is_counting, has_begun, id }
    }

    /// Whether this process has a part of what is shared.
    pub(crate) fn place(&self, now_us: u64) -> Place {
        self.count.lock().place(now_us)
    }

    /// How long it has to wait for its first part, if it does.
    pub(crate) fn begins_in_us(&self, now_us: u64) -> Option<u64> {
        match self.place(now_us) {
            Place::Waits { us } if !self.has_begun.load(Ordering::Relaxed) => Some(us),
            _ => None,
        }
    }

    /// How many there were when it last heard.
    pub(crate) fn nodes(&self) -> Option<u64> {
        self.count.lock().nodes()
    }

    /// Begins to count, if there is a runtime to do so, and it does not yet.
    pub(crate) fn begin<S: Store + 'static>(
        self: &Arc<Self>,
        local: &Arc<Local<S>>,
        shares: &Arc<Shares>,
    ) {
        if self.is_counting.load(Ordering::Relaxed) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        if self.is_counting.swap(true, Ordering::Relaxed) {
            return;
        }
        self.count.lock().begin(local.clock.now_us());
        let (members, local) = (Arc::clone(self), Arc::downgrade(local));
        let shares = Arc::clone(shares);
        runtime.spawn(async move {
            // Before it can be asked at all, nobody need lose a beat.
            if let Some(local) = local.upgrade() {
                let _ = timeout(local.patience, local.store.opened()).await;
            }
            while let Some(local) = local.upgrade() {
                // Whoever hears nothing for long does not serve.
                let beaten = timeout(local.patience.saturating_mul(2), members.beat(&local)).await;
                local.calls.add(Kind::Count, matches!(beaten, Ok(Ok(()))));
                // The part changes now, and not when somebody asks for it.
                let now_us = local.clock.now_us();
                let place = members.place(now_us);
                if let Place::Serves(standing) = place {
                    shares.stand(standing, now_us);
                }
                if !matches!(place, Place::Waits { .. }) {
                    members.has_begun.store(true, Ordering::Relaxed);
                }
                drop(local);
                sleep(Duration::from_micros(BEAT_US)).await;
            }
        });
    }

    /// Renews the permit or takes one, and counts those that are held.
    async fn beat<S: Store + 'static>(&self, local: &Local<S>) -> Result<(), StoreError> {
        let refused = |error: &dyn Display| StoreError::did_not_run(error.to_string());
        let quota = Quota::concurrency(MOST, PERMIT_US).map_err(|error| refused(&error))?;
        let sent_us = local.clock.now_us();
        let is_known = self.renew(local, &quota).await?;
        let cost = u64::from(!is_known);
        let ticket = Ticket { id: self.id, reserve_for_us: None };
        let request = Request::new([Check::new(LIMIT, &quota, KEY, cost)], Some(ticket));
        let request = request.map_err(|error| refused(&error))?;
        let answer = local.store.decide_one(&request).await?;
        if let Some(outcome) = answer.outcomes().first().filter(|outcome| outcome.allowed) {
            let held = MOST.saturating_sub(outcome.remaining);
            self.count.lock().heard(held, !is_known, sent_us, local.clock.now_us());
        }
        Ok(())
    }

    async fn renew<S: Store>(&self, local: &Local<S>, quota: &Quota) -> Result<bool, StoreError> {
        let amendment = Amendment {
            limit: LIMIT,
            quota,
            key: KEY,
            change: Change::Renew { id: self.id },
            consistency: Consistency::Exact,
        };
        match local.store.amend(&[amendment]).await.into_iter().next() {
            Some(Ok(Amended::Done { .. })) => Ok(true),
            Some(Err(error)) => Err(error),
            _ => Ok(false),
        }
    }
}
