//! Owns [`Tiers`]: other limits for some, by what their requests say.

use super::cost::Source;
use super::limit::Limit;

/// Other limits for requests that have a certain value somewhere; the rule's own for all others.
///
/// A tier's limits are named like those of the rule, so that usage survives a change of plan.
#[derive(Clone, Debug)]
pub struct Tiers {
    pub(super) by: Source,
    /// Never empty.
    pub(super) tiers: Vec<Tier>,
}

/// The limits of those that have one value.
#[derive(Clone, Debug)]
pub struct Tier {
    pub(super) name: Box<str>,
    /// Never empty.
    pub(super) limits: Vec<Limit>,
}

impl Tiers {
    /// Where a request says which tier it has.
    #[must_use]
    pub fn by(&self) -> &Source {
        &self.by
    }

    /// The tiers in the order of the file; at least one.
    #[must_use]
    pub fn list(&self) -> &[Tier] {
        &self.tiers
    }

    /// The place of the tier that requests with this value have.
    #[must_use]
    pub fn position(&self, value: &str) -> Option<usize> {
        self.tiers.iter().position(|tier| &*tier.name == value)
    }
}

impl Tier {
    /// The value that a request must have, exactly.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The limits in the order of the file; at least one.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }
}
