//! Owns [`Table`]: what a benchmark has to tell, as Markdown that can also be read as it stands.

use std::fmt;

/// A title, rows under a header, and what is to be said of them.
pub(crate) struct Table {
    title: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    pub(crate) fn new(title: impl Into<String>, header: &[&str]) -> Self {
        let header = header.iter().copied().map(str::to_owned).collect();
        Self { title: title.into(), header, rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a row; the cells that are missing at its end stay empty.
    pub(crate) fn row<S: AsRef<str>>(&mut self, cells: &[S]) {
        let mut row: Vec<String> = cells.iter().map(|cell| cell.as_ref().to_owned()).collect();
        row.resize(self.header.len(), String::new());
        self.rows.push(row);
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "### {}\n", self.title)?;
        let lines = || std::iter::once(&self.header).chain(&self.rows);
        let width = |at: usize| {
            lines().map(|cells| cells[at].chars().count()).max().unwrap_or_default().max(3)
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        for (nth, cells) in lines().enumerate() {
            for (cell, width) in cells.iter().zip(&widths) {
                write!(f, "| {cell:<width$} ")?;
            }
            writeln!(f, "|")?;
            if nth == 0 {
                widths.iter().try_for_each(|width| write!(f, "| {:-<width$} ", ""))?;
                writeln!(f, "|")?;
            }
        }
        writeln!(f)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}\n"))
    }
}

/// Whether a bar is met, and which.
pub(crate) fn bar_shown(number: f64, bar: f64, text: &str) -> String {
    format!("{}: ≤ {text}", if number <= bar { "met" } else { "MISSED" })
}

/// The same for a bar that is a least.
pub(crate) fn least_shown(number: f64, bar: f64, text: &str) -> String {
    format!("{}: ≥ {text}", if number >= bar { "met" } else { "MISSED" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_table_of_markdown() {
        let mut table = Table::new("Cost", &["", "µs"]);
        table.row(&["ours", "1"]);
        table.row(&["peer"]);
        table.note("So it is.");
        let expected = "### Cost\n\n|      | µs  |\n| ---- | --- |\n| ours | 1   |\n| peer |     |\n\nSo it is.\n\n";
        assert_eq!(table.to_string(), expected);
    }
}
