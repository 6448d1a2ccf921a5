//! Owns [`RuleError`]: why a rule, or a policy of rules, was refused.

use crate::limits::MAX_LIMITS;
use crate::refused::FieldError;

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
    /// A limit cannot be decided in the way that was asked for.
    #[error("{problem}")]
    Unsuited {
        /// What is wrong, and what would do.
        problem: String,
    },
    /// The limits of a tier were refused.
    #[error("tier `{tier}`: {reason}")]
    BadTier {
        /// The value that names the tier.
        tier: String,
        /// What is wrong with it.
        reason: Box<RuleError>,
    },
    /// A tier's name is empty, too long or there twice, or there are none or too many.
    #[error("rule `{rule}` has {problem}")]
    BadTiers {
        /// The rule.
        rule: String,
        /// What is wrong, with what was expected.
        problem: String,
    },
    /// A part of a rule was refused.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// There are more rules than a policy may have.
    #[error("the policy has {count} rules; expected at most {}", crate::limits::MAX_RULES)]
    TooManyRules {
        /// How many there are.
        count: usize,
    },
}
