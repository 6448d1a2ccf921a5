//! Plays a [`Case`] on a store and compares every answer.

use std::future::Future;

use tollkeeper_core::{
    Amended, Amendment, Change, Check, Consistency, Filter, ManualClock, Outcome, Quota, Request,
    Store, Ticket,
};

use crate::case::{Action, Case, Expect, quota};
use crate::model::{Numbers, Settled};

/// A store under test, on a clock that the test moves.
pub trait Harness: Sync {
    /// The store's type.
    type Store: Store;

    /// The store.
    fn store(&self) -> &Self::Store;

    /// The clock that the store decides by.
    fn clock(&self) -> &ManualClock;

    /// Whether states live and end by [`clock`](Self::clock); a server's end by its own.
    fn lives_by_clock(&self) -> bool {
        true
    }

    /// Whether limits of several keys are decided in one step. Where they are not, some may be
    /// denied wrongly while others are given back.
    fn is_one_whole(&self) -> bool {
        true
    }

    /// Waits for a future.
    fn block_on<T>(&self, future: impl Future<Output = T>) -> T;
}

/// Plays `case` on the key `key`. The error tells the step, what was expected and what came.
pub fn replay<H: Harness>(harness: &H, case: &Case, key: &str) -> Result<(), String> {
    let mut player = Player::new(harness, case, key)?;
    for (number, step) in case.steps.iter().enumerate() {
        harness.clock().set(step.at_us);
        player.play(&step.action).map_err(|difference| {
            let told = case.steps[..=number].iter().map(|step| format!("  {step:?}\n"));
            let (name, limits) = (&case.name, &case.limits);
            format!("{name}\n{limits:#?}\n{}step {number}: {difference}", told.collect::<String>())
        })?;
    }
    Ok(())
}

struct Player<'a, H> {
    harness: &'a H,
    key: &'a str,
    limits: Vec<(String, Quota, bool)>,
}

impl<'a, H: Harness> Player<'a, H> {
    fn new(harness: &'a H, case: &Case, key: &'a str) -> Result<Self, String> {
        let limits = case.limits.iter().enumerate().map(|(nth, limit)| {
            let quota = quota(&limit.spec).map_err(|error| error.to_string())?;
            Ok((format!("limit-{nth}"), quota, limit.shadow))
        });
        Ok(Self { harness, key, limits: limits.collect::<Result<_, String>>()? })
    }

    fn play(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Check { cost, id, reserve_us, expect } => {
                let ticket = Ticket { id: (*id).into(), reserve_for_us: *reserve_us };
                self.check(*cost, ticket, expect)
            }
            Action::Refund { units, charged_at_us } => {
                self.amend(Change::Refund { units: *units, charged_at_us: *charged_at_us })?;
                Ok(())
            }
            Action::Settle { id, actual, expect } => {
                let change = Change::Settle { id: (*id).into(), actual: *actual };
                compare(*expect, self.amend(change)?)
            }
            Action::Release { id, expect } => {
                let came = self.amend(Change::Release { id: (*id).into() })?;
                compare(*expect, came == Settled::Done)
            }
            Action::Renew { id, expect } => {
                let came = self.amend(Change::Renew { id: (*id).into() })?;
                compare(*expect, came == Settled::Done)
            }
            Action::Reset => {
                let filter = Filter { key: Some(self.key), limits: None, ..Filter::default() };
                let reset = self.harness.block_on(self.harness.store().reset(filter));
                reset.map(drop).map_err(|error| error.to_string())
            }
            Action::Change { index, spec } => {
                self.limits[*index].1 = quota(spec).map_err(|error| error.to_string())?;
                Ok(())
            }
        }
    }

    fn check(&self, cost: u64, ticket: Ticket, expect: &Expect) -> Result<(), String> {
        let checks: Vec<Check<'_>> = self
            .limits
            .iter()
            .map(|(limit, quota, shadow)| Check {
                limit,
                quota,
                key: self.key,
                cost,
                shadow: *shadow,
                consistency: Consistency::Exact,
            })
            .collect();
        let request = Request::new(checks, Some(ticket)).map_err(|error| error.to_string())?;
        let answers = self.harness.block_on(self.harness.store().decide(&[request]));
        let answer = match answers.into_iter().next() {
            Some(Ok(answer)) => answer,
            other => return Err(format!("no answer: {other:?}")),
        };
        let decision = answer.fold().ok_or("no limit was met")?;
        let numbers = Numbers {
            allowed: decision.allowed,
            limit: decision.limit,
            remaining: decision.remaining,
            retry_after_us: decision.retry_after_us,
            reset_after_us: decision.reset_after_us,
            delay_us: decision.delay_us,
        };
        compare((expect.binding, &expect.numbers), (decision.binding, &numbers))?;
        if expect.limits.is_empty() {
            return Ok(());
        }
        let limits: Vec<Numbers> = answer.outcomes().iter().map(numbers_of).collect();
        compare(&expect.limits, &limits)
    }

    /// Amends every limit; as a whole it is done if any was.
    fn amend(&self, change: Change) -> Result<Settled, String> {
        let amendments: Vec<Amendment<'_>> = self
            .limits
            .iter()
            .map(|(limit, quota, _)| Amendment {
                limit,
                quota,
                key: self.key,
                change,
                consistency: Consistency::Exact,
            })
            .collect();
        let amended = self.harness.block_on(self.harness.store().amend(&amendments));
        let amended: Vec<Amended> =
            amended.into_iter().collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        Ok(if amended.iter().any(|amended| amended.forgiven().is_some()) {
            Settled::Done
        } else if amended.contains(&Amended::Repeated) {
            Settled::Repeated
        } else {
            Settled::Unknown
        })
    }
}

fn numbers_of(outcome: &Outcome) -> Numbers {
    Numbers {
        allowed: outcome.allowed,
        limit: outcome.limit,
        remaining: outcome.remaining,
        retry_after_us: outcome.retry_after_us,
        reset_after_us: outcome.reset_after_us,
        delay_us: outcome.delay_us,
    }
}

fn compare<T: PartialEq + std::fmt::Debug>(expected: T, came: T) -> Result<(), String> {
    if expected == came {
        return Ok(());
    }
    Err(format!("expected {expected:?}\n     but got {came:?}"))
}
