//! Turns a block, or a limit in one line, into a quota; core says whether it may be one.

use tollkeeper_core::{Algorithm, LeakMode, Quota, QuotaError, ShortLimitError};

use crate::error::{Fault, Problems, Span};
use crate::raw::{Raw, RawField, RawLimit, RawMap};

/// The quota of `algorithm`'s block. `None` if there is none, which has been reported.
pub(super) fn block(
    algorithm: Algorithm,
    field: &RawField,
    map: &RawMap,
    problems: &mut Problems,
) -> Option<Quota> {
    match build(algorithm, map)? {
        Ok(quota) => Some(quota),
        Err(error) => {
            let (span, fault) = block_fault(field, map, &error);
            problems.add(span, fault);
            None
        }
    }
}

/// `None` where a field is missing or was refused.
fn build(algorithm: Algorithm, map: &RawMap) -> Option<Result<Quota, QuotaError>> {
    let window = || Some((map.count("max_requests")?, map.duration_us("window_size")?));
    Some(match algorithm {
        Algorithm::TokenBucket => {
            Quota::token_bucket(map.count("capacity")?, map.rate("refill_rate")?)
        }
        Algorithm::Gcra => Quota::gcra(map.count("burst")?, map.rate("rate")?),
        Algorithm::LeakingBucket => {
            let mode = match map.word("mode") {
                Some("meter") => LeakMode::Meter,
                _ => LeakMode::Shape,
            };
            Quota::leaking_bucket(
                map.count("queue_capacity")?,
                map.rate("leak_rate")?,
                mode,
                map.duration_us("max_delay"),
            )
        }
        Algorithm::FixedWindow => window().map(|(l, w)| Quota::fixed_window(l, w))?,
        Algorithm::SlidingWindowLog => window().map(|(l, w)| Quota::sliding_window_log(l, w))?,
        Algorithm::SlidingWindowCounter => {
            window().map(|(l, w)| Quota::sliding_window_counter(l, w))?
        }
        Algorithm::Concurrency => {
            Quota::concurrency(map.count("max_in_flight")?, map.duration_us("lease")?)
        }
        _ => return None,
    })
}

fn block_fault(block: &RawField, map: &RawMap, error: &QuotaError) -> (Span, Fault) {
    let any_secret = map.fields.iter().any(RawField::is_secret);
    let Some(field) = map.field(error.field()) else {
        let fault = match any_secret {
            true => Fault::new(format!("`{}` has a value that is out of range", block.name)),
            false => spoken(&error.to_string()),
        };
        return (block.key_span, fault);
    };
    // An inexact rate is told together with the capacity beside it.
    let secret = match error {
        QuotaError::Inexact { .. } => any_secret,
        _ => field.is_secret(),
    };
    let fault = match (secret, error) {
        (false, QuotaError::Zero { .. }) if matches!(field.value, Some(Raw::DurationUs(_))) => {
            Fault::new(format!("`{}` is 0", field.name)).expected("a time above 0")
        }
        (false, _) => spoken(&error.to_string()),
        (true, QuotaError::Inexact { .. }) => Fault::new(format!(
            "`{}` is {}, which is too fine to be exact with the capacity beside it",
            field.name,
            field.quoted()
        ))
        .help("use a rate with fewer digits, or a smaller capacity"),
        (true, _) => Fault::new(format!(
            "`{}` is {}, whose value is out of range",
            field.name,
            field.quoted()
        )),
    };
    (field.span, fault)
}

/// The quota of a limit in one line. `None` if there is none, which has been reported.
pub(super) fn short(
    subject: &str,
    limit: &RawLimit,
    algorithm: Option<Algorithm>,
    algorithm_is_secret: bool,
    problems: &mut Problems,
) -> Option<Quota> {
    let error = match limit.short.quota(algorithm) {
        Ok(quota) => return Some(quota),
        Err(error) => error,
    };
    let is = format!("{subject} {}", limit.scalar.quoted());
    let fault = match &error {
        _ if limit.scalar.is_secret() || algorithm_is_secret => {
            Fault::new(format!("{is}, which does not fit its algorithm"))
        }
        ShortLimitError::Quota(error) => {
            let mut fault = spoken(&error.to_string());
            fault.message = format!("{is}, in which {}", fault.message);
            fault
        }
        ShortLimitError::CountNotWhole => {
            let fault = Fault::new(format!("{is}, whose count is not whole"));
            match algorithm {
                // There a burst would be refused in turn.
                Some(algorithm) => fault.help(format!(
                    "write a whole count over a longer period, or the `{algorithm}` block"
                )),
                None => fault.help("add a burst, such as `2.5/s burst 5`"),
            }
        }
        ShortLimitError::BurstWithAlgorithm { algorithm } => {
            Fault::new(format!("{is}, and `burst` cannot stand beside `algorithm: {algorithm}`"))
                .help(format!(
                    "write the `{algorithm}` block, or leave the algorithm out for a token bucket"
                ))
        }
        error => Fault::new(format!("{is}: {error}")),
    };
    problems.add(limit.span, fault);
    None
}

/// Core's sentence, parted at the point where it turns to what was expected.
fn spoken(text: &str) -> Fault {
    match text.split_once("; ") {
        Some((message, rest)) => match rest.strip_prefix("expected ") {
            Some(expected) => Fault::new(message).expected(expected),
            None => Fault::new(message).help(rest),
        },
        None => Fault::new(text),
    }
}
