//! The names of keys: readable, injective, and with the identity as the hash tag, or what of it
//! lies together.

use std::borrow::Cow;

use tollkeeper_core::{Algorithm, Colocate, state_name};

/// Stands between a state's key and what names a record of it: the ticket of a reservation.
const RECORD: &str = ":r:";

/// What all keys of ours have in common: how they begin, and which lie together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Naming<'a> {
    pub(crate) prefix: &'a str,
    pub(crate) colocate: Colocate,
}

/// The hash tag of a key's states, which says where they lie.
pub(crate) fn tag(colocate: Colocate, key: &str) -> Cow<'_, str> {
    colocate.tag(key)
}

/// The key of a state.
pub(crate) fn state_key(
    naming: Naming<'_>,
    limit: &str,
    algorithm: Algorithm,
    key: &str,
) -> String {
    state_name(naming.prefix, naming.colocate, limit, algorithm, key)
}

/// A name that lies where all states of a key do.
pub(crate) fn tagged(naming: Naming<'_>, key: &str) -> String {
    state_key(naming, "", Algorithm::TokenBucket, key)
}

/// The key of a reservation's record, beside its state.
pub(crate) fn record_key(state_key: &str, id: u128) -> String {
    format!("{state_key}{RECORD}{}", permit_text(id))
}

/// The key of what is lent of a state, beside it: no ticket is spelled so.
pub(crate) fn loans_key(state_key: &str) -> String {
    format!("{state_key}{RECORD}lent")
}

/// A ticket as the scripts spell it.
pub(crate) fn permit_text(id: u128) -> String {
    format!("{id:032x}")
}

/// The names in a state's key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) limit: String,
    pub(crate) algorithm: Algorithm,
    pub(crate) key: String,
    /// Whether it is a record beside the state.
    pub(crate) record: bool,
}

/// Reads a key back, whatever lies together; `None` for one that is not ours.
pub(crate) fn parse(prefix: &str, name: &str) -> Option<Parsed> {
    let rest = name.strip_prefix(prefix)?.strip_prefix(":{")?;
    let (tag, rest) = rest.split_once('}')?;
    let (beside, rest) = rest.split_once(':')?;
    let key = match tag == tag_of_all() {
        true => beside.to_owned(),
        false => format!("{tag}{beside}"),
    };
    let mut parts: Vec<&str> = rest.split(':').collect();
    let record = parts.len() >= 3 && parts[parts.len() - 2] == "r";
    if record {
        parts.truncate(parts.len() - 2);
    }
    let (limit, suffix) = match parts[..] {
        [suffix] => ("global", suffix),
        [limit, suffix] => (limit, suffix),
        _ => return None,
    };
    let algorithm = Algorithm::ALL.into_iter().find(|known| known.suffix() == suffix)?;
    Some(Parsed { limit: unescape(limit)?, algorithm, key: unescape(&key)?, record })
}

fn tag_of_all() -> Cow<'static, str> {
    tag(Colocate::All, "")
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok()
}

/// A pattern for SCAN that finds every key of ours, whatever the prefix contains.
pub(crate) fn pattern(prefix: &str) -> String {
    let mut pattern = String::new();
    for c in prefix.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern + ":{*"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything() -> impl Iterator<Item = (Algorithm, Colocate)> {
        let with = |algorithm| Colocate::ALL.map(|colocate| (algorithm, colocate));
        Algorithm::ALL.into_iter().flat_map(with)
    }

    #[test]
    fn a_name_is_read_back_as_written() {
        for limit in ["global", "api", "per-key/1s", "a:b"] {
            for key in ["alice", "global", "a}:b{%:r:", "ключ", "\n", "acme|bob", "|", "%all"] {
                for (algorithm, colocate) in everything() {
                    let naming = Naming { prefix: "rl", colocate };
                    let name = state_key(naming, limit, algorithm, key);
                    let parsed = parse("rl", &name).unwrap();
                    assert_eq!((&*parsed.limit, &*parsed.key), (limit, key));
                    assert_eq!((parsed.algorithm, parsed.record), (algorithm, false));
                    let record = parse("rl", &record_key(&name, 7)).unwrap();
                    assert_eq!((&*record.limit, &*record.key, record.record), (limit, key, true));
                    let loans = parse("rl", &loans_key(&name)).unwrap();
                    assert_eq!((&*loans.limit, &*loans.key, loans.record), (limit, key, true));
                }
            }
        }
        assert_eq!(parse("rl", "rl:{a}:b:c:d:tb"), None);
        assert_eq!(parse("rl", "other:{a}:tb"), None);
    }

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(pattern("r[l]*"), "r\\[l\\]\\*:{*");
    }
}
