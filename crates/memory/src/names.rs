//! Owns [`Names`]: the limit, the algorithm and the key of a state, for people and for reservations.

use compact_str::CompactString;
use tollkeeper_core::limits::MAX_NAME_BYTES;
use tollkeeper_core::{Algorithm, Filter};

/// The names of a state. Short ones lie here, not on the heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    text: CompactString,
    limit_bytes: u16,
    algorithm: Algorithm,
}

const _: () = assert!(MAX_NAME_BYTES <= u16::MAX as usize);

impl Names {
    pub(crate) fn new(limit: &str, algorithm: Algorithm, key: &str) -> Self {
        let mut text = CompactString::with_capacity(limit.len() + key.len());
        text.push_str(limit);
        text.push_str(key);
        // A request's limit has at most MAX_NAME_BYTES.
        let limit_bytes = u16::try_from(limit.len()).unwrap_or(u16::MAX);
        Self { text, limit_bytes, algorithm }
    }

    pub(crate) fn are(&self, limit: &str, algorithm: Algorithm, key: &str) -> bool {
        self.algorithm == algorithm && self.limit() == limit && self.key() == key
    }

    pub(crate) fn match_filter(&self, filter: Filter<'_>) -> bool {
        filter.matches(self.limit(), self.key())
    }

    fn limit(&self) -> &str {
        &self.text[..usize::from(self.limit_bytes)]
    }

    pub(crate) fn key(&self) -> &str {
        &self.text[usize::from(self.limit_bytes)..]
    }
}
