//! Owns [`Decision`]: what the limiter says, in the terms of the standard library.

use std::time::Duration;

use tollkeeper_core::Algorithm;
use tollkeeper_engine::{Handle, LimitVerdict, Source, Verdict};

/// What was decided.
#[derive(Clone, Debug)]
pub struct Decision {
    verdict: Verdict,
}

impl Decision {
    pub(crate) fn new(verdict: Verdict) -> Self {
        Self { verdict }
    }

    /// Whether the request may go.
    #[must_use]
    pub fn allowed(&self) -> bool {
        self.verdict.allowed()
    }

    /// The capacity, burst or count of the limit that decided.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.verdict.decision().limit
    }

    /// Whole units available after this decision. Where this process decides with leave of a shared
    /// store, it is a lower bound, and [`remaining_is_at_least`](Self::remaining_is_at_least) says
    /// so: whoever asks for so many now gets them.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.verdict.decision().remaining
    }

    /// Whether more may be left than [`remaining`](Self::remaining) says: another process may have
    /// some of the limit that decided, or the store. Never for a limit that the store decides.
    #[must_use]
    pub fn remaining_is_at_least(&self) -> bool {
        self.verdict.remaining_is_at_least()
    }

    /// Zero when allowed; else the earliest time after which the same request would be, if nobody
    /// else came. `None` if it never would: it costs more than the limit.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.verdict.decision().retry_after_us.map(Duration::from_micros)
    }

    /// Until the limit is as new.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        Duration::from_micros(self.verdict.decision().reset_after_us)
    }

    /// How long an admitted request is to wait for its turn in a leaking bucket.
    #[must_use]
    pub fn delay(&self) -> Duration {
        Duration::from_micros(self.verdict.decision().delay_us)
    }

    /// When the request was charged, in microseconds since the Unix epoch, if it was. A refund
    /// takes it.
    #[must_use]
    pub fn charged_at_us(&self) -> Option<u64> {
        self.verdict.decision().charged_at_us
    }

    /// The name of the limit that decided.
    #[must_use]
    pub fn rule(&self) -> &str {
        self.verdict.rule()
    }

    /// Who decided.
    #[must_use]
    pub fn source(&self) -> Source {
        self.verdict.source()
    }

    /// The permit that an admitted request holds, or the reservation that it made.
    #[must_use]
    pub fn handle(&self) -> Option<&Handle> {
        self.verdict.handle()
    }

    /// Each limit's own numbers.
    pub fn limits(&self) -> impl Iterator<Item = LimitDecision<'_>> {
        self.verdict.limits().map(LimitDecision)
    }
}

/// One limit's own numbers.
#[derive(Clone, Copy, Debug)]
pub struct LimitDecision<'a>(LimitVerdict<'a>);

impl<'a> LimitDecision<'a> {
    /// Its name: that of its rule, and behind a slash what tells it from others of the rule.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.0.name
    }

    /// Its algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.0.algorithm
    }

    /// Whether it by itself admits the request.
    #[must_use]
    pub fn allowed(&self) -> bool {
        self.0.outcome.allowed
    }

    /// Whether it only counts.
    #[must_use]
    pub fn shadow(&self) -> bool {
        self.0.outcome.shadow
    }

    /// Its capacity, burst or count.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.0.outcome.limit
    }

    /// Whole units available after this decision, or a lower bound of them.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.0.outcome.remaining
    }

    /// As [`Decision::remaining_is_at_least`], for this limit alone.
    #[must_use]
    pub fn remaining_is_at_least(&self) -> bool {
        self.0.remaining_is_at_least()
    }

    /// Who decided it. Where keys are spread over several servers, some of a request's limits may be
    /// decided by their servers and others without theirs.
    #[must_use]
    pub fn source(&self) -> Source {
        self.0.source()
    }

    /// As [`Decision::retry_after`], for this limit alone.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.outcome.retry_after_us.map(Duration::from_micros)
    }
}
