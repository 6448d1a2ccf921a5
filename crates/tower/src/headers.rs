//! A verdict as headers, in the styles that clients know. Seconds are rounded here, up.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use sfv::{Integer, KeyRef, ListSerializer, StringRef};
use tollkeeper_core::Quota;
use tollkeeper_engine::{LimitVerdict, Verdict};
use tollkeeper_policy::HeaderStyle;

use crate::told::Told;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The most headers of one style.
pub(crate) const MOST_OF_A_STYLE: usize = 3;

/// Writes what a verdict says in each of `styles`, and, of a denial, when to come back.
pub fn write(headers: &mut HeaderMap, styles: &[HeaderStyle], verdict: &Verdict) {
    headers.reserve(MOST_OF_A_STYLE * styles.len());
    let decision = verdict.decision();
    for style in styles {
        match style {
            HeaderStyle::Ietf => ietf(headers, verdict),
            style => Told::new(*style, decision, || verdict.cost()).write(headers),
        }
    }
    if !decision.allowed {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(us) = decision.retry_after_us {
            headers.insert(header::RETRY_AFTER, seconds(us).max(1).into());
        }
    }
}

/// Whole seconds, rounded up.
#[must_use]
pub fn seconds(us: u64) -> u64 {
    us.div_ceil(1_000_000)
}

/// One member for each limit that can deny, the one that binds first.
fn ietf(headers: &mut HeaderMap, verdict: &Verdict) {
    let (mut policies, mut limits) = (ListSerializer::new(), ListSerializer::new());
    let binding = verdict.binding();
    let is_binding =
        |limit: &LimitVerdict<'_>| binding.is_some_and(|binding| binding.name == limit.name);
    let others = verdict.limits().filter(|limit| !limit.outcome.shadow && !is_binding(limit));
    for limit in binding.into_iter().chain(others) {
        // A name is of letters, digits and a few signs, so it always fits.
        let Ok(name) = StringRef::from_str(limit.name) else { continue };
        let outcome = limit.outcome;
        let policy = policies.bare_item(name).parameter(key("q"), whole(outcome.limit));
        if let Some(us) = window_us(limit.quota) {
            policy.parameter(key("w"), whole(seconds(us)));
        }
        limits
            .bare_item(name)
            .parameter(key("r"), whole(outcome.remaining))
            .parameter(key("t"), whole(seconds(outcome.reset_after_us)));
    }
    for (name, list) in [(POLICY, policies.finish()), (RATE_LIMIT, limits.finish())] {
        if let Some(value) = list.and_then(|list| HeaderValue::try_from(list).ok()) {
            headers.insert(name, value);
        }
    }
}

fn key(name: &'static str) -> &'static KeyRef {
    KeyRef::constant(name)
}

fn whole(number: u64) -> Integer {
    Integer::try_from(number).unwrap_or(Integer::MAX)
}

/// The time over which a limit is counted: a window's size, or how long a bucket takes from full
/// to as new. Permits have none.
fn window_us(quota: &Quota) -> Option<u64> {
    let bucket_us = |bucket: &tollkeeper_core::Bucket| bucket.full_debt().div_ceil(bucket.drain());
    match quota {
        Quota::TokenBucket(bucket) | Quota::Gcra(bucket) => Some(bucket_us(bucket)),
        Quota::LeakingBucket(leak) => Some(bucket_us(leak.bucket())),
        Quota::FixedWindow(window)
        | Quota::SlidingWindowLog(window)
        | Quota::SlidingWindowCounter(window) => Some(window.size_us()),
        _ => None,
    }
}
