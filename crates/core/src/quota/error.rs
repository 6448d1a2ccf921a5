//! Owns [`QuotaError`]: why a quota was refused.

use crate::rate::Rate;
use crate::text::format_duration;

/// Why a quota was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaError {
    /// A number that must be at least one is zero.
    #[error("`{field}` is 0; expected at least 1 (to let nothing through, take the route away)")]
    Zero {
        /// The parameter.
        field: &'static str,
    },
    /// A number is above what can be decided exactly.
    #[error("`{field}` is {value}; expected at most {max}")]
    TooLarge {
        /// The parameter.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The largest that is allowed.
        max: u64,
    },
    /// A time is longer than 400 days.
    #[error("`{field}` is {}; expected at most 400d", format_duration(*us))]
    TooLong {
        /// The parameter.
        field: &'static str,
        /// Its value.
        us: u64,
    },
    /// Capacity and rate together need more digits than can be kept exactly.
    #[error(
        "`{field}` is {rate}, which is too fine to be exact with a capacity of {capacity}; \
         the nearest rate that fits is {nearest}"
    )]
    Inexact {
        /// The rate's parameter.
        field: &'static str,
        /// The rate as given, in lowest terms.
        rate: Rate,
        /// The capacity beside it.
        capacity: u64,
        /// The closest rate that would be accepted.
        nearest: Rate,
    },
}

impl QuotaError {
    /// The parameter that was refused.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::Zero { field }
            | Self::TooLarge { field, .. }
            | Self::TooLong { field, .. }
            | Self::Inexact { field, .. } => field,
        }
    }
}
