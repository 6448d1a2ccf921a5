//! GCRA: each unit moves a theoretical arrival time (TAT) one interval ahead; a request is in
//! time while the TAT stays within the tolerance of B intervals.
//!
//! TAT − now, counted in units of P/R µs, is the bucket's debt, so it decides as the token bucket
//! does on every trace.

use super::Admission;
use super::debt::{Debt, until_fits_us};
use crate::quota::Bucket;

/// Whether `cost` units arrive no earlier than the tolerance allows.
#[must_use]
#[inline]
pub fn admit(bucket: &Bucket, state: &Debt, cost: u64, now_us: u64) -> Admission {
    let tolerance = bucket.full_debt();
    let Some(advance) = cost.checked_mul(bucket.unit()).filter(|advance| *advance <= tolerance)
    else {
        return Admission::NEVER;
    };
    let ahead = state.at(bucket, now_us);
    if ahead > tolerance - advance {
        return Admission::after(until_fits_us(bucket, ahead, cost));
    }
    Admission::NOW
}

/// The theoretical arrival time of the next request, rounded up.
#[must_use]
pub fn arrival_us(bucket: &Bucket, state: &Debt) -> u64 {
    state.last_us + state.reset_after_us(bucket, state.last_us)
}
