//! Owns [`Rule`]: a name and its limits. A rule that exists is valid.
//!
//! It also owns how limits are named, since a limit's name is part of where its usage is kept.

use tollkeeper_core::{Algorithm, Bucket, Quota, format_duration};

use crate::limits::{MAX_LIMITS, MAX_RULE_NAME_BYTES};
use crate::settings::OnFailure;

/// The name under which a request's own limit is kept, which no rule may take.
const RESERVED_NAME: &str = "inline";

/// A named set of limits that a request must all meet.
#[derive(Clone, Debug)]
pub struct Rule {
    name: String,
    /// Never empty.
    limits: Vec<Limit>,
    algorithm: Algorithm,
    shadow: bool,
    on_failure: Option<OnFailure>,
}

/// One limit of a rule.
#[derive(Clone, Debug)]
pub struct Limit {
    name: String,
    quota: Quota,
}

impl Rule {
    /// A rule made in code.
    ///
    /// A single limit has the name of its rule. Of several, each is `rule/LABEL`, where the label
    /// is the window (`api/1m`), the lease, or for a bucket its rate in lowest terms: the time of
    /// one unit where that is whole (10 per second is `api/100ms`), else `R-per-P` (30 000 per
    /// second is `api/3-per-100us`). The label does not depend on the capacity, nor on the other
    /// limits, unless they have the same: the second one of a label is `api/1m.2`.
    pub fn new(
        name: impl Into<String>,
        limits: impl IntoIterator<Item = Quota>,
    ) -> Result<Self, RuleError> {
        let limits = limits.into_iter();
        Self::labelled(name, limits.map(|quota| (label(&quota), quota)).collect())
    }

    /// A rule of limits whose labels, which tell them apart, are already known.
    pub(crate) fn labelled(
        name: impl Into<String>,
        limits: Vec<(String, Quota)>,
    ) -> Result<Self, RuleError> {
        let name = name.into();
        check_name(&name)?;
        let Some((_, first)) = limits.first() else {
            return Err(RuleError::NoLimits { rule: name });
        };
        if limits.len() > MAX_LIMITS {
            let count = limits.len();
            return Err(RuleError::TooManyLimits { rule: name, count });
        }
        let algorithm = first.algorithm();
        for (index, (_, quota)) in limits.iter().enumerate() {
            if let Some(first) = limits[..index].iter().position(|(_, q)| q == quota) {
                return Err(RuleError::DuplicateLimit { rule: name, first, second: index });
            }
        }
        let limits = name_limits(&name, limits);
        Ok(Self { name, limits, algorithm, shadow: false, on_failure: None })
    }

    /// Whether the rule only counts what it would deny.
    #[must_use]
    pub fn shadow(mut self, shadow: bool) -> Self {
        self.shadow = shadow;
        self
    }

    /// What the rule decides while the store gives no answer, whatever the store's settings say.
    #[must_use]
    pub fn with_on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = Some(on_failure);
        self
    }

    /// The rule's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The limits in the order of the file; at least one.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// Whether the rule never denies.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// What the rule decides while the store gives no answer; `None` for what the store's settings
    /// say.
    #[must_use]
    pub fn on_failure(&self) -> Option<OnFailure> {
        self.on_failure
    }

    /// The algorithm of the first limit.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
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
}

fn name_limits(rule: &str, limits: Vec<(String, Quota)>) -> Vec<Limit> {
    let single = limits.len() == 1;
    let labels: Vec<String> = limits.iter().map(|(label, _)| label.clone()).collect();
    let named = limits.into_iter().enumerate().map(|(index, (label, quota))| {
        let same = labels[..index].iter().filter(|l| **l == label).count();
        let name = match same {
            _ if single => rule.to_owned(),
            0 => format!("{rule}/{label}"),
            _ => format!("{rule}/{label}.{}", same + 1),
        };
        Limit { name, quota }
    });
    named.collect()
}

/// What tells a quota made in code from the others of its rule.
fn label(quota: &Quota) -> String {
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

/// Refuses a name that is empty, long, reserved, or that has unusual characters.
pub(crate) fn check_name(name: &str) -> Result<(), RuleError> {
    let usual = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    if name == RESERVED_NAME {
        return Err(RuleError::ReservedName);
    }
    if name.is_empty() || name.len() > MAX_RULE_NAME_BYTES || !name.bytes().all(usual) {
        let shown: String = name.chars().take(MAX_RULE_NAME_BYTES).collect();
        return Err(RuleError::BadName { name: shown.escape_debug().to_string() });
    }
    Ok(())
}

/// Why a rule, or a policy of rules, was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// A name is empty, too long, or has other characters than `A-Z a-z 0-9 _ . -`.
    #[error("`{name}` is not a name for a rule; expected 1 to 64 of A-Z a-z 0-9 _ . -")]
    BadName {
        /// The name, cut to what a name may have.
        name: String,
    },
    /// The name is taken by limits that come with a request.
    #[error("`inline` is the name of limits that come with a request; expected another name")]
    ReservedName,
    /// Two rules have one name.
    #[error("there are two rules with the name `{name}`")]
    DuplicateRule {
        /// The name.
        name: String,
    },
    /// A rule limits nothing.
    #[error("rule `{rule}` has no limit")]
    NoLimits {
        /// The rule.
        rule: String,
    },
    /// A rule has more limits than one request may meet.
    #[error("rule `{rule}` has {count} limits; expected at most {MAX_LIMITS}")]
    TooManyLimits {
        /// The rule.
        rule: String,
        /// How many it has.
        count: usize,
    },
    /// Two limits of a rule are the same.
    #[error("limits {} and {} of rule `{rule}` are the same", .first + 1, .second + 1)]
    DuplicateLimit {
        /// The rule.
        rule: String,
        /// The first one's index.
        first: usize,
        /// The other's index.
        second: usize,
    },
    /// There are more rules than a policy may have.
    #[error("the policy has {count} rules; expected at most {}", crate::limits::MAX_RULES)]
    TooManyRules {
        /// How many there are.
        count: usize,
    },
}
