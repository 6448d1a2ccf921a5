//! Counters of what the table did by itself.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often the table did what its bounds ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Keys in the table, some of which may have expired.
    pub keys: u64,
    /// Entries that had not expired and made room for another.
    pub evicted: u64,
    /// Requests denied because the table was full.
    pub denied_full: u64,
    /// Limits that were not counted because the table was full.
    pub allowed_full: u64,
    /// Expired entries taken away.
    pub swept: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) evicted: AtomicU64,
    pub(crate) denied_full: AtomicU64,
    pub(crate) allowed_full: AtomicU64,
    pub(crate) swept: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self, keys: u64) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            keys,
            evicted: read(&self.evicted),
            denied_full: read(&self.denied_full),
            allowed_full: read(&self.allowed_full),
            swept: read(&self.swept),
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
