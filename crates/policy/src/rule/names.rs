//! What the names of headers, cookies, parameters and attributes look like.

use crate::limits::{MAX_FIELD_NAME_BYTES, MAX_METHOD_BYTES};
use crate::refused::Refused;

/// Whether a byte may stand in a token of HTTP.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The name of a header, in lower case.
pub(crate) fn header(name: &str) -> Result<Box<str>, Refused> {
    const EXPECTED: &str = "the name of a header such as `x-api-key`";
    match usual(name) && name.bytes().all(is_token) {
        true => Ok(name.to_ascii_lowercase().into()),
        false => Err(refuse(name, "a header", EXPECTED)),
    }
}

/// The name of a cookie.
pub(crate) fn cookie(name: &str) -> Result<Box<str>, Refused> {
    const EXPECTED: &str = "the name of a cookie such as `session`";
    match usual(name) && name.bytes().all(is_token) {
        true => Ok(name.into()),
        false => Err(refuse(name, "a cookie", EXPECTED)),
    }
}

/// The name of a parameter of the query, as it is when it is decoded.
pub(crate) fn parameter(name: &str) -> Result<Box<str>, Refused> {
    const EXPECTED: &str = "the name of a parameter such as `api_key`";
    match usual(name) {
        true => Ok(name.into()),
        false => Err(refuse(name, "a parameter", EXPECTED)),
    }
}

/// The name of an attribute.
pub(crate) fn attribute(name: &str) -> Result<Box<str>, Refused> {
    const EXPECTED: &str = "the name of an attribute such as `plan`";
    match usual(name) && name.bytes().all(|b| b.is_ascii_graphic()) {
        true => Ok(name.into()),
        false => Err(refuse(name, "an attribute", EXPECTED)),
    }
}

/// The name of a method.
pub(crate) fn method(name: &str) -> Result<Box<str>, Refused> {
    let expected = "a method in upper case such as `GET`";
    let fits = (1..=MAX_METHOD_BYTES).contains(&name.len()) && name.bytes().all(is_token);
    match fits {
        false => Err(Refused::new(", which cannot be a method", expected)),
        true if name.bytes().any(|b| b.is_ascii_lowercase()) => {
            let refused = Refused::new(", which is not in upper case", expected);
            Err(refused.help(format!("write `{}`", name.to_ascii_uppercase())))
        }
        true => Ok(name.into()),
    }
}

fn usual(name: &str) -> bool {
    (1..=MAX_FIELD_NAME_BYTES).contains(&name.len()) && !name.contains(char::is_control)
}

fn refuse(name: &str, of: &str, expected: &str) -> Refused {
    let reason = match name.len() {
        0 => format!(", which has no name of {of}"),
        length if length > MAX_FIELD_NAME_BYTES => format!(", whose name of {of} is too long"),
        _ => format!(", whose name cannot be that of {of}"),
    };
    let expected = format!("{expected}, of at most {MAX_FIELD_NAME_BYTES} bytes");
    Refused::new(reason, expected)
}
