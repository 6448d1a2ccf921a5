//! Requests that nobody has named a rule for: the policy finds the rules that they meet.

use std::sync::Arc;

use tollkeeper_core::Store;
use tollkeeper_core::limits::DEFAULT_RESERVATION_US;
use tollkeeper_policy::{Meeting, Policy, RequestView};

use super::{Engine, ready};
use crate::error::EngineError;
use crate::met::Met;
use crate::verdict::Verdict;

/// What a request meets, by the policy of the moment at which it came.
#[derive(Clone, Debug)]
pub struct Encounter {
    policy: Arc<Policy>,
    meeting: Meeting,
}

impl Encounter {
    /// The policy of that moment.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The rules that it meets.
    #[must_use]
    pub fn meeting(&self) -> &Meeting {
        &self.meeting
    }
}

/// What a request is told.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Judgement {
    /// No rule applies to it.
    Free,
    /// Limits have decided.
    Decided(Box<Verdict>),
    /// A rule denies it, since it lacks what the rule counts by.
    Missing {
        /// The rule.
        rule: String,
        /// What is missing, as the policy names it: `header:x-api-key`.
        part: String,
    },
}

impl<S: Store, L: Store> Engine<S, L> {
    /// The rules that a request meets.
    pub fn meet<R: RequestView + ?Sized>(&self, request: &R) -> Encounter {
        let policy = self.policy();
        let meeting = policy.meet(request);
        Encounter { policy, meeting }
    }

    /// Decides what a request meets.
    pub async fn judge(&self, encounter: Encounter) -> Result<Judgement, EngineError> {
        self.judge_as(encounter, None).await
    }

    /// Decides it and charges an estimate that can be settled later, for `ttl_us` or ten minutes.
    pub async fn judge_reserving(
        &self,
        encounter: Encounter,
        ttl_us: Option<u64>,
    ) -> Result<Judgement, EngineError> {
        self.judge_as(encounter, Some(ttl_us.unwrap_or(DEFAULT_RESERVATION_US))).await
    }

    async fn judge_as(
        &self,
        encounter: Encounter,
        reserve_for_us: Option<u64>,
    ) -> Result<Judgement, EngineError> {
        let Encounter { policy, meeting } = encounter;
        if let Some(denied) = meeting.denial() {
            let rule = &policy.rules()[denied.rule];
            let part = rule.key().get(denied.part).map(ToString::to_string).unwrap_or_default();
            return Ok(Judgement::Missing { rule: rule.name().to_owned(), part });
        }
        let met = Met::of_meeting(&policy, meeting);
        if met.is_empty() {
            return Ok(Judgement::Free);
        }
        let target = met.owned_if(reserve_for_us.is_some() || met.holds_permits());
        let ready = ready(met, reserve_for_us, || (target, String::new()))?;
        Ok(Judgement::Decided(Box::new(self.decide(ready).await?)))
    }
}
