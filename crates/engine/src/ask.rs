//! Owns [`Ask`]: what a door wants decided.

use tollkeeper_core::Algorithm;

/// The key of a request that names none: one counter that everybody shares.
pub(crate) const GLOBAL_KEY: &str = "global";

/// One thing to be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask<'a> {
    /// Which limits it meets.
    pub target: Target<'a>,
    /// Who is counted; everybody together where it is `None`.
    pub key: Option<&'a str>,
    /// How many units it takes; 0 only looks.
    pub cost: u64,
}

/// Which limits are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target<'a> {
    /// Those of one rule of the policy.
    Rule(&'a str),
    /// One that comes with the request, such as `10/10s`.
    Inline {
        /// The limit's text.
        limit: &'a str,
        /// The algorithm; a token bucket where it is `None`.
        algorithm: Option<Algorithm>,
    },
    /// Those of every rule that applies to all requests.
    EveryRule,
}
