//! Owns what is not shown of the file: the user, the password and the parameters of a URL,
//! wherever a URL stands, and every token. What is shown instead has the same length whatever is
//! behind it.
//!
//! It goes by the looks of the text, since a file that is not valid holds a password too. In doubt
//! it hides more.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use crate::yaml::{self, Piece, Place};

mod columns;

use columns::Columns;

/// What stands where something is hidden.
pub(crate) const VEIL: &str = "***";

/// Whether a text has a URL in it that goes on after its scheme.
pub(crate) fn hides(text: &str) -> bool {
    matches!(redacted(text), Cow::Owned(_))
}

/// The text for a message: nothing that follows the scheme of a URL.
pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = after_scheme(text).map(|start| text.split_at(start)) else {
        return text.into();
    };
    // Those of `${NAME:-memory://}`.
    let is_default = scheme.contains("${");
    let braces = if is_default { &rest[rest.trim_end_matches('}').len()..] } else { "" };
    match rest.len() == braces.len() {
        true => text.into(),
        false => format!("{scheme}{VEIL}{braces}").into(),
    }
}

/// The bytes to hide in a value where its line is shown, in order.
fn hidden(text: &str) -> Vec<Range<usize>> {
    let Some(start) = after_scheme(text) else {
        return Vec::new();
    };
    let rest = &text[start..];
    let query = rest.find('?').map_or(text.len(), |at| start + at + 1);
    let who_end = match rest.rfind('@').map(|at| start + at) {
        // It is part of a password on either side of the `?`.
        Some(at) if at > query => text.len(),
        Some(at) => at,
        None => {
            let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
            // It may be `user:password`, with the host forgotten.
            if is_place(place) { start } else { start + place.len() }
        }
    };
    let ranges = [start..who_end, query.max(who_end)..text.len()];
    ranges.into_iter().filter(|range| !range.is_empty()).collect()
}

fn after_scheme(text: &str) -> Option<usize> {
    text.find("://").map(|at| at + 3)
}

/// Whether what follows the last `:` can be a port, or there is none.
fn is_place(place: &str) -> bool {
    let place = place.trim_end_matches(['"', '\'', '}']);
    match place.rsplit_once(':') {
        Some((_, port)) => {
            port.bytes().all(|b| b.is_ascii_digit())
                || port.starts_with("${")
                || place.ends_with(']')
        }
        None => true,
    }
}

/// What is hidden of the lines of a file.
pub(crate) struct Veils<'t> {
    lines: Vec<&'t str>,
    /// By line, from 1: columns from 0, in characters.
    hidden: HashMap<usize, Vec<Range<usize>>>,
    /// Of each line in which something was looked for.
    columns: HashMap<usize, Columns>,
}

impl<'t> Veils<'t> {
    /// Finds what is to be hidden in the lines of a file.
    pub(crate) fn over(text: &str, lines: &[&'t str]) -> Self {
        let mut veils =
            Self { lines: lines.to_vec(), hidden: HashMap::new(), columns: HashMap::new() };
        for (index, line) in lines.iter().enumerate() {
            // Whatever the parser makes of the line: a comma or a ` #` in a password ends a value.
            if let (Some(start), Some(at)) = (after_scheme(line), line.rfind('@')) {
                veils.add(index + 1, start..at);
            }
        }
        let (pieces, unread) = yaml::pieces(text, "://");
        for piece in &pieces {
            veils.add_piece(piece);
        }
        let unread = unread.map_or(lines.len(), |line| line - 1);
        for (index, line) in lines.iter().enumerate().skip(unread) {
            if let Some(start) = after_scheme(line) {
                veils.add(index + 1, start..line.len());
            }
        }
        veils.add_tokens(text);
        veils
    }

    /// Hides tokens: where the file can be read, where they stand; where it cannot, what follows
    /// the name of one, and the lines that are indented below it.
    fn add_tokens(&mut self, text: &str) {
        let lines = self.lines.clone();
        let (secrets, unread) = yaml::secrets(text);
        for (from, to) in secrets {
            for number in from.0..=to.0 {
                let Some((start, written)) = self.written(number, from, to) else { continue };
                // After the name come a colon and blanks.
                let shown = written.len() - written.trim_start_matches([':', ' ', '\t']).len();
                self.add(number, start + shown..start + written.trim_end().len().max(shown));
            }
        }
        let unread = unread.map_or(lines.len(), |line| line - 1);
        let mut below: Option<usize> = None;
        for (index, line) in lines.iter().enumerate() {
            let mut hide = |bytes: Range<usize>| {
                if index >= unread {
                    self.add(index + 1, bytes);
                }
            };
            let indent = line.len() - line.trim_start().len();
            if below.is_some_and(|of| indent > of || line.trim().is_empty()) {
                hide(indent..line.len());
                continue;
            }
            let start = line.match_indices(':').find(|(at, _)| {
                let before = line[..*at].trim_end().trim_end_matches(['"', '\'']);
                let name = before.rsplit([' ', '\t', '{', '[', ',', '"', '\'', ':']).next();
                name.is_some_and(yaml::is_secret_name)
            });
            below = start.map(|_| indent);
            if let Some((at, _)) = start {
                let blanks = line[at + 1..].len() - line[at + 1..].trim_start().len();
                hide(at + 1 + blanks..line.len());
            }
        }
    }

    /// The columns to hide of a line, in order and apart from each other.
    pub(crate) fn of_line(&self, number: usize) -> Vec<Range<usize>> {
        let mut ranges = self.hidden.get(&number).cloned().unwrap_or_default();
        ranges.sort_by_key(|range| range.start);
        let mut apart: Vec<Range<usize>> = Vec::new();
        for range in ranges {
            match apart.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => apart.push(range),
            }
        }
        apart
    }

    fn add_piece(&mut self, piece: &Piece) {
        for number in piece.from.0..=piece.to.0 {
            let Some((start, written)) = self.written(number, piece.from, piece.to) else {
                continue;
            };
            if written.trim_matches(['"', '\'']) == piece.text {
                for range in hidden(written.trim_end_matches(['"', '\''])) {
                    self.add(number, start + range.start..start + range.end);
                }
            } else if piece.from.0 < piece.to.0 || hides(&piece.text) {
                // Several lines, or escapes: what stands where is not clear.
                self.add(number, start..start + written.len());
            }
        }
    }

    /// What a line has of the text between two places, and the byte at which that begins.
    fn written(&mut self, number: usize, from: Place, to: Place) -> Option<(usize, &'t str)> {
        let line: &'t str = self.lines.get(number.checked_sub(1)?).copied()?;
        let columns = self.columns_of(number, line);
        let start = if number == from.0 { columns.byte_at(line, from.1) } else { 0 };
        let end = if number == to.0 { columns.byte_at(line, to.1) } else { line.len() };
        Some((start, line.get(start..end).unwrap_or_default()))
    }

    fn add(&mut self, number: usize, bytes: Range<usize>) {
        let line = self.lines.get(number - 1).copied().filter(|_| !bytes.is_empty());
        let Some(line) = line else { return };
        let columns = self.columns_of(number, line);
        let columns = columns.column_at(bytes.start)..columns.column_at(bytes.end);
        self.hidden.entry(number).or_default().push(columns);
    }

    fn columns_of(&mut self, number: usize, line: &str) -> &Columns {
        self.columns.entry(number).or_insert_with(|| Columns::of(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_no_more_of_a_url_than_its_scheme() {
        for (text, shown) in [
            ("10/s", "10/s"),
            ("a@b", "a@b"),
            ("memory://", "memory://"),
            ("${URL:-memory://}", "${URL:-memory://}"),
            ("${URL:-redis://:pw@h}", "${URL:-redis://***}"),
            ("redis://h:6379", "redis://***"),
            ("redis://${HOST}", "redis://***"),
        ] {
            assert_eq!(redacted(text), shown);
            assert_eq!(hides(text), text != shown, "{text}");
        }
    }

    /// The first line as it is shown.
    fn shown(text: &str) -> String {
        let lines: Vec<&str> = text.split('\n').collect();
        let veils = Veils::over(text, &lines).of_line(1);
        let mut out = String::new();
        for (index, c) in lines[0].chars().enumerate() {
            match veils.iter().find(|columns| columns.contains(&index)) {
                Some(columns) if columns.start == index => out.push_str(VEIL),
                Some(_) => {}
                None => out.push(c),
            }
        }
        out
    }

    #[test]
    fn a_line_shows_where_but_not_who() {
        for (line, expected) in [
            ("url: redis://h:6379/0", "url: redis://h:6379/0"),
            ("url: redis://[::1]:6379", "url: redis://[::1]:6379"),
            ("url: \"redis://[::1]\"", "url: \"redis://[::1]\""),
            ("url: ${U:-redis://h:1}", "url: ${U:-redis://h:1}"),
            ("url: redis://${H}:${P}", "url: redis://${H}:${P}"),
            ("ä: redis://ü:ö@h # x", "ä: redis://***@h # x"),
            ("{ url: \"redis://u:p@h/1\", x: 1 }", "{ url: \"redis://***@h/1\", x: 1 }"),
            ("{ url: redis://user:pw, x: 1 }", "{ url: redis://***, x: 1 }"),
            ("{ url: 'redis+unix:///r?db=1', x: 1 }", "{ url: 'redis+unix:///r?***', x: 1 }"),
            ("{ url: \"redis:\\/\\/:pw@h\", x: 1 }", "{ url: ***, x: 1 }"),
            ("url: redis://:a@h, redis://:b@h", "url: redis://***@h"),
            ("url: redis://:a\n  b@h", "url: ***"),
            ("url: \"redis://:a", "url: \"redis://***"),
            ("x: { url: redis://:${P}@h }", "x: { url: redis://***"),
            ("admin: { token: hunter2, x: 1 }", "admin: ***"),
            ("{ admin: { token: \"hunter2\" }, x: 1 }", "{ admin: ***, x: 1 }"),
            ("admin: &hunter2 x", "admin: ***"),
            ("admin: *hunter2", "admin: ***"),
            ("x: { token: hunter2 , y: 1 }", "x: { token: *** , y: 1 }"),
            ("x: { \"token\": \"hunter2\" , y: 1 }", "x: { \"token\": *** , y: 1 }"),
            ("{ admin_token: [hunter2, [x]], x: 1 }", "{ admin_token: ***, x: 1 }"),
            ("admin: { token: hunter2", "admin: ***"),
            ("x: { admin: y, token_bucket: 1 }", "x: { admin: y, token_bucket: 1 }"),
            ("listen: { http: x }", "listen: { http: x }"),
        ] {
            assert_eq!(shown(line), expected);
        }
    }
}
