//! Owns `Known`: what is known of one key here, and what a check of it is told.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tollkeeper_core::{Check, Drawn, Outcome, Quota};

use crate::plan::{Plan, Spent};

/// A key.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) plan: Plan,
    /// Which one of all that were begun with.
    pub(crate) number: u64,
    /// The most that a request may cost.
    pub(crate) most_cost: u64,
    /// Told when a call has been answered.
    pub(crate) answered: Arc<Notify>,
    /// Whether a task looks after it.
    pub(crate) is_kept: bool,
    /// How the store was when it was asked last, and when that was.
    pub(crate) seen: Option<(Drawn, u64)>,
    /// Whether a call has failed since anybody was told of it.
    pub(crate) has_news: bool,
}

/// What became of a check.
#[derive(Debug)]
pub(crate) enum Taken {
    /// It was decided here.
    Decided(Decided),
    /// It is decided when this is over, by `Local::take_again`.
    Waits(OwnedNotified),
    /// The store decides it.
    Store,
    /// The store would have to, and does not answer. Of each call that fails it is news once: however many
    /// ask for a busy key, the store has not failed more often than it was called.
    Lost { is_news: bool },
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

impl Decided {
    /// When it was charged, if it was: by the clock of whoever gives it back.
    pub(crate) fn charged_at_us(&self, check: &Check<'_>) -> Option<u64> {
        let spent = self.spent.filter(|_| check.cost > 0)?;
        Some(self.store_us.map_or(spent.at_us, |store_us| spent.at_us.min(store_us)))
    }
}

/// Whoever waits for a draw of what is forgotten asks again.
impl Drop for Known {
    fn drop(&mut self) {
        self.answered.notify_waiters();
    }
}

impl Known {
    fn store_us(&self, now_us: u64) -> Option<u64> {
        let (drawn, sent_us) = self.seen?;
        Some(drawn.at_us.saturating_add(now_us.saturating_sub(sent_us)))
    }

    pub(crate) fn admitted(&self, check: &Check<'_>, spent: Spent, now_us: u64) -> Taken {
        let outcome = self.outcome(check, true, spent.left, Some(0), now_us);
        let store_us = self.store_us(now_us);
        Taken::Decided(Decided { outcome, spent: Some(spent), store_us })
    }

    pub(crate) fn denied(&self, check: &Check<'_>, retry_after_us: u64, now_us: u64) -> Taken {
        let left = self.plan.left(now_us);
        // What is more than all there ever is need not come again.
        let retry = (check.cost <= self.most_cost).then_some(retry_after_us);
        let outcome = self.outcome(check, false, left, retry, now_us);
        Taken::Decided(Decided { outcome, spent: None, store_us: self.store_us(now_us) })
    }

    pub(crate) fn lost(&self) -> Taken {
        Taken::Lost { is_news: self.has_news }
    }

    /// What it had left when the store last told, with what has flown in since, in thousandths.
    pub(crate) fn left_per_mille(&self, check: &Check<'_>, now_us: u64) -> Option<u64> {
        let (drawn, sent_us) = self.seen?;
        let elapsed_us = now_us.saturating_sub(sent_us);
        Some(left_per_mille(&check.consistency.stored(check.quota), &drawn, elapsed_us))
    }

    /// The numbers of a decision here, as far as they are known.
    fn outcome(
        &self,
        check: &Check<'_>,
        allowed: bool,
        remaining: u64,
        retry_after_us: Option<u64>,
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
            retry_after_us,
            reset_after_us,
            delay_us: 0,
            here: true,
        }
    }
}

/// What a state has left some time after it was seen, in thousandths of all.
fn left_per_mille(quota: &Quota, drawn: &Drawn, elapsed_us: u64) -> u64 {
    let all = u128::from(quota.limit().max(1));
    let reset_us = u128::from(drawn.reset_after_us.saturating_sub(elapsed_us));
    let gone = match quota.bucket() {
        Some(bucket) => reset_us * u128::from(bucket.drain()) / u128::from(bucket.unit().max(1)),
        None if reset_us == 0 => 0,
        None => all.saturating_sub(drawn.left.into()),
    };
    u64::try_from(all.saturating_sub(gone) * 1000 / all).unwrap_or(0)
}
