//! How large the table may grow, what happens to a new key when it is full, and what it remembers
//! for people.

use std::error::Error;
use std::fmt;

use tollkeeper_core::WhenFull;

/// The bounds of a [`MemoryStore`](crate::MemoryStore).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most keys kept, and apart from them the most records of reservations and leases. At least 1.
    pub max_keys: usize,
    /// What a new key meets when the table is full.
    pub when_full: WhenFull,
    /// Whether the text of every key is kept, so that all of them can be shown. Without it a state
    /// is shown to who names its key; it takes half of the memory, and decides the same.
    pub names: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_keys: 1_000_000, when_full: WhenFull::default(), names: true }
    }
}

/// The system has not the memory for a table of so many keys. Some count a table that is asked for as if all of
/// it were used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyKeys {
    /// How many were asked for.
    pub max_keys: usize,
}

impl fmt::Display for TooManyKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max_keys } = self;
        write!(f, "the system has not the memory for a table of {max_keys} keys")
    }
}

impl Error for TooManyKeys {}
