//! Leaking bucket: a queue of B units that drains at R per P. What does not fit is denied.
//!
//! In mode `shape` an admitted request is to wait until what was queued before it has drained, so
//! that requests leave at the rate. In mode `meter` it goes at once; nothing else differs.

use super::Admission;
use super::debt::{Debt, until_fits_us};
use crate::quota::{Leak, LeakMode};

/// Whether `cost` units fit the queue, and how long they are to wait in it.
#[must_use]
#[inline]
pub fn admit(leak: &Leak, state: &Debt, cost: u64, now_us: u64) -> Admission {
    let bucket = leak.bucket();
    if cost > bucket.capacity() {
        return Admission::NEVER;
    }
    let queued = state.at(bucket, now_us);
    let wait_us = bucket.drains_in_us(queued);
    let until_fits_us = until_fits_us(bucket, queued, cost);
    // A look waits for nothing.
    let until_near_us = match leak.max_delay_us() {
        Some(max_delay_us) if cost > 0 => wait_us.saturating_sub(max_delay_us),
        _ => 0,
    };
    match until_fits_us.max(until_near_us) {
        0 if cost > 0 && leak.mode() == LeakMode::Shape => Admission::Yes { delay_us: wait_us },
        0 => Admission::NOW,
        retry_after_us => Admission::after(retry_after_us),
    }
}
