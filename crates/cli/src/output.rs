//! The only place that prints: to standard output what was asked for, to standard error the rest.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

mod columns;
pub(crate) mod log;

/// Why a command gave no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nobody reads our output any more.
    BrokenPipe,
    /// For the user to read.
    Told(String),
}

impl Failure {
    pub(crate) fn told(message: impl ToString) -> Self {
        Self::Told(message.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::told(error),
        }
    }
}

/// Prints a line.
pub(crate) fn say(line: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}

/// Prints a line of somebody who has more to do than to be read: a service goes on when nobody
/// reads what it says.
pub(crate) fn announce(line: &str) -> Result<(), Failure> {
    match say(line) {
        Err(Failure::BrokenPipe) => Ok(()),
        said => said,
    }
}

/// Prints what went wrong.
#[expect(clippy::print_stderr, reason = "this is where complaints are printed")]
pub(crate) fn complain(message: &str) {
    let begun = message.starts_with("error:");
    let prefix = if begun { "" } else { "error: " };
    eprintln!("{prefix}{}", message.trim_end());
}

/// Something that the user should know, and that stops nothing.
#[expect(clippy::print_stderr, reason = "this is where warnings are printed")]
pub(crate) fn warn(message: &str) {
    eprintln!("warning: {message}");
}

/// Prints advice that has been made ready.
#[expect(clippy::print_stderr, reason = "this is where warnings are printed")]
pub(crate) fn advise(text: &str) {
    eprint!("{text}");
}

/// A writer for much output.
pub(crate) fn bulk() -> impl Write {
    io::BufWriter::with_capacity(1 << 16, io::stdout().lock())
}

/// A table without ornaments, so that it can be piped: columns two spaces apart.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let header = header.iter().map(|&name| name.to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// The same where it may become wide: columns in which nothing stands are left out, and cells go on
/// in the next line where the table would be wider than so many characters.
pub(crate) fn table_within(
    width: usize,
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let (header, rows) = columns::filled(header, rows.into_iter().collect());
    let lines = columns::wrapped(width, header, rows);
    let mut lines = lines.into_iter();
    let head = lines.next().unwrap_or_default();
    table(&head.iter().map(String::as_str).collect::<Vec<_>>(), lines)
}

/// A time as a person reads it: two units at most, and thousandths below a minute. It is rounded up:
/// who waits for so long has waited long enough.
pub(crate) fn human(us: u64) -> String {
    let step_us = match us / 1_000_000 {
        0 if us < 1_000 => 1,
        0..60 => 1_000,
        60..3_600 => 1_000_000,
        3_600..86_400 => 60_000_000,
        _ => 3_600_000_000,
    };
    let us = us.div_ceil(step_us).saturating_mul(step_us);
    let (seconds, below_us) = (us / 1_000_000, us % 1_000_000);
    match seconds {
        0 if us == 0 => "0s".to_owned(),
        0 if us < 1_000 => format!("{us}us"),
        0 => format!("{}ms", us / 1_000),
        1..60 if below_us == 0 => format!("{seconds}s"),
        1..60 => format!("{seconds}.{:03}s", below_us / 1_000),
        60..3_600 => two(seconds, 60, "m", "s"),
        3_600..86_400 => two(seconds / 60, 60, "h", "m"),
        _ => two(seconds / 3_600, 24, "d", "h"),
    }
}

fn two(small: u64, each: u64, large_name: &str, small_name: &str) -> String {
    match small % each {
        0 => format!("{}{large_name}", small / each),
        rest => format!("{}{large_name} {rest}{small_name}", small / each),
    }
}

/// A bar for work on `bytes` bytes, where somebody watches.
pub(crate) fn progress(bytes: Option<u64>) -> ProgressBar {
    let watched = io::stderr().is_terminal() && bytes.is_some();
    if !watched {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(bytes, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {eta} left");
    style.map_or(bar.clone(), |style| bar.with_style(style))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_a_person_reads_them() {
        for (us, told) in [
            (0, "0s"),
            (250, "250us"),
            (187_001, "188ms"),
            (6_000_000, "6s"),
            (59_988_000, "59.988s"),
            (90_000_000, "1m 30s"),
            (3_600_000_000, "1h"),
            (93_600_000_000, "1d 2h"),
            (999_001, "1s"),
            (59_999_001, "1m"),
            (7_199_000_000, "2h"),
            (86_399_000_001, "1d"),
            (86_400_000_001, "1d 1h"),
            (u64::MAX, "213503982d 8h"),
        ] {
            assert_eq!(human(us), told);
        }
    }
}
