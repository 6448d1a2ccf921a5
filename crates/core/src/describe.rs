//! How a stored state is shown to a person: each algorithm in its own terms.

use std::borrow::Cow;

use crate::algorithm::concurrency::Lease;
use crate::algorithm::debt::Debt;
use crate::algorithm::sliding_window_log::LogEntry;
use crate::algorithm::{Algorithm, gcra};
use crate::part::{Colocate, EVERYTHING, first_part};
use crate::quota::{Bucket, Quota};
use crate::state::State;

/// The most entries or leases of one state that are shown.
const MOST_SHOWN: usize = 100;

/// A value to show.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Field {
    /// A number.
    Whole(u64),
    /// A decimal number, or a name.
    Text(String),
    /// Several records.
    List(Vec<Vec<(&'static str, Field)>>),
}

/// A readable name of a state: `prefix:{identity}:rule:alg`, and `prefix:{identity}:alg` for the
/// rule `global`.
///
/// Injective: what could be mistaken for a border is escaped as in a URL. What is in the braces
/// makes states neighbours in a store that hashes them; what of the identity is not in them
/// follows: `prefix:{acme}|bob:rule:alg`, `prefix:{%all}acme|bob:rule:alg`.
#[must_use]
pub fn state_name(
    prefix: &str,
    colocate: Colocate,
    limit: &str,
    algorithm: Algorithm,
    key: &str,
) -> String {
    let mut name = String::with_capacity(prefix.len() + limit.len() + key.len() + 16);
    name.push_str(prefix);
    name.push_str(":{");
    let (tagged, rest) = match colocate {
        Colocate::Key => (key, ""),
        Colocate::First => key.split_at(first_part(key).len()),
        Colocate::All => {
            name.push_str(EVERYTHING);
            ("", key)
        }
    };
    escape(tagged, &mut name);
    name.push('}');
    escape(rest, &mut name);
    name.push(':');
    if limit != "global" {
        escape(limit, &mut name);
        name.push(':');
    }
    name.push_str(algorithm.suffix());
    name
}

/// A text as it stands in a name.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut name = String::with_capacity(text.len() + 8);
    escape(text, &mut name);
    Cow::Owned(name)
}

fn is_escaped(c: char) -> bool {
    matches!(c, '{' | '}' | ':' | '%') || c.is_control()
}

fn escape(text: &str, into: &mut String) {
    for c in text.chars() {
        if is_escaped(c) {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                into.push('%');
                into.push(HEX[usize::from(byte >> 4)]);
                into.push(HEX[usize::from(byte & 15)]);
            }
        } else {
            into.push(c);
        }
    }
}

const HEX: [char; 16] =
    ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];

/// The state's fields in its algorithm's own terms, as of when it was written.
///
/// A bucket's level needs the quota that it is measured by; without it, it shows what was used.
#[must_use]
pub fn describe(quota: Option<&Quota>, state: &State) -> Vec<(&'static str, Field)> {
    match (quota, state) {
        (Some(Quota::TokenBucket(bucket)), State::Debt(debt)) => {
            let left = bucket.full_debt().saturating_sub(owed(bucket, debt));
            vec![("tokens", units(bucket.unit(), left)), ("last_refill", seconds(debt.last_us))]
        }
        (Some(Quota::Gcra(bucket)), State::Debt(debt)) => vec![
            ("theoretical_arrival", seconds(gcra::arrival_us(bucket, debt))),
            ("last", seconds(debt.last_us)),
        ],
        (Some(Quota::LeakingBucket(leak)), State::Debt(debt)) => {
            let queued = units(leak.bucket().unit(), owed(leak.bucket(), debt));
            vec![("queue_size", queued), ("last_leak", seconds(debt.last_us))]
        }
        (_, State::Debt(debt)) => {
            vec![("used", units(debt.unit, debt.debt)), ("last", seconds(debt.last_us))]
        }
        (_, State::Count(state)) => {
            vec![("window", Field::Whole(state.window)), ("count", Field::Whole(state.count))]
        }
        (_, State::Pair(state)) => vec![
            ("window", Field::Whole(state.window)),
            ("current", Field::Whole(state.current)),
            ("previous", Field::Whole(state.previous)),
        ],
        (_, State::Log(state)) => {
            let newest = state.entries().rev().take(MOST_SHOWN).map(entry_fields).collect();
            vec![
                ("entry_count", Field::Whole(state.entries().len() as u64)),
                ("entries", Field::List(newest)),
            ]
        }
        (_, State::Leases(state)) => {
            let first = state.leases().take(MOST_SHOWN).map(lease_fields).collect();
            vec![
                ("lease_count", Field::Whole(state.leases().len() as u64)),
                ("leases", Field::List(first)),
            ]
        }
    }
}

/// The state's numbers as they are kept.
#[must_use]
pub fn describe_raw(state: &State) -> Vec<(&'static str, Field)> {
    match state {
        State::Debt(state) => vec![
            ("debt", Field::Whole(state.debt)),
            ("unit", Field::Whole(state.unit)),
            ("last_us", Field::Whole(state.last_us)),
        ],
        State::Count(state) => vec![
            ("window", Field::Whole(state.window)),
            ("size_us", Field::Whole(state.size_us)),
            ("count", Field::Whole(state.count)),
        ],
        State::Pair(state) => vec![
            ("window", Field::Whole(state.window)),
            ("size_us", Field::Whole(state.size_us)),
            ("current", Field::Whole(state.current)),
            ("previous", Field::Whole(state.previous)),
        ],
        State::Log(state) => {
            let units = state.entries().map(|entry| entry.units).sum();
            vec![
                ("units", Field::Whole(units)),
                ("oldest_us", Field::Whole(state.entries().next().map_or(0, |e| e.time_us))),
                ("newest_us", Field::Whole(state.entries().next_back().map_or(0, |e| e.time_us))),
            ]
        }
        State::Leases(state) => {
            let units = state.leases().map(|lease| lease.units).sum();
            vec![("units", Field::Whole(units))]
        }
    }
}

/// The debt in the bucket's unit, as of when it was written.
fn owed(bucket: &Bucket, debt: &Debt) -> u64 {
    debt.at(bucket, debt.last_us)
}

/// Debt as units with six digits, rounded down.
fn units(unit: u64, debt: u64) -> Field {
    let millionths = u128::from(debt) * 1_000_000 / u128::from(unit.max(1));
    Field::Text(format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000))
}

/// Microseconds as seconds with six digits.
fn seconds(us: u64) -> Field {
    Field::Text(format!("{}.{:06}", us / 1_000_000, us % 1_000_000))
}

fn entry_fields(entry: &LogEntry) -> Vec<(&'static str, Field)> {
    vec![("time", seconds(entry.time_us)), ("units", Field::Whole(entry.units))]
}

fn lease_fields(lease: &Lease) -> Vec<(&'static str, Field)> {
    vec![
        ("permit", Field::Text(format!("{:032x}", lease.permit))),
        ("units", Field::Whole(lease.units)),
        ("expires", seconds(lease.expires_us)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_readable_and_injective() {
        let name = |limit, key| state_name("rl", Colocate::Key, limit, Algorithm::TokenBucket, key);
        assert_eq!(name("global", "global"), "rl:{global}:tb");
        assert_eq!(name("per-key/1s", "alice"), "rl:{alice}:per-key/1s:tb");
        assert_eq!(name("a", "b}:c"), "rl:{b%7D%3Ac}:a:tb");
        assert_ne!(name("a", "b}:c"), name("c:a", "b"));
        assert_ne!(name("a", "%7D"), name("a", "}"));
    }

    #[test]
    fn what_lies_together_has_one_tag_and_names_stay_apart() {
        let keys =
            ["acme", "acme|bob", "acme|", "|acme", "a\\|b|c", "%all", "all", "x}|y", "acme:|b"];
        let mut names = std::collections::HashSet::new();
        for colocate in Colocate::ALL {
            for key in keys {
                let name = state_name("rl", colocate, "api", Algorithm::Gcra, key);
                let tag = name.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
                assert_eq!(tag.unwrap().0, colocate.tag(key), "{name}");
                assert!(!colocate.tag(key).is_empty());
                names.insert(name);
            }
        }
        // Of one part, a key has the same name whether or not first parts lie together.
        let alike = keys.iter().filter(|key| first_part(key) == **key).count();
        assert_eq!(names.len(), 3 * keys.len() - alike);
        let first = |key| state_name("rl", Colocate::First, "api", Algorithm::Gcra, key);
        assert_eq!(first("acme|bob"), "rl:{acme}|bob:api:gcra");
        assert_eq!(Colocate::First.tag("a\\|b|c"), "a\\|b");
        let all = state_name("rl", Colocate::All, "api", Algorithm::Gcra, "acme|bob");
        assert_eq!(all, "rl:{%all}acme|bob:api:gcra");
    }
}
