//! The embedded store: every key's state in a table of this process.
//!
//! [`MemoryStore`] decides synchronously and, for a key that it knows, without allocating;
//! as a [`Store`](tollkeeper_core::Store) it does the same. The table is bounded by
//! [`Settings::max_keys`] and sweeps itself a few entries at a time, in ordinary calls: there is
//! no background thread.

mod amend;
mod arena;
mod atomic;
mod clock;
mod decide;
mod fingerprint;
mod group;
mod groups;
mod lock;
mod names;
mod packed;
mod record;
mod room;
mod rows;
mod settings;
mod shard;
mod slots;
mod stats;
mod store;
mod table;
mod turn;
mod whole;

pub use clock::SystemClock;
pub use decide::Checked;
pub use settings::{Settings, TooManyKeys};
pub use stats::Stats;
pub use store::MemoryStore;
