//! How rates, durations and short limits are written: `2.5/s`, `10 per 10 s`, `1m30s`,
//! `100/min burst 20`. Everything is read exactly or refused; nothing is rounded.

use std::str::FromStr;
use std::time::Duration;

use crate::algorithm::Algorithm;
use crate::quota::{LeakMode, Quota, QuotaError};
use crate::rate::Rate;

/// Digits that a number may have: enough for every exact value, few enough not to overflow.
const MAX_DIGITS: usize = 15;

/// The longest text that is read as a rate, a duration or a limit.
const MAX_TEXT_BYTES: usize = 100;

const UNITS: [(&str, u64, &[&str]); 7] = [
    ("us", 1, &["us", "µs"]),
    ("ms", 1_000, &["ms"]),
    ("s", 1_000_000, &["s", "sec", "secs", "second", "seconds"]),
    ("m", 60_000_000, &["m", "min", "mins", "minute", "minutes"]),
    ("h", 3_600_000_000, &["h", "hr", "hrs", "hour", "hours"]),
    ("d", 86_400_000_000, &["d", "day", "days"]),
    ("w", 604_800_000_000, &["w", "week", "weeks"]),
];

const EXPECTED_DURATION: &str = "seconds such as 60, or a duration such as 250ms, 1m30s, 7d";
const EXPECTED_RATE: &str = "a rate such as 5 (per second), 2.5/s, 300/min, 1000/h, 10 per 10 s";
const EXPECTED_LIMIT: &str = "a limit such as 100/min, 5/s burst 20, 10 per 10 s";

/// Why a text is not a rate, a duration or a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`: {problem}; expected {expected}")]
pub struct TextError {
    text: String,
    problem: String,
    expected: &'static str,
}

impl TextError {
    fn new(text: &str, problem: impl Into<String>, expected: &'static str) -> Self {
        let text = match text.char_indices().nth(40) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        };
        Self { text, problem: problem.into(), expected }
    }

    /// What is wrong, without the text and without what was expected.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// What would have been accepted.
    #[must_use]
    pub fn expected(&self) -> &'static str {
        self.expected
    }
}

/// A decimal number as the fraction it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimal {
    numerator: u64,
    denominator: u64,
}

impl Decimal {
    fn whole(self) -> Option<u64> {
        (self.numerator.is_multiple_of(self.denominator)).then(|| self.numerator / self.denominator)
    }
}

/// Reads a duration as whole microseconds. A bare number is seconds.
pub fn parse_duration_us(text: &str) -> Result<u64, TextError> {
    let fail = |problem: String| TextError::new(text, problem, EXPECTED_DURATION);
    let trimmed = bounded(text).map_err(fail)?;
    if trimmed.starts_with('-') {
        return Err(fail(format!("`{trimmed}` is negative")));
    }
    if let Ok(seconds) = decimal(trimmed) {
        return scale(seconds, 1_000_000).map_err(fail);
    }
    duration(trimmed).map_err(fail)
}

/// A duration in whole microseconds, or as many as there can be.
#[must_use]
pub fn whole_us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Writes whole microseconds in the largest unit that divides them: `90s` is `90s`, `60s` is `1m`.
#[must_use]
pub fn format_duration(us: u64) -> String {
    if us == 0 {
        return "0s".to_owned();
    }
    let (name, size, _) =
        UNITS.iter().rev().find(|(_, size, _)| us.is_multiple_of(*size)).unwrap_or(&UNITS[0]);
    format!("{}{name}", us / size)
}

impl FromStr for Rate {
    type Err = TextError;

    /// Reads a rate. A bare number is per second.
    fn from_str(text: &str) -> Result<Self, TextError> {
        let fail = |problem: String| TextError::new(text, problem, EXPECTED_RATE);
        let (count, period_us) = count_per_period(bounded(text).map_err(fail)?).map_err(fail)?;
        Rate::fraction(count.numerator, count.denominator, period_us.unwrap_or(1_000_000))
            .map_err(|error| fail(error.to_string()))
    }
}

/// A limit in one line: a count, a period, and perhaps a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortLimit {
    count: Decimal,
    period_us: u64,
    burst: Option<u64>,
}

impl ShortLimit {
    /// The period as written, which tells limits of one rule apart.
    #[must_use]
    pub fn period_us(&self) -> u64 {
        self.period_us
    }

    /// Fills the parameters of `algorithm`, or of a token bucket where none is named.
    pub fn quota(&self, algorithm: Option<Algorithm>) -> Result<Quota, ShortLimitError> {
        let rate = || {
            Rate::fraction(self.count.numerator, self.count.denominator, self.period_us)
                .map_err(ShortLimitError::Quota)
        };
        let Some(algorithm) = algorithm else {
            let capacity = match self.burst {
                Some(burst) => burst,
                None => self.whole_count()?,
            };
            return Ok(Quota::token_bucket(capacity, rate()?)?);
        };
        if self.burst.is_some() {
            return Err(ShortLimitError::BurstWithAlgorithm { algorithm });
        }
        let count = self.whole_count()?;
        Ok(match algorithm {
            Algorithm::TokenBucket => Quota::token_bucket(count, rate()?)?,
            Algorithm::Gcra => Quota::gcra(count, rate()?)?,
            Algorithm::LeakingBucket => {
                Quota::leaking_bucket(count, rate()?, LeakMode::Shape, None)?
            }
            Algorithm::FixedWindow => Quota::fixed_window(count, self.period_us)?,
            Algorithm::SlidingWindowLog => Quota::sliding_window_log(count, self.period_us)?,
            Algorithm::SlidingWindowCounter => {
                Quota::sliding_window_counter(count, self.period_us)?
            }
            Algorithm::Concurrency => Quota::concurrency(count, self.period_us)?,
        })
    }

    fn whole_count(&self) -> Result<u64, ShortLimitError> {
        self.count.whole().ok_or(ShortLimitError::CountNotWhole)
    }
}

impl FromStr for ShortLimit {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let fail = |problem: String| TextError::new(text, problem, EXPECTED_LIMIT);
        let trimmed = bounded(text).map_err(fail)?;
        let (rate, burst) = match trimmed.split_once("burst") {
            Some((rate, burst)) => (rate.trim(), Some(whole(burst.trim()).map_err(fail)?)),
            None => (trimmed, None),
        };
        let (count, period_us) = count_per_period(rate).map_err(fail)?;
        let period_us =
            period_us.ok_or_else(|| fail("it has no period, such as `/s` or `/min`".into()))?;
        Ok(Self { count, period_us, burst })
    }
}

/// Why a short limit does not fit its algorithm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShortLimitError {
    /// The quota itself was refused.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// `2.5/s` has no capacity of its own.
    #[error("a count that is not whole needs a burst, such as `2.5/s burst 5`")]
    CountNotWhole,
    /// `burst` belongs to the short token bucket.
    #[error(
        "`burst` cannot stand beside `algorithm: {algorithm}`: write the `{algorithm}` block, \
         or leave the algorithm out for a token bucket"
    )]
    BurstWithAlgorithm {
        /// The algorithm that was named.
        algorithm: Algorithm,
    },
}

fn bounded(text: &str) -> Result<&str, String> {
    match text.trim() {
        "" => Err("it is empty".into()),
        trimmed if trimmed.len() > MAX_TEXT_BYTES => {
            Err(format!("it is longer than {MAX_TEXT_BYTES} bytes"))
        }
        trimmed => Ok(trimmed),
    }
}

/// `5`, `5/s`, `10/10s`, `10 per 10 s`.
fn count_per_period(text: &str) -> Result<(Decimal, Option<u64>), String> {
    let parts = text.split_once('/').or_else(|| text.split_once(" per "));
    let Some((count, period)) = parts else {
        return Ok((positive(text)?, None));
    };
    let (count, period) = (positive(count.trim())?, period.trim());
    if period.is_empty() {
        return Err("its period is missing".into());
    }
    let period_us = match unit(period) {
        Some(us) => us,
        None => duration(period)?,
    };
    match period_us {
        0 => Err("its period is 0".into()),
        us => Ok((count, Some(us))),
    }
}

/// One or more numbers, each with its unit.
fn duration(text: &str) -> Result<u64, String> {
    let mut rest = text;
    let mut total_us = 0u64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !number_char(c)).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let tail = tail.trim_start();
        let end = tail.find(|c: char| number_char(c) || c == ' ').unwrap_or(tail.len());
        let (name, tail) = tail.split_at(end);
        if name.is_empty() {
            return Err(format!("`{number}` has no unit of time"));
        }
        let unit_us = unit(name).ok_or_else(|| no_unit(name))?;
        let us = scale(decimal(number)?, unit_us)?;
        total_us = total_us.checked_add(us).ok_or("it is too long")?;
        rest = tail.trim_start();
    }
    Ok(total_us)
}

fn number_char(c: char) -> bool {
    c.is_ascii_digit() || c == '.' || c == '-' || c == '+'
}

fn unit(name: &str) -> Option<u64> {
    UNITS.iter().find(|(_, _, names)| names.contains(&name)).map(|(_, us, _)| *us)
}

fn no_unit(name: &str) -> String {
    match name {
        "mo" | "month" | "months" | "y" | "year" | "years" => {
            format!("a {name} has no fixed length (write 30d or 365d)")
        }
        _ => format!("`{name}` is not a unit of time (us, ms, s, min, h, day, week)"),
    }
}

fn scale(number: Decimal, unit_us: u64) -> Result<u64, String> {
    let product = u128::from(number.numerator) * u128::from(unit_us);
    if !product.is_multiple_of(u128::from(number.denominator)) {
        return Err("it is not a whole number of microseconds".into());
    }
    u64::try_from(product / u128::from(number.denominator)).map_err(|_| "it is too long".into())
}

fn positive(text: &str) -> Result<Decimal, String> {
    match decimal(text)? {
        Decimal { numerator: 0, .. } => Err("its count is 0".into()),
        number => Ok(number),
    }
}

fn whole(text: &str) -> Result<u64, String> {
    positive(text)?.whole().ok_or_else(|| format!("`{text}` is not a whole number"))
}

fn decimal(text: &str) -> Result<Decimal, String> {
    if text.starts_with('-') {
        return Err(format!("`{text}` is negative"));
    }
    let (integer, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if integer.is_empty() || !digits(integer) || !digits(fraction) || text.ends_with('.') {
        return Err(match text {
            "" => "a number is missing".into(),
            _ => format!("`{text}` is not a decimal number"),
        });
    }
    let fraction = fraction.trim_end_matches('0');
    let integer = integer.trim_start_matches('0');
    if integer.len() + fraction.len() > MAX_DIGITS {
        return Err(format!("`{text}` has more than {MAX_DIGITS} digits"));
    }
    let mut numerator = 0u64;
    for digit in integer.bytes().chain(fraction.bytes()) {
        numerator = numerator * 10 + u64::from(digit - b'0');
    }
    let mut denominator = 1;
    for _ in fraction.bytes() {
        denominator *= 10;
    }
    Ok(Decimal { numerator, denominator })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_in_all_their_spellings() {
        for (text, us) in [
            ("60", 60_000_000),
            ("0.5", 500_000),
            ("250ms", 250_000),
            ("1m30s", 90_000_000),
            ("1m 30s", 90_000_000),
            ("7d", 604_800_000_000),
            ("10 s", 10_000_000),
            ("1.5h", 5_400_000_000),
            ("3us", 3),
            ("2 minutes", 120_000_000),
        ] {
            assert_eq!(parse_duration_us(text), Ok(us), "{text}");
        }
    }

    #[test]
    fn durations_that_are_refused() {
        for (text, problem) in [
            ("", "it is empty"),
            ("-1s", "`-1s` is negative"),
            ("-60", "`-60` is negative"),
            ("1.5us", "it is not a whole number of microseconds"),
            ("0.0000001", "it is not a whole number of microseconds"),
            ("5 parsecs", "`parsecs` is not a unit of time (us, ms, s, min, h, day, week)"),
            ("1month", "a month has no fixed length (write 30d or 365d)"),
            ("10s5", "`5` has no unit of time"),
            ("s", "a number is missing"),
            ("999999999999999d", "it is too long"),
            ("1e3", "`e` is not a unit of time (us, ms, s, min, h, day, week)"),
        ] {
            assert_eq!(parse_duration_us(text).unwrap_err().problem(), problem, "{text}");
        }
    }

    #[test]
    fn a_duration_written_is_read_back() {
        for us in [1, 999, 1_000, 90_000_000, 86_400_000_000, 604_800_000_000, 34_560_000_000_000] {
            assert_eq!(parse_duration_us(&format_duration(us)), Ok(us));
        }
        assert_eq!(format_duration(90_000_000), "90s");
        assert_eq!(format_duration(60_000_000), "1m");
        assert_eq!(format_duration(0), "0s");
    }

    #[test]
    fn rates_in_all_their_spellings() {
        for (text, written) in [
            ("5", "1/200ms"),
            ("2.5/s", "1/400ms"),
            ("300/min", "1/200ms"),
            ("1000/h", "1/3600ms"),
            ("5000/day", "1/17280ms"),
            ("10/10s", "1/1s"),
            ("10 per 10 s", "1/1s"),
            ("7 per 13 s", "7/13s"),
            ("100 / minute", "1/600ms"),
            ("0.1", "1/10s"),
        ] {
            assert_eq!(text.parse::<Rate>().map(|rate| rate.to_string()), Ok(written.into()));
        }
    }

    #[test]
    fn rates_that_are_refused() {
        for (text, problem) in [
            ("0/s", "its count is 0"),
            ("-5", "`-5` is negative"),
            ("5/0s", "its period is 0"),
            ("5/fortnight", "`fortnight` is not a unit of time (us, ms, s, min, h, day, week)"),
            ("five/s", "`five` is not a decimal number"),
            ("5/", "its period is missing"),
            ("0.1234567890123456/s", "`0.1234567890123456` has more than 15 digits"),
            ("1/401d", "`period` is 401d; expected at most 400d"),
        ] {
            let error = text.parse::<Rate>().unwrap_err();
            assert_eq!(error.problem(), problem, "{text}");
        }
    }

    #[test]
    fn short_limits() {
        let quota = |text: &str, algorithm| text.parse::<ShortLimit>().unwrap().quota(algorithm);
        let per_minute = Rate::new(100, 60_000_000).unwrap();
        assert_eq!(quota("100/min", None), Ok(Quota::token_bucket(100, per_minute).unwrap()));
        assert_eq!(
            quota("100/min burst 20", None),
            Ok(Quota::token_bucket(20, per_minute).unwrap())
        );
        assert_eq!(
            quota("10 per 10 s", Some(Algorithm::SlidingWindowCounter)),
            Ok(Quota::sliding_window_counter(10, 10_000_000).unwrap())
        );
        assert_eq!(
            quota("20/30s", Some(Algorithm::Concurrency)),
            Ok(Quota::concurrency(20, 30_000_000).unwrap())
        );
        assert_eq!(quota("2.5/s", None), Err(ShortLimitError::CountNotWhole));
        assert!(quota("2.5/s burst 5", None).is_ok());
        assert!(matches!(
            quota("5/s burst 5", Some(Algorithm::Gcra)),
            Err(ShortLimitError::BurstWithAlgorithm { .. })
        ));
    }

    #[test]
    fn short_limits_that_are_refused() {
        for text in
            ["100", "100/min burst", "100/min burst 0", "100/min burst 2.5", "", "/min", "x"]
        {
            assert!(text.parse::<ShortLimit>().is_err(), "{text}");
        }
    }
}
