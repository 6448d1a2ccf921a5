//! Owns [`Way`]: who decides a limit, as it is said in code.

use tollkeeper_core::parse_duration_us;
use tollkeeper_policy::Rule;

use crate::builder::BuildError;

/// Who decides a limit that processes share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Way {
    /// The server, each time.
    #[default]
    Exact,
    Lease {
        period: Option<String>,
    },
    Sync {
        period: Option<String>,
        sub_shards: u64,
    },
    Share,
}

impl Way {
    /// The rule, decided so by each of `nodes` processes, or of as many as there are.
    pub(crate) fn of(&self, rule: Rule, nodes: Option<u64>) -> Result<Rule, BuildError> {
        let us = |period: &Option<String>| period.as_deref().map(parse_duration_us).transpose();
        let (word, decided) = match self {
            Self::Exact => return Ok(rule),
            Self::Lease { period } => ("lease", rule.leasing(nodes.unwrap_or(1), us(period)?)),
            Self::Sync { period, sub_shards } => ("sync", rule.syncing(us(period)?, *sub_shards)),
            Self::Share => ("share", rule.sharing(nodes)),
        };
        decided.map_err(|error| BuildError::new(format!("`{word}`: {error}")))
    }
}
