//! Owns the YAML tree with positions. It knows nothing of policies: a scalar is only text here,
//! and what the text means is for the reader to say.
//!
//! Variables are expanded in values after YAML is parsed, so a value cannot bring in structure.

use std::rc::Rc;

use crate::error::{Fault, Span, quoted};
use crate::redact::{VEIL, hides};

mod build;
mod expand;
mod pieces;
mod secrets;
mod syntax;

pub(crate) use build::parse;
pub(crate) use pieces::{Piece, pieces};
pub(crate) use secrets::{Place, is_secret_name, secrets};
pub(crate) use syntax::check_bytes;

/// Where the value of a variable is looked up.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A value and where it stands. Cheap to clone, which is how an alias is expanded.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: Value,
}

#[derive(Clone)]
pub(crate) enum Value {
    Scalar(Scalar),
    Map(Rc<[Entry]>),
    List(Rc<[Node]>),
    /// Already reported; what is read of it would only add noise.
    Unreadable,
}

/// A key of a map with its value.
pub(crate) struct Entry {
    pub(crate) key: Rc<str>,
    pub(crate) key_span: Span,
    pub(crate) value: Node,
}

/// A text, as it counts and as the file has it.
#[derive(Clone)]
pub(crate) struct Scalar {
    /// The text with its variables expanded: read it, never print it.
    text: Rc<str>,
    written: Rc<str>,
    plain: bool,
    has_variable: bool,
    /// Whether it stands where a secret belongs.
    veiled: bool,
}

impl Scalar {
    /// The text that counts. Not for messages: it may be a secret.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The same text in a place of which nothing is shown.
    pub(crate) fn veiled(&self) -> Self {
        Self { veiled: true, ..self.clone() }
    }

    /// The text as the file has it, in backquotes, without what is secret in it.
    pub(crate) fn quoted(&self) -> String {
        match self.veiled {
            true => quoted(VEIL),
            false => quoted(&self.written),
        }
    }

    /// Whether any of the text came from outside the file.
    pub(crate) fn has_variable(&self) -> bool {
        self.has_variable
    }

    /// Whether the text must not be printed: a secret, a variable's value, or a URL with a
    /// password.
    pub(crate) fn is_secret(&self) -> bool {
        self.veiled || self.has_variable || hides(&self.written)
    }

    /// `key:`, `key: ~`, `key: null`.
    pub(crate) fn is_null(&self) -> bool {
        let null = matches!(&*self.written, "" | "~" | "null" | "Null" | "NULL");
        self.plain && null
    }

    /// What to say of a value that cannot be used. The quoted value stands between `subject`
    /// (such as "`limit` is") and `reason`.
    ///
    /// A reason or an advice may repeat the value, so both are left out where it is a secret.
    pub(crate) fn fault(&self, subject: &str, reason: &str, help: Option<String>) -> Fault {
        let quoted = self.quoted();
        if self.is_secret() {
            return Fault::new(format!("{subject} {quoted}, whose value cannot be used here"));
        }
        let mut fault = Fault::new(format!("{subject} {quoted}{reason}"));
        fault.help = help;
        fault
    }
}
