//! Owns [`Consistency`]: who decides a limit when many processes share it, and what that asks of its
//! quota.

mod unsuited;

pub use unsuited::Unsuited;

use std::fmt;

use crate::quota::{LeakMode, Quota, QuotaError};
use crate::rate::Rate;
use crate::text::format_duration;

/// What is leased out is enough for so many periods: what is spent in one, and what is drawn for the next.
const LEASE_PERIODS: u64 = 2;

/// Of what a bucket allows at once one part in so many is kept back, to be leased out.
const KEPT_BACK: u64 = 4;

/// The longest for which units are taken.
const MAX_LEASE_PERIOD_US: u64 = 3_600_000_000;

/// The shortest time for which it pays to lease.
const MIN_LEASE_PERIOD_US: u64 = 10_000;

/// How long a lease lasts where the limit leaves the choice.
const LEASE_PERIOD_US: u64 = 1_000_000;

/// A lease is worth a call if a process gets so many units by it.
const UNITS_OF_A_LEASE: u64 = 10;

/// Leases in one window, and in the time in which a bucket refills where that leaves the choice. The more there
/// are, the sooner few processes have drawn what it has saved; many draw often enough as it is.
const LEASES_OF_A_LIMIT: u64 = 20;
const FEW_NODES: u64 = 8;

/// How often the store is told what was admitted here, where nothing else is said.
const SYNC_PERIOD_US: u64 = 100_000;

/// The shortest and the longest time between two reports.
const MIN_SYNC_PERIOD_US: u64 = 10_000;
const MAX_SYNC_PERIOD_US: u64 = 10_000_000;

/// A limit refills, or its window ends, in no less than so many reports.
const REPORTS_OF_A_LIMIT: u64 = 2;

/// The most keys that one key is split over.
pub const MAX_PARTS: u64 = 64;

/// The least units of each.
const UNITS_OF_A_PART: u64 = 10;

/// Who decides a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Consistency {
    /// The store, each time.
    #[default]
    Exact,
    /// This process, out of units that it took from the store before.
    Lease {
        /// How often it may take some.
        period_us: u32,
    },
    /// This process, by what the store had left when it was last told what was admitted here.
    Sync {
        /// How often it is told.
        period_us: u32,
        /// Over how many of the store's keys one key is split.
        parts: u8,
    },
    /// This process, which has its part of the limit.
    Share {
        /// Of how many, if they are not counted.
        nodes: Option<u32>,
    },
}

impl Consistency {
    /// Leases of `quota` for one of `nodes`, each of `period_us` or of what suits the quota.
    pub fn lease(quota: &Quota, nodes: u64, period_us: Option<u64>) -> Result<Self, Unsuited> {
        let Flow { units, in_us, at_once_us } = Flow::of(quota)?;
        let longest_us = (at_once_us / (KEPT_BACK * LEASE_PERIODS)).min(MAX_LEASE_PERIOD_US);
        let preferred_us = match quota.bucket() {
            Some(_) => (at_once_us / LEASES_OF_A_LIMIT)
                .saturating_mul(nodes.div_ceil(FEW_NODES).max(1))
                .min(longest_us),
            None => longest_us,
        };
        // So long that every process can get some units of what flows in.
        let worth = u128::from(UNITS_OF_A_LEASE) * u128::from(nodes.max(1)) * u128::from(in_us);
        let worth_us = u64::try_from(worth.div_ceil(u128::from(units.max(1)))).unwrap_or(u64::MAX);
        if worth_us > longest_us || longest_us < MIN_LEASE_PERIOD_US {
            let least_us =
                worth_us.max(MIN_LEASE_PERIOD_US).saturating_mul(KEPT_BACK * LEASE_PERIODS);
            let least = u128::from(units) * u128::from(least_us);
            let least = u64::try_from(least.div_ceil(u128::from(in_us.max(1)))).unwrap_or(u64::MAX);
            return Err(Unsuited::Small { limit: quota.limit(), nodes: nodes.max(1), least });
        }
        let suits = worth_us.max(MIN_LEASE_PERIOD_US)..=longest_us;
        let period_us = match period_us {
            Some(us) if !suits.contains(&us) => {
                let (from_us, to_us) = suits.into_inner();
                return Err(Unsuited::Period { us, from_us, to_us });
            }
            Some(us) => us,
            None => LEASE_PERIOD_US.min(preferred_us).max(*suits.start()),
        };
        Ok(Self::Lease { period_us: small(period_us) })
    }

    /// Reports each `period_us`, or a tenth of a second, of `quota` split over `parts` keys.
    pub fn sync(quota: &Quota, period_us: Option<u64>, parts: u64) -> Result<Self, Unsuited> {
        refuse_held(quota)?;
        let refills_us = match quota.bucket() {
            Some(bucket) => bucket.full_debt() / bucket.drain(),
            None => window_of(quota).unwrap_or(u64::MAX),
        };
        let longest_us = (refills_us / REPORTS_OF_A_LIMIT).min(MAX_SYNC_PERIOD_US);
        if longest_us < MIN_SYNC_PERIOD_US {
            let least_us = MIN_SYNC_PERIOD_US * REPORTS_OF_A_LIMIT;
            return Err(Unsuited::Fast { refills_us, least_us });
        }
        let period_us = match period_us {
            Some(us) if !(MIN_SYNC_PERIOD_US..=longest_us).contains(&us) => {
                return Err(Unsuited::Period {
                    us,
                    from_us: MIN_SYNC_PERIOD_US,
                    to_us: longest_us,
                });
            }
            Some(us) => us,
            None => SYNC_PERIOD_US.min(longest_us),
        };
        let most = (quota.limit() / UNITS_OF_A_PART).clamp(1, MAX_PARTS);
        // A rate that cannot be divided would be divided by less.
        let is_split = || quota.share(parts).limit() == quota.limit() / parts;
        match u8::try_from(parts) {
            Ok(1) => Ok(Self::Sync { period_us: small(period_us), parts: 1 }),
            Ok(few) if (1..=most).contains(&parts) && is_split() => {
                Ok(Self::Sync { period_us: small(period_us), parts: few })
            }
            _ => Err(Unsuited::Parts { parts, limit: quota.limit(), most }),
        }
    }

    /// A part of `quota` for each of `nodes`, or of as many as there are.
    pub fn share(quota: &Quota, nodes: Option<u64>) -> Result<Self, Unsuited> {
        refuse_held(quota)?;
        let limit = quota.limit();
        let Some(nodes) = nodes else { return Ok(Self::Share { nodes: None }) };
        // A part below one unit would be rounded up, and all together be too much.
        match u32::try_from(nodes) {
            Ok(few) if nodes <= limit && quota.share(nodes).limit() == limit / nodes.max(1) => {
                Ok(Self::Share { nodes: Some(few.max(1)) })
            }
            _ => Err(Unsuited::Thin { limit, nodes }),
        }
    }

    /// The most that a request may cost: what one process can have at once.
    #[must_use]
    pub fn most_cost(&self, quota: &Quota) -> u64 {
        match self {
            Self::Share { nodes } => quota.limit() / u64::from(nodes.unwrap_or(1)).max(1),
            _ => self.stored(quota).limit(),
        }
    }

    /// How many units of a bucket may be in the hands of processes at once, if units are leased.
    #[must_use]
    pub fn most_out(&self, quota: &Quota) -> Option<u64> {
        quota.bucket().map(|bucket| bucket.capacity().saturating_sub(self.stored(quota).limit()))
    }

    /// What the store is asked for: of a lease the quota without what is kept back, so that what was
    /// taken before and is spent now fits on top; of one that is split, a part.
    #[must_use]
    pub fn stored(&self, quota: &Quota) -> Quota {
        match self {
            Self::Lease { .. } => kept_back(quota).unwrap_or(*quota),
            Self::Sync { parts, .. } => quota.share((*parts).into()),
            Self::Share { .. } | Self::Exact => *quota,
        }
    }
}

/// How it is shown to a person: `exact`, `lease, 50ms`, `sync, 100ms, 16 sub-shards`, `share of 4`,
/// `share, counted`.
impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = |us: &u32| format_duration((*us).into());
        match self {
            Self::Exact => f.write_str("exact"),
            Self::Lease { period_us } => write!(f, "lease, {}", period(period_us)),
            Self::Sync { period_us, parts: 1 } => write!(f, "sync, {}", period(period_us)),
            Self::Sync { period_us, parts } => {
                write!(f, "sync, {}, {parts} sub-shards", period(period_us))
            }
            Self::Share { nodes: Some(nodes) } => write!(f, "share of {nodes}"),
            Self::Share { nodes: None } => f.write_str("share, counted"),
        }
    }
}

/// A period, which is below what fits.
fn small(us: u64) -> u32 {
    u32::try_from(us).unwrap_or(u32::MAX)
}

/// How a limit lets units in: so many in a time, and for how long it can do without.
struct Flow {
    units: u64,
    in_us: u64,
    /// The time in which all that is allowed at once flows in.
    at_once_us: u64,
}

impl Flow {
    fn of(quota: &Quota) -> Result<Self, Unsuited> {
        refuse_held(quota)?;
        if let Some(bucket) = quota.bucket() {
            let at_once_us = bucket.full_debt() / bucket.drain();
            return Ok(Self { units: bucket.drain(), in_us: bucket.unit(), at_once_us });
        }
        match quota {
            // Leases end with the window; there is to be time for several.
            Quota::FixedWindow(window) => Ok(Self {
                units: window.max_requests(),
                in_us: window.size_us(),
                at_once_us: window.size_us() * KEPT_BACK * LEASE_PERIODS / LEASES_OF_A_LIMIT,
            }),
            _ => Err(Unsuited::Algorithm {
                algorithm: quota.algorithm(),
                why: "what was taken in advance would leave its window before it is spent",
                instead: "token_bucket, gcra or fixed_window",
            }),
        }
    }
}

/// How long the window of an algorithm is that has one.
fn window_of(quota: &Quota) -> Option<u64> {
    match quota {
        Quota::FixedWindow(window)
        | Quota::SlidingWindowLog(window)
        | Quota::SlidingWindowCounter(window) => Some(window.size_us()),
        _ => None,
    }
}

/// Refuses what only the store can hand out.
fn refuse_held(quota: &Quota) -> Result<(), Unsuited> {
    let algorithm = quota.algorithm();
    match quota {
        Quota::Concurrency(_) => Err(Unsuited::Algorithm {
            algorithm,
            why: "a permit is held until it is released, wherever that is",
            instead: "another algorithm, or consistency: exact",
        }),
        Quota::LeakingBucket(leak)
            if leak.mode() == LeakMode::Shape || leak.max_delay_us().is_some() =>
        {
            Err(Unsuited::Algorithm {
                algorithm,
                why: "the place in its queue, which says how long to wait, is the store's to give",
                instead: "token_bucket, or consistency: exact",
            })
        }
        _ => Ok(()),
    }
}

/// The bucket without what may be leased out.
fn kept_back(quota: &Quota) -> Result<Quota, QuotaError> {
    let Some(bucket) = quota.bucket() else { return Ok(*quota) };
    let capacity = bucket.capacity() - bucket.capacity() / KEPT_BACK;
    let rate = Rate::of(bucket.drain(), bucket.unit().into());
    match quota {
        Quota::Gcra(_) => Quota::gcra(capacity, rate),
        Quota::LeakingBucket(leak) => Quota::leaking_bucket(capacity, rate, leak.mode(), None),
        _ => Quota::token_bucket(capacity, rate),
    }
}

#[cfg(test)]
mod tests;
