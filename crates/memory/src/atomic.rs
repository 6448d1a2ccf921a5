//! What the locks of this crate are made of. A model checker puts its own in its place (`tests/model_*.rs`), so
//! nothing else is used by them.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
pub(crate) use std::thread::yield_now;

/// How often a lock is looked at before the processor is offered to others.
pub(crate) const SPINS: u32 = 100;
