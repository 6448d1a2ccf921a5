//! Owns [`Shard`]: the keys and reservations that one lock guards, and what their entries hold.

use compact_str::CompactString;
use tollkeeper_core::limits::MAX_NAME_BYTES;
use tollkeeper_core::{Admission, Algorithm, Check, Entry, Filter, Outcome, Quota, State};

use crate::slots::{Expires, Slots};

#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) keys: Slots<KeyEntry>,
    pub(crate) reservations: Slots<Reservation>,
    /// Calls so far, to tell every few of them apart.
    pub(crate) calls: u32,
    /// The latest time that it has seen, by a clock that cannot step back.
    latest_us: u64,
}

impl Shard {
    pub(crate) fn new(seed: u64) -> Self {
        let reservations = Slots::new(seed.rotate_left(32));
        Self { keys: Slots::new(seed), reservations, calls: 0, latest_us: 0 }
    }

    /// The later of a reading, by a clock that cannot step back, and the latest before it.
    #[inline]
    pub(crate) fn not_before(&mut self, reading_us: u64) -> u64 {
        self.latest_us = self.latest_us.max(reading_us);
        self.latest_us
    }
}

/// The names of a state: its limit, its algorithm and its key. Short ones lie here, not on the
/// heap.
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

    #[inline]
    pub(crate) fn are(&self, limit: &str, algorithm: Algorithm, key: &str) -> bool {
        // Where the limit ends is what tells ("a", "bc") from ("ab", "c").
        let text = self.text.as_bytes();
        self.algorithm == algorithm
            && usize::from(self.limit_bytes) == limit.len()
            && text.len() == limit.len() + key.len()
            && same(&text[limit.len()..], key.as_bytes())
            && same(&text[..limit.len()], limit.as_bytes())
    }

    pub(crate) fn match_filter(&self, filter: Filter<'_>) -> bool {
        filter.matches(self.limit(), self.key())
    }

    fn limit(&self) -> &str {
        &self.text[..usize::from(self.limit_bytes)]
    }

    fn key(&self) -> &str {
        &self.text[usize::from(self.limit_bytes)..]
    }
}

/// Whether two texts of one length are the same. Names are short: two words that may overlap cover
/// most of them, and spare a call.
#[inline]
fn same(one: &[u8], other: &[u8]) -> bool {
    fn words<const N: usize>(text: &[u8]) -> Option<(&[u8; N], &[u8; N])> {
        (text.len() <= 2 * N).then_some((text.first_chunk()?, text.last_chunk()?))
    }
    match (words::<8>(one), words::<8>(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

/// One key's state under one limit.
#[derive(Debug)]
pub(crate) struct KeyEntry {
    pub(crate) hash: u64,
    pub(crate) expires_us: u64,
    pub(crate) names: Names,
    pub(crate) state: State,
}

impl KeyEntry {
    /// An entry that nothing has been charged to; it counts as expired until it is written.
    pub(crate) fn fresh(hash: u64, names: Names, quota: &Quota, now_us: u64) -> Self {
        Self { hash, expires_us: 0, names, state: State::fresh(quota, now_us) }
    }

    /// Takes what was found to fit.
    pub(crate) fn charge(
        &mut self,
        check: &Check<'_>,
        admission: Admission,
        id: u128,
        now_us: u64,
    ) -> Outcome {
        if self.expires_us <= now_us {
            self.state = State::fresh(check.quota, now_us);
        }
        self.state.charge(check.quota, check.cost, id, now_us);
        let outcome = Outcome::new(check.quota, &self.state, admission, check.shadow, now_us);
        self.expires_us = now_us + outcome.reset_after_us;
        outcome
    }

    /// Takes nothing; ties the state to a clock that stepped back, unless this is only a look.
    pub(crate) fn leave(
        &mut self,
        check: &Check<'_>,
        admission: Admission,
        now_us: u64,
    ) -> Outcome {
        if check.cost > 0 && self.state.anchor(check.quota, now_us) {
            self.written(check.quota, now_us);
        }
        Outcome::new(check.quota, &self.state, admission, check.shadow, now_us)
    }

    /// Notes that the state was written, under `quota`.
    pub(crate) fn written(&mut self, quota: &Quota, now_us: u64) {
        self.expires_us = now_us + self.state.reset_after_us(quota, now_us);
    }

    pub(crate) fn show(&self, now_us: u64) -> Entry {
        Entry {
            limit: self.names.limit().to_owned(),
            algorithm: self.names.algorithm,
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
    pub(crate) units: u64,
    pub(crate) charged_at_us: u64,
    pub(crate) expires_us: u64,
    pub(crate) settled: bool,
}

impl Expires for Reservation {
    fn hash(&self) -> u64 {
        self.hash
    }

    fn expires_us(&self) -> u64 {
        self.expires_us
    }
}
