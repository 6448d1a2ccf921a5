//! Owns [`Unsuited`]: why a limit cannot be decided in a way, and what would do.

use std::fmt;

use crate::algorithm::Algorithm;
use crate::text::format_duration;

/// Why a limit cannot be decided so.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsuited {
    /// The algorithm does not allow it.
    Algorithm {
        /// Which.
        algorithm: Algorithm,
        /// The reason.
        why: &'static str,
        /// What does.
        instead: &'static str,
    },
    /// Too little is allowed at once.
    Small {
        /// How much is.
        limit: u64,
        /// For how many processes.
        nodes: u64,
        /// How much would have to be.
        least: u64,
    },
    /// The period is too short or too long.
    Period {
        /// What was given.
        us: u64,
        /// The shortest.
        from_us: u64,
        /// The longest.
        to_us: u64,
    },
    /// It is as new again before processes can tell each other.
    Fast {
        /// How soon.
        refills_us: u64,
        /// How soon it may be.
        least_us: u64,
    },
    /// It cannot be split over so many keys.
    Parts {
        /// How many.
        parts: u64,
        /// What there is to be split.
        limit: u64,
        /// How many it can be.
        most: u64,
    },
    /// There is less than one unit for each process.
    Thin {
        /// How much is allowed.
        limit: u64,
        /// For how many processes.
        nodes: u64,
    },
}

impl fmt::Display for Unsuited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Algorithm { algorithm, why, instead } => {
                write!(f, "not with {algorithm}: {why}; use {instead}")
            }
            Self::Small { limit, nodes, least } => {
                let processes = if *nodes == 1 { "process" } else { "processes" };
                write!(
                    f,
                    "{limit} at once is too little to lease to {nodes} {processes}; expected at \
                     least {least}, or consistency: exact"
                )
            }
            Self::Period { us, from_us, to_us } => {
                let [us, from, to] = [us, from_us, to_us].map(|us| format_duration(*us));
                write!(f, "a period of {us} does not suit the limit; expected {from} to {to}")
            }
            Self::Fast { refills_us, least_us } => {
                let [refills, least] = [refills_us, least_us].map(|us| format_duration(*us));
                write!(
                    f,
                    "the limit is as new after {refills}, before processes could tell each other \
                     what they admitted; expected {least} or more, or consistency: exact"
                )
            }
            Self::Parts { parts, limit, most } => {
                write!(f, "{limit} cannot be split over {parts} keys; expected 1 to {most} of them")
            }
            Self::Thin { limit, nodes } => write!(
                f,
                "{limit} is less than one for each of {nodes} processes; expected a limit of at \
                 least {nodes}, or consistency: exact"
            ),
        }
    }
}

impl std::error::Error for Unsuited {}
