//! Reads a trace: CSV with the header `time_us,rule,key,cost`, row by row, bounded.

use std::io::{BufRead, Read};

use tollkeeper_core::limits::MAX_TIME_US;

/// The header, and so the order of the fields.
const HEADER: &str = "time_us,rule,key,cost";

/// The longest line: every field at its longest, with its quotes doubled.
const MAX_LINE_BYTES: u64 = 8 * 1024;

/// One request of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) time_us: u64,
    pub(crate) rule: String,
    pub(crate) key: String,
    pub(crate) cost: u64,
}

/// What is wrong with a trace, and where.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub(crate) struct TraceError {
    line: u64,
    problem: String,
}

/// Reads rows one after the other.
pub(crate) struct Trace<R> {
    reader: R,
    line: u64,
    last_us: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead> Trace<R> {
    /// Reads the header.
    pub(crate) fn new(reader: R) -> Result<Self, TraceError> {
        let mut trace = Self { reader, line: 0, last_us: 0, buffer: Vec::new() };
        let found = trace.read_line()?.unwrap_or_default();
        match found.trim_start_matches('\u{feff}') {
            HEADER => Ok(trace),
            "" => Err(trace.error(format!("the trace is empty; expected the header `{HEADER}`"))),
            other => {
                let shown = cut(other);
                Err(trace.error(format!("the header is `{shown}`; expected `{HEADER}`")))
            }
        }
    }

    /// A complaint about the line that was read last.
    pub(crate) fn error(&self, problem: String) -> TraceError {
        TraceError { line: self.line, problem }
    }

    /// The next row; `None` at the end.
    pub(crate) fn next_row(&mut self) -> Result<Option<Row>, TraceError> {
        let Some(line) = self.read_line()? else { return Ok(None) };
        let fields = split(&line).map_err(|problem| self.error(problem))?;
        let [time_us, rule, key, cost]: [String; 4] =
            fields.try_into().map_err(|found: Vec<_>| {
                self.error(format!("the row has {} fields; expected 4: `{HEADER}`", found.len()))
            })?;
        let time_us = self.whole("time_us", &time_us, MAX_TIME_US)?;
        let cost = self.whole("cost", &cost, u64::MAX)?;
        if time_us < self.last_us {
            let last_us = self.last_us;
            let problem = format!(
                "`time_us` is {time_us}, before {last_us} of the row above; times never descend"
            );
            return Err(self.error(problem));
        }
        self.last_us = time_us;
        Ok(Some(Row { time_us, rule, key, cost }))
    }

    fn whole(&self, field: &str, text: &str, most: u64) -> Result<u64, TraceError> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let number = text.parse().ok().filter(|number| digits && *number <= most);
        number.ok_or_else(|| {
            let shown = cut(text);
            self.error(format!("`{field}` is `{shown}`; expected a whole number from 0 to {most}"))
        })
    }

    /// The next line without its end.
    fn read_line(&mut self) -> Result<Option<String>, TraceError> {
        self.line += 1;
        self.buffer.clear();
        let mut bounded = (&mut self.reader).take(MAX_LINE_BYTES + 1);
        let read = bounded.read_until(b'\n', &mut self.buffer);
        if let Err(error) = read {
            return Err(self.error(format!("cannot be read: {error}")));
        }
        if self.buffer.is_empty() {
            return Ok(None);
        }
        if self.buffer.len() as u64 > MAX_LINE_BYTES {
            return Err(self.error(format!("it is longer than {MAX_LINE_BYTES} bytes")));
        }
        let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match std::str::from_utf8(line) {
            Ok(line) => Ok(Some(line.to_owned())),
            Err(error) => {
                let column = error.valid_up_to() + 1;
                Err(self.error(format!("byte {column} is not valid UTF-8")))
            }
        }
    }
}

/// Splits a line at its commas; a field in quotes may hold commas, and quotes doubled.
fn split(line: &str) -> Result<Vec<String>, String> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let (field, tail) = match rest.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        fields.push(field);
        match tail.strip_prefix(',') {
            Some(more) => rest = more,
            None if tail.is_empty() => return Ok(fields),
            None => return Err("a quote ends in the middle of a field".to_owned()),
        }
    }
}

fn unquote(text: &str) -> Result<(String, &str), String> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('"').ok_or("a quote is not closed")?;
        field.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => return Ok((field, rest)),
        }
    }
}

fn cut(text: &str) -> String {
    let cut: String = text.chars().take(60).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{}{more}", cut.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &[u8]) -> Result<Vec<Row>, TraceError> {
        let mut trace = Trace::new(text)?;
        let mut rows = Vec::new();
        while let Some(row) = trace.next_row()? {
            rows.push(row);
        }
        Ok(rows)
    }

    #[test]
    fn rows_with_either_line_end_quotes_and_no_last_newline() {
        let text = b"time_us,rule,key,cost\r\n1,api,alice,1\r\n1,,\"a,\"\"b\"\"\",0\n2,api,bob,3";
        let keys: Vec<_> = rows(text).unwrap().into_iter().map(|row| (row.key, row.cost)).collect();
        assert_eq!(keys, [("alice".into(), 1), ("a,\"b\"".into(), 0), ("bob".into(), 3)]);
    }

    #[test]
    fn everything_wrong_is_told_with_its_line() {
        let long = [b"time_us,rule,key,cost\n1,api,".as_slice(), &[b'k'; 9000], b",1\n"].concat();
        let cases: [(&[u8], &str); 10] = [
            (b"", "line 1: the trace is empty; expected the header `time_us,rule,key,cost`"),
            (b"a,b\n", "line 1: the header is `a,b`; expected `time_us,rule,key,cost`"),
            (
                b"time_us,rule,key,cost\n1,api,al",
                "line 2: the row has 3 fields; expected 4: `time_us,rule,key,cost`",
            ),
            (
                b"time_us,rule,key,cost\n5,api,a,1\n4,api,a,1\n",
                "line 3: `time_us` is 4, before 5 of the row above; times never descend",
            ),
            (
                b"time_us,rule,key,cost\n1,api,a,-1\n",
                "line 2: `cost` is `-1`; expected a whole number from 0 to 18446744073709551615",
            ),
            (
                b"time_us,rule,key,cost\n1,api,a,1000000000000000000000000000000\n",
                "line 2: `cost` is `1000000000000000000000000000000`; expected a whole number from 0 to 18446744073709551615",
            ),
            (
                b"time_us,rule,key,cost\n1.5,api,a,1\n",
                "line 2: `time_us` is `1.5`; expected a whole number from 0 to 8938079254740991",
            ),
            (b"time_us,rule,key,cost\n1,api,\xff,1\n", "line 2: byte 7 is not valid UTF-8"),
            (b"time_us,rule,key,cost\n1,api,\"a,1\n", "line 2: a quote is not closed"),
            (&long, "line 2: it is longer than 8192 bytes"),
        ];
        for (text, told) in cases {
            assert_eq!(rows(text).unwrap_err().to_string(), told);
        }
    }
}
