//! Finds where secrets stand in a file that may not be valid: whatever a field has whose name ends
//! with `token`, and all that stands under `admin`, but for the door of that name.

use saphyr_parser::{Event, Marker, Parser};

use super::syntax::check_text;

/// The map of secrets at the top of the file.
const ADMIN: &str = "admin";

/// A line, from 1, and a column, from 0.
pub(crate) type Place = (usize, usize);

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
    /// Where the name of a secret ends whose value comes next, or goes on.
    secret: Option<Place>,
}

/// The secrets, each from the end of its name to its own end, and the line from which on the file
/// could not be read.
pub(crate) fn secrets(text: &str) -> (Vec<(Place, Place)>, Option<usize>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if check_text(text).is_err() {
        return (Vec::new(), Some(1));
    }
    let mut found = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    let mut last = (1, 0);
    for event in Parser::new_from_str(text) {
        let Ok((event, span)) = event else {
            let unended = open.iter().filter_map(|open| open.secret);
            found.extend(unended.map(|from| (from, last)));
            return (found, Some(last.0));
        };
        let ends = match event {
            Event::Scalar(name, ..) => value(&mut open, Some((&name, place(&span.end)))),
            Event::Alias(_) => value(&mut open, None),
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                let is_map = matches!(event, Event::MappingStart(..));
                open.push(Open { is_map, key_next: is_map, secret: None });
                None
            }
            Event::MappingEnd | Event::SequenceEnd => {
                open.pop();
                value(&mut open, None)
            }
            _ => None,
        };
        // What is inside a secret is hidden with it.
        let is_inside = || open.iter().any(|open| open.secret.is_some());
        found.extend(ends.filter(|_| !is_inside()).map(|from| (from, place(&span.end))));
        last = place(&span.start);
    }
    (found, None)
}

/// Notes that a key or a value has ended; if it was a secret, says where its name ended. `text` is
/// that of a single one, with its end.
fn value(open: &mut [Open], text: Option<(&str, Place)>) -> Option<Place> {
    let is_top = open.len() == 1;
    let inner = open.last_mut().filter(|inner| inner.is_map)?;
    inner.key_next = !inner.key_next;
    if inner.key_next {
        return inner.secret.take();
    }
    let is_secret = |name: &str| is_secret_name(name) && (is_top || name != ADMIN);
    inner.secret = text.filter(|(name, _)| is_secret(name)).map(|(_, end)| end);
    None
}

fn place(mark: &Marker) -> Place {
    (mark.line().max(1), mark.col())
}
