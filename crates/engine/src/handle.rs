//! Owns [`Handle`]: the name of a permit or a reservation, which says where it is kept, so that
//! any node can end it.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tollkeeper_core::limits::{MAX_CHECKS, MAX_KEY_BYTES, MAX_NAME_BYTES};
use tollkeeper_core::{Algorithm, validate_key};

use crate::ask::Target;
use crate::met::MetLimit;

/// Begins every handle's text.
const PREFIX: &str = "tk1_";

/// The longest text that is read: every part of every rule at its longest, in base64.
const MAX_TEXT_BYTES: usize = 2 * (MAX_CHECKS + 1) * (MAX_KEY_BYTES + 2 * MAX_NAME_BYTES + 64);

/// Stands for no tier; no tier has a control character in its name.
const NO_TIER: &str = "\0";

/// Say where what is held under a rule is: in this process, or in the store.
const HERE: &str = "h";
const THERE: &str = "s";

/// What a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleKind {
    /// A permit of a concurrency limit.
    Permit,
    /// A charge that can still be settled.
    Reservation,
}

/// The name of a permit or a reservation. Its text is opaque to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    pub(crate) kind: HandleKind,
    pub(crate) id: u128,
    pub(crate) target: OwnedTarget,
    pub(crate) key: String,
    /// Whether it is held in this process alone, since the store gave no answer.
    pub(crate) local: bool,
}

/// A [`Target`] that can be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnedTarget {
    Rule(String),
    Inline {
        limit: String,
        algorithm: Option<Algorithm>,
    },
    EveryRule,
    /// Rules that a request was found to meet, each with its own key.
    Rules(Vec<OwnedRule>),
}

/// A rule that was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedRule {
    pub(crate) name: String,
    pub(crate) tier: Option<String>,
    pub(crate) key: String,
    /// Whether what is held under it is held in this process alone, though not all of it is: its
    /// part of the store gave no answer.
    pub(crate) local: bool,
}

impl OwnedTarget {
    pub(crate) fn new(target: Target<'_>) -> Self {
        match target {
            Target::Rule(name) => Self::Rule(name.to_owned()),
            Target::Inline { limit, algorithm } => {
                Self::Inline { limit: limit.to_owned(), algorithm }
            }
            Target::EveryRule => Self::EveryRule,
        }
    }
}

impl OwnedRule {
    /// A tier is told by a mark, so that one without a name is not mistaken for none.
    fn parts(&self) -> [&str; 3] {
        [&self.name, self.tier.as_deref().unwrap_or(NO_TIER), &self.key]
    }

    /// The same with where it is held, for handles of which some is held here and some there.
    fn parts_and_place(&self) -> [&str; 4] {
        let [name, tier, key] = self.parts();
        [name, tier, key, if self.local { HERE } else { THERE }]
    }

    fn of_parts(parts: &[String]) -> Option<Self> {
        let (name, tier, key, local) = match parts {
            [name, tier, key] => (name, tier, key, false),
            [name, tier, key, place] if place == HERE || place == THERE => {
                (name, tier, key, place == HERE)
            }
            _ => return None,
        };
        let tier = (tier != NO_TIER).then(|| tier.clone());
        Some(Self { name: name.clone(), tier, key: key.clone(), local })
    }
}

impl Handle {
    /// What it names.
    #[must_use]
    pub fn kind(&self) -> HandleKind {
        self.kind
    }

    /// Remembers which rules hold theirs in this process alone: those of these limits.
    pub(crate) fn mark_local<'a>(&mut self, limits: impl Iterator<Item = MetLimit<'a>>) {
        let OwnedTarget::Rules(rules) = &mut self.target else { return };
        for met in limits {
            let its = |rule: &&mut OwnedRule| rule.name == met.rule && rule.key == met.key;
            rules.iter_mut().filter(its).for_each(|rule| rule.local = true);
        }
    }

    /// Whether some of it, but not all, is held in this process alone.
    pub(crate) fn is_apart(&self) -> bool {
        let rules = match &self.target {
            OwnedTarget::Rules(rules) => rules.as_slice(),
            _ => &[],
        };
        rules.iter().any(|rule| rule.local)
    }
}

impl fmt::Display for Handle {
    /// Every part with its length before it, so that no two handles have one text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tag, parts): (u8, Vec<&str>) = match &self.target {
            OwnedTarget::Rule(name) => (b'r', vec![name]),
            OwnedTarget::Inline { limit, algorithm } => {
                (b'i', vec![limit, algorithm.map_or("", Algorithm::name)])
            }
            OwnedTarget::EveryRule => (b'e', vec![]),
            OwnedTarget::Rules(rules) if self.is_apart() => {
                (b'x', rules.iter().flat_map(OwnedRule::parts_and_place).collect())
            }
            OwnedTarget::Rules(rules) => (b'm', rules.iter().flat_map(OwnedRule::parts).collect()),
        };
        let kind = match (self.kind, self.local) {
            (HandleKind::Permit, false) => b'p',
            (HandleKind::Permit, true) => b'P',
            (HandleKind::Reservation, false) => b'r',
            (HandleKind::Reservation, true) => b'R',
        };
        let mut bytes = vec![kind, tag];
        bytes.extend(self.id.to_be_bytes());
        for part in std::iter::once(self.key.as_str()).chain(parts) {
            let length = u16::try_from(part.len()).map_err(|_| fmt::Error)?;
            bytes.extend(length.to_be_bytes());
            bytes.extend(part.as_bytes());
        }
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

/// A text that is no handle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a handle of this service; expected the text that the check or reserve returned")]
pub struct HandleError;

impl FromStr for Handle {
    type Err = HandleError;

    fn from_str(text: &str) -> Result<Self, HandleError> {
        let encoded = text.strip_prefix(PREFIX).filter(|_| text.len() <= MAX_TEXT_BYTES);
        let bytes = URL_SAFE_NO_PAD.decode(encoded.ok_or(HandleError)?).map_err(|_| HandleError)?;
        parse(&bytes).ok_or(HandleError)
    }
}

fn parse(bytes: &[u8]) -> Option<Handle> {
    let (&[kind, tag], rest) = bytes.split_first_chunk::<2>()?;
    let (id, mut rest) = rest.split_first_chunk::<16>()?;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (length, tail) = rest.split_first_chunk::<2>()?;
        let (part, tail) = tail.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        rest = tail;
        parts.push(String::from_utf8(part.to_vec()).ok()?);
    }
    let mut parts = parts.into_iter();
    let key = parts.next()?;
    let parts: Vec<String> = parts.collect();
    let target = match (tag, parts.as_slice()) {
        (b'r', [name]) => OwnedTarget::Rule(name.clone()),
        (b'i', [limit, algorithm]) => {
            let algorithm = match algorithm.as_str() {
                "" => None,
                name => Some(name.parse().ok()?),
            };
            OwnedTarget::Inline { limit: limit.clone(), algorithm }
        }
        (b'e', []) => OwnedTarget::EveryRule,
        (b'm' | b'x', parts) => {
            let size = if tag == b'm' { 3 } else { 4 };
            // More than any request meets, nobody was given.
            let most = size * MAX_CHECKS;
            let whole = parts.len() <= most && parts.len().is_multiple_of(size);
            let rules = parts.chunks(size).filter(|_| whole).map(OwnedRule::of_parts);
            let rules = rules.collect::<Option<Vec<_>>>().filter(|_| whole)?;
            OwnedTarget::Rules(rules)
        }
        _ => return None,
    };
    let are_keys = match &target {
        OwnedTarget::Rules(rules) => rules.iter().all(|rule| validate_key(&rule.key).is_ok()),
        _ => validate_key(&key).is_ok(),
    };
    are_keys.then_some(())?;
    let local = kind.is_ascii_uppercase();
    let kind = match kind {
        b'p' | b'P' => HandleKind::Permit,
        b'r' | b'R' => HandleKind::Reservation,
        _ => return None,
    };
    Some(Handle { kind, id: u128::from_be_bytes(*id), target, key, local })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(target: OwnedTarget, key: &str) -> Handle {
        let (kind, id) = (HandleKind::Permit, u128::MAX / 3);
        Handle { kind, id, target, key: key.to_owned(), local: false }
    }

    fn rule(name: &str, tier: Option<&str>, key: &str, local: bool) -> OwnedRule {
        OwnedRule { name: name.into(), tier: tier.map(str::to_owned), key: key.into(), local }
    }

    #[test]
    fn a_handle_is_read_back_as_written() {
        let inline = |algorithm| OwnedTarget::Inline { limit: "5/30s".into(), algorithm };
        for target in [
            OwnedTarget::Rule("api".into()),
            inline(None),
            inline(Some(Algorithm::Concurrency)),
            OwnedTarget::EveryRule,
            OwnedTarget::Rules(vec![
                rule("a", None, "k|1", false),
                rule("b", Some(""), "::1", false),
            ]),
            OwnedTarget::Rules(vec![rule("a", None, "k|1", true), rule("b", Some(""), "1", false)]),
        ] {
            for key in ["alice", "ключ", &"k".repeat(MAX_KEY_BYTES)] {
                let handle = handle(target.clone(), key);
                let local = Handle { local: true, ..handle.clone() };
                assert_eq!(handle.to_string().parse(), Ok(handle));
                assert_eq!(local.to_string().parse(), Ok(local));
            }
        }
    }

    #[test]
    fn the_parts_cannot_be_mistaken_for_each_other() {
        let one = handle(OwnedTarget::Rule("a".into()), "b_c").to_string();
        let other = handle(OwnedTarget::Rule("a_b".into()), "c").to_string();
        assert_ne!(one, other);
    }

    #[test]
    fn anything_else_is_refused() {
        let good = handle(OwnedTarget::Rule("api".into()), "alice").to_string();
        for end in 0..good.len() {
            assert_eq!(good[..end].parse::<Handle>(), Err(HandleError), "cut at {end}");
        }
        // A key that no request can have is nobody's.
        let long_key = "k".repeat(MAX_KEY_BYTES + 1);
        for key in ["", &long_key] {
            for target in [
                OwnedTarget::Rule("api".into()),
                OwnedTarget::EveryRule,
                OwnedTarget::Rules(vec![rule("a", None, "k", false), rule("b", None, key, false)]),
            ] {
                assert_eq!(handle(target, key).to_string().parse::<Handle>(), Err(HandleError));
            }
        }
        // Nor are more rules than any request meets, each of which would be looked for.
        let rules = |count| OwnedTarget::Rules(vec![rule("a", None, "k", false); count]);
        let read = |count| handle(rules(count), "alice").to_string().parse::<Handle>();
        assert!(read(MAX_CHECKS).is_ok());
        assert_eq!(read(MAX_CHECKS + 1), Err(HandleError));
        let long = format!("{PREFIX}{}", "A".repeat(MAX_TEXT_BYTES));
        for text in ["", "tk1_", "tk1_!!!!", "nonsense", &format!("{good}AAAA"), &long] {
            assert_eq!(text.parse::<Handle>(), Err(HandleError), "{text}");
        }
    }
}
