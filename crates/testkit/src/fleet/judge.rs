//! Judges whether any interval admitted more than its limit, exactly.
//!
//! A list is of times and units, and its times never descend. The answer is the largest excess in
//! whole units, rounded up: 0 means that every interval of any length kept to the limit.

use tollkeeper_core::{Bucket, Quota, Window};

use super::skew::Skew;

/// The excess over a quota. `None` for one that promises nothing of the kind: a weighted count is
/// an estimate, and permits come back.
#[must_use]
pub fn excess(quota: &Quota, admitted: &[(u64, u64)], store: Skew) -> Option<u64> {
    match quota {
        Quota::TokenBucket(bucket) | Quota::Gcra(bucket) => Some(over_bucket(bucket, admitted)),
        Quota::LeakingBucket(leak) => Some(over_bucket(leak.bucket(), admitted)),
        Quota::FixedWindow(window) => Some(over_windows(window, admitted, store)),
        Quota::SlidingWindowLog(window) => Some(over_log(window, admitted)),
        _ => None,
    }
}

/// The excess over B + R/P · t in any interval of any length t.
///
/// The bucket itself tells, if it may owe more than it has: after each admission its debt is the
/// largest of what any interval that ends there took beyond what came back in it.
#[must_use]
pub fn over_bucket(bucket: &Bucket, admitted: &[(u64, u64)]) -> u64 {
    let (drain, unit) = (u128::from(bucket.drain()), u128::from(bucket.unit()));
    let (mut debt, mut last_us, mut worst) = (0u128, 0, 0);
    for (at_us, units) in admitted {
        debt = debt.saturating_sub(drain * u128::from(at_us - last_us));
        debt += u128::from(*units) * unit;
        last_us = *at_us;
        worst = debt.max(worst);
    }
    let over = worst.saturating_sub(u128::from(bucket.full_debt())).div_ceil(unit);
    u64::try_from(over).unwrap_or(u64::MAX)
}

/// The excess over the count in any window of the store's clock.
#[must_use]
pub fn over_windows(window: &Window, admitted: &[(u64, u64)], store: Skew) -> u64 {
    let (mut this, mut count, mut worst) = (0, 0, 0);
    for (at_us, units) in admitted {
        let its = store.shows_us(*at_us) / window.size_us();
        count = if its == this { count + units } else { *units };
        this = its;
        worst = count.max(worst);
    }
    worst.saturating_sub(window.max_requests())
}

/// The excess over the count in any interval `(t − W, t]`.
#[must_use]
pub fn over_log(window: &Window, admitted: &[(u64, u64)]) -> u64 {
    let mut oldest = admitted.iter().peekable();
    let (mut count, mut worst) = (0, 0);
    for (at_us, units) in admitted {
        count += units;
        while let Some((_, gone)) = oldest.next_if(|(then, _)| then + window.size_us() <= *at_us) {
            count -= gone;
        }
        worst = count.max(worst);
    }
    worst.saturating_sub(window.max_requests())
}
