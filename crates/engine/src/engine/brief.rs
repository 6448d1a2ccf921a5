//! The short way of what most requests are: they meet one limit, which lets them go, and nobody
//! hears of it. Of these nothing but numbers is asked for later, so that no verdict is made of them.

use std::mem::take;
use std::sync::Arc;

use tollkeeper_core::{Check, Decision, Quota, Single, Store};
use tollkeeper_policy::{Meeting, Policy};

use super::{Encounter, Engine, Judgement, Ready, Undecided};
use crate::error::EngineError;
use crate::met::Met;
use crate::verdict::Decided;

/// What a request is told, in short where that is all there is.
#[derive(Debug)]
pub enum Brief {
    /// It may go, now. No permit is held for it, and no answer gives it back.
    Goes {
        /// Its numbers.
        decision: Decision,
        /// How many units it took.
        cost: u64,
    },
    /// Anything else.
    Judged(Result<Judgement, EngineError>),
    /// The store has to be waited for.
    Undecided(Undecided),
}

impl<S: Store, L: Store> Engine<S, L> {
    /// Lends the policy of now for a moment, which costs less than to [keep](Self::policy) it.
    #[inline]
    pub fn with_policy<T>(&self, with: impl FnOnce(&Arc<Policy>) -> T) -> T {
        with(&self.policy.load())
    }

    /// Decides what a request was found to meet by `policy`, the engine's of this moment, without
    /// waiting, if the store can. What is asked for later is taken out of `meeting`: it is large, and
    /// stays where it is unless it is needed.
    #[inline]
    pub fn judge_briefly(&self, policy: &Arc<Policy>, meeting: &mut Meeting) -> Brief {
        // A store that can fail has more than one way.
        let is_brief = !self.is_heard && self.safety.is_none();
        let check = if is_brief { only(policy, meeting) } else { None };
        let Some(check) = check else { return self.judge_whole(policy, meeting) };
        match self.store.check_at_once(&check) {
            Some(Ok(single)) => {
                let (decision, cost) = (single.decision(), check.cost);
                match decision.allowed && decision.delay_us == 0 {
                    true => Brief::Goes { decision, cost },
                    false => self.told_whole(policy, meeting, single),
                }
            }
            Some(Err(error)) => Brief::Judged(Err(error.into())),
            None => self.judge_whole(policy, meeting),
        }
    }

    #[inline(never)]
    fn judge_whole(&self, policy: &Arc<Policy>, meeting: &mut Meeting) -> Brief {
        match self.judge_at_once(Encounter::new(Arc::clone(policy), take(meeting))) {
            Ok(judged) => Brief::Judged(judged),
            Err(undecided) => Brief::Undecided(undecided),
        }
    }

    /// The verdict of what was decided already.
    #[inline(never)]
    fn told_whole(&self, policy: &Arc<Policy>, meeting: &mut Meeting, single: Single) -> Brief {
        let met = Met::of_meeting(Arc::clone(policy), take(meeting));
        let ready = Ready { met, ticket: None, handle: None };
        let verdict = self.verdict(ready, Decided::by_store(single.answer()));
        Brief::Judged(verdict.map(Judgement::Decided))
    }
}

/// The only limit that a request meets, if that leaves nothing to be done once it is decided.
#[inline]
fn only<'a>(policy: &'a Policy, meeting: &'a Meeting) -> Option<Check<'a>> {
    let ([met], []) = (&*meeting.met, &*meeting.denied) else { return None };
    let rule = policy.rules().get(met.rule)?;
    let [limit] = rule.limits_of(met.tier) else { return None };
    let leaves_nothing =
        rule.refund_on().is_empty() && !matches!(limit.quota(), Quota::Concurrency(_));
    leaves_nothing.then(|| Check {
        limit: limit.name(),
        quota: limit.quota(),
        key: &met.key,
        cost: met.cost,
        shadow: rule.is_shadow(),
        consistency: limit.consistency(),
    })
}
