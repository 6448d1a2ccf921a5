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

    /// A rule denied a request outright, since it lacks a part of its key; or would have, as a
    /// `shadow`.
    fn lacked(&self, rule: &str, shadow: bool) {
        let _ = (rule, shadow);
    }

    /// The store was asked and the call ended, answered or not, after so long.
    fn store_called(&self, took_us: u64) {
        let _ = took_us;
    }

    /// A server of the store, which is called `shard`, went down, or came up again.
    fn store_changed(&self, shard: &str, change: &StoreChange) {
        let _ = (shard, change);
    }

    /// What a denied request was charged on a server of the store may not have come back: it is
    /// not tried again, and goes as the limit lets it go.
    fn kept_charge(&self, shard: &str, error: &StoreError) {
        let _ = (shard, error);
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
