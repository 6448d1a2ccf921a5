//! Owns [`PolicyErrors`]: everything that is wrong with a file, each thing with its place.
//!
//! No text here ever holds a value that came from a variable; see `Scalar::fault`.

use std::fmt;

use crate::limits::MAX_ERRORS;
use crate::redact::redacted;

/// Errors are collected beyond what is reported, so that the first ones of the file are reported.
const MAX_COLLECTED: usize = 20 * MAX_ERRORS;

/// A place in the file: where it begins, and how many characters it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) length: usize,
}

impl Span {
    /// The file as a whole.
    pub(crate) const FILE: Self = Self { line: 1, column: 1, length: 0 };
}

/// One thing that is wrong with a policy file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct PolicyError {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// How many characters are meant; 0 where it is a point.
    pub length: usize,
    /// What is wrong.
    pub message: String,
    /// What would have been accepted.
    pub expected: Option<String>,
    /// What to do about it.
    pub help: Option<String>,
}

impl PolicyError {
    pub(crate) fn new(at: Span, fault: impl Into<Fault>) -> Self {
        let Fault { message, expected, help } = fault.into();
        Self {
            line: at.line,
            column: at.column,
            length: at.length,
            message: visible(&message),
            expected: expected.as_deref().map(visible),
            help: help.as_deref().map(visible),
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for PolicyError {}

/// What is wrong, before it is known where.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) message: String,
    pub(crate) expected: Option<String>,
    pub(crate) help: Option<String>,
}

impl Fault {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), expected: None, help: None }
    }

    pub(crate) fn expected(mut self, text: impl Into<String>) -> Self {
        self.expected = Some(text.into());
        self
    }

    pub(crate) fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<&str> for Fault {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

/// Everything that is wrong with a policy file, in the order of the file; at least one thing.
///
/// Its `Display` is one `line:column: message` a line; [`render`](Self::render) shows the lines
/// of the file too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyErrors {
    errors: Vec<PolicyError>,
    more: bool,
}

impl PolicyErrors {
    /// The errors, in the order of the file.
    pub fn iter(&self) -> std::slice::Iter<'_, PolicyError> {
        self.errors.iter()
    }

    /// Whether there were more errors than are reported.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.more
    }
}

impl<'a> IntoIterator for &'a PolicyErrors {
    type Item = &'a PolicyError;
    type IntoIter = std::slice::Iter<'a, PolicyError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<PolicyError> for PolicyErrors {
    fn from(error: PolicyError) -> Self {
        Self { errors: vec![error], more: false }
    }
}

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyErrors {}

/// Collects what is wrong while the rest of the file is still being read.
#[derive(Default)]
pub(crate) struct Problems {
    errors: Vec<PolicyError>,
}

impl Problems {
    pub(crate) fn add(&mut self, at: Span, fault: impl Into<Fault>) {
        self.push(PolicyError::new(at, fault));
    }

    pub(crate) fn push(&mut self, error: PolicyError) {
        if !self.is_full() {
            self.errors.push(error);
        }
    }

    /// Whether more of them would not be kept: what follows need not be looked at.
    pub(crate) fn is_full(&self) -> bool {
        self.errors.len() >= MAX_COLLECTED
    }

    /// The errors in the order of the file, if there are any.
    pub(crate) fn finish(mut self) -> Result<(), PolicyErrors> {
        // A map that is used through several aliases has the same error each time.
        self.errors.sort();
        self.errors.dedup();
        let more = self.errors.len() > MAX_ERRORS;
        self.errors.truncate(MAX_ERRORS);
        match self.errors.is_empty() {
            true => Ok(()),
            false => Err(PolicyErrors { errors: self.errors, more }),
        }
    }
}

/// A text in which a terminal finds no command.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out
}

/// A piece of the file in backquotes, without what is secret in it, cut where it is long.
pub(crate) fn quoted(text: &str) -> String {
    let text = redacted(text);
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// The names in backquotes, as a choice.
pub(crate) fn one_of(names: impl IntoIterator<Item = &'static str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [one] => one.clone(),
        _ => format!("one of {}", names.join(", ")),
    }
}
