//! Owns [`Terms`]: what does not change while a key is leased.

use tollkeeper_core::{Back, Consistency, Lend, Quota, TURNS};

use crate::plan::Draw;

/// What does not change while a key is leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The time for which units are taken.
    pub period_us: u64,
    /// How many units of a bucket may be out. Those of a window are not counted: they end with it.
    pub most_out: Option<u64>,
}

impl Terms {
    /// Those of a limit.
    #[must_use]
    pub fn new(quota: &Quota, period_us: u64) -> Self {
        let period = u32::try_from(period_us).unwrap_or(u32::MAX);
        Self { period_us, most_out: Consistency::Lease { period_us: period }.most_out(quota) }
    }

    /// What asks for units of a bucket, and tells nothing.
    pub(super) fn lend(&self, Draw { most, least }: Draw, most_out: u64) -> Lend {
        Lend { most, least, most_out, period_us: self.period_us, back: [Back::default(); TURNS] }
    }
}
