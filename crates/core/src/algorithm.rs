//! The seven algorithms: their names, and the one place that dispatches to their files.
//!
//! Each file holds one algorithm as pure functions of numbers: a quota, a state, a cost, a time.
//! Nothing here reads a clock, remembers a key or knows a store.

use std::fmt;
use std::str::FromStr;

pub mod concurrency;
pub mod debt;
pub mod fixed_window;
pub mod gcra;
pub mod leaking_bucket;
pub mod sliding_window_counter;
pub mod sliding_window_log;
pub mod token_bucket;

/// The name of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// See [`token_bucket`].
    TokenBucket,
    /// See [`gcra`].
    Gcra,
    /// See [`leaking_bucket`].
    LeakingBucket,
    /// See [`fixed_window`].
    FixedWindow,
    /// See [`sliding_window_log`].
    SlidingWindowLog,
    /// See [`sliding_window_counter`].
    SlidingWindowCounter,
    /// See [`concurrency`].
    Concurrency,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 7] = [
        Self::TokenBucket,
        Self::Gcra,
        Self::LeakingBucket,
        Self::FixedWindow,
        Self::SlidingWindowLog,
        Self::SlidingWindowCounter,
        Self::Concurrency,
    ];

    /// The name as the policy file spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token_bucket",
            Self::Gcra => "gcra",
            Self::LeakingBucket => "leaking_bucket",
            Self::FixedWindow => "fixed_window",
            Self::SlidingWindowLog => "sliding_window_log",
            Self::SlidingWindowCounter => "sliding_window_counter",
            Self::Concurrency => "concurrency",
        }
    }

    /// The short name that ends a stored key, so that another algorithm is another key.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::TokenBucket => "tb",
            Self::Gcra => "gcra",
            Self::LeakingBucket => "lb",
            Self::FixedWindow => "fw",
            Self::SlidingWindowLog => "swl",
            Self::SlidingWindowCounter => "swc",
            Self::Concurrency => "cc",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Self, UnknownAlgorithm> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == text)
            .ok_or_else(|| UnknownAlgorithm(text.chars().take(40).collect()))
    }
}

/// A name that no algorithm has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an algorithm; expected token_bucket, gcra, leaking_bucket, fixed_window, \
     sliding_window_log, sliding_window_counter or concurrency"
)]
pub struct UnknownAlgorithm(String);

/// What one limit says to one request, before anything is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It fits.
    Yes {
        /// How long the request is to wait first.
        delay_us: u64,
    },
    /// It does not fit.
    No {
        /// The earliest time from now at which it would, if nobody else came; `None` is never.
        retry_after_us: Option<u64>,
    },
}

impl Admission {
    /// It fits, and need not wait.
    pub const NOW: Self = Self::Yes { delay_us: 0 };
    /// It can never fit.
    pub const NEVER: Self = Self::No { retry_after_us: None };

    /// It will fit after `retry_after_us`.
    #[must_use]
    pub fn after(retry_after_us: u64) -> Self {
        Self::No { retry_after_us: Some(retry_after_us) }
    }

    /// Whether it fits.
    #[must_use]
    pub fn is_yes(&self) -> bool {
        matches!(self, Self::Yes { .. })
    }
}
