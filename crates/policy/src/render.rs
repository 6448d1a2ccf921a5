//! Shows errors beside the lines of the file that they speak of, the way a compiler does.
//!
//! The lines are those of the file as written, so no value of a variable can appear in them. The
//! user and the password of a URL are hidden.

use std::fmt::Write;
use std::ops::Range;

use crate::error::PolicyErrors;
use crate::limits::MAX_ERRORS;
use crate::redact::{VEIL, Veils};

/// The widest piece of a line that is shown.
const MAX_CELLS: usize = 100;

/// What of a long line is shown before the place that is meant.
const CELLS_BEFORE: usize = 40;

const TAB_CELLS: usize = 4;

impl PolicyErrors {
    /// The errors with their lines, for people: what, where, what was expected, what to do.
    ///
    /// ```
    /// use tollkeeper_policy::Policy;
    ///
    /// let text = "rules:\n  api: { limt: 100/min }\n";
    /// let errors = Policy::parse(text, &|_| None).unwrap_err();
    /// assert!(errors.render("tollkeeper.yaml", text).starts_with("\
    /// error: unknown field `limt`
    ///   --> tollkeeper.yaml:2:10
    ///    |
    ///  2 |   api: { limt: 100/min }
    ///    |          ^^^^ expected one of `algorithm`"));
    /// ```
    #[must_use]
    pub fn render(&self, file_name: &str, source_text: &str) -> String {
        let source = Source::new(file_name, source_text);
        let mut out = String::new();
        for error in self {
            if !out.is_empty() {
                out.push('\n');
            }
            let remark = Remark {
                head: format!("error: {}", error.message),
                at: (error.line, error.column),
                length: error.length,
                expected: error.expected.as_deref(),
                notes: error.help.iter().map(|help| format!("help: {help}")).collect(),
            };
            // Writing to a String does not fail.
            let _ = source.show(&mut out, &remark);
        }
        if self.has_more() {
            let _ = writeln!(out, "\nonly the first {MAX_ERRORS} errors are shown");
        }
        out
    }
}

/// The file that remarks are made on.
pub(crate) struct Source<'t> {
    name: &'t str,
    lines: Vec<&'t str>,
    veils: Veils<'t>,
}

/// Something to say of a place in a file.
pub(crate) struct Remark<'t> {
    /// The first line: what it is, and the message.
    pub(crate) head: String,
    /// Line and column, from 1.
    pub(crate) at: (usize, usize),
    pub(crate) length: usize,
    pub(crate) expected: Option<&'t str>,
    pub(crate) notes: Vec<String>,
}

impl<'t> Source<'t> {
    pub(crate) fn new(name: &'t str, text: &'t str) -> Self {
        let lines = split_lines(text);
        let veils = Veils::over(text, &lines);
        Self { name, lines, veils }
    }

    /// Writes a remark with the line that it is about.
    pub(crate) fn show(&self, out: &mut String, remark: &Remark<'_>) -> std::fmt::Result {
        let line = self.lines.get(remark.at.0.saturating_sub(1)).copied();
        show(out, remark, self.name, line, &self.veils)
    }
}

fn show(
    out: &mut String,
    remark: &Remark<'_>,
    file_name: &str,
    line: Option<&str>,
    veils: &Veils<'_>,
) -> std::fmt::Result {
    let (number, column) = (remark.at.0.to_string(), remark.at.1);
    let margin = " ".repeat(number.len() + 1);
    writeln!(out, "{}", remark.head)?;
    writeln!(out, "{margin}--> {file_name}:{number}:{column}")?;
    let expected = remark.expected;
    match line.filter(|line| !line.is_empty()) {
        Some(line) => {
            let veiled = veils.of_line(remark.at.0);
            let (shown, start, length) = excerpt(line, column - 1, remark.length, &veiled);
            let (indent, carets) = (" ".repeat(start), "^".repeat(length));
            let label = expected.map(|text| format!(" expected {text}"));
            writeln!(out, "{margin} |")?;
            writeln!(out, " {number} | {shown}")?;
            writeln!(out, "{margin} | {indent}{carets}{}", label.unwrap_or_default())?;
        }
        None => {
            if let Some(text) = expected {
                writeln!(out, "{margin} = expected {text}")?;
            }
        }
    }
    for (nth, note) in remark.notes.iter().enumerate() {
        if nth == 0 && line.is_some_and(|line| !line.is_empty()) {
            writeln!(out, "{margin} |")?;
        }
        writeln!(out, "{margin} = {note}")?;
    }
    Ok(())
}

/// The piece of `line` around `length` characters at `column` (from 0), without the columns that
/// are `veiled`, and the cells to mark.
fn excerpt(
    line: &str,
    column: usize,
    length: usize,
    veiled: &[Range<usize>],
) -> (String, usize, usize) {
    let mut cells: Vec<char> = Vec::new();
    let (mut start, mut end) = (None, None);
    let mut veiled = veiled;
    for (index, c) in line.chars().enumerate() {
        if start.is_some_and(|start| cells.len() > start + 2 * MAX_CELLS) {
            // More of a long line is not shown.
            break;
        }
        while let [first, rest @ ..] = veiled
            && first.end <= index
        {
            veiled = rest;
        }
        let veil = veiled.first().filter(|columns| columns.contains(&index));
        if index == column {
            // Inside what is hidden, all that stands there instead is meant.
            let inside = veil.is_some_and(|columns| columns.start < index);
            start = Some(cells.len() - if inside { VEIL.len() } else { 0 });
        }
        if index == column.saturating_add(length) {
            end = Some(cells.len());
        }
        if let Some(columns) = veil {
            if columns.start == index {
                cells.extend(VEIL.chars());
            }
            continue;
        }
        match c {
            '\t' => cells.extend([' '; TAB_CELLS]),
            c if c.is_control() => cells.push('\u{fffd}'),
            c => cells.push(c),
        }
    }
    let start = start.unwrap_or(cells.len());
    let end = end.unwrap_or(cells.len()).max(start + 1);
    if cells.len() <= MAX_CELLS {
        return (cells.iter().collect::<String>().trim_end().to_owned(), start, end - start);
    }
    let from = start.saturating_sub(CELLS_BEFORE).min(cells.len() - MAX_CELLS);
    let to = from + MAX_CELLS;
    let before = if from > 0 { "…" } else { "" };
    let after = if to < cells.len() { "…" } else { "" };
    let shown: String = cells[from..to].iter().collect();
    let start_shown = start - from + before.chars().count();
    (format!("{before}{shown}{after}"), start_shown, (end.min(to.max(start + 1))) - start)
}

/// The lines as YAML counts them: LF, CRLF or a lone CR ends one.
fn split_lines(text: &str) -> Vec<&str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .flat_map(|line| line.split('\r'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_yaml_ends_them() {
        assert_eq!(split_lines("\u{feff}a\r\nb\rc\nd"), ["a", "b", "c", "d"]);
    }

    #[test]
    fn tabs_move_the_mark() {
        assert_eq!(excerpt("\ta: b", 4, 1, &[]), ("    a: b".into(), 7, 1));
        assert_eq!(excerpt("a\t: b", 1, 1, &[]), ("a    : b".into(), 1, 4));
    }

    #[test]
    fn a_mark_past_the_end_stays_beside_the_line() {
        assert_eq!(excerpt("abc", 3, 0, &[]), ("abc".into(), 3, 1));
        assert_eq!(excerpt("abc", 90, 9, &[]), ("abc".into(), 3, 1));
        assert_eq!(excerpt("abc", 1, 90, &[]), ("abc".into(), 1, 2));
    }

    #[test]
    fn a_long_line_is_cut_around_the_mark() {
        let line = format!("{}HERE{}", "x".repeat(500), "y".repeat(500));
        let (shown, start, length) = excerpt(&line, 500, 4, &[]);
        assert_eq!(shown.chars().count(), MAX_CELLS + 2);
        let marked: String = shown.chars().skip(start).take(length).collect();
        assert_eq!(marked, "HERE");

        let (shown, start, length) = excerpt(&line, 0, 900, &[]);
        assert!(shown.ends_with('…') && !shown.starts_with('…'));
        assert_eq!((start, length), (0, MAX_CELLS));

        let (shown, start, length) = excerpt(&line, line.len(), 0, &[]);
        assert_eq!((start, length), (shown.chars().count(), 1));
    }

    #[test]
    fn what_is_hidden_moves_the_mark() {
        let veiled = std::slice::from_ref(&(7..13));
        let hidden = |column, length| excerpt("a: x://secret@h, b", column, length, veiled);
        assert_eq!(hidden(3, 12), ("a: x://***@h, b".into(), 3, 9));
        assert_eq!(hidden(17, 1), ("a: x://***@h, b".into(), 14, 1));
        assert_eq!(hidden(7, 6), ("a: x://***@h, b".into(), 7, 3));
        assert_eq!(hidden(9, 2), ("a: x://***@h, b".into(), 7, 3));
        assert_eq!(hidden(9, 6), ("a: x://***@h, b".into(), 7, 5));
    }
}
