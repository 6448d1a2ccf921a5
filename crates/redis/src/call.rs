//! Requests and amendments as calls of scripts, and the scripts' numbers as answers.

use tollkeeper_core::{
    Amended, Amendment, Answer, Change, Check, LeakMode, Outcome, Quota, Request, StoreError,
};

use crate::names::{permit_text, record_key, state_key};
use crate::script::Call;

/// Numbers that the script gives for each check.
const NUMBERS: usize = 5;

/// What the script that decides is called with; `now_us` where it is not the server's own time.
pub(crate) fn decide_call(prefix: &str, now_us: Option<u64>, request: &Request<'_>) -> Call {
    let ticket = request.ticket();
    let life_us = ticket.and_then(|ticket| ticket.reserve_for_us);
    let mut call = Call::default();
    call.args.push(or_empty(now_us));
    call.args.push(ticket.map_or_else(String::new, |ticket| permit_text(ticket.id)));
    call.args.push(or_empty(life_us));
    for check in request.checks() {
        let algorithm = check.quota.algorithm();
        call.keys.push(state_key(prefix, check.limit, algorithm, check.key));
        call.args.push(algorithm.suffix().to_owned());
        call.args.push(check.cost.to_string());
        call.args.push(u8::from(check.shadow).to_string());
        call.args.extend(parameters(check.quota));
    }
    if let (Some(ticket), Some(_)) = (ticket, life_us) {
        let records: Vec<String> = call.keys.iter().map(|key| record_key(key, ticket.id)).collect();
        call.keys.extend(records);
    }
    call
}

/// The deciding script's numbers as an answer to `request`.
pub(crate) fn answer(request: &Request<'_>, reply: &[i64]) -> Result<Answer, StoreError> {
    read_answer(request, reply)
        .ok_or_else(|| StoreError::may_have_run("the script's answer cannot be read"))
}

fn read_answer(request: &Request<'_>, reply: &[i64]) -> Option<Answer> {
    let (&[now_us, charged], rest) = reply.split_first_chunk::<2>()?;
    let checks = request.checks();
    if rest.len() != checks.len() * NUMBERS {
        return None;
    }
    let outcome = |(numbers, check): (&[i64], &Check<'_>)| {
        let &[admits, retry, delay, remaining, reset] = numbers.first_chunk::<NUMBERS>()?;
        Some(Outcome {
            allowed: admits == 1,
            shadow: check.shadow,
            limit: check.quota.limit(),
            remaining: u64::try_from(remaining).ok()?,
            // Minus one is never.
            retry_after_us: u64::try_from(retry).ok(),
            reset_after_us: u64::try_from(reset).ok()?,
            delay_us: u64::try_from(delay).ok()?,
        })
    };
    let outcomes: Option<Vec<Outcome>> = rest.chunks(NUMBERS).zip(checks).map(outcome).collect();
    Some(Answer::new(u64::try_from(now_us).ok()?, charged == 1, outcomes?))
}

/// What the script that amends is called with.
pub(crate) fn amend_call(
    prefix: &str,
    now_us: Option<u64>,
    amendment: &Amendment<'_>,
) -> Result<Call, StoreError> {
    let Amendment { limit, quota, key, change } = *amendment;
    let algorithm = quota.algorithm();
    let mut call = Call::default();
    call.keys.push(state_key(prefix, limit, algorithm, key));
    call.args.push(or_empty(now_us));
    call.args.push(algorithm.suffix().to_owned());
    call.args.extend(parameters(quota));
    match change {
        Change::Refund { units, charged_at_us } => {
            call.args.extend(["refund".to_owned(), units.to_string(), or_empty(charged_at_us)]);
        }
        Change::Settle { id, actual } => {
            call.args.extend(["settle".to_owned(), actual.to_string()]);
            call.keys.push(record_key(&call.keys[0], id));
        }
        Change::Release { id } => call.args.extend(["release".to_owned(), permit_text(id)]),
        Change::Renew { id } => call.args.extend(["renew".to_owned(), permit_text(id)]),
        _ => return Err(StoreError::did_not_run("this change is not known here")),
    }
    Ok(call)
}

/// The amending script's numbers: what became of it, and the units forgiven.
pub(crate) fn amended((what, forgiven): (i64, u64)) -> Amended {
    match what {
        1 => Amended::Done { forgiven },
        2 => Amended::Repeated,
        _ => Amended::Unknown,
    }
}

/// A quota as the scripts take it: five numbers, of which some are not used.
fn parameters(quota: &Quota) -> [String; 5] {
    let numbers: [i128; 5] = match quota {
        Quota::TokenBucket(bucket) | Quota::Gcra(bucket) => {
            [bucket.capacity().into(), bucket.drain().into(), bucket.unit().into(), -1, 0]
        }
        Quota::LeakingBucket(leak) => {
            let bucket = leak.bucket();
            let max_delay = leak.max_delay_us().map_or(-1, i128::from);
            let shape = i128::from(leak.mode() == LeakMode::Shape);
            let unit = bucket.unit().into();
            [bucket.capacity().into(), bucket.drain().into(), unit, max_delay, shape]
        }
        Quota::FixedWindow(window)
        | Quota::SlidingWindowLog(window)
        | Quota::SlidingWindowCounter(window) => {
            [window.max_requests().into(), window.size_us().into(), 0, 0, 0]
        }
        Quota::Concurrency(in_flight) => {
            [in_flight.max_in_flight().into(), in_flight.lease_us().into(), 0, 0, 0]
        }
        _ => [0; 5],
    };
    numbers.map(|number| number.to_string())
}

/// A number that may be missing.
fn or_empty(number: Option<u64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}
