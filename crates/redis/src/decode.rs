//! Reads stored values back into states, for people to look at.

use std::collections::VecDeque;

use tollkeeper_core::algorithm::concurrency::{Lease, Leases};
use tollkeeper_core::algorithm::debt::Debt;
use tollkeeper_core::algorithm::fixed_window::WindowCount;
use tollkeeper_core::algorithm::sliding_window_counter::WindowPair;
use tollkeeper_core::algorithm::sliding_window_log::{Log, LogEntry};
use tollkeeper_core::{Algorithm, State, TURNS};

use crate::driver::Reply;

/// The bytes of the numbers that a log ends with.
const LOG_END: usize = 5 * size_of::<f64>();

/// How many units are out, of the loans of a state.
pub(crate) fn lent(bytes: &[u8]) -> Option<u64> {
    let (numbers, []) = bytes.as_chunks() else { return None };
    let [_period_us, _turn, _since_us, out @ ..] = numbers else { return None };
    let units = |bytes: &[u8; 8]| whole(f64::from_le_bytes(*bytes));
    (out.len() == TURNS).then(|| out.iter().map(units).sum())?
}

/// The state of a string of doubles.
pub(crate) fn packed(algorithm: Algorithm, bytes: &[u8]) -> Option<State> {
    let (numbers, []) = bytes.as_chunks() else { return None };
    let number = |bytes: &[u8; 8]| whole(f64::from_le_bytes(*bytes));
    Some(match (algorithm, numbers) {
        (
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakingBucket,
            // When it is as new, and when its life ends, may be beyond what a double counts one by one,
            // and nobody needs them.
            [debt, unit, last_us, _fresh_us, _ends_us],
        ) => {
            let (debt, unit, last_us) = (number(debt)?, number(unit)?, number(last_us)?);
            State::Debt(Debt { debt, unit, last_us })
        }
        (Algorithm::FixedWindow, [window, size_us, count]) => {
            let (window, size_us, count) = (number(window)?, number(size_us)?, number(count)?);
            State::Count(WindowCount { window, size_us, count })
        }
        (Algorithm::SlidingWindowCounter, [window, size_us, current, previous]) => {
            let (window, size_us) = (number(window)?, number(size_us)?);
            let (current, previous) = (number(current)?, number(previous)?);
            State::Pair(WindowPair { window, size_us, current, previous })
        }
        _ => return None,
    })
}

/// The state of a list: times, each perhaps followed by minus its units, and last what the script keeps
/// of them for itself.
pub(crate) fn list(elements: &[Reply]) -> Option<State> {
    let (kept, elements) = elements.split_last()?;
    kept.bytes().filter(|bytes| bytes.len() == LOG_END)?;
    let mut entries: VecDeque<LogEntry> = VecDeque::new();
    for element in elements {
        let element = element.whole()?;
        match u64::try_from(element) {
            Ok(time_us) => entries.push_back(LogEntry { time_us, units: 1 }),
            Err(_) => entries.back_mut()?.units = element.unsigned_abs(),
        }
    }
    are_few(entries.iter().map(|entry| entry.units))?;
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
    let leases = leases.map(lease).collect::<Option<Vec<Lease>>>()?;
    are_few(leases.iter().map(|lease| lease.units))?;
    Some(State::Leases(Box::new(Leases::new(leases))))
}

/// Whether a script could have counted so many units. What is not ours may hold any number.
fn are_few(mut units: impl Iterator<Item = u64>) -> Option<()> {
    let all = units.try_fold(0, u64::checked_add)?;
    (all < 1 << f64::MANTISSA_DIGITS).then_some(())
}

/// A number of Lua is a double, and here a whole one below 2^53.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked just before")]
fn whole(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&number))
        .then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who writes to our keys by hand could end the process that shows them: the sum did not fit.
    #[test]
    fn more_units_than_a_script_can_count_are_not_ours() {
        let most = (1 << f64::MANTISSA_DIGITS) - 1_i64;
        for (units, is_ours) in
            [([1, 1], true), ([most - 1, 1], true), ([most, 1], false), ([i64::MAX; 2], false)]
        {
            let mut elements = vec![];
            for units in units {
                elements.extend([Reply::Whole(17), Reply::Whole(-units)]);
            }
            elements.push(Reply::Text(vec![0; LOG_END]));
            assert_eq!(list(&elements).is_some(), is_ours, "{units:?}");
            let member = |(nth, units)| (format!("{nth:x}:{units}:1000"), 17.0);
            let members: Vec<_> = units.iter().enumerate().map(member).collect();
            assert_eq!(sorted_set(&members).is_some(), is_ours, "{units:?}");
        }
        assert_eq!(sorted_set(&[(format!("1:{}:1000", u64::MAX), 17.0)]), None);
    }
}
