//! Owns [`Stats`]: how a hybrid does. Calls are counted, decisions are not.

use std::sync::atomic::{AtomicU64, Ordering};

/// How a hybrid does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys that are decided here now, by how; of those that are shared, some may have expired.
    pub keys: [(&'static str, u64); 3],
    /// Calls of its own.
    pub calls: [Called; KINDS],
    /// How many processes there are, if they count each other.
    pub nodes: Option<u64>,
}

/// How calls of one kind went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Called {
    /// What they were for: `draw`, `report`, `give_back` or `count`.
    pub kind: &'static str,
    /// How many were made.
    pub made: u64,
    /// How many of those were not answered in time, or with an error.
    pub failed: u64,
}

/// What a call is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Units are taken.
    Draw,
    /// What was admitted is told.
    Report,
    /// Units that nobody wants are given back.
    GiveBack,
    /// Processes count each other.
    Count,
}

const KINDS: usize = 4;

/// What each kind is called, in the order of [`Kind`].
const NAMES: [&str; KINDS] = ["draw", "report", "give_back", "count"];

/// Counts of calls.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    made: [AtomicU64; KINDS],
    failed: [AtomicU64; KINDS],
}

impl Calls {
    /// A call is over.
    pub(crate) fn add(&self, kind: Kind, is_done: bool) {
        self.made[kind as usize].fetch_add(1, Ordering::Relaxed);
        if !is_done {
            self.failed[kind as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> [Called; KINDS] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        std::array::from_fn(|nth| Called {
            kind: NAMES[nth],
            made: read(&self.made[nth]),
            failed: read(&self.failed[nth]),
        })
    }
}
