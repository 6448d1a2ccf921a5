//! Owns `Plan`: what is planned for one key, in whichever way it is decided here.

use tollkeeper_core::{Change, Consistency, Drawn, Lent, Quota};

use crate::lease::{self, Lease};
use crate::sync::{self, Report, Synced};

/// What is planned for one key.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    /// Units are taken in advance.
    Lease(Lease, lease::Terms),
    /// The store is told what was admitted.
    Sync(Synced, sync::Terms),
}

/// What is to be done from time to time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chore {
    /// Units that nobody wants are to be given back, of this part.
    GiveBack(u8, Change),
    /// The store is to be told.
    Report(Report),
}

impl Plan {
    /// The plan for a key that is asked for the first time, if it is decided here. `chance` is any
    /// number.
    pub(crate) fn new(quota: &Quota, how: Consistency, now_us: u64, chance: u32) -> Option<Self> {
        match how {
            Consistency::Lease { period_us } => {
                let terms = lease::Terms::new(quota, period_us.into());
                Some(Self::Lease(Lease::new(&terms, now_us), terms))
            }
            Consistency::Sync { period_us, parts } => {
                let quota = how.stored(quota);
                let terms = sync::Terms { period_us: period_us.into(), quota, parts };
                Some(Self::Sync(Synced::new(&terms, now_us, chance), terms))
            }
            _ => None,
        }
    }

    /// Decides a request of `cost`.
    #[inline]
    pub(crate) fn ask(&mut self, cost: u64, now_us: u64) -> Step {
        match self {
            Self::Lease(lease, terms) => lease.ask(terms, cost, now_us),
            Self::Sync(synced, terms) => synced.ask(terms, cost, now_us),
        }
    }

    /// Decides one that waited.
    pub(crate) fn again(&mut self, cost: u64, now_us: u64) -> Step {
        match self {
            Self::Lease(lease, terms) => lease.again(terms, cost, now_us),
            Self::Sync(synced, terms) => synced.again(terms, cost, now_us),
        }
    }

    /// Puts back what was spent, because the request was not admitted after all.
    pub(crate) fn put_back(&mut self, cost: u64, spent: Spent, now_us: u64) {
        match self {
            Self::Lease(lease, _) => lease.put_back(cost, spent, now_us),
            Self::Sync(synced, _) => synced.put_back(cost, spent),
        }
    }

    /// Takes a request back that is asked again.
    pub(crate) fn unask(&mut self, cost: u64, asked_us: u64) {
        if let Self::Lease(lease, _) = self {
            lease.unask(cost, asked_us);
        }
    }

    /// What may be admitted.
    pub(crate) fn left(&self, now_us: u64) -> u64 {
        match self {
            Self::Lease(lease, _) => lease.left(now_us),
            Self::Sync(synced, terms) => synced.left(terms, now_us),
        }
    }

    /// Which part of a key that is split is spent.
    pub(crate) fn part(&self) -> u8 {
        match self {
            Self::Lease(..) => 0,
            Self::Sync(synced, _) => synced.part(),
        }
    }

    /// What the store is asked for a draw, while `untold` units may yet be put back.
    pub(crate) fn change(&mut self, draw: Draw, untold: u64, now_us: u64) -> Change {
        match self {
            Self::Lease(lease, terms) => lease.change(terms, draw, untold, now_us),
            Self::Sync(..) => Change::Draw { most: draw.most, least: draw.least },
        }
    }

    /// Gives all units up that are here: the store is told of them by `change`, a first draw for another quota
    /// of the same state.
    pub(crate) fn hand_over(&mut self, change: &mut Change, now_us: u64) {
        if let (Self::Lease(lease, _), Change::Lend(lend)) = (self, change) {
            lease.hand_over(lend, now_us);
        }
    }

    /// Units have come, for a draw that was sent at `sent_us`.
    pub(crate) fn drew(&mut self, lent: &Lent, asked: Draw, sent_us: u64, now: (u64, u32)) {
        match self {
            Self::Lease(lease, terms) => {
                let (now_us, chance) = now;
                lease.granted(terms, lent, asked, sent_us, now_us, chance);
            }
            Self::Sync(synced, _) => synced.drew(&lent.drawn, sent_us),
        }
    }

    /// A call came to nothing, as far as is known: one that was to tell `untold`.
    pub(crate) fn failed(
        &mut self,
        may_have_run: bool,
        untold: Option<&Change>,
        now_us: u64,
        chance: u32,
    ) {
        match self {
            Self::Lease(lease, terms) => {
                let untold = untold.filter(|_| !may_have_run);
                lease.failed(terms, untold, now_us, chance);
            }
            Self::Sync(synced, terms) => synced.failed(terms, may_have_run, now_us, chance),
        }
    }

    /// What is to be done, of a key for which nobody may have come for a while.
    pub(crate) fn rest(&mut self, now_us: u64) -> Option<Chore> {
        match self {
            Self::Lease(lease, terms) => {
                lease.rest(terms, now_us).map(|change| Chore::GiveBack(0, change))
            }
            Self::Sync(synced, terms) => match synced.unwanted() {
                Some((part, change)) => Some(Chore::GiveBack(part, change)),
                None => synced.report(terms, now_us).map(Chore::Report),
            },
        }
    }

    /// Whether nothing would be lost by forgetting the key.
    pub(crate) fn is_idle(&self, now_us: u64) -> bool {
        match self {
            Self::Lease(lease, terms) => lease.is_idle(terms, now_us),
            Self::Sync(synced, terms) => synced.is_idle(terms, now_us),
        }
    }

    /// Whether nothing but how often it came would be lost by forgetting a key that nobody asked for since.
    pub(crate) fn is_spare(&self, now_us: u64, since_us: u64) -> bool {
        match self {
            Self::Lease(lease, _) => lease.is_spare(now_us, since_us),
            Self::Sync(..) => false,
        }
    }

    /// How often it is looked after.
    pub(crate) fn period_us(&self) -> u64 {
        match self {
            // Units that nobody wants are found before they end.
            Self::Lease(_, terms) => (terms.period_us / 2).max(1),
            Self::Sync(_, terms) => terms.period_us,
        }
    }
}

/// What is to be told to one request, and what is to be asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What the request is told.
    pub told: Told,
    /// What to draw from the store. It is to be answered.
    pub draw: Option<Draw>,
}

/// What a request is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It may go.
    Admitted(Spent),
    /// It may not, for so long.
    Denied {
        /// When the store is asked again.
        retry_after_us: u64,
    },
    /// Units are on their way: it is decided when they are here.
    Waits,
    /// The store decides it: the key is not busy.
    Store,
    /// There is nothing left, and the store does not answer.
    Lost,
}

/// Units that were spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// What is left here.
    pub left: u64,
    /// Until when they can be put back: then the first of them would have ended.
    pub ends_us: u64,
    /// When the first of them was charged, by the store's clock, if that was before they were spent.
    pub at_us: u64,
    /// How many had been drawn for this one or for one that did not go, which sync knows of.
    pub prepaid: u64,
}

impl Spent {
    /// Units that were charged when they were spent, and do not end.
    #[must_use]
    pub fn now(left: u64) -> Self {
        Self { left, ends_us: u64::MAX, at_us: u64::MAX, prepaid: 0 }
    }
}

/// Units to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// How many are wanted.
    pub most: u64,
    /// How many the request that waits for them needs.
    pub least: u64,
}

/// What came of a draw that the store does not count: it ends when the store's window does.
pub fn uncounted(drawn: Drawn) -> Lent {
    let life_us = drawn.reset_after_us;
    Lent { drawn, turn: drawn.at_us.saturating_add(life_us), life_us }
}

/// Three to five quarters of `us`, so that processes do not ask all at once.
pub(crate) fn about(us: u64, chance: u32) -> u64 {
    let half = u128::from(us / 2) * u128::from(chance) / u128::from(u32::MAX);
    us - us / 4 + u64::try_from(half).unwrap_or(0)
}

/// A number of units or microseconds, rounded up.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
pub(crate) fn whole(number: f64) -> u64 {
    number.ceil() as u64
}
