//! What a request is told when the store gave no answer: each limit by its rule's choice of open,
//! closed or static; and how the local limiter of `static` is kept warm.

use smallvec::SmallVec;
use tollkeeper_core::{
    Amended, Amendment, Answer, Change, Check, Consistency, Outcome, Quota, Request, Store,
    StoreError, Ticket,
};
use tollkeeper_policy::OnFailure;

use crate::error::EngineError;
use crate::met::{Met, MetLimit};
use crate::parts::{Which, undoing};

/// When a request that a failed store denied may come again: by then a store that is back is asked.
const CLOSED_RETRY_US: u64 = 1_000_000;

/// The limiter of this process, for when the store gives no answer.
#[derive(Debug)]
pub(crate) struct Fallback<L> {
    local: L,
}

/// What is decided, and what names what it holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) met: &'a Met,
    pub(crate) ticket: Option<Ticket>,
    /// Which of the limits; the others lie in another part of the store.
    pub(crate) which: Which,
    /// How many processes share them.
    nodes: u64,
}

impl<'a> Asked<'a> {
    /// Some of what is met, by as many processes as share `store`.
    pub(crate) fn of(
        store: &impl Store,
        met: &'a Met,
        ticket: Option<Ticket>,
        which: Which,
    ) -> Self {
        let nodes = store.nodes().unwrap_or_else(|| met.policy().store().nodes);
        Self { met, ticket, which, nodes }
    }

    fn limits(&self) -> impl Iterator<Item = MetLimit<'a>> {
        self.which.of(self.met.limits())
    }

    /// What each limit does without the store.
    pub(crate) fn choices(&self) -> SmallVec<[OnFailure; 4]> {
        let standing = self.met.policy().store().on_failure;
        self.limits().map(|met| met.on_failure.unwrap_or(standing)).collect()
    }

    /// What this process may admit of each limit.
    fn shares(&self) -> SmallVec<[Quota; 4]> {
        self.limits().map(|met| met.quota.share(self.nodes)).collect()
    }
}

impl<L: Store> Fallback<L> {
    pub(crate) fn new(local: L) -> Self {
        Self { local }
    }

    pub(crate) fn local(&self) -> &L {
        &self.local
    }

    /// Decides without the store. Limits that fail open admit; those that fail closed deny, and
    /// then nothing is charged; the others are decided here, all or nothing. What `store` knows of
    /// those that it did not decide itself, they begin with.
    pub(crate) async fn decide(
        &self,
        asked: Asked<'_>,
        store: &impl Store,
    ) -> Result<Answer, EngineError> {
        let choices = asked.choices();
        for ((met, quota), choice) in asked.limits().zip(&asked.shares()).zip(&choices) {
            if *choice != OnFailure::Static || met.consistency == Consistency::Exact {
                continue;
            }
            let check = met.check(met.quota, met.cost);
            let check = Check { consistency: met.consistency, ..check };
            if let Some(left) = store.left_per_mille(&check) {
                let left = u128::from(left) * u128::from(quota.limit()) / 1000;
                self.lower(&met, quota, u64::try_from(left).unwrap_or(u64::MAX)).await;
            }
        }
        self.ask(asked, false).await
    }

    /// Lets a limit have so much left at most.
    async fn lower(&self, met: &MetLimit<'_>, quota: &Quota, units: u64) {
        let amendment = Amendment {
            limit: met.limit,
            quota,
            key: met.key,
            change: Change::LeaveAtMost { units },
            consistency: Consistency::Exact,
        };
        // A table that is full has counted that.
        let _ = self.local.amend(&[amendment]).await;
    }

    /// The numbers as they are.
    pub(crate) async fn look(&self, asked: Asked<'_>) -> Result<Answer, EngineError> {
        self.ask(asked, true).await
    }

    async fn ask(&self, asked: Asked<'_>, look: bool) -> Result<Answer, EngineError> {
        let choices = asked.choices();
        let mut limits = asked.limits().zip(&choices);
        let denied = limits.any(|(met, choice)| *choice == OnFailure::Closed && !met.shadow);
        let shares = asked.shares();
        let checks = asked.limits().zip(&shares).zip(&choices);
        let local = checks.filter(|(_, choice)| **choice == OnFailure::Static);
        let free = denied || look;
        let local =
            local.map(|((met, quota), _)| met.check(quota, if free { 0 } else { met.cost }));
        let request = Request::new(local, asked.ticket)?;
        let answer = self.local.decide_one(&request).await?;
        let decided = answer.outcomes().iter().enumerate();
        let mut decided = decided.map(|(nth, outcome)| (*outcome, answer.charged_at(nth)));
        let told = asked.limits().zip(&choices).map(|(met, choice)| match choice {
            OnFailure::Static => decided.next().unwrap_or_else(|| (open(met.quota, false), None)),
            // Nobody counts these.
            OnFailure::Closed => (closed(met.quota, met.shadow), None),
            _ => (open(met.quota, met.shadow), None),
        });
        let told: SmallVec<[(Outcome, Option<u64>); 4]> = told.collect();
        let whole = Answer::new(answer.now_us, false, told.iter().map(|(outcome, _)| *outcome));
        Ok(whole.dated(told.iter().map(|(_, charged_at_us)| *charged_at_us)))
    }

    /// Gives back what was charged here.
    pub(crate) async fn undo(&self, asked: Asked<'_>, answer: &Answer) {
        let (shares, choices) = (asked.shares(), asked.choices());
        let limits = asked.limits().zip(&shares).zip(&choices).zip(answer.outcomes()).enumerate();
        let counted = limits.filter(|(_, ((_, choice), _))| **choice == OnFailure::Static);
        let amendments: SmallVec<[Amendment<'_>; 4]> = counted
            .flat_map(|(nth, (((met, quota), _), outcome))| {
                let check = met.check(quota, met.cost);
                undoing(&check, outcome, asked.ticket, answer.charged_at(nth))
            })
            .collect();
        let _ = self.local.amend(&amendments).await;
    }

    /// Lets the local limiter know what the store said, so that it begins where the store ended.
    /// What was decided here says only what this process had left.
    pub(crate) async fn learn(&self, asked: Asked<'_>, answer: &Answer) {
        let (shares, choices) = (asked.shares(), asked.choices());
        let limits = asked.limits().zip(&shares).zip(&choices).zip(answer.outcomes());
        for (((met, quota), _), outcome) in
            limits.filter(|((_, choice), outcome)| **choice == OnFailure::Static && !outcome.here)
        {
            if let Quota::Concurrency(_) = quota {
                if answer.charged_at_us.is_some() {
                    self.learn_permit(met.check(quota, met.cost), asked.ticket).await;
                }
                continue;
            }
            // Its share of what is left, rounded down.
            let left = u128::from(outcome.remaining) * u128::from(quota.limit());
            let left = left / u128::from(outcome.limit.max(1));
            self.lower(&met, quota, u64::try_from(left).unwrap_or(u64::MAX)).await;
        }
    }

    /// A permit that the store gave is held here, too, where there is room.
    async fn learn_permit(&self, check: Check<'_>, ticket: Option<Ticket>) {
        if let Ok(request) = Request::new([Check { shadow: false, ..check }], ticket) {
            let _ = self.local.decide_one(&request).await;
        }
    }

    /// Amends the local states of limits that the store has amended, or that are kept only here.
    pub(crate) async fn amend(
        &self,
        asked: Asked<'_>,
        change: impl Fn(&MetLimit<'_>) -> Change,
    ) -> Vec<Result<Amended, StoreError>> {
        let shares = asked.shares();
        let amendments: SmallVec<[Amendment<'_>; 4]> = asked
            .limits()
            .zip(&shares)
            .map(|(met, quota)| Amendment {
                limit: met.limit,
                quota,
                key: met.key,
                change: change(&met),
                consistency: Consistency::Exact,
            })
            .collect();
        self.local.amend(&amendments).await
    }
}

/// The numbers of a limit that nobody counts at the moment.
fn open(quota: &Quota, shadow: bool) -> Outcome {
    Outcome {
        allowed: true,
        shadow,
        limit: quota.limit(),
        remaining: quota.limit(),
        retry_after_us: Some(0),
        reset_after_us: 0,
        delay_us: 0,
        here: false,
    }
}

/// The numbers of a limit that admits nobody at the moment.
fn closed(quota: &Quota, shadow: bool) -> Outcome {
    Outcome {
        allowed: false,
        remaining: 0,
        retry_after_us: Some(CLOSED_RETRY_US),
        reset_after_us: CLOSED_RETRY_US,
        ..open(quota, shadow)
    }
}
