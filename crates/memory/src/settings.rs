//! How large the table may grow, and what happens to a new key when it is full.

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

/// What happens to a key that the table does not know and has no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Of a sample, the entry nearest to being as new makes room. What it had used is forgotten.
    #[default]
    Evict,
    /// The request is denied.
    Deny,
    /// The request is admitted and not remembered.
    Allow,
}
