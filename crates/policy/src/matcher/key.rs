//! The text of a key. Two requests have the same one only if every part of it is the same.
//!
//! One part is its value as it is. Several are joined with `|`, and a `|` or a `\` inside of one is
//! written `\|` and `\\`. A part that is longer than [`MAX_KEY_PART_BYTES`] or not UTF-8 is
//! `sha256:` and its hash, and so is one that looks like a hash or like [`ANONYMOUS`], so that
//! nobody can send either. A key that is longer than [`MAX_KEY_BYTES`] as a whole is hashed in turn:
//! no `|` stands in that, so it is unlike every other key of several parts.

use std::borrow::Cow;
use std::fmt::Write;
use std::net::IpAddr;

use compact_str::CompactString;
use sha2::{Digest, Sha256};
use tollkeeper_core::limits::MAX_KEY_BYTES;

use super::facts::Facts;
use crate::limits::MAX_KEY_PART_BYTES;
use crate::request::{RequestView, values};
use crate::rule::{KeyPart, Rule, WhenMissing};

/// The key of a rule without one.
const GLOBAL: CompactString = CompactString::const_new("global");

/// What stands for a part that is missing.
const ANONYMOUS: &str = "<anonymous>";

/// What a hash begins with.
const HASHED: &str = "sha256:";

/// The key of a request, or the place of the first part that is missing and must not be.
pub(super) fn key<R: RequestView + ?Sized>(
    rule: &Rule,
    pattern: Option<usize>,
    facts: &Facts<'_, R>,
) -> Result<CompactString, usize> {
    let parts = match rule.key() {
        [] => return Ok(GLOBAL),
        // As most keys are: nothing is put together.
        [part] => {
            return match value(part, rule, pattern, facts) {
                Some(value) => Ok(alone(&value)),
                None if rule.on_missing() == WhenMissing::Anonymous => Ok(ANONYMOUS.into()),
                None => Err(0),
            };
        }
        parts => parts,
    };
    let mut out = CompactString::default();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            out.push('|');
        }
        match value(part, rule, pattern, facts) {
            Some(value) => push(&mut out, &value),
            None if rule.on_missing() == WhenMissing::Anonymous => out.push_str(ANONYMOUS),
            None => return Err(index),
        }
    }
    match out.len() > MAX_KEY_BYTES {
        true => Ok(hashed(out.as_bytes())),
        false => Ok(out),
    }
}

/// Whether the rule does not apply to a key.
pub(super) fn is_exempt(rule: &Rule, key: &str) -> bool {
    let exempt = rule.exempt();
    match rule.key() {
        [_] if key == ANONYMOUS => false,
        [_] if key.starts_with(HASHED) => {
            exempt.keys().iter().any(|known| alone(&Value::Text(known.expose())) == key)
        }
        _ => exempt.has_key(key),
    }
}

/// The value of a part.
enum Value<'v> {
    Text(&'v str),
    Found(Cow<'v, [u8]>),
    Made(CompactString),
}

impl Value<'_> {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Found(bytes) => bytes,
            Self::Made(text) => text.as_bytes(),
        }
    }

    /// The value, if it is UTF-8.
    fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Found(bytes) => str::from_utf8(bytes).ok(),
            Self::Made(text) => Some(text),
        }
    }
}

/// The value of a part; none that is empty.
#[inline]
fn value<'v, R: RequestView + ?Sized>(
    part: &KeyPart,
    rule: &'v Rule,
    pattern: Option<usize>,
    facts: &'v Facts<'_, R>,
) -> Option<Value<'v>> {
    found(part, rule, pattern, facts).filter(|value| !value.as_bytes().is_empty())
}

#[inline]
fn found<'v, R: RequestView + ?Sized>(
    part: &KeyPart,
    rule: &'v Rule,
    pattern: Option<usize>,
    facts: &'v Facts<'_, R>,
) -> Option<Value<'v>> {
    let request = facts.request;
    let text = match part {
        KeyPart::Ip => return Some(Value::Made(address(facts.ip()?, facts.ipv6_prefix))),
        KeyPart::Cookie(name) => return facts.cookie(name).map(Value::Found),
        KeyPart::Header(name) => return facts.header(name).map(|it| Value::Found(it.into())),
        KeyPart::Query(name) => {
            return values::parameter(request.query()?, name).map(Value::Found);
        }
        KeyPart::Method => {
            let mut method = CompactString::new(request.method()?);
            method.make_ascii_uppercase();
            return Some(Value::Made(method));
        }
        KeyPart::Host => facts.host()?,
        KeyPart::Attribute(name) => request.attribute(name)?,
        KeyPart::Route => {
            let of_app = request.route().filter(|route| !route.is_empty());
            let of_rule = || Some(rule.match_().paths().get(pattern?)?.as_str());
            of_app.or_else(of_rule)?
        }
    };
    Some(Value::Text(text))
}

/// An address; of an IPv6 one the network that it is in, such as `2001:db8::/64`.
fn address(ip: IpAddr, ipv6_prefix: u8) -> CompactString {
    let mut out = CompactString::default();
    // Writing to a string does not fail.
    let _ = match ip {
        IpAddr::V4(ip) => write!(out, "{ip}"),
        IpAddr::V6(ip) => {
            let host_bits = 128_u32.saturating_sub(u32::from(ipv6_prefix));
            let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
            let network = std::net::Ipv6Addr::from_bits(ip.to_bits() & mask);
            write!(out, "{network}/{ipv6_prefix}")
        }
    };
    out
}

/// A value that is a key by itself.
#[inline]
fn alone(value: &Value<'_>) -> CompactString {
    match usual(value) {
        Some(text) => text.into(),
        None => hashed(value.as_bytes()),
    }
}

/// Adds a value to a key of several.
fn push(out: &mut CompactString, value: &Value<'_>) {
    let Some(text) = usual(value) else {
        return out.push_str(&hashed(value.as_bytes()));
    };
    if !text.contains(['|', '\\']) {
        return out.push_str(text);
    }
    for c in text.chars() {
        if matches!(c, '|' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
}

/// The text of a value that stands for itself.
#[inline]
fn usual<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    value.as_text().filter(|text| {
        text.len() <= MAX_KEY_PART_BYTES && !text.starts_with(HASHED) && *text != ANONYMOUS
    })
}

fn hashed(value: &[u8]) -> CompactString {
    let mut out = CompactString::const_new(HASHED);
    for byte in Sha256::digest(value) {
        // Writing to a string does not fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}
