//! Owns [`Shard`]: the keys and reservations that one lock guards, and what their entries hold.

use tollkeeper_core::{Algorithm, Entry, Filter, Quota, State};

use crate::slab::{Expires, Slab};

#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) keys: Slab<KeyEntry>,
    pub(crate) reservations: Slab<Reservation>,
    /// Calls so far, to tell every few of them apart.
    pub(crate) calls: u32,
}

impl Shard {
    pub(crate) fn new(seed: u64) -> Self {
        let reservations = Slab::new(seed.rotate_left(32));
        Self { keys: Slab::new(seed), reservations, calls: 0 }
    }
}

/// The names of a state: its limit and its key, in one allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    text: Box<str>,
    limit_bytes: usize,
}

impl Names {
    pub(crate) fn new(limit: &str, key: &str) -> Self {
        Self { text: [limit, key].concat().into_boxed_str(), limit_bytes: limit.len() }
    }

    pub(crate) fn are(&self, limit: &str, key: &str) -> bool {
        // Both lengths first: it is what tells ("a", "bc") from ("ab", "c").
        self.limit_bytes == limit.len()
            && self.text.len() == limit.len() + key.len()
            && self.key() == key
            && self.limit() == limit
    }

    pub(crate) fn match_filter(&self, filter: Filter<'_>) -> bool {
        filter.matches(self.limit(), self.key())
    }

    fn limit(&self) -> &str {
        &self.text[..self.limit_bytes]
    }

    fn key(&self) -> &str {
        &self.text[self.limit_bytes..]
    }
}

/// One key's state under one limit.
#[derive(Debug)]
pub(crate) struct KeyEntry {
    pub(crate) hash: u64,
    pub(crate) expires_us: u64,
    pub(crate) names: Names,
    pub(crate) quota: Quota,
    pub(crate) state: State,
}

impl KeyEntry {
    /// An entry that nothing has been charged to; it counts as expired until it is written.
    pub(crate) fn fresh(hash: u64, names: Names, quota: &Quota, now_us: u64) -> Self {
        Self { hash, expires_us: 0, names, quota: *quota, state: State::fresh(quota, now_us) }
    }

    pub(crate) fn is(&self, limit: &str, algorithm: Algorithm, key: &str) -> bool {
        self.quota.algorithm() == algorithm && self.names.are(limit, key)
    }

    /// Notes that the state was written under `quota`.
    pub(crate) fn written(&mut self, quota: &Quota, now_us: u64) {
        self.quota = *quota;
        self.expires_us = now_us + self.state.reset_after_us(quota, now_us);
    }

    pub(crate) fn show(&self, now_us: u64) -> Entry {
        Entry {
            limit: self.names.limit().to_owned(),
            quota: self.quota,
            key: self.names.key().to_owned(),
            state: self.state.clone(),
            ttl_us: self.expires_us.saturating_sub(now_us),
        }
    }
}

impl Expires for KeyEntry {
    fn hash(&self) -> u64 {
        self.hash
    }

    fn expires_us(&self) -> u64 {
        self.expires_us
    }
}

/// A charge that can still be settled. It outlives its settling, so that a repeat is known as one.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(crate) id: u128,
    pub(crate) hash: u64,
    pub(crate) names: Names,
    pub(crate) algorithm: Algorithm,
    pub(crate) units: u64,
    pub(crate) charged_at_us: u64,
    pub(crate) expires_us: u64,
    pub(crate) settled: bool,
}

impl Reservation {
    pub(crate) fn is(&self, id: u128, limit: &str, algorithm: Algorithm, key: &str) -> bool {
        self.id == id && self.algorithm == algorithm && self.names.are(limit, key)
    }
}

impl Expires for Reservation {
    fn hash(&self) -> u64 {
        self.hash
    }

    fn expires_us(&self) -> u64 {
        self.expires_us
    }
}
