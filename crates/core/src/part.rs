//! Owns [`Part`]: where in a store a key's states lie; and [`Colocate`]: which lie together.

use std::borrow::Cow;

use crate::describe::escaped;

/// The most servers of one store that are told apart. More than so many share their names and
/// their breakers.
pub const MAX_SHARDS: usize = 64;

/// Where in a store a key's states lie. Limits of one part are decided in one step; those of
/// several are decided one by one, and given back when one of them denies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Part {
    /// Which of the store's servers: what fails by itself. Less than [`MAX_SHARDS`].
    pub shard: usize,
    /// What is decided in one step there.
    pub slot: u16,
}

/// Which keys' states lie together in a store that spreads them: those of one hash tag.
///
/// ```
/// use tollkeeper_core::Colocate;
///
/// assert_eq!(Colocate::Key.tag("acme|bob"), "acme|bob");
/// assert_eq!(Colocate::First.tag("acme|bob"), "acme");
/// assert_eq!(Colocate::First.tag("acme"), "acme");
/// assert_eq!(Colocate::All.tag("acme"), Colocate::All.tag("bob"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Colocate {
    /// Those of one key.
    #[default]
    Key,
    /// Those of keys with the same first part, up to the first `|`.
    First,
    /// All of them.
    All,
}

impl Colocate {
    /// All of them, in the order in which messages name them.
    pub const ALL: [Self; 3] = [Self::Key, Self::First, Self::All];

    /// The word for it in a policy.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::First => "first",
            Self::All => "all",
        }
    }

    /// The hash tag of a key's states: what stands between the braces of their names.
    #[must_use]
    pub fn tag(self, key: &str) -> Cow<'_, str> {
        match self {
            Self::Key => escaped(key),
            Self::First => escaped(first_part(key)),
            Self::All => Cow::Borrowed(EVERYTHING),
        }
    }
}

/// The tag of everything: no key is written so, since a `%` is followed by digits there.
pub(crate) const EVERYTHING: &str = "%all";

/// What stands before the first `|` that is a border; the whole key where that is nothing, since
/// an empty tag is none.
pub(crate) fn first_part(key: &str) -> &str {
    let mut escaping = false;
    let border = key.bytes().position(|byte| {
        let is_border = byte == b'|' && !escaping;
        escaping = byte == b'\\' && !escaping;
        is_border
    });
    match border {
        None | Some(0) => key,
        Some(at) => &key[..at],
    }
}
