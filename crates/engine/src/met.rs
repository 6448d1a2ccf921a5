//! Owns [`Met`]: the limits that a request meets, each with its key and cost, found in the policy
//! or in the request itself.

use std::sync::Arc;

use smallvec::SmallVec;
use tollkeeper_core::{
    Algorithm, Check, Consistency, Quota, Request, RequestError, ShortLimit, Ticket,
    format_duration,
};
use tollkeeper_policy::{CompactString, Limit, Meeting, Met as MetRule, OnFailure, Policy, Rule};

use crate::ask::{Ask, GLOBAL_KEY, Target};
use crate::error::EngineError;
use crate::handle::{Handle, OwnedRule, OwnedTarget};

/// The name of the rule that an inline limit stands for.
const INLINE: &str = "inline";

/// The limits that a request meets. It keeps the policy that they are of, so that a request sees
/// one policy from its beginning to its end.
#[derive(Clone, Debug)]
pub(crate) struct Met {
    policy: Arc<Policy>,
    found: Found,
}

#[derive(Clone, Debug)]
enum Found {
    /// Rules of the policy, each for its own key.
    Rules(SmallVec<[MetRule; 4]>),
    /// A limit that came with the request.
    Inline { name: String, quota: Quota, key: CompactString, cost: u64 },
}

/// One limit that is met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetLimit<'a> {
    pub(crate) rule: &'a str,
    pub(crate) limit: &'a str,
    pub(crate) quota: &'a Quota,
    pub(crate) key: &'a str,
    pub(crate) cost: u64,
    pub(crate) shadow: bool,
    /// Who decides it, where the store is shared.
    pub(crate) consistency: Consistency,
    /// What the rule says to a failed store, if it says anything.
    pub(crate) on_failure: Option<OnFailure>,
}

impl<'a> MetLimit<'a> {
    /// The check of it by another quota of the same algorithm, such as a share.
    pub(crate) fn check(&self, quota: &'a Quota, cost: u64) -> Check<'a> {
        Check {
            limit: self.limit,
            quota,
            key: self.key,
            cost,
            shadow: self.shadow,
            consistency: Consistency::Exact,
        }
    }
}

impl Met {
    /// What is asked for by name.
    pub(crate) fn find(policy: Arc<Policy>, ask: Ask<'_>) -> Result<Box<Self>, EngineError> {
        let key = CompactString::from(ask.key.unwrap_or(GLOBAL_KEY));
        let found = match ask.target {
            Target::Inline { limit, algorithm } => inline(limit, algorithm, key, ask.cost)?,
            Target::Rule(name) => {
                let mut rules = SmallVec::new();
                let rule = number(&policy, name)?;
                rules.push(MetRule { rule, tier: None, key, cost: ask.cost });
                Found::Rules(rules)
            }
            Target::EveryRule => {
                let rules = policy.rules().iter().enumerate();
                let unconditional = rules.filter(|(_, rule)| rule.match_().is_any());
                let met = |rule| MetRule { rule, tier: None, key: key.clone(), cost: ask.cost };
                Found::Rules(unconditional.map(|(number, _)| met(number)).collect())
            }
        };
        Ok(Box::new(Self { policy, found }))
    }

    /// What a request was found to meet.
    #[inline]
    pub(crate) fn of_meeting(policy: Arc<Policy>, meeting: Meeting) -> Box<Self> {
        Box::new(Self { policy, found: Found::Rules(meeting.met) })
    }

    /// What a handle names, as far as the policy still has it.
    pub(crate) fn of_handle(
        policy: Arc<Policy>,
        handle: &Handle,
    ) -> Result<Box<Self>, EngineError> {
        let key = Some(handle.key.as_str());
        let ask = |target| Ask { target, key, cost: 0 };
        match &handle.target {
            OwnedTarget::Rule(name) => Self::find(policy, ask(Target::Rule(name))),
            OwnedTarget::Inline { limit, algorithm } => {
                Self::find(policy, ask(Target::Inline { limit, algorithm: *algorithm }))
            }
            OwnedTarget::EveryRule => Self::find(policy, ask(Target::EveryRule)),
            OwnedTarget::Rules(rules) => {
                let mut met = SmallVec::new();
                let mut unknown = None;
                for OwnedRule { name, tier, key, .. } in rules {
                    // One that a new policy lacks is no reason to keep what the others hold.
                    let rule = match number(&policy, name) {
                        Ok(rule) => rule,
                        Err(error) => {
                            unknown = Some(error);
                            continue;
                        }
                    };
                    let tier =
                        tier.as_ref().and_then(|it| policy.rules()[rule].tiers()?.position(it));
                    met.push(MetRule { rule, tier, key: key.as_str().into(), cost: 0 });
                }
                match unknown.filter(|_| met.is_empty()) {
                    Some(error) => Err(error),
                    None => Ok(Box::new(Self { policy, found: Found::Rules(met) })),
                }
            }
        }
    }

    /// The rules that are met, for a handle to remember.
    pub(crate) fn owned(&self) -> OwnedTarget {
        let Found::Rules(rules) = &self.found else { return OwnedTarget::EveryRule };
        let owned = rules.iter().map(|met| {
            let rule = &self.policy.rules()[met.rule];
            let tier = met.tier.and_then(|tier| rule.tiers()?.list().get(tier));
            OwnedRule {
                name: rule.name().to_owned(),
                tier: tier.map(|tier| tier.name().to_owned()),
                key: met.key.to_string(),
                local: false,
            }
        });
        OwnedTarget::Rules(owned.collect())
    }

    /// The limits, in the order of the file.
    pub(crate) fn limits(&self) -> impl Iterator<Item = MetLimit<'_>> {
        let (rules, inline) = match &self.found {
            Found::Rules(rules) => (rules.as_slice(), None),
            Found::Inline { name, quota, key, cost } => {
                let (rule, on_failure, shadow) = (INLINE, None, false);
                let (limit, cost, consistency) = (name.as_str(), *cost, Consistency::Exact);
                let met =
                    MetLimit { rule, limit, quota, key, cost, shadow, consistency, on_failure };
                ([].as_slice(), Some(met))
            }
        };
        let of_rules = rules.iter().flat_map(|met| {
            let rule = &self.policy.rules()[met.rule];
            rule.limits_of(met.tier).iter().map(move |limit| of_rule(rule, met, limit))
        });
        of_rules.chain(inline)
    }

    /// Which of the limits is the same as one of others.
    pub(crate) fn position(&self, one: &MetLimit<'_>) -> Option<usize> {
        self.limits().position(|met| met.limit == one.limit && met.key == one.key)
    }

    /// The policy by which it was found.
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(&self.found, Found::Rules(rules) if rules.is_empty())
    }

    /// Whether any rule gives a request back that was answered with `status`.
    pub(crate) fn refunds(&self, status: u16) -> bool {
        let Found::Rules(rules) = &self.found else { return false };
        rules.iter().any(|met| self.policy.rules()[met.rule].refunds(status))
    }

    /// The rules that give a request back that was answered with `status`.
    pub(crate) fn refunded(mut self, status: u16) -> Self {
        if let Found::Rules(rules) = &mut self.found {
            rules.retain(|met| self.policy.rules()[met.rule].refunds(status));
        }
        self
    }

    pub(crate) fn holds_permits(&self) -> bool {
        let is_permit = |quota: &Quota| quota.algorithm() == Algorithm::Concurrency;
        match &self.found {
            Found::Rules(rules) => rules.iter().any(|met| {
                let limits = self.policy.rules()[met.rule].limits_of(met.tier);
                limits.iter().any(|limit| is_permit(limit.quota()))
            }),
            Found::Inline { quota, .. } => is_permit(quota),
        }
    }

    /// Whether any of it can be decided without asking the store.
    pub(crate) fn is_local(&self) -> bool {
        self.limits().any(|met| met.consistency != Consistency::Exact)
    }

    /// For how long a denial of it is told again without asking, where the store decides any of it.
    pub(crate) fn denied_cache_us(&self) -> u64 {
        let is_stores = self.limits().any(|met| met.consistency == Consistency::Exact);
        if is_stores { self.policy.store().denied_cache_us } else { 0 }
    }

    /// All of it as one request to a store.
    pub(crate) fn request<'a>(
        &'a self,
        ticket: Option<Ticket>,
    ) -> Result<Request<'a>, RequestError> {
        let mut request = Request::new([], ticket)?;
        let mut add = |met: MetLimit<'a>| {
            request.add(Check { consistency: met.consistency, ..met.check(met.quota, met.cost) })
        };
        match &self.found {
            // Without an iterator of both, which costs as much as all the rest.
            Found::Rules(rules) => {
                for met in rules {
                    let rule = &self.policy.rules()[met.rule];
                    let mut limits = rule.limits_of(met.tier).iter();
                    limits.try_for_each(|limit| add(of_rule(rule, met, limit)))?;
                }
            }
            Found::Inline { .. } => self.limits().try_for_each(add)?,
        }
        Ok(request)
    }
}

fn of_rule<'a>(rule: &'a Rule, met: &'a MetRule, limit: &'a Limit) -> MetLimit<'a> {
    MetLimit {
        rule: rule.name(),
        limit: limit.name(),
        quota: limit.quota(),
        key: &met.key,
        cost: met.cost,
        shadow: rule.is_shadow(),
        consistency: limit.consistency(),
        on_failure: rule.on_failure(),
    }
}

/// The place of a rule in its policy.
pub(crate) fn number(policy: &Policy, name: &str) -> Result<usize, EngineError> {
    policy.position(name).ok_or_else(|| EngineError::UnknownRule {
        name: name.chars().take(64).collect(),
        suggestion: policy.suggest(name).map(str::to_owned),
    })
}

/// The period tells inline limits of one key apart, so that `10/s` and `1000/h` count by
/// themselves, and usage survives when only the count changes.
fn inline(
    limit: &str,
    algorithm: Option<Algorithm>,
    key: CompactString,
    cost: u64,
) -> Result<Found, EngineError> {
    let limit: ShortLimit = limit.parse()?;
    let name = format!("{INLINE}/{}", format_duration(limit.period_us()));
    Ok(Found::Inline { name, quota: limit.quota(algorithm)?, key, cost })
}
