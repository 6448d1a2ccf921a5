//! The canonical form of a path, so that no spelling of it dodges a limit.
//!
//! What stays different: upper and lower case; and `%2F`, which is never a separator.

use smallvec::SmallVec;

use crate::limits::MAX_PATH_SEGMENTS;

/// A path in its canonical form; longer ones are on the heap.
pub(crate) type Canonical = SmallVec<[u8; 256]>;

/// The segments of a path.
pub(crate) type Segments<'p> = SmallVec<[&'p [u8]; MAX_PATH_SEGMENTS]>;

/// The text with every `%XX` decoded, but for a slash and a percent sign, which are `%2F` and
/// `%25`: so a slash that is left is a separator, and two texts are the same only if they stand
/// for the same.
pub(crate) fn canonical(text: &str) -> Canonical {
    let bytes = text.as_bytes();
    let mut out = Canonical::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match decoded(bytes, at) {
            Some(b'/') => out.extend_from_slice(b"%2F"),
            Some(b'%') => out.extend_from_slice(b"%25"),
            Some(plain) => out.push(plain),
            // What is no percent-encoding stands for itself.
            None => {
                match byte {
                    b'%' => out.extend_from_slice(b"%25"),
                    plain => out.push(plain),
                }
                at += 1;
                continue;
            }
        }
        at += 3;
    }
    out
}

/// The byte that the percent-encoding at `at` stands for, if there is one.
pub(super) fn decoded(bytes: &[u8], at: usize) -> Option<u8> {
    let &[b'%', high, low] = bytes.get(at..at + 3)? else { return None };
    let hex = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    Some(hex(high)? << 4 | hex(low)?)
}

/// The path of a request target: without its query, and what a `#` would begin.
pub(crate) fn without_query(path: &str) -> &str {
    path.split(['?', '#']).next().unwrap_or_default()
}

/// Splits a canonical path into its segments: empty ones and `.` are left out, `..` takes back
/// the one before it. Returns whether there are more than [`MAX_PATH_SEGMENTS`]; then the first
/// ones are there.
pub(crate) fn split<'p>(path: &'p [u8], segments: &mut Segments<'p>) -> bool {
    let mut beyond: usize = 0;
    for segment in path.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." if beyond > 0 => beyond -= 1,
            b".." => drop(segments.pop()),
            _ if segments.len() == MAX_PATH_SEGMENTS => beyond += 1,
            _ => segments.push(segment),
        }
    }
    beyond > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str) -> (String, bool) {
        let canonical = canonical(without_query(path));
        let mut segments = Segments::new();
        let deep = split(&canonical, &mut segments);
        let texts: Vec<_> = segments.iter().map(|s| String::from_utf8_lossy(s)).collect();
        (format!("/{}", texts.join("/")), deep)
    }

    #[test]
    fn every_spelling_of_a_path_is_one() {
        for (spelt, path) in [
            ("/api/x", "/api/x"),
            ("/api/x/", "/api/x"),
            ("//api///x//", "/api/x"),
            ("/api/./x/.", "/api/x"),
            ("/api/y/../x", "/api/x"),
            ("/../../api/x", "/api/x"),
            ("/api/y/z/../../x", "/api/x"),
            ("/%61pi/%78", "/api/x"),
            ("/api/%2e/x", "/api/x"),
            ("/api/y/%2E%2e/x", "/api/x"),
            ("/api/y/.%2e/x", "/api/x"),
            ("/api/x?y=/../z", "/api/x"),
            ("/api/x#y", "/api/x"),
            ("api/x", "/api/x"),
            ("", "/"),
            ("/", "/"),
            ("//", "/"),
            ("/..", "/"),
            ("/a%3ab", "/a:b"),
            ("/a%2fb", "/a%2Fb"),
            ("/a%2Fb", "/a%2Fb"),
            ("/a/%2f../b", "/a/%2F../b"),
            ("/caf%c3%a9", "/café"),
            ("/a%2541", "/a%2541"),
            ("/%zz/%4", "/%25zz/%254"),
            ("/%25zz", "/%25zz"),
            ("/API/x", "/API/x"),
            ("/.../x", "/.../x"),
            ("*", "/*"),
        ] {
            assert_eq!(shown(spelt), (path.to_owned(), false), "{spelt}");
        }
    }

    #[test]
    fn a_deep_path_is_told_apart_from_one_that_comes_back() {
        let deep = |count: usize| "/a".repeat(count);
        let edge = deep(MAX_PATH_SEGMENTS);
        assert_eq!(shown(&edge), (edge.clone(), false));
        assert_eq!(shown(&deep(MAX_PATH_SEGMENTS + 1)), (edge.clone(), true));
        let back = format!("{}{}", deep(10_000), "/..".repeat(9_999));
        assert_eq!(shown(&back), ("/a".to_owned(), false));
        let back = format!("{}{}/b", deep(10_000), "/..".repeat(10_000));
        assert_eq!(shown(&back), ("/b".to_owned(), false));
    }
}
