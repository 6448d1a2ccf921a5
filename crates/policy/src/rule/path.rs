//! Owns [`PathPattern`]: which paths a rule is for.

use std::fmt;
use std::str::FromStr;

use crate::limits::{MAX_PATTERN_BYTES, MAX_PATTERN_SEGMENTS};
use crate::refused::{FieldError, Refused};
use crate::request::path::canonical;

/// What a path of a rule looks like.
pub(crate) const EXPECTED: &str = "a path such as `/search`, `/users/{id}` or `/api/**`";

/// A pattern of paths.
///
/// | pattern | matches |
/// | --- | --- |
/// | `/search` | that path |
/// | `/users/{id}`, `/users/*` | one segment in the place of `{id}` or `*`, whatever it is |
/// | `/api/**` | `/api` and everything below it |
/// | `/a/**/z` | any number of segments, also none, in the place of `**` |
///
/// Upper and lower case differ. What a request's path is compared as, see
/// [`RequestView::path`](crate::RequestView::path): a pattern is written the way people write a
/// path, and `/caf%C3%A9` and `/café` are the same one.
///
/// ```
/// use tollkeeper_policy::PathPattern;
///
/// let pattern: PathPattern = "/users/{id}/**".parse()?;
/// assert_eq!(pattern.as_str(), "/users/{id}/**");
/// assert!("/users/{id".parse::<PathPattern>().is_err());
/// # Ok::<(), tollkeeper_policy::FieldError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    text: Box<str>,
    steps: Box<[Step]>,
}

/// What one segment of a pattern asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// This segment, in its canonical form.
    Exact(Box<[u8]>),
    /// One segment.
    One,
    /// Any number of segments. Never two of them in a row.
    Rest,
}

impl PathPattern {
    /// The pattern as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(crate) fn read(text: &str) -> Result<Self, Refused> {
        if text.len() > MAX_PATTERN_BYTES {
            let expected = format!("a path of at most {MAX_PATTERN_BYTES} bytes");
            return Err(Refused::new(", which is too long", expected));
        }
        let Some(rest) = text.strip_prefix('/') else {
            let near = format!("/{}", text.trim_start_matches(['*', '/']));
            let near = if text.starts_with('*') && near == "/" { "/**" } else { &near };
            let refused = refuse(", which does not begin with a `/`");
            return Err(refused.help(format!("write `{near}`")));
        };
        if let Some(odd) = text.chars().find(|c| c.is_control()) {
            return Err(refuse(format!(
                ", which has the character U+{:04X} in it",
                u32::from(odd)
            )));
        }
        if let Some(mark) = text.chars().find(|c| matches!(c, '?' | '#')) {
            let code = if mark == '?' { "%3F" } else { "%23" };
            return Err(refuse(format!(", which has a `{mark}` in it")).help(format!(
                "a query is no part of the path; the character itself is `{code}`"
            )));
        }
        let mut steps = Vec::new();
        // A slash at the end does not matter.
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        for segment in rest.split('/').filter(|_| !rest.is_empty()) {
            let step = step(text, segment)?;
            if step != Step::Rest || steps.last() != Some(&Step::Rest) {
                steps.push(step);
            }
        }
        if steps.len() > MAX_PATTERN_SEGMENTS {
            let expected = format!("a path of at most {MAX_PATTERN_SEGMENTS} segments");
            return Err(Refused::new(", which has too many segments", expected));
        }
        Ok(Self { text: text.into(), steps: steps.into() })
    }
}

fn refuse(reason: impl Into<String>) -> Refused {
    Refused::new(reason, EXPECTED)
}

fn step(text: &str, segment: &str) -> Result<Step, Refused> {
    match segment {
        "**" => return Ok(Step::Rest),
        "*" => return Ok(Step::One),
        "" => {
            let mut near = text.to_owned();
            while near.contains("//") {
                near = near.replace("//", "/");
            }
            return Err(refuse(", which has an empty segment").help(format!("write `{near}`")));
        }
        "." | ".." => {
            return Err(refuse(format!(", which has a `{segment}` segment"))
                .help("write the path that it leads to"));
        }
        _ => {}
    }
    let of_segment = |what: &str| refuse(format!(", in which {what}"));
    if let Some(name) = segment.strip_prefix('{') {
        return braces(segment, name);
    }
    if segment.contains(['{', '}']) {
        return Err(of_segment("a `{name}` is glued to other text")
            .help("a `{name}` stands for a whole segment; write `*` for any segment"));
    }
    if segment.contains("**") {
        return Err(of_segment("`**` is glued to other text")
            .help("`**` stands for whole segments: put a `/` before and after it"));
    }
    if segment.contains('*') {
        return Err(of_segment("a `*` is glued to other text")
            .help("a `*` stands for a whole segment; the character itself is `%2A`"));
    }
    if let Some(name) = segment.strip_prefix(':') {
        return Err(of_segment("a segment begins with a `:`")
            .help(format!("write `{{{name}}}` for any segment; the character itself is `%3A`")));
    }
    if let Some(bad) = bad_escape(segment) {
        return Err(of_segment(&format!("`{bad}` is no percent-encoding"))
            .help("the character `%` itself is `%25`"));
    }
    let exact = canonical(segment).to_vec();
    match &*exact {
        b"." | b".." => Err(of_segment("a segment stands for `.` or `..`")),
        _ => Ok(Step::Exact(exact.into())),
    }
}

/// `{name}`, of which the brace has been taken off.
fn braces(segment: &str, rest: &str) -> Result<Step, Refused> {
    let Some(name) = rest.strip_suffix('}') else {
        let refused = match rest.contains('}') {
            true => refuse(", in which a `{name}` is glued to other text")
                .help("a `{name}` stands for a whole segment"),
            false => refuse(", in which a `{` is not closed").help(format!("write `{segment}}}`")),
        };
        return Err(refused);
    };
    let usual = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
    match name {
        _ if !name.is_empty() && name.bytes().all(usual) => Ok(Step::One),
        "" => Err(refuse(", in which `{}` has no name").help("write `{id}` or `*`")),
        _ if name.starts_with('*') => Err(refuse(format!(", in which `{segment}` is no name"))
            .help("write `**` for any number of segments")),
        _ => Err(refuse(format!(", in which `{segment}` is no name"))
            .help("a name has letters, digits, `_` and `-`: write `{id}` or `*`")),
    }
}

/// The first `%` that two hexadecimal digits do not follow.
fn bad_escape(segment: &str) -> Option<&str> {
    segment.match_indices('%').find_map(|(at, _)| {
        let digits = segment.as_bytes().get(at + 1..at + 3);
        let good = digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        (!good).then(|| &segment[at..=at])
    })
}

impl FromStr for PathPattern {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::read(text).map_err(|refused| refused.of("path", text))
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
