//! The calls that local decisions need: units are drawn, told of and given back in the background.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tollkeeper_core::{
    Amended, Amendment, Change, Check, Clock, Consistency, Filter, Lend, Lent, Ran, Store, whole_us,
};

use crate::keys::{Keys, Name, Named};
use crate::known::{Known, Taken};
use crate::plan::{Chore, Draw, Plan, Spent, Step, Told, uncounted};
use crate::stats::{Calls, Kind};
use crate::stored::part_key;
use crate::sync::Report;

/// Every key that is decided here, and the store that gives leave to.
#[derive(Debug)]
pub(crate) struct Local<S> {
    pub(crate) store: S,
    pub(crate) clock: Arc<dyn Clock>,
    keys: Keys<Known>,
    /// How long a call of its own may take.
    patience_us: AtomicU64,
    pub(crate) calls: Calls,
    chance: AtomicU32,
    /// How many keys were begun with.
    begun: AtomicU64,
}

/// Whose calls are made, and by what.
#[derive(Clone, Debug)]
struct Subject {
    name: Name,
    /// Which beginning of the key.
    number: u64,
    /// Whether nothing was drawn for it before.
    is_new: bool,
}

impl<S: Store + 'static> Local<S> {
    pub(crate) fn new(store: S, clock: Arc<dyn Clock>, patience: Duration, chance: u32) -> Self {
        let (keys, calls) = (Keys::new(), Calls::default());
        let (chance, begun) = (AtomicU32::new(chance), AtomicU64::new(0));
        let patience_us = AtomicU64::new(whole_us(patience));
        Self { store, clock, keys, patience_us, calls, chance, begun }
    }

    /// How long a call of its own may take that begins now.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_micros(self.patience_us.load(Ordering::Relaxed))
    }

    /// How long further ones may take.
    pub(crate) fn set_patience(&self, patience_us: u64) {
        self.patience_us.store(patience_us, Ordering::Relaxed);
    }

    /// Which server a key lies on: who asks for it watches that one.
    pub(crate) fn home(&self, key: &str) -> usize {
        self.store.part(key).shard
    }

    /// Whether a part of a key lies on the server of the whole.
    fn is_home(&self, subject: &Subject, part: u8) -> bool {
        let Named { key, consistency, .. } = subject.name.named();
        self.home(&part_key(consistency, key, part)) == self.home(key)
    }

    /// Decides a check, if it can be decided here.
    #[inline]
    pub(crate) fn take(self: &Arc<Self>, check: &Check<'_>, now_us: u64) -> Taken {
        let make = || self.known(check, now_us);
        let is_idle = |known: &Known| known.plan.is_idle(now_us);
        let is_spare = |known: &Known, since_us| known.plan.is_spare(now_us, since_us);
        let taken = self.keys.work(named(check), now_us, make, is_idle, is_spare, |known| {
            let step = known.plan.ask(check.cost, now_us);
            self.told(known, check, step, now_us)
        });
        // One key too many to be known is the store's.
        taken.unwrap_or(Taken::Store)
    }

    /// Decides a check that waited. It may have to wait again: for what came there were too many.
    pub(crate) fn take_again(self: &Arc<Self>, check: &Check<'_>, now_us: u64) -> Taken {
        let taken = self.keys.find(named(check), |known| {
            let step = known.plan.again(check.cost, now_us);
            (self.told(known, check, step, now_us), false)
        });
        taken.unwrap_or(Taken::Store)
    }

    /// Draws what is to be drawn; what the check is told.
    #[inline]
    fn told(
        self: &Arc<Self>,
        known: &mut Known,
        check: &Check<'_>,
        step: Step,
        now_us: u64,
    ) -> Taken {
        let untold = if matches!(step.told, Told::Admitted(_)) { check.cost } else { 0 };
        if let Some(draw) = step.draw
            && !self.spawn_draw(check, known, (draw, untold), now_us)
        {
            known.plan.failed(false, None, now_us, 0);
            if step.told == Told::Waits {
                return Taken::Lost { is_news: false };
            }
        }
        match step.told {
            Told::Admitted(spent) => known.admitted(check, spent, now_us),
            Told::Denied { retry_after_us } => known.denied(check, retry_after_us, now_us),
            Told::Waits => Taken::Waits(Arc::clone(&known.answered).notified_owned()),
            Told::Store => Taken::Store,
            Told::Lost => known.lost(),
        }
    }

    /// Puts back what a check took, since the request does not go.
    pub(crate) fn put_back(&self, check: &Check<'_>, spent: Spent) {
        let now_us = self.clock.now_us();
        self.keys.find(named(check), |known| {
            known.plan.put_back(check.cost, spent, now_us);
            ((), false)
        });
    }

    /// Somebody is told that the last call failed: it is no news any more.
    pub(crate) fn heard(&self, check: &Check<'_>) {
        self.keys.find(named(check), |known| {
            known.has_news = false;
            ((), false)
        });
    }

    /// Takes a check back that was asked at `asked_us` and will be asked again.
    pub(crate) fn unask(&self, check: &Check<'_>, asked_us: u64) {
        self.keys.find(named(check), |known| {
            known.plan.unask(check.cost, asked_us);
            ((), false)
        });
    }

    /// Gives back what was charged since the store was last told. How much is left is the store's to
    /// give back, which knows what has flown in since, and of which part.
    pub(crate) fn refund(
        &self,
        amendment: &Amendment<'_>,
        units: u64,
        charged_at_us: Option<u64>,
    ) -> (u64, u8) {
        let Amendment { limit, quota, key, consistency, .. } = *amendment;
        let named = Named { limit, key, quota, consistency };
        let rest = self.keys.find(named, |known| {
            let told_us = known.seen.map(|(drawn, _)| drawn.at_us);
            let is_untold = charged_at_us.is_none_or(|at_us| told_us.is_none_or(|us| at_us >= us));
            let rest = match &mut known.plan {
                Plan::Sync(synced, _) if is_untold => (synced.refund(units), synced.part()),
                plan => (units, plan.part()),
            };
            (rest, false)
        });
        rest.unwrap_or((units, 0))
    }

    /// What a key had left when the store last told, with what has flown in since.
    pub(crate) fn left_per_mille(&self, check: &Check<'_>) -> Option<u64> {
        let now_us = self.clock.now_us();
        self.keys.find(named(check), |known| (known.left_per_mille(check, now_us), false)).flatten()
    }

    /// How many keys are leased, and of how many the store is told.
    pub(crate) fn keys(&self) -> (u64, u64) {
        let (mut leased, mut synced) = (0, 0);
        self.keys.each(|known| match &known.plan {
            Plan::Lease(lease, _) => leased += u64::from(lease.is_hot()),
            Plan::Sync(..) => synced += 1,
        });
        (leased, synced)
    }

    /// Forgets what is known of keys that were reset.
    pub(crate) fn forget(&self, filter: Filter<'_>) {
        self.keys.forget(filter);
    }

    /// Which part of a key that may be split: of a reservation the one that whoever settles it finds
    /// by its name, else any.
    pub(crate) fn part(&self, how: Consistency, reservation: Option<u128>) -> u8 {
        let Consistency::Sync { parts: parts @ 2.., .. } = how else { return 0 };
        let any = reservation.unwrap_or_else(|| self.chance().into());
        u8::try_from(any % u128::from(parts)).unwrap_or(0)
    }

    fn known(&self, check: &Check<'_>, now_us: u64) -> Option<Known> {
        let Check { quota, consistency, .. } = *check;
        Some(Known {
            plan: Plan::new(quota, consistency, now_us, self.chance())?,
            number: self.begun.fetch_add(1, Ordering::Relaxed),
            most_cost: consistency.most_cost(quota),
            answered: Arc::new(Notify::new()),
            is_kept: false,
            seen: None,
            has_news: false,
        })
    }

    /// Whether there is a runtime to draw in.
    fn spawn_draw(
        self: &Arc<Self>,
        check: &Check<'_>,
        known: &mut Known,
        (draw, untold): (Draw, u64),
        sent_us: u64,
    ) -> bool {
        let Ok(runtime) = Handle::try_current() else { return false };
        let change = known.plan.change(draw, untold, sent_us);
        let (local, part) = (Arc::clone(self), known.plan.part());
        let (number, is_new) = (known.number, !known.is_kept);
        let subject = Subject { name: named(check).into(), number, is_new };
        runtime.spawn(async move { local.draw(subject, (part, change), draw, sent_us).await });
        true
    }

    async fn draw(
        self: Arc<Self>,
        subject: Subject,
        mut change: (u8, Change),
        draw: Draw,
        sent_us: u64,
    ) {
        if subject.is_new {
            // What was taken by another quota of the same state may be more than may be out by this one.
            let now_us = self.clock.now_us();
            self.keys.others(subject.name.named(), |other| {
                other.plan.hand_over(&mut change.1, now_us);
            });
        }
        let drawn = self.amend(&subject, change.0, change.1).await;
        let (now_us, chance) = (self.clock.now_us(), self.chance());
        let keep = self.find(&subject, |known| {
            match drawn {
                Ok(lent) => {
                    known.plan.drew(&lent, draw, sent_us, (now_us, chance));
                    known.seen = Some((lent.drawn, sent_us));
                }
                Err(ran) => {
                    known.plan.failed(ran == Ran::Perhaps, Some(&change.1), now_us, chance);
                }
            }
            known.has_news = drawn.is_err() && self.is_home(&subject, change.0);
            known.answered.notify_waiters();
            let is_new = !std::mem::replace(&mut known.is_kept, true);
            is_new.then_some(known.plan.period_us())
        });
        if let Some(period_us) = keep.flatten() {
            self.keep(subject, Duration::from_micros(period_us)).await;
        }
    }

    /// Tells the store what was admitted, and asks it for the next part: either may be away by itself.
    async fn report(&self, subject: &Subject, report: Report) {
        let sent_us = self.clock.now_us();
        let tell = self.amend(subject, report.part, Change::Spend { units: report.units });
        let look = async {
            let next = report.next?;
            self.amend(subject, next, Change::Spend { units: 0 }).await.ok()
        };
        let (told, next) = tokio::join!(tell, look);
        let (now_us, chance) = (self.clock.now_us(), self.chance());
        self.find(subject, |known| {
            known.has_news = told.is_err() && self.is_home(subject, report.part);
            match (told, &mut known.plan) {
                (Ok(told), Plan::Sync(synced, terms)) => {
                    let next = next.map(|next| next.drawn);
                    synced.reported(terms, &told.drawn, next.as_ref(), sent_us);
                    known.seen = Some((next.unwrap_or(told.drawn), sent_us));
                }
                (Ok(_), Plan::Lease(..)) => {}
                (Err(ran), plan) => plan.failed(ran == Ran::Perhaps, None, now_us, chance),
            }
            known.answered.notify_waiters();
        });
    }

    /// Amends a part of a key: what it has left.
    async fn amend(&self, subject: &Subject, part: u8, change: Change) -> Result<Lent, Ran> {
        let Named { limit, key, quota, consistency } = subject.name.named();
        let (quota, key) = (&consistency.stored(quota), &part_key(consistency, key, part));
        let amendment = [Amendment { limit, quota, key, consistency, change }];
        let patience = match self.is_home(subject, part) {
            true => self.patience(),
            false => elsewhere(self.patience()),
        };
        let amended = timeout(patience, self.store.amend(&amendment)).await;
        let amended = amended.map(|amended| amended.into_iter().next());
        self.calls.add(kind_of(&change), matches!(amended, Ok(Some(Ok(_)))));
        match amended.map_err(|_| Ran::Perhaps)? {
            Some(Ok(Amended::Drawn(drawn))) => Ok(uncounted(drawn)),
            Some(Ok(Amended::Lent(lent))) => Ok(lent),
            Some(Ok(_)) | None => Err(Ran::No),
            Some(Err(error)) => Err(error.ran()),
        }
    }

    /// Does something about a key, unless it was forgotten and has begun anew meanwhile: what came of calls
    /// before that is lost.
    fn find<R>(&self, subject: &Subject, work: impl FnOnce(&mut Known) -> R) -> Option<R> {
        let found = self.keys.find(subject.name.named(), |known| {
            ((known.number == subject.number).then(|| work(known)), false)
        });
        found.flatten()
    }

    /// Looks after a key until nobody wants it.
    async fn keep(self: Arc<Self>, subject: Subject, period: Duration) {
        let local = Arc::downgrade(&self);
        drop(self);
        loop {
            sleep(period).await;
            let Some(local) = local.upgrade() else { return };
            let now_us = local.clock.now_us();
            let rested = local.keys.find(subject.name.named(), |known| {
                // What has begun anew has another task.
                if known.number != subject.number {
                    return (None, false);
                }
                let chore = known.plan.rest(now_us);
                let is_idle = known.plan.is_idle(now_us);
                (Some((chore, is_idle)), is_idle)
            });
            let Some((chore, is_idle)) = rested.flatten() else { return };
            match chore {
                Some(Chore::Report(report)) => local.report(&subject, report).await,
                Some(Chore::GiveBack(part, change)) => {
                    // If it fails, they are lost until they have flown in again.
                    let _ = local.amend(&subject, part, change).await;
                }
                None => {}
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

/// How long a server may take that nobody watches who waits for it: so long that he hears of it before
/// he takes it for the silence of the one that he watches.
pub(crate) fn elsewhere(patience: Duration) -> Duration {
    patience - patience / 8
}

/// What a call is for.
fn kind_of(change: &Change) -> Kind {
    match change {
        Change::Lend(Lend { most: 0, .. }) => Kind::GiveBack,
        Change::Draw { .. } | Change::Lend(_) => Kind::Draw,
        Change::Spend { .. } => Kind::Report,
        _ => Kind::GiveBack,
    }
}

fn named<'a>(check: &Check<'a>) -> Named<'a> {
    let Check { limit, quota, key, consistency, .. } = *check;
    Named { limit, key, quota, consistency }
}
