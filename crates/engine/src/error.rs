//! Why there is no verdict. A denial is not among the reasons: it is a verdict.

use tollkeeper_core::{RequestError, ShortLimitError, StoreError, TextError};

use crate::handle::HandleError;

/// Why the engine gave no verdict.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The policy has no such rule.
    #[error("`rule` is `{name}`, which the policy does not have{}", did_you_mean(suggestion))]
    UnknownRule {
        /// The name asked for.
        name: String,
        /// A name of the policy that is near.
        suggestion: Option<String>,
    },
    /// The inline limit cannot be read.
    #[error("`limit` is {0}")]
    LimitText(#[from] TextError),
    /// The inline limit does not fit its algorithm.
    #[error("`limit`: {0}")]
    Limit(#[from] ShortLimitError),
    /// The request is not one that can be asked.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The handle of a permit or reservation cannot be read.
    #[error(transparent)]
    Handle(#[from] HandleError),
    /// The limits cannot do what is asked of them.
    #[error("{0}")]
    Unfit(&'static str),
    /// The system gave no random number.
    #[error("the system gave no random number for an id")]
    NoRandom,
    /// The store failed.
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
}

/// A policy that cannot take effect while the store is in use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` cannot change while the service runs: restart it")]
pub struct ReloadError {
    pub(crate) field: &'static str,
}

fn did_you_mean(suggestion: &Option<String>) -> String {
    suggestion.as_ref().map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}
