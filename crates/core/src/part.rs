//! Owns [`Part`]: where in a store a key's states lie.

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
