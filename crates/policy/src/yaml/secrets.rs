//! Finds where secrets stand in a file that may not be valid: whatever a field has whose name ends
//! with `token`, and all that stands under `admin`, but for the door of that name.

use saphyr_parser::{Event, Parser};

use super::pieces::Piece;
use super::syntax::check_text;

/// The map of secrets at the top of the file.
const ADMIN: &str = "admin";

/// Whether what a field of this name has is a secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == ADMIN || name.ends_with("token")
}

/// A map or a list that has begun.
struct Open {
    is_map: bool,
    /// Whether a key comes next.
    key_next: bool,
    /// Whether all of it is secret.
    secret: bool,
    /// Whether the value that comes next is.
    next_is_secret: bool,
}

/// The secrets, and the line from which on the file could not be read.
pub(crate) fn secrets(text: &str) -> (Vec<Piece>, Option<usize>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if check_text(text).is_err() {
        return (Vec::new(), Some(1));
    }
    let mut found = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    let mut line = 1;
    for event in Parser::new_from_str(text) {
        let Ok((event, span)) = event else {
            return (found, Some(line));
        };
        line = span.start.line().max(1);
        match event {
            Event::Scalar(scalar, ..) => {
                let is_key = open.last().is_some_and(|open| open.is_map && open.key_next);
                let secret = begins(&mut open, Some(&scalar));
                // The names of fields are no secrets, but what stands in the place of one may be.
                let shown = scalar.is_empty() || is_variable(&scalar);
                if secret && !shown && !(is_key && is_secret_name(&scalar)) {
                    let from = (line, span.start.col());
                    let to = (span.end.line().max(line), span.end.col());
                    found.push(Piece { text: scalar.into_owned(), from, to });
                }
            }
            Event::Alias(_) => drop(begins(&mut open, None)),
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                let secret = begins(&mut open, None);
                let is_map = matches!(event, Event::MappingStart(..));
                open.push(Open { is_map, key_next: is_map, secret, next_is_secret: false });
            }
            Event::MappingEnd | Event::SequenceEnd => drop(open.pop()),
            _ => {}
        }
    }
    (found, None)
}

/// Notes that a key or a value begins, and says whether it is a secret.
fn begins(open: &mut [Open], key: Option<&str>) -> bool {
    let is_top = open.len() == 1;
    let Some(inner) = open.last_mut() else { return false };
    let is_key = inner.is_map && inner.key_next;
    let secret = inner.secret || (!is_key && inner.next_is_secret);
    if is_key {
        let is_secret = |key: &str| is_secret_name(key) && (is_top || key != ADMIN);
        inner.next_is_secret = key.is_some_and(is_secret);
    }
    if inner.is_map {
        inner.key_next = !inner.key_next;
    }
    secret
}

/// Whether the file has only the name of a variable there.
fn is_variable(text: &str) -> bool {
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| {
        name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !name.is_empty()
    })
}
