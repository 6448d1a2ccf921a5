//! Requests and amendments as calls of scripts, and the scripts' numbers as answers.

use tollkeeper_core::{
    Algorithm, Amended, Amendment, Answer, Bucket, Change, Check, LeakMode, Outcome, Quota,
    Request, StoreError,
};

use crate::names::{Naming, permit_text, record_key, state_key};
use crate::script::Call;

/// Numbers that the script gives for each check.
const NUMBERS: usize = 4;

/// What the script that decides is called with; `now_us` where it is not the server's own time.
pub(crate) fn decide_call(naming: Naming<'_>, now_us: Option<u64>, request: &Request<'_>) -> Call {
    let checks = request.checks();
    let ticket = request.ticket();
    let mut call = Call { algorithm: common_algorithm(checks), ..Call::default() };
    call.args.push(or_empty(now_us));
    for check in checks {
        let algorithm = check.quota.algorithm();
        call.keys.push(state_key(naming, check.limit, algorithm, check.key));
        if call.algorithm.is_none() {
            call.args.push(algorithm.suffix().to_owned());
        }
        call.args.push(check.cost.to_string());
        call.args.extend(parameters(check.quota, ticket.map(|ticket| ticket.id)));
    }
    let reserved = ticket.and_then(|ticket| Some((ticket.id, ticket.reserve_for_us?)));
    if reserved.is_some() || checks.iter().any(|check| check.shadow) {
        let shadows = checks.iter().map(|check| if check.shadow { '1' } else { '0' }).collect();
        call.args.extend(["with".to_owned(), or_empty(reserved.map(|(_, us)| us)), shadows]);
    }
    if let Some((id, _)) = reserved {
        let records: Vec<String> = call.keys.iter().map(|key| record_key(key, id)).collect();
        call.keys.extend(records);
    }
    call
}

/// The algorithm of all checks.
fn common_algorithm(checks: &[Check<'_>]) -> Option<Algorithm> {
    let (first, others) = checks.split_first()?;
    let algorithm = first.quota.algorithm();
    others.iter().all(|check| check.quota.algorithm() == algorithm).then_some(algorithm)
}

/// The deciding script's numbers as an answer to `request`.
pub(crate) fn answer(request: &Request<'_>, reply: &[i64]) -> Result<Answer, StoreError> {
    read_answer(request, reply)
        .ok_or_else(|| StoreError::may_have_run("the script's answer cannot be read"))
}

fn read_answer(request: &Request<'_>, reply: &[i64]) -> Option<Answer> {
    let (&now_us, rest) = reply.split_first()?;
    let checks = request.checks();
    let rest = rest.get(..checks.len() * NUMBERS)?;
    let outcome = |(numbers, check): (&[i64], &Check<'_>)| {
        let &[retry, delay, remaining, reset] = numbers.first_chunk::<NUMBERS>()?;
        Some(Outcome {
            allowed: retry == 0,
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
    let outcomes = outcomes?;
    let admitted = outcomes.iter().all(|outcome| outcome.allowed || outcome.shadow);
    let mut costs = outcomes.iter().zip(checks);
    let charged = admitted && costs.any(|(outcome, check)| outcome.allowed && check.cost > 0);
    Some(Answer::new(u64::try_from(now_us).ok()?, charged, outcomes))
}

/// What the script that amends is called with.
pub(crate) fn amend_call(
    naming: Naming<'_>,
    now_us: Option<u64>,
    amendment: &Amendment<'_>,
) -> Result<Call, StoreError> {
    let Amendment { limit, quota, key, change } = *amendment;
    let algorithm = quota.algorithm();
    let mut call = Call { algorithm: Some(algorithm), ..Call::default() };
    call.keys.push(state_key(naming, limit, algorithm, key));
    let (verb, charged_at_us, units, permit) = match change {
        Change::Refund { units, charged_at_us } => ("refund", charged_at_us, units, None),
        Change::Settle { id, actual } => {
            call.keys.push(record_key(&call.keys[0], id));
            ("settle", None, actual, None)
        }
        Change::LeaveAtMost { units } => ("leave_at_most", None, units, None),
        Change::Release { id } => ("release", None, 0, Some(id)),
        Change::Renew { id } => ("renew", None, 0, Some(id)),
        _ => return Err(StoreError::did_not_run("this change is not known here")),
    };
    call.args.extend([or_empty(now_us), verb.to_owned(), or_empty(charged_at_us)]);
    call.args.push(units.to_string());
    call.args.extend(parameters(quota, permit));
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

/// A quota as its algorithm's script takes it.
fn parameters(quota: &Quota, permit: Option<u128>) -> Vec<String> {
    match quota {
        Quota::TokenBucket(bucket) | Quota::Gcra(bucket) => bucket_parameters(bucket).into(),
        Quota::LeakingBucket(leak) => {
            let max_delay =
                leak.max_delay_us().map_or_else(|| "-1".to_owned(), |us| us.to_string());
            let shape = u8::from(leak.mode() == LeakMode::Shape).to_string();
            bucket_parameters(leak.bucket()).into_iter().chain([max_delay, shape]).collect()
        }
        Quota::FixedWindow(window)
        | Quota::SlidingWindowLog(window)
        | Quota::SlidingWindowCounter(window) => {
            vec![window.max_requests().to_string(), window.size_us().to_string()]
        }
        Quota::Concurrency(in_flight) => vec![
            in_flight.max_in_flight().to_string(),
            in_flight.lease_us().to_string(),
            permit.map_or_else(String::new, permit_text),
        ],
        _ => Vec::new(),
    }
}

fn bucket_parameters(bucket: &Bucket) -> [String; 3] {
    [bucket.capacity(), bucket.drain(), bucket.unit()].map(|number| number.to_string())
}

/// A number that may be missing.
fn or_empty(number: Option<u64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}
