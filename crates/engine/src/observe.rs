//! Owns [`Observer`]: who hears what the engine did.

use std::fmt::Debug;

use tollkeeper_core::StoreError;

use crate::verdict::Verdict;

/// Hears of every decision once, and of the store's health. What it does not care for it leaves
/// out.
pub trait Observer: Debug + Send + Sync {
    /// A request was decided.
    fn decided(&self, verdict: &Verdict) {
        let _ = verdict;
    }

    /// The store was asked and the call ended, answered or not, after so long.
    fn store_called(&self, took_us: u64) {
        let _ = took_us;
    }

    /// The store went down, or came up again.
    fn store_changed(&self, change: &StoreChange) {
        let _ = change;
    }

    /// What the store holds for a key cannot be used.
    fn state_failed(&self, error: &StoreError) {
        let _ = error;
    }
}

/// How the store's health changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreChange {
    /// It is asked no more, but for probes.
    Down {
        /// What the last call said.
        reason: String,
    },
    /// It answers again.
    Up {
        /// How long it did not.
        after_us: u64,
    },
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deaf;

impl Observer for Deaf {}
