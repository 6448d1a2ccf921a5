//! Reads stored values back into states, for people to look at.

use std::collections::{HashMap, VecDeque};

use tollkeeper_core::algorithm::concurrency::{Lease, Leases};
use tollkeeper_core::algorithm::debt::Debt;
use tollkeeper_core::algorithm::fixed_window::WindowCount;
use tollkeeper_core::algorithm::sliding_window_counter::WindowPair;
use tollkeeper_core::algorithm::sliding_window_log::{Log, LogEntry};
use tollkeeper_core::{Algorithm, State};

/// The state of a hash.
pub(crate) fn hash(algorithm: Algorithm, fields: &HashMap<String, String>) -> Option<State> {
    let number = |name: &str| fields.get(name)?.parse::<u64>().ok();
    let debt = |last: &str| {
        Some(State::Debt(Debt {
            debt: number("debt")?,
            unit: number("unit")?,
            last_us: number(last)?,
        }))
    };
    match algorithm {
        Algorithm::TokenBucket => debt("last_refill"),
        Algorithm::Gcra => debt("last"),
        Algorithm::LeakingBucket => debt("last_leak"),
        Algorithm::FixedWindow => Some(State::Count(WindowCount {
            window: number("window")?,
            size_us: number("size")?,
            count: number("count")?,
        })),
        Algorithm::SlidingWindowCounter => Some(State::Pair(WindowPair {
            window: number("window")?,
            size_us: number("size")?,
            current: number("current")?,
            previous: number("previous")?,
        })),
        _ => None,
    }
}

/// The state of a list: times, each perhaps followed by minus its units, and the total.
pub(crate) fn list(elements: &[i64]) -> Option<State> {
    let (_total, elements) = elements.split_last()?;
    let mut entries: VecDeque<LogEntry> = VecDeque::new();
    for &element in elements {
        match u64::try_from(element) {
            Ok(time_us) => entries.push_back(LogEntry { time_us, units: 1 }),
            Err(_) => entries.back_mut()?.units = element.unsigned_abs(),
        }
    }
    Some(State::Log(Box::new(Log::new(entries))))
}

/// The state of a sorted set: the number of units, then permit:units:lease, each with its expiry.
pub(crate) fn sorted_set(members: &[(String, f64)]) -> Option<State> {
    let lease = |(member, expires): &(String, f64)| {
        let mut parts = member.split(':');
        Some(Lease {
            permit: u128::from_str_radix(parts.next()?, 16).ok()?,
            units: parts.next()?.parse().ok()?,
            lease_us: parts.next()?.parse().ok()?,
            expires_us: whole(*expires)?,
        })
    };
    let leases = members.iter().filter(|(member, _)| !member.starts_with("units:"));
    let leases: Option<Vec<Lease>> = leases.map(lease).collect();
    Some(State::Leases(Box::new(Leases::new(leases?))))
}

/// A score is a double, and a whole number below 2^53.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked just before")]
fn whole(score: f64) -> Option<u64> {
    (score.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&score))
        .then_some(score as u64)
}
