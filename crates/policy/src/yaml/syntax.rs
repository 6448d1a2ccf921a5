//! Turns what the YAML parser says, and what never reaches it, into errors with advice.

use saphyr_parser::{Event, Marker, ScanError};

use crate::error::{Fault, PolicyError, Span};
use crate::limits::{MAX_DEPTH, MAX_FILE_BYTES};

const INDENT: &str = "check the indentation: fields of one map begin in the same column";
const QUOTES: &str = "close the quote on the same line";
const BRACKETS: &str = "close every `{` with `}` and every `[` with `]`";

/// What the parser says (a part of it is enough), what we say, and our advice.
const ADVICE: &[(&str, &str, &str)] = &[
    ("tab", "a tab stands where only spaces may", "indent with spaces; YAML refuses tabs"),
    ("in quoted scalar", "a quote is opened here and not closed", QUOTES),
    ("quoted scalar, found unexpected", "a quote is opened here and not closed", QUOTES),
    (
        "trailing content after",
        "something follows a closing quote",
        "quote all of the text or none of it",
    ),
    (
        "unknown escape",
        "an escape in this text is not known",
        "use single quotes for a text with `\\` in it",
    ),
    (
        "hexadecimal number",
        "an escape in this text has wrong digits",
        "use single quotes for a text with `\\` in it",
    ),
    (
        "Unicode character escape",
        "an escape in this text is no character",
        "use single quotes for a text with `\\` in it",
    ),
    ("expected ',' or '}'", "expected `,` or `}` here", BRACKETS),
    ("expected ',' or ']'", "expected `,` or `]` here", BRACKETS),
    ("illegal placement of ':'", "a `:` stands where none may", BRACKETS),
    ("misplaced bracket", "a bracket closes nothing", "remove it, or open it before"),
    ("indentation in flow", "a line inside brackets is not indented", BRACKETS),
    (
        "mapping values are not allowed",
        "a `:` stands where none may",
        "check this line and the one before: the same indentation, a space after each `:`, quotes around a text that holds `: `",
    ),
    ("expect ':'", "the line before is not `key: value`", "write a `:` and a space after the key"),
    ("simple key expected", "expected `key: value`", "write a `:` and a space after the key"),
    ("expected key", "this line fits into no map above it", INDENT),
    (
        "'-' indicator",
        "this line fits into no list above it",
        "every entry of a list begins with `- ` in the same column",
    ),
    ("not allowed in this context", "this may not stand here", INDENT),
    ("ndentation", "this line is not indented like its neighbours", INDENT),
    (
        "unknown anchor",
        "this alias has no anchor before it",
        "write `&name` before the value that `*name` stands for, or put a text that begins with `*` in quotes",
    ),
    ("unexpected character", "a text cannot begin with this character", "put the text in quotes"),
    ("node content", "a value is missing or misplaced here", BRACKETS),
];

/// The error for what the parser refused; `open` is where the innermost map or list begins.
pub(super) fn scan_error(error: &ScanError, text: &str, open: Option<Span>) -> PolicyError {
    let info = error.info();
    let at = point(error.marker());
    if info.contains("recursion limit") {
        let message = format!("this is nested deeper than {MAX_DEPTH} levels");
        return PolicyError::new(at, Fault::new(message).help(BRACKETS));
    }
    let line = text.lines().nth(at.line.saturating_sub(1)).unwrap_or("");
    let before: Vec<char> = line.chars().take(at.column).collect();
    if before.ends_with(&['$', '{']) {
        // The brace of an unquoted `${NAME}` opens a map inside brackets.
        let column = at.column - 1;
        let fault = Fault::new("a variable inside brackets is not quoted")
            .help("write \"${NAME}\", with the quotes, inside `{ }` and `[ ]`");
        return PolicyError::new(Span { column, length: 2, ..at }, fault);
    }
    if inside_brackets(text, open) && has_open_segment(&before) {
        let fault = Fault::new("a path with `{` in it is not quoted inside brackets")
            .help("write \"/users/{id}\", with the quotes, inside `{ }` and `[ ]`");
        return PolicyError::new(at, fault);
    }
    let Some((part, message, help)) = ADVICE.iter().find(|(part, ..)| info.contains(part)) else {
        let fault = Fault::new(format!("this is not YAML: {info}"))
            .help("check quotes, brackets and indentation here and on the line before");
        return PolicyError::new(at, fault);
    };
    let mut at = at;
    if let (&"tab", Some(tab)) = (part, before.iter().position(|c| *c == '\t')) {
        at.column = tab + 1;
    }
    let fault = Fault::new(*message);
    PolicyError::new(
        at,
        match open.filter(|open| *help == BRACKETS && is_bracket(text, *open)) {
            Some(open) => fault.help(format!(
                "the bracket that is open here stands on line {}, column {}: {BRACKETS}",
                open.line, open.column
            )),
            None => fault.help(*help),
        },
    )
}

fn inside_brackets(text: &str, open: Option<Span>) -> bool {
    open.is_some_and(|open| is_bracket(text, open))
}

/// Whether the text before an error ends with `/{` and at most a name: to YAML a map begins there.
fn has_open_segment(before: &[char]) -> bool {
    let name = |c: &&char| c.is_alphanumeric() || matches!(c, '_' | '-' | '}');
    let rest = &before[..before.len() - before.iter().rev().take_while(name).count()];
    rest.ends_with(&['/', '{'])
}

/// Whether a map or a list that begins there is written with brackets.
fn is_bracket(text: &str, at: Span) -> bool {
    let line = text.lines().nth(at.line.saturating_sub(1)).unwrap_or("");
    matches!(line.chars().nth(at.column - 1), Some('{' | '['))
}

/// The place of a node. A map or a list is shown by its first character.
pub(super) fn node_span(event: &Event<'_>, span: &saphyr_parser::Span) -> Span {
    let length = match event {
        Event::Scalar(..) | Event::Alias(_) | Event::DocumentStart(true) => {
            span.end.index().saturating_sub(span.start.index())
        }
        _ => 1,
    };
    Span { length, ..point(&span.start) }
}

fn point(mark: &Marker) -> Span {
    Span { line: mark.line().max(1), column: mark.col() + 1, length: 1 }
}

/// Refuses a text that is too long or that hides characters.
pub(super) fn check_text(text: &str) -> Result<(), PolicyError> {
    if text.len() > MAX_FILE_BYTES {
        let message = format!("the file has {} bytes", text.len());
        let fault = Fault::new(message).expected(format!("at most {MAX_FILE_BYTES} bytes"));
        return Err(PolicyError::new(Span::FILE, fault));
    }
    let hidden = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}');
    match text.char_indices().find(|(_, c)| hidden(*c)) {
        Some((at, c)) => {
            let message = format!("the control character U+{:04X} stands here", u32::from(c));
            let fault = Fault::new(message).help("remove it; an editor may show it as a blank");
            Err(PolicyError::new(end_of(&text[..at]), fault))
        }
        None => Ok(()),
    }
}

/// The bytes as text, or the place of the first byte that is not UTF-8.
pub(crate) fn check_bytes(bytes: &[u8]) -> Result<&str, PolicyError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let (valid, rest) = bytes.split_at(error.valid_up_to());
        let valid = String::from_utf8_lossy(valid);
        let valid = valid.strip_prefix('\u{feff}').unwrap_or(&valid);
        let byte = rest.first().copied().unwrap_or_default();
        let fault = Fault::new(format!("the byte 0x{byte:02X} is not UTF-8"))
            .help("save the file as UTF-8");
        PolicyError::new(end_of(valid), fault)
    })
}

/// The place just after `text`.
fn end_of(text: &str) -> Span {
    let (mut line, mut column) = (1, 1);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' | '\r' => (line, column) = (line + 1, 1),
            _ => column += 1,
        }
    }
    Span { line, column, length: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_characters_and_line_breaks_of_every_kind() {
        for (text, place) in
            [("", (1, 1)), ("äb", (1, 3)), ("a\nb", (2, 2)), ("a\r\nb", (2, 2)), ("a\rb\n", (3, 1))]
        {
            let span = end_of(text);
            assert_eq!((span.line, span.column), place, "{text:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_have_their_place() {
        let error = check_bytes(b"rules:\n  \xc3\xa4: \xff\n").unwrap_err();
        assert_eq!((error.line, error.column), (2, 6));
        assert_eq!(error.message, "the byte 0xFF is not UTF-8");
        let error = check_bytes(b"a\xc3").unwrap_err();
        assert_eq!((error.line, error.column), (1, 2));
    }

    #[test]
    fn a_file_at_the_edge_of_its_size() {
        let edge = "#".repeat(MAX_FILE_BYTES);
        assert!(check_text(&edge).is_ok());
        assert!(check_text(&format!("{edge}#")).is_err());
    }
}
