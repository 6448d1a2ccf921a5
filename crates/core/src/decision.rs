//! Owns what comes back: an [`Outcome`] for each limit, an [`Answer`] for the request, and the
//! fold that finds the limit that binds.

use smallvec::SmallVec;

use crate::algorithm::Admission;
use crate::check::Check;
use crate::quota::Quota;
use crate::state::{State, Step};

/// One limit's own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether this limit by itself admits the request.
    pub allowed: bool,
    /// Whether it only counts.
    pub shadow: bool,
    /// Capacity, burst, or the window's count.
    pub limit: u64,
    /// Whole units available after this decision; of one taken `here`, at least so many.
    pub remaining: u64,
    /// 0 when allowed; else the earliest time at which the same cost would be; `None` is never.
    pub retry_after_us: Option<u64>,
    /// Until the state is as new.
    pub reset_after_us: u64,
    /// How long an admitted request is to wait.
    pub delay_us: u64,
    /// Whether this process decided it, with leave of a shared store, or nobody did since another limit
    /// denies. Others may hold units that nobody here knows of.
    pub here: bool,
}

impl Outcome {
    /// The numbers of a limit whose state, after the decision, is `state`.
    #[must_use]
    #[inline]
    pub fn new(
        quota: &Quota,
        state: &State,
        admission: Admission,
        shadow: bool,
        now_us: u64,
    ) -> Self {
        let remaining = state.remaining(quota, now_us);
        let reset_after_us = state.reset_after_us(quota, now_us);
        let step = Step { admission, remaining, reset_after_us, written: false };
        Self::of_step(quota, &step, shadow)
    }

    /// The numbers of a limit that took this step.
    #[must_use]
    #[inline]
    pub fn of_step(quota: &Quota, step: &Step, shadow: bool) -> Self {
        let (allowed, retry_after_us, delay_us) = match step.admission {
            Admission::Yes { delay_us } => (true, Some(0), delay_us),
            Admission::No { retry_after_us } => (false, retry_after_us, 0),
        };
        Self {
            allowed,
            shadow,
            limit: quota.limit(),
            remaining: step.remaining,
            retry_after_us,
            reset_after_us: step.reset_after_us,
            delay_us,
            here: false,
        }
    }

    /// The numbers of a limit that nobody was asked for: there is nothing left, or more.
    #[must_use]
    pub fn unknown(check: &Check<'_>) -> Self {
        Self {
            allowed: true,
            shadow: check.shadow,
            limit: check.quota.limit(),
            remaining: 0,
            retry_after_us: Some(0),
            reset_after_us: 0,
            delay_us: 0,
            here: true,
        }
    }

    /// Whether this limit stands in the request's way.
    #[must_use]
    pub fn denies(&self) -> bool {
        !self.allowed && !self.shadow
    }
}

/// What a store says to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The store's time of the decision.
    pub now_us: u64,
    /// Whether every enforcing limit admits it.
    pub allowed: bool,
    /// When it was charged, if it was: the earliest time of any limit.
    pub charged_at_us: Option<u64>,
    outcomes: SmallVec<[Outcome; 4]>,
    /// When each limit was, where that is not the same. It is rare, and so lies elsewhere.
    each: Option<Box<SmallVec<[Option<u64>; 4]>>>,
}

impl Answer {
    /// An answer of outcomes in the order of the request's checks.
    #[inline]
    pub fn new(now_us: u64, charged: bool, outcomes: impl IntoIterator<Item = Outcome>) -> Self {
        let mut outcomes: SmallVec<[Outcome; 4]> = outcomes.into_iter().collect();
        let allowed = !outcomes.iter().any(Outcome::denies);
        if !allowed {
            // Nobody waits for a request that does not go.
            outcomes.iter_mut().for_each(|outcome| outcome.delay_us = 0);
        }
        Self { now_us, allowed, charged_at_us: charged.then_some(now_us), outcomes, each: None }
    }

    /// The answer to a request that met one limit.
    #[must_use]
    #[inline]
    pub fn one(now_us: u64, charged: bool, outcome: Outcome) -> Self {
        let mut outcomes = SmallVec::new();
        outcomes.push(outcome);
        let allowed = !outcome.denies();
        Self { now_us, allowed, charged_at_us: charged.then_some(now_us), outcomes, each: None }
    }

    /// The same answer, where each limit was charged at a time of its own, if it was: by the clock
    /// that its refund goes by.
    #[must_use]
    #[inline]
    pub fn dated(mut self, each: impl Iterator<Item = Option<u64>> + Clone) -> Self {
        self.charged_at_us = each.clone().flatten().min();
        // What admits is charged as all are, unless it says otherwise.
        let usual = |outcome: &Outcome| self.charged_at_us.filter(|_| outcome.allowed);
        let is_alike = each.clone().eq(self.outcomes.iter().map(usual));
        self.each = (!is_alike).then(|| Box::new(each.collect()));
        self
    }

    /// When one of the limits was charged, if it was.
    #[must_use]
    pub fn charged_at(&self, nth: usize) -> Option<u64> {
        match &self.each {
            Some(each) => each.get(nth).copied().flatten(),
            None => {
                let is_charged = self.outcomes.get(nth).is_some_and(|outcome| outcome.allowed);
                self.charged_at_us.filter(|_| is_charged)
            }
        }
    }

    /// Whether its limits were charged at different times.
    #[must_use]
    pub fn is_dated(&self) -> bool {
        self.each.is_some()
    }

    /// Each limit's own numbers, in the order of the request's checks.
    #[must_use]
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// Folds the outcomes into the request's own numbers. `None` if it met no limit.
    #[must_use]
    pub fn fold(&self) -> Option<Decision> {
        let enforcing = |outcome: &Outcome| !outcome.shadow;
        let binding = if self.outcomes.len() == 1 {
            Some(0)
        } else if self.allowed {
            let all_shadow = !self.outcomes.iter().any(enforcing);
            let candidates = self.outcomes.iter().enumerate();
            tightest(candidates.filter(|(_, outcome)| all_shadow || enforcing(outcome)))
        } else {
            longest_wait(self.outcomes.iter().enumerate().filter(|(_, outcome)| outcome.denies()))
        }?;
        let outcome = self.outcomes[binding];
        let delays = self.outcomes.iter().filter(|outcome| enforcing(outcome));
        Some(Decision {
            allowed: self.allowed,
            limit: outcome.limit,
            remaining: outcome.remaining,
            retry_after_us: if self.allowed { Some(0) } else { outcome.retry_after_us },
            reset_after_us: outcome.reset_after_us,
            delay_us: delays.map(|outcome| outcome.delay_us).max().unwrap_or(0),
            charged_at_us: self.charged_at_us,
            now_us: self.now_us,
            binding,
        })
    }
}

/// What a store says to a request that meets one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Single {
    /// The store's time of the decision.
    pub now_us: u64,
    /// Whether anything was taken.
    pub charged: bool,
    /// The limit's numbers.
    pub outcome: Outcome,
}

impl Single {
    /// The same as the answer to any request.
    #[must_use]
    #[inline]
    pub fn answer(self) -> Answer {
        Answer::one(self.now_us, self.charged, self.outcome)
    }

    /// The request's own numbers, as its answer folds into.
    #[must_use]
    #[inline]
    pub fn decision(&self) -> Decision {
        let outcome = &self.outcome;
        let allowed = !outcome.denies();
        Decision {
            allowed,
            limit: outcome.limit,
            remaining: outcome.remaining,
            retry_after_us: if allowed { Some(0) } else { outcome.retry_after_us },
            reset_after_us: outcome.reset_after_us,
            delay_us: if outcome.shadow { 0 } else { outcome.delay_us },
            charged_at_us: self.charged.then_some(self.now_us),
            now_us: self.now_us,
            binding: 0,
        }
    }
}

/// The request's own numbers: those of the limit that binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may go.
    pub allowed: bool,
    /// The binding limit's capacity, burst, or count.
    pub limit: u64,
    /// Whole units available after this decision.
    pub remaining: u64,
    /// 0 when allowed; else the earliest time at which it would be; `None` is never.
    pub retry_after_us: Option<u64>,
    /// Until the binding limit's state is as new.
    pub reset_after_us: u64,
    /// How long an admitted request is to wait: the longest of all limits.
    pub delay_us: u64,
    /// When it was charged, if it was.
    pub charged_at_us: Option<u64>,
    /// The store's time of the decision.
    pub now_us: u64,
    /// Which of the request's checks binds.
    pub binding: usize,
}

/// The least remaining / limit; the first of equals.
fn tightest<'a>(outcomes: impl Iterator<Item = (usize, &'a Outcome)>) -> Option<usize> {
    let share = |a: &Outcome, b: &Outcome| {
        let left = u128::from(a.remaining) * u128::from(b.limit);
        left.cmp(&(u128::from(b.remaining) * u128::from(a.limit)))
    };
    outcomes.min_by(|(_, a), (_, b)| share(a, b)).map(|(index, _)| index)
}

/// The longest retry, never being longest; the first of equals.
fn longest_wait<'a>(outcomes: impl Iterator<Item = (usize, &'a Outcome)>) -> Option<usize> {
    let wait = |outcome: &Outcome| outcome.retry_after_us.map_or(u128::MAX, u128::from);
    // min_by keeps the first of equals, max_by the last.
    outcomes.min_by(|(_, a), (_, b)| wait(b).cmp(&wait(a))).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(limit: u64, remaining: u64) -> Outcome {
        Outcome {
            allowed: true,
            shadow: false,
            limit,
            remaining,
            retry_after_us: Some(0),
            reset_after_us: 1,
            delay_us: 0,
            here: false,
        }
    }

    fn denied(retry_after_us: Option<u64>) -> Outcome {
        Outcome { allowed: false, retry_after_us, ..allowed(10, 0) }
    }

    fn binding(outcomes: &[Outcome]) -> usize {
        Answer::new(0, false, outcomes.iter().copied()).fold().unwrap().binding
    }

    #[test]
    fn on_allow_the_least_share_binds_and_the_first_of_equals() {
        assert_eq!(binding(&[allowed(10, 5), allowed(100, 49), allowed(1000, 490)]), 1);
        assert_eq!(binding(&[allowed(10, 5), allowed(100, 50)]), 0);
        let huge = u64::MAX / 2;
        assert_eq!(binding(&[allowed(huge, huge - 1), allowed(huge, huge - 2)]), 1);
    }

    #[test]
    fn on_deny_the_longest_wait_binds_and_never_is_longest() {
        assert_eq!(binding(&[denied(Some(5)), denied(Some(9)), denied(Some(9))]), 1);
        assert_eq!(binding(&[denied(Some(u64::MAX)), denied(None), denied(None)]), 1);
        assert_eq!(binding(&[allowed(10, 0), denied(Some(1))]), 1);
    }

    #[test]
    fn a_shadow_limit_never_denies_never_binds_and_never_delays() {
        let shadow = Outcome { shadow: true, delay_us: 7, ..denied(None) };
        let answer = Answer::new(3, true, [shadow, Outcome { delay_us: 2, ..allowed(10, 9) }]);
        let decision = answer.fold().unwrap();
        assert!(decision.allowed);
        assert_eq!((decision.binding, decision.delay_us), (1, 2));
        assert_eq!(decision.charged_at_us, Some(3));
    }

    #[test]
    fn where_all_limits_are_shadow_the_tightest_shows_its_numbers() {
        let shadow = Outcome { shadow: true, ..denied(None) };
        let decision = Answer::new(0, false, [shadow]).fold().unwrap();
        assert!(decision.allowed);
        assert_eq!(decision.retry_after_us, Some(0));
        assert_eq!(Answer::new(0, false, []).fold(), None);
    }

    #[test]
    fn one_limit_by_itself_folds_into_the_same_numbers() {
        for outcome in [allowed(10, 5), denied(Some(7)), denied(None)] {
            for (shadow, charged) in [(false, false), (false, true), (true, false), (true, true)] {
                let outcome = Outcome { shadow, delay_us: u64::from(outcome.allowed), ..outcome };
                let single = Single { now_us: 3, charged, outcome };
                assert_eq!(Some(single.decision()), single.answer().fold());
            }
        }
    }

    #[test]
    fn each_limit_may_have_a_time_of_its_own() {
        let shadow = Outcome { shadow: true, ..denied(None) };
        let answer = Answer::new(9, true, [allowed(10, 5), shadow, allowed(10, 5)]);
        let times = |answer: &Answer| [0, 1, 2, 3].map(|nth| answer.charged_at(nth));
        assert_eq!(times(&answer), [Some(9), None, Some(9), None]);
        let answer = answer.dated([Some(7), None, Some(7)].into_iter());
        assert_eq!((times(&answer)[2], answer.is_dated()), (Some(7), false));
        let answer = answer.dated([Some(7), None, Some(4)].into_iter());
        assert_eq!((answer.charged_at_us, answer.is_dated()), (Some(4), true));
        assert_eq!(times(&answer), [Some(7), None, Some(4), None]);
        let answer = answer.dated([Some(7), None, None].into_iter());
        assert_eq!(
            (times(&answer)[2], answer.charged_at_us),
            (None, Some(7)),
            "it was not charged"
        );
    }

    #[test]
    fn the_longest_delay_counts_and_none_on_a_denial() {
        let slow = Outcome { delay_us: 9, ..allowed(10, 9) };
        let answer = Answer::new(0, true, [allowed(10, 1), slow]);
        assert_eq!(answer.fold().map(|decision| decision.delay_us), Some(9));
        let answer = Answer::new(0, false, [slow, denied(Some(1))]);
        assert_eq!(answer.outcomes()[0].delay_us, 0);
    }
}
