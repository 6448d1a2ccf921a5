//! Makes the cells of a wide table fit.

/// What stands between two columns.
const GAP: usize = 2;

/// The narrowest that a column is made; a longer word in it is broken.
const LEAST: usize = 17;

type Row = Vec<String>;

/// The table without the columns in which nothing stands.
pub(super) fn filled(header: &[&str], rows: Vec<Row>) -> (Row, Vec<Row>) {
    let is_filled =
        |column: usize| rows.iter().any(|row| row.get(column).is_some_and(|cell| !cell.is_empty()));
    let kept: Vec<usize> = (0..header.len()).filter(|column| is_filled(*column)).collect();
    let keep = |row: &Row| kept.iter().filter_map(|column| row.get(*column).cloned()).collect();
    let header: Row = header.iter().map(|&name| name.to_owned()).collect();
    (keep(&header), rows.iter().map(keep).collect())
}

/// The lines of the table, the header first, with every cell cut into pieces that fit.
pub(super) fn wrapped(width: usize, header: Row, rows: Vec<Row>) -> Vec<Row> {
    let rows: Vec<Row> = std::iter::once(header).chain(rows).collect();
    let widths = widths(width, &rows);
    rows.iter().flat_map(|row| lines(row, &widths)).collect()
}

/// How wide each column may be: the widest gives way first, until its longest word is reached.
fn widths(width: usize, rows: &[Row]) -> Vec<usize> {
    let columns = rows.first().map_or(0, Vec::len);
    let most = |column: usize, length: &dyn Fn(&str) -> usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| length(cell)).max().unwrap_or(0)
    };
    let whole = |cell: &str| cell.chars().count();
    let word = |cell: &str| cell.split(' ').map(whole).max().unwrap_or(0);
    let least: Vec<usize> = (0..columns).map(|column| most(column, &word).min(LEAST)).collect();
    let mut widths: Vec<usize> = (0..columns).map(|column| most(column, &whole)).collect();
    let room = width.saturating_sub(GAP * columns.saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        let can_give = |column: &usize| widths[*column] > least[*column];
        let widest = (0..columns).filter(can_give).max_by_key(|column| widths[*column]);
        let Some(widest) = widest else { break };
        widths[widest] -= 1;
    }
    widths
}

fn lines(row: &Row, widths: &[usize]) -> Vec<Row> {
    let cells: Vec<Vec<String>> =
        row.iter().zip(widths).map(|(cell, width)| pieces(cell, *width)).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let piece = |cell: &Vec<String>, line: usize| cell.get(line).cloned().unwrap_or_default();
    (0..height).map(|line| cells.iter().map(|cell| piece(cell, line)).collect()).collect()
}

/// A text in pieces of at most `width` characters, broken between words if that can be.
fn pieces(text: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let length = |text: &str| text.chars().count();
    for word in text.split(' ') {
        let mut word = word;
        loop {
            let last = pieces.last_mut();
            let Some(last) = last else { break };
            let gap = usize::from(!last.is_empty());
            if length(last) + gap + length(word) <= width {
                if gap == 1 {
                    last.push(' ');
                }
                last.push_str(word);
                break;
            }
            if gap == 1 {
                pieces.push(String::new());
                continue;
            }
            let cut = cut(word, width.max(1));
            last.push_str(&word[..cut]);
            word = &word[cut..];
            if word.is_empty() {
                break;
            }
            pieces.push(String::new());
        }
    }
    pieces
}

/// Where to cut a word that is longer than `width`: behind a mark that joins, or just there.
fn cut(word: &str, width: usize) -> usize {
    let end = word.char_indices().nth(width).map_or(word.len(), |(at, _)| at);
    let joint = word[..end].rfind(['_', '/', '-', ':', '.', ',']);
    joint.map_or(end, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_pieces() {
        for (text, width, expected) in [
            ("", 5, vec![""]),
            ("ab cd", 5, vec!["ab cd"]),
            ("ab cd ef", 5, vec!["ab cd", "ef"]),
            ("abcdefgh", 3, vec!["abc", "def", "gh"]),
            ("ab cdefgh", 3, vec!["ab", "cde", "fgh"]),
            ("sliding_window_counter", 16, vec!["sliding_window_", "counter"]),
            ("ab/cd", 4, vec!["ab/", "cd"]),
            ("ä ö ü", 3, vec!["ä ö", "ü"]),
            ("abc", 0, vec!["a", "b", "c"]),
        ] {
            assert_eq!(pieces(text, width), expected, "{text}");
        }
    }

    #[test]
    fn the_widest_column_gives_way() {
        let row = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect::<Row>();
        let words = "one two three four five six seven eight";
        let lines = wrapped(30, row(&["a", "b"]), vec![row(&["short", words])]);
        let width = |line: &Row| line.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        assert!(lines.len() > 2 && lines.iter().all(|line| width(line) <= 23), "{lines:?}");
        let whole: Vec<&str> = lines.iter().skip(1).map(|line| line[1].as_str()).collect();
        assert_eq!(whole.join(" "), words);
    }

    #[test]
    fn columns_in_which_nothing_stands_are_left_out() {
        let rows = vec![vec!["x".to_owned(), String::new(), "y".to_owned()]];
        let (header, rows) = filled(&["a", "b", "c"], rows);
        assert_eq!(
            (header, rows),
            (vec!["a".into(), "c".into()], vec![vec!["x".into(), "y".into()]])
        );
    }
}
