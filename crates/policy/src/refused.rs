//! Owns [`FieldError`]: why a text cannot be what a field of a rule or a setting takes.
//!
//! The same words serve the file, where the place is told too, and rules that are made in code.

use std::fmt;

use crate::error::{Fault, quoted, visible};
use crate::yaml::Scalar;

/// Why a text was refused, without the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// To follow the text: ", which does not begin with a `/`".
    pub(crate) reason: String,
    /// To follow the word "expected".
    pub(crate) expected: String,
    /// What to do about it.
    pub(crate) help: Option<String>,
}

impl Refused {
    pub(crate) fn new(reason: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { reason: reason.into(), expected: expected.into(), help: None }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The fault of a value of the file; nothing of the value is told if it is a secret.
    pub(crate) fn fault(self, subject: &str, scalar: &Scalar) -> Fault {
        scalar.fault(subject, &self.reason, self.help).expected(self.expected)
    }

    /// The error of a value that is given in code.
    pub(crate) fn of(self, field: &'static str, value: &str) -> FieldError {
        FieldError { field, value: visible(&quoted(value)), refused: self }
    }
}

/// Why a text cannot be what a field takes.
///
/// Its `Display` names the field as the policy file does, and says what was expected.
///
/// ```
/// use tollkeeper_policy::Match;
///
/// let error = Match::any().path("api/**").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "`path` is `api/**`, which does not begin with a `/`; \
///      expected a path such as `/search`, `/users/{id}` or `/api/**`; write `/api/**`"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    field: &'static str,
    /// In backquotes.
    value: String,
    refused: Refused,
}

impl FieldError {
    /// The field, as the policy file names it.
    #[must_use]
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// What would have been accepted.
    #[must_use]
    pub fn expected(&self) -> &str {
        &self.refused.expected
    }

    /// What to do about it.
    #[must_use]
    pub fn help(&self) -> Option<&str> {
        self.refused.help.as_deref()
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused { reason, expected, help } = &self.refused;
        write!(f, "`{}` is {}{reason}; expected {expected}", self.field, self.value)?;
        match help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FieldError {}
