//! A second matcher, written from the documentation alone: a path is a list of decoded segments,
//! and a pattern is held against it with a table of what has been matched so far.

use tollkeeper_policy::limits::MAX_PATH_SEGMENTS;

/// The segments of a path as it came: decoded, without empty ones, `.` and `..` resolved.
pub(super) fn segments(path: &str) -> Vec<Vec<u8>> {
    let end = path.find(['?', '#']).unwrap_or(path.len());
    let mut segments = Vec::new();
    for segment in path[..end].split('/') {
        let segment = decoded(segment);
        if segment == b".." {
            segments.pop();
        } else if !segment.is_empty() && segment != b"." {
            segments.push(segment);
        }
    }
    segments
}

/// Each `%` and two hexadecimal digits as the byte that they stand for. Any other `%` is itself.
fn decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let digit = |at: usize| {
        let byte = *bytes.get(at)?;
        char::from(byte).to_digit(16).map(|digit| digit.to_le_bytes()[0])
    };
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(16 * high + low);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

/// Whether a pattern matches. Of a path that is too long, what comes before a `**` is compared.
pub(super) fn is_path(pattern: &str, path: &[Vec<u8>]) -> bool {
    let steps: Vec<&str> = pattern.split('/').filter(|step| !step.is_empty()).collect();
    let Some(before) = steps.iter().position(|step| *step == "**") else {
        return path.len() <= MAX_PATH_SEGMENTS && whole(&steps, path);
    };
    match path.len() > MAX_PATH_SEGMENTS {
        true => whole(&steps[..before], &path[..before]),
        false => whole(&steps, path),
    }
}

/// `matched[n]`: the steps so far match the first n segments.
fn whole(steps: &[&str], path: &[Vec<u8>]) -> bool {
    let mut matched = vec![false; path.len() + 1];
    matched[0] = true;
    for step in steps {
        let mut next = vec![false; path.len() + 1];
        for n in 0..=path.len() {
            next[n] = match *step {
                "**" => matched[..=n].contains(&true),
                _ if n == 0 => false,
                "*" => matched[n - 1],
                name if name.starts_with('{') => matched[n - 1],
                exact => matched[n - 1] && decoded(exact) == path[n - 1],
            };
        }
        matched = next;
    }
    matched[path.len()]
}
