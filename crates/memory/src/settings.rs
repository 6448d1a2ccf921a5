//! How large the table may grow, and what happens to a new key when it is full.

use tollkeeper_core::WhenFull;

/// The bounds of a [`MemoryStore`](crate::MemoryStore).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most keys kept, and apart from them the most reservations. At least 1.
    pub max_keys: usize,
    /// What a new key meets when the table is full.
    pub when_full: WhenFull,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_keys: 1_000_000, when_full: WhenFull::default() }
    }
}
