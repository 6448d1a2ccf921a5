//! Finds where texts stand in a file that may not be valid, for those who show its lines.

use saphyr_parser::{Event, Parser};

use super::syntax::check_text;

/// A key or a value and where it stands.
pub(crate) struct Piece {
    /// Its text, before variables are expanded.
    pub(crate) text: String,
    /// The line, from 1, and the column, from 0, of its first character.
    pub(crate) from: (usize, usize),
    /// Those just after its last character.
    pub(crate) to: (usize, usize),
}

/// The keys and values whose text has `part` in it, and the line from which on the file could not
/// be read.
pub(crate) fn pieces(text: &str, part: &str) -> (Vec<Piece>, Option<usize>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if check_text(text).is_err() {
        return (Vec::new(), Some(1));
    }
    let mut found = Vec::new();
    let mut line = 1;
    for event in Parser::new_from_str(text) {
        let Ok((event, span)) = event else {
            return (found, Some(line));
        };
        line = span.start.line().max(1);
        if let Event::Scalar(text, ..) = event
            && text.contains(part)
        {
            let from = (line, span.start.col());
            let to = (span.end.line().max(line), span.end.col());
            found.push(Piece { text: text.into_owned(), from, to });
        }
    }
    (found, None)
}
