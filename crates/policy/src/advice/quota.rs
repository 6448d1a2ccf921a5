//! Whether one limit can ever deny what another one admits: arithmetic alone.
//!
//! Both are taken to count the same requests, the first one perhaps more, or at a higher cost. A yes
//! is proved beside each case; a no may only mean that no proof is known.

use tollkeeper_core::{Bucket, LeakMode, Quota, Window};

/// Whether `looser` admits whatever `stricter` admits, always.
pub(super) fn hides(stricter: &Quota, looser: &Quota) -> bool {
    match looser {
        Quota::TokenBucket(bucket) | Quota::Gcra(bucket) => hides_bucket(stricter, bucket),
        // One that lets requests wait does more than deny.
        Quota::LeakingBucket(leak)
            if leak.mode() == LeakMode::Meter && leak.max_delay_us().is_none() =>
        {
            hides_bucket(stricter, leak.bucket())
        }
        Quota::FixedWindow(window) => {
            let span = Span { us: window.size_us(), aligned_to: Some(window.size_us()) };
            span.has_at_most(stricter, window.max_requests())
        }
        Quota::SlidingWindowLog(window) => {
            let span = Span { us: window.size_us(), aligned_to: None };
            span.has_at_most(stricter, window.max_requests())
        }
        Quota::SlidingWindowCounter(window) => hides_counter(stricter, window),
        Quota::Concurrency(its) => match stricter {
            // What is held here is held there, and there for no longer.
            Quota::Concurrency(mine) => {
                mine.max_in_flight() <= its.max_in_flight() && mine.lease_us() >= its.lease_us()
            }
            _ => false,
        },
        _ => false,
    }
}

/// A bucket denies when it has been filled faster than it drains by more than its room.
fn hides_bucket(stricter: &Quota, its: &Bucket) -> bool {
    let wide = u128::from;
    let keeps_up = |count: u64, per_us: u64| {
        wide(count) * wide(its.unit()) <= wide(its.drain()) * wide(per_us)
    };
    match stricter {
        // Never less full: what comes in is at least as much, what drains at most as much.
        quota if quota.bucket().is_some() => quota.bucket().is_some_and(|mine| {
            mine.capacity() <= its.capacity() && keeps_up(mine.drain(), mine.unit())
        }),
        // In any time at most L, and L more for each whole W that has passed, in which as much
        // drains.
        Quota::SlidingWindowLog(mine) => {
            mine.max_requests() <= its.capacity() && keeps_up(mine.max_requests(), mine.size_us())
        }
        // The same, but that windows begin at fixed times: one more of them is touched.
        Quota::FixedWindow(mine) | Quota::SlidingWindowCounter(mine) => {
            2 * mine.max_requests() <= its.capacity()
                && keeps_up(mine.max_requests(), mine.size_us())
        }
        _ => false,
    }
}

/// The estimate is at most all that was admitted in the window and the one before it.
fn hides_counter(stricter: &Quota, its: &Window) -> bool {
    if let Quota::SlidingWindowCounter(mine) = stricter
        && mine.size_us() == its.size_us()
    {
        // The same windows, each with at least as much in it.
        return mine.max_requests() <= its.max_requests();
    }
    let span = Span { us: 2 * its.size_us(), aligned_to: Some(its.size_us()) };
    span.has_at_most(stricter, its.max_requests())
}

/// A time of so many microseconds, in which a window counts.
struct Span {
    us: u64,
    /// Its beginning is a multiple of this; it may begin anywhere if there is none.
    aligned_to: Option<u64>,
}

impl Span {
    /// Whether a limit never admits more than so many in it.
    fn has_at_most(&self, quota: &Quota, most: u64) -> bool {
        let wide = u128::from;
        match quota {
            // At once what fits, and from then on what drains.
            quota if quota.bucket().is_some() => quota.bucket().is_some_and(|bucket| {
                let drained = wide(bucket.drain()) * (wide(self.us) - 1);
                wide(bucket.full_debt()) + drained < (wide(most) + 1) * wide(bucket.unit())
            }),
            // L in each piece of the length W.
            Quota::SlidingWindowLog(mine) => {
                wide(self.us.div_ceil(mine.size_us())) * wide(mine.max_requests()) <= wide(most)
            }
            // L in each window; the estimate of a counter includes its own window.
            Quota::FixedWindow(mine) | Quota::SlidingWindowCounter(mine) => {
                wide(self.windows_touched(mine.size_us())) * wide(mine.max_requests()) <= wide(most)
            }
            _ => false,
        }
    }

    /// The most windows of a size, which begin at its multiples, that have a part in it.
    fn windows_touched(&self, size_us: u64) -> u64 {
        match self.aligned_to {
            Some(step_us) if step_us.is_multiple_of(size_us) => self.us / size_us,
            Some(step_us) if size_us.is_multiple_of(step_us) && self.us == step_us => 1,
            _ => (self.us - 1).div_ceil(size_us) + 1,
        }
    }
}
