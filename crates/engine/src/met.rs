//! Owns [`Met`]: the limits that a request meets, found in the policy or in the request itself.

use std::sync::Arc;

use smallvec::SmallVec;
use tollkeeper_core::{Algorithm, Quota, ShortLimit, format_duration};
use tollkeeper_policy::{OnFailure, Policy, Rule};

use crate::ask::Target;
use crate::error::EngineError;

/// The name of the rule that an inline limit stands for.
const INLINE: &str = "inline";

/// The limits that a request meets. It keeps the policy that they are of, so that a request sees
/// one policy from its beginning to its end.
#[derive(Clone, Debug)]
pub(crate) enum Met {
    /// Rules of the policy, by number.
    Rules { policy: Arc<Policy>, rules: SmallVec<[usize; 4]> },
    /// A limit that came with the request.
    Inline { policy: Arc<Policy>, name: String, quota: Quota },
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetLimit<'a> {
    pub(crate) rule: &'a str,
    pub(crate) limit: &'a str,
    pub(crate) quota: &'a Quota,
    pub(crate) shadow: bool,
    /// What the rule says to a failed store, if it says anything.
    pub(crate) on_failure: Option<OnFailure>,
}

impl Met {
    pub(crate) fn find(policy: &Arc<Policy>, target: Target<'_>) -> Result<Self, EngineError> {
        let rules = match target {
            Target::Inline { limit, algorithm } => return inline(policy, limit, algorithm),
            Target::Rule(name) => SmallVec::from_slice(&[number(policy, name)?]),
            Target::EveryRule => (0..policy.rules().len()).collect(),
        };
        Ok(Self::Rules { policy: Arc::clone(policy), rules })
    }

    /// The limits, in the order of the file.
    pub(crate) fn limits(&self) -> impl Iterator<Item = MetLimit<'_>> {
        let (rules, inline) = match self {
            Self::Rules { policy, rules } => (Some((policy, rules)), None),
            Self::Inline { name, quota, .. } => (None, Some((name, quota))),
        };
        let of_rules = rules.into_iter().flat_map(|(policy, rules)| {
            rules.iter().flat_map(|&number| of_rule(&policy.rules()[number]))
        });
        of_rules.chain(inline.into_iter().map(|(name, quota)| MetLimit {
            rule: INLINE,
            limit: name,
            quota,
            shadow: false,
            on_failure: None,
        }))
    }

    /// The policy by which it was found.
    pub(crate) fn policy(&self) -> &Policy {
        let (Self::Rules { policy, .. } | Self::Inline { policy, .. }) = self;
        policy
    }

    pub(crate) fn holds_permits(&self) -> bool {
        self.limits().any(|met| met.quota.algorithm() == Algorithm::Concurrency)
    }
}

fn of_rule(rule: &Rule) -> impl Iterator<Item = MetLimit<'_>> {
    rule.limits().iter().map(|limit| MetLimit {
        rule: rule.name(),
        limit: limit.name(),
        quota: limit.quota(),
        shadow: rule.is_shadow(),
        on_failure: rule.on_failure(),
    })
}

fn number(policy: &Policy, name: &str) -> Result<usize, EngineError> {
    policy.position(name).ok_or_else(|| EngineError::UnknownRule {
        name: name.chars().take(64).collect(),
        suggestion: policy.suggest(name).map(str::to_owned),
    })
}

/// The period tells inline limits of one key apart, so that `10/s` and `1000/h` count by
/// themselves, and usage survives when only the count changes.
fn inline(
    policy: &Arc<Policy>,
    limit: &str,
    algorithm: Option<Algorithm>,
) -> Result<Met, EngineError> {
    let limit: ShortLimit = limit.parse()?;
    let name = format!("{INLINE}/{}", format_duration(limit.period_us()));
    Ok(Met::Inline { policy: Arc::clone(policy), name, quota: limit.quota(algorithm)? })
}
