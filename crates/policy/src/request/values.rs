//! Finds single values in a query and in a cookie header.

use std::borrow::Cow;

use super::path::decoded;

/// The first parameter of a name, decoded. Names are compared decoded too.
pub(crate) fn parameter<'q>(query: &'q str, name: &str) -> Option<Cow<'q, [u8]>> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let is_it = *decode(key.as_bytes(), true) == *name.as_bytes();
        is_it.then(|| decode(value.as_bytes(), true))
    })
}

/// The first cookie of a name, without quotes around it, decoded as apps do.
pub(crate) fn cookie<'c>(header: &'c [u8], name: &str) -> Option<Cow<'c, [u8]>> {
    header.split(|byte| *byte == b';').find_map(|pair| {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let (key, value) = (&pair[..equals], pair[equals + 1..].trim_ascii());
        let inside = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
        (key.trim_ascii() == name.as_bytes()).then(|| decode(inside.unwrap_or(value), false))
    })
}

/// The bytes that some stand for; in a query a `+` is a space.
fn decode(bytes: &[u8], plus_is_space: bool) -> Cow<'_, [u8]> {
    if !bytes.iter().any(|b| *b == b'%' || (plus_is_space && *b == b'+')) {
        return bytes.into();
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match decoded(bytes, at) {
            Some(plain) => {
                out.push(plain);
                at += 3;
            }
            None => {
                out.push(if plus_is_space && byte == b'+' { b' ' } else { byte });
                at += 1;
            }
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_parameter_of_a_name() {
        for (query, value) in [
            ("k=a", Some("a")),
            ("x=1&k=a&k=b", Some("a")),
            ("k=a%20b+c", Some("a b c")),
            ("%6B=a", Some("a")),
            ("k", Some("")),
            ("k=", Some("")),
            ("k=a=b", Some("a=b")),
            ("k=%zz%4", Some("%zz%4")),
            ("K=a", None),
            ("kk=a&", None),
            ("", None),
        ] {
            let found = parameter(query, "k");
            assert_eq!(found.as_deref(), value.map(str::as_bytes), "{query}");
        }
        assert_eq!(parameter("k=%ff", "k").as_deref(), Some(&[0xff][..]));
    }

    #[test]
    fn the_first_cookie_of_a_name() {
        for (header, value) in [
            ("k=a", Some("a")),
            ("x=1; k=a; k=b", Some("a")),
            ("x=1;k=a", Some("a")),
            ("k=\"a b\"", Some("a b")),
            ("k=%61+b", Some("a+b")),
            ("k=a=b", Some("a=b")),
            ("k=", Some("")),
            ("k=\"", Some("\"")),
            ("k; x=1", None),
            ("K=a", None),
            ("", None),
        ] {
            let found = cookie(header.as_bytes(), "k");
            assert_eq!(found.as_deref(), value.map(str::as_bytes), "{header}");
        }
        assert_eq!(cookie(b"x=\xe9; k=a", "k").as_deref(), Some(&b"a"[..]));
        assert_eq!(cookie(b"k=\xe9", "k").as_deref(), Some(&[0xe9][..]));
    }
}
