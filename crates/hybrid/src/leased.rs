//! The calls that leases need: units are drawn in the background, and given back when nobody wants
//! them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{sleep, timeout};
use tollkeeper_core::{
    Amended, Amendment, Change, Check, Clock, Consistency, Drawn, Filter, Outcome, Quota, Store,
};

use crate::keys::{Keys, Name, Named};
use crate::lease::{Lease, Terms};
use crate::plan::{Draw, Spent, Told};

/// Every key that is leased, and the store that it is leased from.
#[derive(Debug)]
pub(crate) struct Leases<S> {
    pub(crate) store: S,
    pub(crate) clock: Arc<dyn Clock>,
    keys: Keys<Leased>,
    /// How long a draw may take.
    patience: Duration,
    chance: AtomicU32,
}

/// A key.
#[derive(Debug)]
struct Leased {
    lease: Lease,
    terms: Terms,
    /// By what it was leased: another policy leases anew.
    quota: Quota,
    consistency: Consistency,
    /// Told when a draw has been answered.
    answered: Arc<Notify>,
    /// Whether a task looks after it.
    is_kept: bool,
    /// How the store was when it was asked last, and when that was.
    seen: Option<(Drawn, u64)>,
}

/// What became of a check.
#[derive(Debug)]
pub(crate) enum Taken {
    /// It was decided here.
    Decided(Decided),
    /// It is decided when this is over, by [`Leases::take_again`].
    Waits(OwnedNotified),
    /// The store decides it.
    Store,
    /// The store would have to, and does not answer.
    Lost,
}

/// What was decided here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided {
    pub(crate) outcome: Outcome,
    /// What it took, if it was admitted.
    pub(crate) spent: Option<Spent>,
    /// The store's time, as far as it is known.
    pub(crate) store_us: Option<u64>,
}

impl<S: Store + 'static> Leases<S> {
    pub(crate) fn new(store: S, clock: Arc<dyn Clock>, patience: Duration, chance: u32) -> Self {
        Self { store, clock, keys: Keys::new(), patience, chance: AtomicU32::new(chance) }
    }

    /// Decides a check that is leased each `period_us`, if it can be decided here.
    pub(crate) fn take(self: &Arc<Self>, check: &Check<'_>, period_us: u32, now_us: u64) -> Taken {
        let make = || Leased::new(check, period_us, now_us);
        let is_idle = |known: &Leased| known.lease.is_idle(now_us);
        let taken = self.keys.work(named(check), now_us, make, is_idle, |leased| {
            if leased.quota != *check.quota || leased.consistency != check.consistency {
                *leased = Leased::new(check, period_us, now_us);
            }
            let step = leased.lease.ask(&leased.terms, check.cost, now_us);
            if let Some(draw) = step.draw
                && !self.spawn_draw(check, draw, now_us)
            {
                leased.lease.failed(&leased.terms, now_us, 0);
                if step.told == Told::Waits {
                    return Taken::Lost;
                }
            }
            match step.told {
                Told::Admitted(spent) => leased.admitted(check, spent, now_us),
                Told::Denied { retry_after_us } => leased.denied(check, retry_after_us, now_us),
                Told::Waits => Taken::Waits(Arc::clone(&leased.answered).notified_owned()),
                Told::Store => Taken::Store,
                Told::Lost => Taken::Lost,
            }
        });
        // One key too many to be known is the store's.
        taken.unwrap_or(Taken::Store)
    }

    /// Decides a check that waited.
    pub(crate) fn take_again(&self, check: &Check<'_>, now_us: u64) -> Taken {
        let taken = self.keys.find(named(check), |leased| {
            let taken = match leased.lease.spend(check.cost, now_us) {
                Some(spent) => leased.admitted(check, spent, now_us),
                None if leased.lease.is_lost() => Taken::Lost,
                None => leased.denied(check, leased.lease.retry_after_us(now_us), now_us),
            };
            (taken, false)
        });
        taken.unwrap_or(Taken::Store)
    }

    /// Puts back what a check took, since the request does not go.
    pub(crate) fn put_back(&self, check: &Check<'_>, spent: Spent) {
        let now_us = self.clock.now_us();
        self.keys.find(named(check), |leased| {
            leased.lease.put_back(check.cost, spent, now_us);
            ((), false)
        });
    }

    /// Takes a check back that will be asked again.
    pub(crate) fn unask(&self, check: &Check<'_>) {
        self.keys.find(named(check), |leased| {
            leased.lease.unask(check.cost);
            ((), false)
        });
    }

    /// Forgets what is leased of keys that were reset.
    pub(crate) fn forget(&self, filter: Filter<'_>) {
        self.keys.forget(filter);
    }

    /// Whether there is a runtime to draw in.
    fn spawn_draw(self: &Arc<Self>, check: &Check<'_>, draw: Draw, sent_us: u64) -> bool {
        let Ok(runtime) = Handle::try_current() else { return false };
        let leases = Arc::clone(self);
        let name = Name::from(named(check));
        let stored = check.consistency.stored(check.quota);
        let consistency = check.consistency;
        runtime.spawn(async move { leases.draw(name, stored, consistency, draw, sent_us).await });
        true
    }

    async fn draw(
        self: Arc<Self>,
        name: Name,
        quota: Quota,
        consistency: Consistency,
        draw: Draw,
        sent_us: u64,
    ) {
        let Named { limit, key, .. } = name.named();
        let change = Change::Draw { most: draw.most, least: draw.least };
        let amendment = Amendment { limit, quota: &quota, key, consistency, change };
        let amended = timeout(self.patience, self.store.amend(std::slice::from_ref(&amendment)));
        let amended = amended.await.ok().and_then(|amended| amended.into_iter().next());
        let (now_us, chance) = (self.clock.now_us(), self.chance());
        let keep = self.keys.find(name.named(), |leased| {
            // Another policy has leased it anew meanwhile: what was drawn by the old one is lost.
            if leased.consistency != consistency || consistency.stored(&leased.quota) != quota {
                return (None, false);
            }
            match amended {
                Some(Ok(Amended::Drawn(drawn))) => {
                    leased.lease.granted(&leased.terms, &drawn, draw, sent_us, now_us, chance);
                    leased.seen = Some((drawn, sent_us));
                }
                _ => leased.lease.failed(&leased.terms, now_us, chance),
            }
            leased.answered.notify_waiters();
            let is_new = !std::mem::replace(&mut leased.is_kept, true);
            (is_new.then_some(leased.terms.period_us), false)
        });
        if let Some(period_us) = keep.flatten() {
            self.keep(name, quota, consistency, Duration::from_micros(period_us)).await;
        }
    }

    /// Looks after a key until nobody wants it.
    async fn keep(
        self: Arc<Self>,
        name: Name,
        quota: Quota,
        consistency: Consistency,
        period: Duration,
    ) {
        let leases = Arc::downgrade(&self);
        drop(self);
        loop {
            sleep(period).await;
            let Some(leases) = leases.upgrade() else { return };
            let now_us = leases.clock.now_us();
            let rested = leases.keys.find(name.named(), |leased| {
                let idle = leased.lease.rest(&leased.terms, now_us);
                let is_idle = leased.lease.is_idle(now_us);
                ((idle, is_idle), is_idle)
            });
            let Some((idle, is_idle)) = rested else { return };
            let Named { limit, key, .. } = name.named();
            for grant in idle.iter().filter(|grant| grant.units > 0) {
                let charged_at_us = Some(grant.at_us);
                let change = Change::Refund { units: grant.units, charged_at_us };
                let amendment = Amendment { limit, quota: &quota, key, consistency, change };
                // If it fails, they are lost until they have flown in again.
                let _ = timeout(leases.patience, leases.store.amend(&[amendment])).await;
            }
            if is_idle {
                return;
            }
        }
    }

    fn chance(&self) -> u32 {
        let next = |last: u32| Some(last.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        self.chance.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or_default()
    }
}

impl Leased {
    fn new(check: &Check<'_>, period_us: u32, now_us: u64) -> Self {
        let of_window = matches!(check.quota, Quota::FixedWindow(_));
        Self {
            lease: Lease::new(now_us),
            terms: Terms { period_us: period_us.into(), of_window },
            quota: *check.quota,
            consistency: check.consistency,
            answered: Arc::new(Notify::new()),
            is_kept: false,
            seen: None,
        }
    }

    fn store_us(&self, now_us: u64) -> Option<u64> {
        let (drawn, sent_us) = self.seen?;
        Some(drawn.at_us.saturating_add(now_us.saturating_sub(sent_us)))
    }

    fn admitted(&self, check: &Check<'_>, spent: Spent, now_us: u64) -> Taken {
        let outcome = self.outcome(check, true, spent.left, 0, now_us);
        let store_us = self.store_us(now_us);
        Taken::Decided(Decided { outcome, spent: Some(spent), store_us })
    }

    fn denied(&self, check: &Check<'_>, retry_after_us: u64, now_us: u64) -> Taken {
        let left = self.lease.left(now_us);
        let outcome = self.outcome(check, false, left, retry_after_us, now_us);
        Taken::Decided(Decided { outcome, spent: None, store_us: self.store_us(now_us) })
    }

    /// The numbers of a decision here. What is left elsewhere is not known, so there may be more.
    fn outcome(
        &self,
        check: &Check<'_>,
        allowed: bool,
        remaining: u64,
        retry_after_us: u64,
        now_us: u64,
    ) -> Outcome {
        let reset_after_us = self.seen.map_or(0, |(drawn, sent_us)| {
            drawn.reset_after_us.saturating_sub(now_us.saturating_sub(sent_us))
        });
        Outcome {
            allowed,
            shadow: check.shadow,
            limit: check.quota.limit(),
            remaining,
            retry_after_us: if allowed { Some(0) } else { Some(retry_after_us) },
            reset_after_us,
            delay_us: 0,
        }
    }
}

fn named<'a>(check: &Check<'a>) -> Named<'a> {
    Named { limit: check.limit, algorithm: check.quota.algorithm(), key: check.key }
}
