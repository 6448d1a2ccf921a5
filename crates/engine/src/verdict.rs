//! Owns [`Verdict`]: the decision with names, as a door tells it.

use tollkeeper_core::{Algorithm, Answer, Consistency, Decision, Outcome, Quota};
use tollkeeper_policy::{OnFailure, Policy};

use crate::engine::Owed;
use crate::handle::Handle;
use crate::met::{Met, MetLimit};
use crate::parts::Which;

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The store.
    Store,
    /// This process, since the store gave no answer: each rule by its own choice.
    Fallback,
    /// The store, earlier: a denial that still holds.
    Cache,
    /// This process, by units that it took from the store before.
    Lease,
    /// This process, by what the store had left when it was last told what was admitted here.
    Sync,
    /// This process, which has its part of the limit.
    Share,
    /// The policy itself: the request lacks what a rule counts by. No verdict says so.
    Policy,
}

impl Source {
    /// The name as the API spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Fallback => "fallback",
            Self::Cache => "denied_cache",
            Self::Lease => "lease",
            Self::Sync => "sync",
            Self::Share => "share",
            Self::Policy => "policy",
        }
    }
}

/// What was decided, by which limit, and each limit's own numbers. It is large, and so lies
/// elsewhere: whoever hands it on copies a pointer.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub(crate) inner: Box<Inner>,
}

#[derive(Clone, Debug)]
pub(crate) struct Inner {
    pub(crate) met: Box<Met>,
    pub(crate) decision: Decision,
    pub(crate) handle: Option<Box<Handle>>,
    /// What the store may hold of it though it never said so.
    pub(crate) owed: Option<Box<Owed>>,
    pub(crate) decided: Decided,
}

/// What was decided, and by whom.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) answer: Answer,
    /// Which limits did as their rules say, since the store gave no answer.
    pub(crate) fell: Which,
    /// Whether they lie in several parts of the store.
    pub(crate) apart: bool,
    /// Whether it is what the store said to an earlier request, and still holds.
    pub(crate) again: bool,
    /// Whether the store was asked, gave no answer, and may have done it all the same.
    pub(crate) lost: bool,
}

impl Decided {
    /// What the store has decided, by itself and just now.
    pub(crate) fn by_store(answer: Answer) -> Self {
        Self { answer, fell: Which::NONE, apart: false, again: false, lost: false }
    }
}

/// One limit's own numbers, with its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitVerdict<'a> {
    /// The rule that it belongs to.
    pub rule: &'a str,
    /// Its own name.
    pub name: &'a str,
    /// Its algorithm.
    pub algorithm: Algorithm,
    /// How much it allows.
    pub quota: &'a Quota,
    /// Who decides it, where the store is shared.
    pub consistency: Consistency,
    /// Its numbers.
    pub outcome: &'a Outcome,
    /// What it did without the store; none where the store decided.
    pub on_failure: Option<OnFailure>,
    /// When it was charged, if it was. Limits in different parts of a store have different times,
    /// and so may those that this process decides.
    pub charged_at_us: Option<u64>,
}

/// A rule that counted the request, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted<'a> {
    /// The rule.
    pub rule: &'a str,
    /// Who is counted. It is what a client chose: nothing for a log or a label.
    pub key: &'a str,
    /// Whether one of the rule's own limits said no. Those of a shadow rule say it to nobody.
    pub refused: bool,
}

impl LimitVerdict<'_> {
    /// Who decided it.
    #[must_use]
    pub fn source(&self) -> Source {
        match self.on_failure {
            None => by_leave(self.consistency, self.outcome),
            Some(_) => Source::Fallback,
        }
    }

    /// Whether more may be left than `remaining` says: this process decided it, and others may have
    /// some that nobody here knows of.
    #[must_use]
    pub fn remaining_is_at_least(&self) -> bool {
        self.outcome.here
    }
}

/// Who decided a limit of which the store was not without an answer.
fn by_leave(consistency: Consistency, outcome: &Outcome) -> Source {
    match consistency {
        // Of what a request meets that is denied here, the store is not asked.
        _ if !outcome.here => Source::Store,
        Consistency::Exact => Source::Store,
        Consistency::Sync { .. } => Source::Sync,
        Consistency::Share { .. } => Source::Share,
        _ => Source::Lease,
    }
}

impl Verdict {
    /// Whether the request may go.
    #[must_use]
    pub fn allowed(&self) -> bool {
        self.inner.decision.allowed
    }

    /// The request's own numbers.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.inner.decision
    }

    /// The policy that it was decided by.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        self.inner.met.policy()
    }

    /// Whether any rule gives it back when it was answered with `status`.
    #[must_use]
    pub fn refunds_on(&self, status: u16) -> bool {
        self.inner.met.refunds(status)
    }

    /// The limit that binds.
    #[must_use]
    pub fn binding(&self) -> Option<LimitVerdict<'_>> {
        self.limits().nth(self.inner.decision.binding)
    }

    /// The rule that decided.
    #[must_use]
    pub fn rule(&self) -> &str {
        self.binding().map_or("", |limit| limit.rule)
    }

    /// Who decided: the fallback if it decided any of the limits, else whoever decided the one that
    /// binds.
    #[must_use]
    pub fn source(&self) -> Source {
        match &self.inner.decided {
            decided if decided.again => Source::Cache,
            decided if !decided.fell.is_none() => Source::Fallback,
            _ if !self.remaining_is_at_least() => Source::Store,
            _ => self.binding().map_or(Source::Store, |limit| limit.source()),
        }
    }

    /// Whether more may be left than `remaining` says: this process decided the limit that binds,
    /// and others may have some of it that nobody here knows of.
    #[must_use]
    pub fn remaining_is_at_least(&self) -> bool {
        let outcomes = self.inner.decided.answer.outcomes();
        outcomes.get(self.inner.decision.binding).is_some_and(|outcome| outcome.here)
    }

    /// Whether its limits were not decided in one step, since they lie in several parts of the store
    /// or some of them in this process: then they have times of their own.
    #[must_use]
    pub fn is_apart(&self) -> bool {
        let Decided { answer, fell, apart, .. } = &self.inner.decided;
        let is_mixed = || !fell.is_none() && *fell != Which::first(answer.outcomes().len());
        *apart || answer.is_dated() || is_mixed()
    }

    /// Whether it was denied only because the store gave no answer and a rule fails closed.
    #[must_use]
    pub fn failed_closed(&self) -> bool {
        let by_failure = |limit: LimitVerdict<'_>| limit.on_failure == Some(OnFailure::Closed);
        !self.allowed() && self.binding().is_some_and(by_failure)
    }

    /// Every limit that the request met, with its own numbers.
    pub fn limits(&self) -> impl Iterator<Item = LimitVerdict<'_>> {
        let numbers = self.inner.met.limits().zip(self.inner.decided.answer.outcomes()).enumerate();
        numbers.map(|(nth, (met, outcome))| LimitVerdict {
            rule: met.rule,
            name: met.limit,
            algorithm: met.quota.algorithm(),
            quota: met.quota,
            consistency: met.consistency,
            outcome,
            on_failure: self.choice(nth, &met),
            charged_at_us: self.inner.decided.answer.charged_at(nth),
        })
    }

    /// Every rule that the request met, with the key that it has there.
    pub fn counted(&self) -> impl Iterator<Item = Counted<'_>> {
        let refuses = |outcome: &Outcome| !outcome.allowed && !outcome.shadow;
        let limits = self.inner.met.limits().zip(self.inner.decided.answer.outcomes());
        let mut limits = limits.peekable();
        std::iter::from_fn(move || {
            let (first, outcome) = limits.next()?;
            let mut refused = refuses(outcome);
            // The limits of a rule lie side by side.
            while let Some((_, outcome)) = limits.next_if(|(met, _)| met.rule == first.rule) {
                refused |= refuses(outcome);
            }
            Some(Counted { rule: first.rule, key: first.key, refused })
        })
    }

    fn choice(&self, nth: usize, met: &MetLimit<'_>) -> Option<OnFailure> {
        let standing = self.inner.met.policy().store().on_failure;
        self.inner.decided.fell.has(nth).then(|| met.on_failure.unwrap_or(standing))
    }

    /// How many units it asked of the limit that binds.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.inner.met.limits().nth(self.inner.decision.binding).map_or(0, |met| met.cost)
    }

    /// How long its permit lasts if nobody renews it: the shortest lease of the limits that it
    /// holds permits of.
    #[must_use]
    pub fn lease_us(&self) -> Option<u64> {
        let leases = self.inner.met.limits().filter_map(|met| match met.quota {
            Quota::Concurrency(in_flight) => Some(in_flight.lease_us()),
            _ => None,
        });
        leases.min()
    }

    /// The permit that an admitted request holds, or the reservation that it made.
    #[must_use]
    pub fn handle(&self) -> Option<&Handle> {
        self.inner.handle.as_deref()
    }
}
