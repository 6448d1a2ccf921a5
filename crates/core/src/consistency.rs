//! Owns [`Consistency`]: who decides a limit when many processes share it, and what that asks of its
//! quota.

use std::fmt;

use crate::algorithm::Algorithm;
use crate::quota::{Bucket, LeakMode, Quota, QuotaError};
use crate::rate::Rate;
use crate::text::format_duration;

/// A lease lives for so many of its periods: who got units has until then to spend them.
pub const LEASE_PERIODS: u64 = 2;

/// Of what a limit allows at once, a lease keeps back at most one part in so many.
const KEPT_BACK: u64 = 4;

/// The longest for which units are taken.
const MAX_LEASE_PERIOD_US: u64 = 3_600_000_000;

/// The shortest time for which it pays to lease.
const MIN_LEASE_PERIOD_US: u64 = 10_000;

/// How long a lease lasts where the limit leaves the choice.
const LEASE_PERIOD_US: u64 = 1_000_000;

/// A lease is worth a call if a process gets so many units by it.
const UNITS_OF_A_LEASE: u64 = 10;

/// Leases in one window.
const LEASES_OF_A_WINDOW: u64 = 20;

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
}

impl Consistency {
    /// Leases of `quota` for one of `nodes`, each of `period_us` or of what suits the quota.
    pub fn lease(quota: &Quota, nodes: u64, period_us: Option<u64>) -> Result<Self, Unsuited> {
        let Flow { units, in_us, at_once_us } = Flow::of(quota)?;
        let longest_us = (at_once_us / (KEPT_BACK * LEASE_PERIODS)).min(MAX_LEASE_PERIOD_US);
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
            None => LEASE_PERIOD_US.min(longest_us).max(*suits.start()),
        };
        Ok(Self::Lease { period_us: small(period_us) })
    }

    /// What the store is asked for: of a lease the quota without what is kept back, so that what was
    /// taken before and is spent now fits on top.
    #[must_use]
    pub fn stored(&self, quota: &Quota) -> Quota {
        match self {
            Self::Lease { period_us } => kept_back(quota, u64::from(*period_us)).unwrap_or(*quota),
            Self::Exact => *quota,
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
        if let Some(bucket) = bucket_of(quota) {
            let at_once_us = bucket.full_debt() / bucket.drain();
            return Ok(Self { units: bucket.drain(), in_us: bucket.unit(), at_once_us });
        }
        match quota {
            // Leases end with the window; there is to be time for several.
            Quota::FixedWindow(window) => Ok(Self {
                units: window.max_requests(),
                in_us: window.size_us(),
                at_once_us: window.size_us() * KEPT_BACK * LEASE_PERIODS / LEASES_OF_A_WINDOW,
            }),
            _ => Err(Unsuited::Algorithm {
                algorithm: quota.algorithm(),
                why: "what was taken in advance would leave its window before it is spent",
                instead: "token_bucket, gcra or fixed_window",
            }),
        }
    }
}

/// The bucket of an algorithm by which nobody waits.
fn bucket_of(quota: &Quota) -> Option<&Bucket> {
    match quota {
        Quota::TokenBucket(bucket) | Quota::Gcra(bucket) => Some(bucket),
        Quota::LeakingBucket(leak) => Some(leak.bucket()),
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

/// The bucket without what can flow in while a lease lives.
fn kept_back(quota: &Quota, period_us: u64) -> Result<Quota, QuotaError> {
    let Some(bucket) = bucket_of(quota) else { return Ok(*quota) };
    let life_us = period_us.saturating_mul(LEASE_PERIODS);
    let flows_in = u128::from(bucket.drain()) * u128::from(life_us);
    let flows_in = flows_in.div_ceil(u128::from(bucket.unit()));
    let flows_in = u64::try_from(flows_in).unwrap_or(u64::MAX);
    let capacity = bucket.capacity().saturating_sub(flows_in).max(1);
    let rate = Rate::fraction(bucket.drain(), 1, bucket.unit())?;
    match quota {
        Quota::Gcra(_) => Quota::gcra(capacity, rate),
        Quota::LeakingBucket(leak) => Quota::leaking_bucket(capacity, rate, leak.mode(), None),
        _ => Quota::token_bucket(capacity, rate),
    }
}

/// Why a limit cannot be decided so.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsuited {
    /// The algorithm does not allow it.
    Algorithm {
        /// Which.
        algorithm: Algorithm,
        /// The reason.
        why: &'static str,
        /// What does.
        instead: &'static str,
    },
    /// Too little is allowed at once.
    Small {
        /// How much is.
        limit: u64,
        /// For how many processes.
        nodes: u64,
        /// How much would have to be.
        least: u64,
    },
    /// The period is too short or too long.
    Period {
        /// What was given.
        us: u64,
        /// The shortest.
        from_us: u64,
        /// The longest.
        to_us: u64,
    },
}

impl fmt::Display for Unsuited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Algorithm { algorithm, why, instead } => {
                write!(f, "not with {algorithm}: {why}; use {instead}")
            }
            Self::Small { limit, nodes, least } => {
                let processes = if *nodes == 1 { "process" } else { "processes" };
                write!(
                    f,
                    "{limit} at once is too little to lease to {nodes} {processes}; expected at \
                     least {least}, or consistency: exact"
                )
            }
            Self::Period { us, from_us, to_us } => {
                let [us, from, to] = [us, from_us, to_us].map(|us| format_duration(*us));
                write!(f, "a period of {us} does not suit the limit; expected {from} to {to}")
            }
        }
    }
}

impl std::error::Error for Unsuited {}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;

    fn bucket(capacity: u64, count: u64, period_us: u64) -> Quota {
        Quota::token_bucket(capacity, Rate::new(count, period_us).unwrap()).unwrap()
    }

    #[test]
    fn a_lease_keeps_back_what_flows_in_while_it_lives() {
        let quota = bucket(1000, 1000, SECOND_US);
        let lease = Consistency::lease(&quota, 4, None).unwrap();
        assert_eq!(lease, Consistency::Lease { period_us: 125_000 });
        assert_eq!(lease.stored(&quota), bucket(750, 1000, SECOND_US));
        // One that fills slowly is leased for as long as it takes to be worth it.
        let slow = bucket(1000, 1000, 60 * SECOND_US);
        let lease = Consistency::lease(&slow, 4, None).unwrap();
        assert_eq!(lease, Consistency::Lease { period_us: 2_400_000 });
        assert_eq!(lease.stored(&slow), bucket(920, 1000, 60 * SECOND_US));
    }

    #[test]
    fn a_window_keeps_nothing_back() {
        let quota = Quota::fixed_window(1000, 60 * SECOND_US).unwrap();
        let lease = Consistency::lease(&quota, 1, None).unwrap();
        assert_eq!(lease, Consistency::Lease { period_us: 1_000_000 });
        assert_eq!(lease.stored(&quota), quota);
    }

    #[test]
    fn what_is_too_small_says_how_much_would_do() {
        let told =
            |quota: &Quota, nodes| Consistency::lease(quota, nodes, None).unwrap_err().to_string();
        assert_eq!(
            told(&bucket(100, 100, SECOND_US), 4),
            "100 at once is too little to lease to 4 processes; expected at least 320, or \
             consistency: exact"
        );
        assert!(Consistency::lease(&bucket(320, 320, SECOND_US), 4, None).is_ok());
        assert_eq!(
            told(&bucket(10, 10_000, SECOND_US), 1),
            "10 at once is too little to lease to 1 process; expected at least 800, or \
             consistency: exact"
        );
        assert!(Consistency::lease(&bucket(800, 10_000, SECOND_US), 1, None).is_ok());
        let period = Consistency::lease(&bucket(1000, 1000, SECOND_US), 1, Some(SECOND_US));
        assert_eq!(
            period.unwrap_err().to_string(),
            "a period of 1s does not suit the limit; expected 10ms to 125ms"
        );
    }

    /// The time that would be worth it had overflowed.
    #[test]
    fn what_would_take_ages_for_a_million_processes_is_refused() {
        let slow = bucket(1, 1, crate::limits::MAX_PERIOD_US);
        assert!(Consistency::lease(&slow, 1_000_000, None).is_err());
        let window = Quota::fixed_window(1, crate::limits::MAX_PERIOD_US).unwrap();
        assert!(Consistency::lease(&window, 1_000_000, None).is_err());
    }

    #[test]
    fn what_only_the_store_can_hand_out_is_refused() {
        let permits = Quota::concurrency(9, SECOND_US).unwrap();
        let rate = Rate::new(100, SECOND_US).unwrap();
        let shaped = Quota::leaking_bucket(100, rate, LeakMode::Shape, None).unwrap();
        for quota in [permits, shaped] {
            assert!(Consistency::lease(&quota, 1, None).is_err());
        }
        let log = Quota::sliding_window_log(1000, SECOND_US).unwrap();
        assert!(Consistency::lease(&log, 1, None).is_err());
    }
}
