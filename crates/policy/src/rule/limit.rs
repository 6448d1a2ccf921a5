//! Owns [`Limit`] and how limits are named, since a limit's name is part of where its usage is
//! kept.

use tollkeeper_core::{Bucket, Consistency, Quota, format_duration};

use super::error::RuleError;
use crate::limits::MAX_LIMITS;

/// One limit of a rule.
#[derive(Clone, Debug)]
pub struct Limit {
    name: String,
    quota: Quota,
    label: Box<str>,
    pub(super) consistency: Consistency,
}

impl Limit {
    /// The limit's name, which stays the same when other limits come, go or change places.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How much is allowed.
    #[must_use]
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Who decides it, where the store is shared.
    #[must_use]
    pub fn consistency(&self) -> Consistency {
        self.consistency
    }
}

/// A quota with the label that tells it from the others of its rule.
pub(crate) type Labelled = (String, Quota);

/// The limits of one set, which have no names yet. `rule` is for messages.
pub(super) fn limits(rule: &str, quotas: Vec<Labelled>) -> Result<Vec<Limit>, RuleError> {
    let rule = || rule.to_owned();
    if quotas.is_empty() {
        return Err(RuleError::NoLimits { rule: rule() });
    }
    if quotas.len() > MAX_LIMITS {
        return Err(RuleError::TooManyLimits { rule: rule(), count: quotas.len() });
    }
    for (second, (_, quota)) in quotas.iter().enumerate() {
        if let Some(first) = quotas[..second].iter().position(|(_, other)| other == quota) {
            return Err(RuleError::DuplicateLimit { rule: rule(), first, second });
        }
    }
    let unnamed = |(label, quota): Labelled| {
        let consistency = Consistency::Exact;
        Limit { name: String::new(), quota, label: label.into(), consistency }
    };
    Ok(quotas.into_iter().map(unnamed).collect())
}

/// Names the sets of a rule: its own limits and those of its tiers. Where each set has a single
/// limit, that has the name of the rule; else every one of them is `rule/LABEL`.
pub(super) fn name<'l>(rule: &str, sets: impl Iterator<Item = &'l mut Vec<Limit>>) {
    let sets: Vec<_> = sets.collect();
    let single = sets.iter().all(|set| set.len() == 1);
    for set in sets {
        for index in 0..set.len() {
            let (before, rest) = set.split_at_mut(index);
            let Some(limit) = rest.first_mut() else { continue };
            let same = before.iter().filter(|other| other.label == limit.label).count();
            limit.name = match same {
                _ if single => rule.to_owned(),
                0 => format!("{rule}/{}", limit.label),
                _ => format!("{rule}/{}.{}", limit.label, same + 1),
            };
        }
    }
}

/// What tells a quota made in code from the others of its rule.
pub(crate) fn label(quota: &Quota) -> String {
    let rate = |bucket: &Bucket| match bucket.drain() {
        1 => format_duration(bucket.unit()),
        drain => format!("{drain}-per-{}", format_duration(bucket.unit())),
    };
    match quota {
        Quota::TokenBucket(bucket) | Quota::Gcra(bucket) => rate(bucket),
        Quota::LeakingBucket(leak) => rate(leak.bucket()),
        Quota::FixedWindow(window)
        | Quota::SlidingWindowLog(window)
        | Quota::SlidingWindowCounter(window) => format_duration(window.size_us()),
        Quota::Concurrency(in_flight) => format_duration(in_flight.lease_us()),
        other => other.algorithm().name().to_owned(),
    }
}
