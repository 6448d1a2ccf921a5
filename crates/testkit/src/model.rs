//! The reference model: what every limit must answer, in the plainest terms there are.
//!
//! This file owns the vocabulary: what a limit is ([`Spec`]), what it says ([`Numbers`], [`Answer`]), and the
//! subject of it all, one key under a list of limits ([`Model`]). Each algorithm has a file of its own.
//!
//! The model shares nothing with what it judges. Levels are exact rationals in tokens, windows and logs are
//! histories of charges, and the time to retry is found by asking "would it be admitted then?" for one moment
//! after another, never by a formula. It is slow, and meant to be read.

mod algorithm;
mod bucket;
mod concurrency;
mod exact;
mod fold;
mod key;
mod log;
mod slot;
mod window;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use key::Model;

/// What a limit is, in plain numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "algorithm", rename_all = "snake_case")]
pub enum Spec {
    /// Tokens refill at `rate` up to `capacity`; a request takes its cost.
    TokenBucket {
        /// The most tokens held.
        capacity: u64,
        /// How fast tokens come back.
        rate: RateSpec,
    },
    /// The same decisions as the token bucket.
    Gcra {
        /// The burst.
        capacity: u64,
        /// The sustained rate.
        rate: RateSpec,
    },
    /// A queue of `capacity` units which drains at `rate`.
    LeakingBucket {
        /// The most units queued.
        capacity: u64,
        /// How fast the queue drains.
        rate: RateSpec,
        /// Whether an admitted request is told to wait for its turn (`shape`), or not (`meter`).
        shape: bool,
        /// A request that would wait longer than this is denied, in both modes.
        max_delay_us: Option<u64>,
    },
    /// At most `max` units in each window, counted from the Unix epoch.
    FixedWindow {
        /// The most units in a window.
        max: u64,
        /// The length of a window.
        window_us: u64,
    },
    /// At most `max` units in every interval `(t − window, t]`.
    SlidingWindowLog {
        /// The most units in an interval.
        max: u64,
        /// The length of the interval.
        window_us: u64,
    },
    /// At most `max` units by the estimate from this window and the one before.
    SlidingWindowCounter {
        /// The most units by the estimate.
        max: u64,
        /// The length of a window.
        window_us: u64,
    },
    /// At most `max` units held at once.
    Concurrency {
        /// The most units held.
        max: u64,
        /// How long a permit lives unless it is renewed.
        lease_us: u64,
    },
}

/// `count_numerator / count_denominator` units per `period_us` (2.5/s is 25, 10, `1_000_000`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateSpec {
    /// The count's numerator.
    pub count_numerator: u64,
    /// The count's denominator; 1 for a whole count.
    pub count_denominator: u64,
    /// The period the count is for.
    pub period_us: u64,
}

/// What one limit says to one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    /// Whether this limit, by itself, admits the request.
    pub allowed: bool,
    /// The capacity, or the most units in a window, or held.
    pub limit: u64,
    /// Whole units available after this decision.
    pub remaining: u64,
    /// 0 when allowed; else the earliest time after which the same cost would be admitted; `None` for never.
    pub retry_after_us: Option<u64>,
    /// The time until the state is as new.
    pub reset_after_us: u64,
    /// How long an admitted request is to be held.
    pub delay_us: u64,
}

/// The answer to a request that met several limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the request is admitted.
    pub allowed: bool,
    /// The limit that decided, as an index into the model's limits.
    pub binding: usize,
    /// The numbers to show for the request as a whole.
    pub folded: Numbers,
    /// Each limit's own numbers, in order.
    pub limits: Vec<Numbers>,
}

/// A limit as a request meets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What it is.
    pub spec: Spec,
    /// Whether it only watches: a shadow limit never denies and never binds.
    pub shadow: bool,
}

/// What became of a settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// It took effect.
    Done,
    /// It had taken effect before; nothing changed.
    Repeated,
    /// The reservation was never made, or is past its life; nothing changed.
    Unknown,
}
