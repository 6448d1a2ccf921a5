//! Owns [`Columns`]: where the characters of a line begin, so that a place in a long line is found
//! without counting from its beginning each time.

/// The bytes at which the characters of a line begin.
pub(super) enum Columns {
    /// Each character is one byte.
    Bytes,
    /// The first byte of each.
    Starts(Vec<usize>),
}

impl Columns {
    pub(super) fn of(line: &str) -> Self {
        match line.is_ascii() {
            true => Self::Bytes,
            false => Self::Starts(line.char_indices().map(|(at, _)| at).collect()),
        }
    }

    /// Where a column begins; past the end, the end of the line.
    pub(super) fn byte_at(&self, line: &str, column: usize) -> usize {
        match self {
            Self::Bytes => column.min(line.len()),
            Self::Starts(starts) => starts.get(column).copied().unwrap_or(line.len()),
        }
    }

    /// How many characters begin before a byte.
    pub(super) fn column_at(&self, byte: usize) -> usize {
        match self {
            Self::Bytes => byte,
            Self::Starts(starts) => starts.partition_point(|start| *start < byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_counting() {
        for line in ["", "abc", "äb\u{1F600}c", "éé"] {
            let columns = Columns::of(line);
            for column in 0..6 {
                let counted = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
                assert_eq!(columns.byte_at(line, column), counted, "{line} {column}");
            }
            for byte in line.char_indices().map(|(at, _)| at).chain([line.len()]) {
                assert_eq!(columns.column_at(byte), line[..byte].chars().count(), "{line} {byte}");
            }
        }
    }
}
