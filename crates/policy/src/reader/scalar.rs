//! Reads single values: numbers, words, rates, durations, limits, addresses.
//!
//! What rates, durations and limits look like is core's to say; this file only asks it.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use tollkeeper_core::{Algorithm, Rate, ShortLimit, TextError, format_duration, parse_duration_us};

use crate::error::{Fault, Span, one_of};
use crate::fields::Kind;
use crate::limits::{MAX_COST, MAX_TIERS};
use crate::nearest::nearest;
use crate::raw::{Raw, RawTexts};
use crate::refused::Refused;
use crate::settings::{EXPECTED_UPSTREAM, Upstream};
use crate::store_url::{EXPECTED, StoreUrl, StoreUrlError};
use crate::yaml::Scalar;

impl Kind {
    /// What the field takes, to follow the word "expected".
    pub(crate) fn expected(&self) -> String {
        match self {
            Self::Count { max } => format!("a whole number from 1 to {max}"),
            Self::Number { min, max } => format!("a whole number from {min} to {max}"),
            Self::Rate => expected_by(Rate::from_str("").err()),
            Self::Duration => expected_by(parse_duration_us("").err()),
            Self::DurationWithin { min_us, max_us } => {
                format!("a time from {} to {}", format_duration(*min_us), format_duration(*max_us))
            }
            Self::Limit => expected_by(ShortLimit::from_str("").err()),
            Self::Limits => "a list of limits such as [20/s, 5000/day]".into(),
            Self::Flag => "`true` or `false`".into(),
            Self::Word(words) => one_of(words.iter().copied()),
            Self::Text(form) => form.expected.into(),
            Self::Texts(form) => {
                format!("{}, or a list of {} to {} of them", form.expected, form.min, form.max)
            }
            Self::Pairs(form) => {
                format!("a map of {} to {} names, each with {}", form.min, form.max, form.expected)
            }
            Self::Algorithm => one_of(Algorithm::ALL.map(Algorithm::name)),
            Self::TierLimits => format!(
                "1 to {MAX_TIERS} tiers with their limits, such as {{ pro: [200/s, 100000/day] }}"
            ),
            Self::CountOr(shape) => {
                format!("a whole number from 1 to {MAX_COST}, or a map such as `{}`", shape.example)
            }
            Self::StoreUrl => EXPECTED.into(),
            Self::Upstream => EXPECTED_UPSTREAM.into(),
            Self::Address => "an address and a port such as 127.0.0.1:8080".into(),
            Self::Map(shape) => format!("a map such as `{}`", shape.example),
            Self::Rules(_) => "a map such as `{ api: { limit: 100/min } }`".into(),
        }
    }
}

/// Core's own words for what it takes, taken from its refusal of nothing.
fn expected_by(error: Option<TextError>) -> String {
    error.map(|error| error.expected()).unwrap_or_default().into()
}

/// A single value of any kind but a limit.
pub(super) fn value(subject: &str, kind: &Kind, scalar: &Scalar, span: Span) -> Result<Raw, Fault> {
    let text = scalar.text();
    let read = match kind {
        Kind::Count { .. } => count(subject, scalar).map(Raw::Count),
        Kind::Number { min, max } => within(subject, *min..=*max, scalar).map(Raw::Count),
        Kind::CountOr(_) => within(subject, 1..=MAX_COST, scalar).map(Raw::Count),
        Kind::Rate => {
            Rate::from_str(text).map(Raw::Rate).map_err(|error| text_fault(subject, scalar, &error))
        }
        Kind::Duration => parse_duration_us(text)
            .map(Raw::DurationUs)
            .map_err(|error| text_fault(subject, scalar, &error)),
        Kind::DurationWithin { min_us, max_us } => {
            duration_within(subject, *min_us..=*max_us, scalar).map(Raw::DurationUs)
        }
        Kind::Flag => flag(subject, scalar).map(Raw::Flag),
        Kind::Word(words) => word(subject, words.iter().copied(), scalar).map(Raw::Word),
        Kind::Text(form) => match (form.fits)(text) {
            true => Ok(Raw::Text(text.to_owned())),
            false => Err(scalar.fault(subject, ", which cannot be used here", None)),
        },
        Kind::Algorithm => Algorithm::from_str(text).map(Raw::Algorithm).map_err(|_| {
            let names = Algorithm::ALL.map(Algorithm::name).into_iter();
            unknown_word(subject, names, scalar)
        }),
        Kind::Texts(_) => {
            Ok(Raw::Texts(RawTexts::new(subject.to_owned(), vec![(scalar.clone(), span)])))
        }
        Kind::StoreUrl => store_url(scalar).map(Raw::StoreUrl),
        Kind::Upstream => {
            Upstream::read(text).map(Raw::Upstream).map_err(|refused| upstream(refused, scalar))
        }
        Kind::Address => address(subject, scalar).map(Raw::Address),
        Kind::Limits => Err(scalar.fault(
            subject,
            ", which is not a list",
            Some(format!("write `limits: [{text}]` or `limit: {text}`")),
        )),
        Kind::Limit | Kind::Map(_) | Kind::Rules(_) | Kind::Pairs(_) | Kind::TierLimits => {
            Err(scalar.fault(subject, ", which is not a map", None))
        }
    };
    read.map_err(|fault| match fault.expected {
        Some(_) => fault,
        None => fault.expected(kind.expected()),
    })
}

/// A limit in one line.
pub(super) fn limit(subject: &str, scalar: &Scalar) -> Result<ShortLimit, Fault> {
    ShortLimit::from_str(scalar.text()).map_err(|error| {
        let mut fault = text_fault(subject, scalar, &error);
        let text = scalar.text().trim();
        if !scalar.is_secret() && text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
            fault.help = Some(format!("write a period: `{text}/s` or `{text}/min`"));
        }
        fault
    })
}

fn text_fault(subject: &str, scalar: &Scalar, error: &TextError) -> Fault {
    let reason = format!(": {}", error.problem());
    scalar.fault(subject, &reason, None).expected(error.expected())
}

fn duration_within(
    subject: &str,
    range_us: RangeInclusive<u64>,
    scalar: &Scalar,
) -> Result<u64, Fault> {
    let text = scalar.text().trim();
    let us = parse_duration_us(text)
        .map_err(|error| scalar.fault(subject, &format!(": {}", error.problem()), None))?;
    if range_us.contains(&us) {
        return Ok(us);
    }
    let is_bare = text.bytes().all(|b| b.is_ascii_digit());
    let help = is_bare.then(|| format!("a bare number is seconds: write `{text}ms`"));
    Err(scalar.fault(subject, ", which is out of range", help.filter(|_| us > 0)))
}

fn count(subject: &str, scalar: &Scalar) -> Result<u64, Fault> {
    let text = scalar.text().trim();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let refuse = |reason: &str, help| Err(scalar.fault(subject, reason, help));
    if digits(text) {
        if text.len() > 1 && text.starts_with('0') {
            // Octal to some readers of YAML, decimal to others.
            let help = format!("write `{}`", text.trim_start_matches('0'));
            return refuse(", which begins with a 0", Some(help));
        }
        return match text.parse() {
            Ok(count) => Ok(count),
            Err(_) => refuse(", which is too large", None),
        };
    }
    let bare: String = text.chars().filter(|c| !"_,' ".contains(*c)).collect();
    if digits(&bare) {
        let help = Some(format!("write `{bare}`"));
        return refuse(", which is not written in digits alone", help);
    }
    match text.strip_prefix('-') {
        Some(rest) if digits(rest) => refuse(", which is negative", None),
        _ if text.parse::<f64>().is_ok_and(f64::is_finite) && text.contains('.') => {
            refuse(", which is not a whole number", None)
        }
        _ => refuse(", which is not a whole number in digits", None),
    }
}

fn within(subject: &str, range: RangeInclusive<u64>, scalar: &Scalar) -> Result<u64, Fault> {
    match count(subject, scalar)? {
        count if range.contains(&count) => Ok(count),
        _ => Err(scalar.fault(subject, ", which is out of range", None)),
    }
}

fn flag(subject: &str, scalar: &Scalar) -> Result<bool, Fault> {
    match scalar.text() {
        "true" => Ok(true),
        "false" => Ok(false),
        text => {
            let help = match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "y" | "1" => Some("write `true`".into()),
                "false" | "no" | "off" | "n" | "0" => Some("write `false`".into()),
                _ => None,
            };
            Err(scalar.fault(subject, ", which is neither true nor false", help))
        }
    }
}

fn word(
    subject: &str,
    words: impl Iterator<Item = &'static str> + Clone,
    scalar: &Scalar,
) -> Result<&'static str, Fault> {
    words
        .clone()
        .find(|word| *word == scalar.text())
        .ok_or_else(|| unknown_word(subject, words, scalar))
}

fn unknown_word(
    subject: &str,
    words: impl Iterator<Item = &'static str>,
    scalar: &Scalar,
) -> Fault {
    let near = nearest(scalar.text(), words);
    let help = near.map(|near| format!("did you mean `{near}`?"));
    scalar.fault(subject, ", which is not known", help)
}

pub(super) fn store_url(scalar: &Scalar) -> Result<StoreUrl, Fault> {
    StoreUrl::from_str(scalar.text()).map_err(|error| url_fault(scalar, &error))
}

/// The URL itself is not told: it can hold a password.
pub(super) fn url_fault(scalar: &Scalar, error: &StoreUrlError) -> Fault {
    let message = match scalar.has_variable() {
        true => format!("`url` is {}, which {}", scalar.quoted(), error.unquoted()),
        false => format!("`url` {}", error.problem()),
    };
    let mut fault = Fault::new(message).expected(error.expected());
    fault.help = error.help().map(str::to_owned);
    fault
}

/// The URL itself is not told: by mistake it can hold a password.
fn upstream(refused: Refused, scalar: &Scalar) -> Fault {
    let Refused { reason, expected, help } = refused;
    let mut fault = match scalar.has_variable() {
        true => scalar.fault("`upstream` is", &reason, help),
        false => Fault { help, ..Fault::new(format!("`upstream` is {}{reason}", scalar.quoted())) },
    };
    fault.expected = Some(expected);
    fault
}

fn address(subject: &str, scalar: &Scalar) -> Result<SocketAddr, Fault> {
    let text = scalar.text();
    text.parse().map_err(|_| {
        let port = text.rsplit(':').next().unwrap_or_default();
        let help = match text {
            _ if port.parse::<u16>().is_err() => None,
            _ if text.starts_with("localhost:") => Some(format!("write `127.0.0.1:{port}`")),
            _ if text == port || text.starts_with(':') || text.starts_with('*') => Some(format!(
                "write `127.0.0.1:{port}` for this machine alone, `0.0.0.0:{port}` for every network"
            )),
            _ => None,
        };
        scalar.fault(subject, ", which is not an address with a port", help)
    })
}
