//! Requests that nobody has named a rule for: the policy finds the rules that they meet.

use std::sync::Arc;

use tollkeeper_core::Store;
use tollkeeper_core::limits::DEFAULT_RESERVATION_US;
use tollkeeper_policy::{Meeting, Policy, RequestView};

use super::{Engine, Ready, Undecided, ready};
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
    /// What a request was found to meet by `policy`, the engine's of this moment.
    #[must_use]
    #[inline]
    pub fn new(policy: Arc<Policy>, meeting: Meeting) -> Self {
        Self { policy, meeting }
    }

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
    Decided(Verdict),
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
        match self.judge_at_once(encounter) {
            Ok(judged) => judged,
            Err(undecided) => self.check_waiting(undecided).await.map(Judgement::Decided),
        }
    }

    /// Decides it without waiting, if the store can.
    pub fn judge_at_once(
        &self,
        encounter: Encounter,
    ) -> Result<Result<Judgement, EngineError>, Undecided> {
        let ready = match self.readied(encounter, None) {
            Ok(Either::Ready(ready)) => ready,
            Ok(Either::Judged(judgement)) => return Ok(Ok(judgement)),
            Err(error) => return Ok(Err(error)),
        };
        self.decide_at_once(ready).map(|decided| decided.map(Judgement::Decided))
    }

    /// Decides it and charges an estimate that can be settled later, for `ttl_us` or ten minutes.
    pub async fn judge_reserving(
        &self,
        encounter: Encounter,
        ttl_us: Option<u64>,
    ) -> Result<Judgement, EngineError> {
        match self.readied(encounter, Some(ttl_us.unwrap_or(DEFAULT_RESERVATION_US)))? {
            Either::Ready(ready) => self.decide(ready).await.map(Judgement::Decided),
            Either::Judged(judgement) => Ok(judgement),
        }
    }

    fn readied(
        &self,
        encounter: Encounter,
        reserve_for_us: Option<u64>,
    ) -> Result<Either, EngineError> {
        let Encounter { policy, meeting } = encounter;
        let denial = meeting.denial();
        // Of those that deny it the first one does; each shadow would have.
        for denied in meeting.denied.iter().filter(|it| it.shadow || Some(*it) == denial) {
            self.observer.lacked(policy.rules()[denied.rule].name(), denied.shadow);
        }
        if let Some(denied) = denial {
            let rule = &policy.rules()[denied.rule];
            let part = rule.key().get(denied.part).map(ToString::to_string).unwrap_or_default();
            return Ok(Either::Judged(Judgement::Missing { rule: rule.name().to_owned(), part }));
        }
        if meeting.met.is_empty() {
            return Ok(Either::Judged(Judgement::Free));
        }
        let met = Met::of_meeting(policy, meeting);
        Ok(Either::Ready(ready(met, reserve_for_us, |met| (met.owned(), String::new()))?))
    }
}

/// What a store has to decide, or what the policy has decided by itself.
enum Either {
    Ready(Ready),
    Judged(Judgement),
}
