//! Token bucket: a bucket of B tokens, refilled at R per P. A request takes as many as it costs.
//!
//! Bursts of up to B pass at once; in any interval of length t at most B + r·t units pass.

use super::Admission;
use super::debt::{Debt, until_fits_us};
use crate::quota::Bucket;

/// Whether `cost` tokens are there.
#[must_use]
#[inline]
pub fn admit(bucket: &Bucket, state: &Debt, cost: u64, now_us: u64) -> Admission {
    if cost > bucket.capacity() {
        return Admission::NEVER;
    }
    let debt = state.at(bucket, now_us);
    // tokens ≥ cost, where tokens·P = B·P − D′.
    if debt <= bucket.full_debt() - cost * bucket.unit() {
        return Admission::NOW;
    }
    Admission::after(until_fits_us(bucket, debt, cost))
}
