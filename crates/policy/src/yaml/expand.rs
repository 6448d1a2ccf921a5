//! Expands `${VAR}` and `${VAR:-default}` in the text of a value. `$${` stands for `${` itself.

use super::Lookup;
use crate::error::Fault;

/// A text with a variable that cannot be expanded: where in it, in characters, and why.
pub(super) struct Refusal {
    pub(super) start: usize,
    pub(super) length: usize,
    pub(super) fault: Fault,
}

/// The text with its variables replaced and whether there were any, or `None` for a text
/// that is its own expansion.
pub(super) fn expand(text: &str, env: Lookup<'_>) -> Result<Option<(String, bool)>, Refusal> {
    if !text.contains("${") {
        return Ok(None);
    }
    let mut out = String::new();
    let mut has_variable = false;
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(literal) = rest[..at].strip_suffix('$') {
            out.push_str(literal);
            out.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let start = text.len() - rest.len() + at;
        let refuse = |length: usize, fault: Fault| Refusal {
            start: text[..start].chars().count(),
            length: text[start..start + length].chars().count(),
            fault,
        };
        let Some(end) = rest[at..].find('}') else {
            let fault = Fault::new("a `${` is opened here and never closed")
                .help("write `${NAME}`, or `$${` for the two characters themselves");
            return Err(refuse(text.len() - start, fault));
        };
        let inside = &rest[at + 2..at + end];
        out.push_str(&value(inside, env).map_err(|fault| refuse(end + 1, fault))?);
        has_variable = true;
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    Ok(Some((out, has_variable)))
}

fn value(inside: &str, env: Lookup<'_>) -> Result<String, Fault> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let mut chars = name.chars();
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    if !chars.next().is_some_and(letter) || !chars.all(|c| letter(c) || c.is_ascii_digit()) {
        // Not quoted: it may be part of a password that has a `${` in it.
        return Err(Fault::new("this is not the name of a variable")
            .expected("letters, digits and `_`, such as `${NAME}` or `${NAME:-default}`")
            .help("write `$${` for the two characters themselves"));
    }
    if default.is_some_and(|default| default.contains("${")) {
        let message = format!("the default of `${{{name}}}` holds another variable");
        return Err(Fault::new(message).expected("a default that is plain text"));
    }
    match (env(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(Fault::new(format!("the variable `{name}` is not set"))
            .help(format!("set it, or give a default: `${{{name}:-default}}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "RATE" => Some("5/s".into()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${RATE}".into()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_replaced() {
        for (text, expanded) in [
            ("${RATE}", "5/s"),
            ("a ${RATE} b ${RATE}", "a 5/s b 5/s"),
            ("${NONE:-7/s}", "7/s"),
            ("${RATE:-7/s}", "5/s"),
            ("${EMPTY:-7/s}", "7/s"),
            ("${NONE:-}", ""),
            ("${EMPTY}", ""),
            ("${NONE:-a:-b}", "a:-b"),
            ("${NESTED}", "${RATE}"),
        ] {
            let Ok(Some((out, true))) = expand(text, &env) else {
                panic!("{text} has a variable");
            };
            assert_eq!(out, expanded, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_variable_stays() {
        for text in ["", "$RATE", "$", "{}", "$$", "5/s"] {
            assert!(matches!(expand(text, &env), Ok(None)), "{text}");
        }
        for (text, out) in [("$${RATE}", "${RATE}"), ("a$${", "a${")] {
            assert!(matches!(expand(text, &env), Ok(Some((o, false))) if o == out));
        }
    }

    #[test]
    fn refusals_have_their_place() {
        for (text, start, length) in [
            ("ä${NONE} b", 1, 7),
            ("${RATE}${NONE}", 7, 7),
            ("x ${RATE", 2, 6),
            ("${}", 0, 3),
            ("${1X}", 0, 5),
            ("${A B}", 0, 6),
            ("${A:-${RATE}}", 0, 12),
        ] {
            let Err(refusal) = expand(text, &env) else {
                panic!("{text} is refused");
            };
            assert_eq!((refusal.start, refusal.length), (start, length), "{text}");
        }
    }
}
