//! Owns [`Members`]: the calls by which processes count each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ahash::RandomState;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tollkeeper_core::{
    Amended, Amendment, Change, Check, Clock, Consistency, Quota, QuotaError, Request, Store,
    StoreError, Ticket,
};

use crate::local::Local;
use crate::share::{BEAT_US, Count, MOST, PERMIT_US, Place, left_of_note, note, noted};
use crate::shares::Shares;
use crate::stats::Kind;

/// The permits of processes. No rule can be called so.
const LIMIT: &str = "(nodes)";
pub(crate) const KEY: &str = "nodes";

/// What the store keeps the most by that there were. It lies beside the permits.
const NOTE: &str = "(most nodes)";

/// What this process knows of the others.
#[derive(Debug)]
pub(crate) struct Members {
    count: Mutex<Count>,
    is_counting: AtomicBool,
    /// Whether it has ever served, or was told to do without the others.
    has_begun: AtomicBool,
    /// Whether it asked for a permit since it last heard how many there are. One that it got without
    /// hearing of it is as new.
    has_asked: AtomicBool,
    id: u128,
}

impl Members {
    pub(crate) fn new() -> Self {
        let random = || u128::from(RandomState::new().hash_one(KEY));
        let id = random() << 64 | random();
        let [is_counting, has_begun, has_asked] = [const { AtomicBool::new(false) }; 3];
        Self { count: Mutex::default(), is_counting, has_begun, has_asked, id }
    }

    /// Whether this process has a part of what is shared.
    pub(crate) fn place(&self, now_us: u64) -> Place {
        self.count.lock().place(now_us)
    }

    /// Whether it has a part of a limit of so many units, or who hands it out.
    pub(crate) fn place_of(&self, limit: u64, now_us: u64) -> Place {
        self.count.lock().place_of(limit, now_us)
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
                let _ = timeout(local.patience(), local.store.opened()).await;
            }
            while let Some(local) = local.upgrade() {
                // Whoever hears nothing for long does not serve.
                let beaten =
                    timeout(local.patience().saturating_mul(2), members.beat(&local)).await;
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

    /// Renews the permit or takes one, and counts those that are held. If more are held than were
    /// lately, everybody is to know.
    async fn beat<S: Store + 'static>(&self, local: &Local<S>) -> Result<(), StoreError> {
        let refused = |error: QuotaError| StoreError::did_not_run(error.to_string());
        let permits = Quota::concurrency(MOST, PERMIT_US).map_err(refused)?;
        let note = note().map_err(refused)?;
        let sent_us = local.clock.now_us();
        let is_known = self.amend(local, LIMIT, &permits, Change::Renew { id: self.id }).await?;
        let cost = u64::from(!is_known);
        let is_new = self.has_asked.fetch_or(!is_known, Ordering::Relaxed) || !is_known;
        let ticket = Ticket { id: self.id, reserve_for_us: None };
        let checks = [Check::new(LIMIT, &permits, KEY, cost), Check::new(NOTE, &note, KEY, 0)];
        let request = Request::new(checks, Some(ticket))
            .map_err(|error| StoreError::did_not_run(error.to_string()))?;
        let answer = local.store.decide_one(&request).await?;
        let [held, noted_there] = answer.outcomes() else { return Ok(()) };
        if !answer.allowed {
            return Ok(());
        }
        let held = MOST.saturating_sub(held.remaining);
        let most = noted(noted_there.remaining);
        if most < held {
            let change = Change::LeaveAtMost { units: left_of_note(held) };
            self.amend(local, NOTE, &note, change).await?;
        }
        self.count.lock().heard(held, most, is_new, sent_us, local.clock.now_us());
        self.has_asked.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Whether there was something to change.
    async fn amend<S: Store>(
        &self,
        local: &Local<S>,
        limit: &str,
        quota: &Quota,
        change: Change,
    ) -> Result<bool, StoreError> {
        let consistency = Consistency::Exact;
        let amendment = Amendment { limit, quota, key: KEY, change, consistency };
        match local.store.amend(&[amendment]).await.into_iter().next() {
            Some(Ok(Amended::Done { .. })) => Ok(true),
            Some(Err(error)) => Err(error),
            _ => Ok(false),
        }
    }
}
