//! Requests and amendments as calls of scripts, and the scripts' numbers as answers.

use std::iter::once;

use smallvec::SmallVec;
use tollkeeper_core::{
    Algorithm, Amended, Amendment, Answer, Bucket, Change, Check, Drawn, LeakMode, Outcome, Quota,
    Request, Settled, StoreError, Ticket,
};

use crate::driver::{Fault, Reply};
use crate::hearsay::channel;
use crate::names::{Naming, permit_text, record_key, state_key};
use crate::script::Call;

/// Numbers that the script gives for each check.
const NUMBERS: usize = 4;

/// The most keys of one call that decides: the server does nothing else meanwhile.
const MOST_KEYS: usize = 64;

/// What a request asks of its keys. Requests that ask the same are decided by one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Where it is not the server's own time.
    now_us: Option<u64>,
    limits: SmallVec<[Limit; 2]>,
    /// What names its permits or its reservation, if it makes any; then nobody asks the same.
    ticket: Option<Ticket>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    quota: Quota,
    cost: u64,
    shadow: bool,
}

impl Terms {
    pub(crate) fn of(now_us: Option<u64>, request: &Request<'_>) -> Self {
        let limit = |check: &Check<'_>| {
            let Check { quota, cost, shadow, .. } = *check;
            Limit { quota: *quota, cost, shadow }
        };
        let limits: SmallVec<[Limit; 2]> = request.checks().iter().map(limit).collect();
        let takes = |limit: &Limit| matches!(limit.quota, Quota::Concurrency(_));
        let is_held = |ticket: &Ticket| ticket.reserve_for_us.is_some() || limits.iter().any(takes);
        let ticket = request.ticket().filter(is_held);
        Self { now_us, limits, ticket }
    }

    /// How many requests one call decides at most.
    pub(crate) fn most_together(&self) -> usize {
        match self.ticket {
            Some(_) => 1,
            None => (MOST_KEYS / self.limits.len().max(1)).max(1),
        }
    }

    /// The algorithm of all limits.
    fn common_algorithm(&self) -> Option<Algorithm> {
        let (first, others) = self.limits.split_first()?;
        let algorithm = first.quota.algorithm();
        others.iter().all(|limit| limit.quota.algorithm() == algorithm).then_some(algorithm)
    }

    /// What the script that decides is called with, for `keys` of one request or of several.
    pub(crate) fn call(&self, keys: Vec<String>) -> Call {
        let mut call = Call { algorithm: self.common_algorithm(), keys, args: Vec::new() };
        call.args.push(or_empty(self.now_us));
        for limit in &self.limits {
            if call.algorithm.is_none() {
                call.args.push(limit.quota.algorithm().suffix().to_owned());
            }
            call.args.push(limit.cost.to_string());
            call.args.extend(parameters(&limit.quota, self.ticket.map(|ticket| ticket.id)));
        }
        let reserved = self.ticket.and_then(|ticket| Some((ticket.id, ticket.reserve_for_us?)));
        if reserved.is_some() || self.limits.iter().any(|limit| limit.shadow) {
            let digit = |limit: &Limit| if limit.shadow { '1' } else { '0' };
            let shadows = self.limits.iter().map(digit).collect();
            call.args.extend(["with".to_owned(), or_empty(reserved.map(|(_, us)| us)), shadows]);
        }
        if let Some((id, _)) = reserved {
            let records: Vec<String> = call.keys.iter().map(|key| record_key(key, id)).collect();
            call.keys.extend(records);
        }
        call
    }

    /// What the script answered to the `nth` of its requests, which may have failed by itself.
    pub(crate) fn told(&self, reply: &Reply, nth: usize) -> Option<Result<Numbers, Fault>> {
        let (now, rest) = reply.list()?.split_first()?;
        let each = self.limits.len() * NUMBERS;
        let numbers = rest.get(nth * each..(nth + 1) * each)?;
        if let Some(failed) = numbers.first().and_then(Reply::text) {
            return Some(Err(Fault::refused(failed)));
        }
        once(now).chain(numbers).map(Reply::whole).collect::<Option<_>>().map(Ok)
    }
}

/// The keys of a request's states.
pub(crate) fn state_keys(naming: Naming<'_>, request: &Request<'_>) -> Vec<String> {
    let key =
        |check: &Check<'_>| state_key(naming, check.limit, check.quota.algorithm(), check.key);
    request.checks().iter().map(key).collect()
}

/// What the script tells of one request: now, and the numbers of its limits.
pub(crate) type Numbers = SmallVec<[i64; 1 + NUMBERS]>;

/// What became of one request.
pub(crate) type Told = Result<Numbers, StoreError>;

/// The deciding script's numbers as an answer to `request`.
pub(crate) fn answer(request: &Request<'_>, reply: &[i64]) -> Result<Answer, StoreError> {
    read_answer(request, reply).ok_or_else(unreadable)
}

/// The error of an answer that no script of ours gives.
pub(crate) fn unreadable() -> StoreError {
    StoreError::may_have_run("the script's answer cannot be read")
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
            here: false,
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
    let Amendment { limit, quota, key, change, .. } = *amendment;
    let algorithm = quota.algorithm();
    let mut call = Call { algorithm: Some(algorithm), ..Call::default() };
    call.keys.push(state_key(naming, limit, algorithm, key));
    let (verb, detail, units, permit) = match change {
        Change::Refund { units, charged_at_us } => ("refund", charged_at_us, units, None),
        Change::Settle { id, actual } => {
            call.keys.push(record_key(&call.keys[0], id));
            ("settle", None, actual, None)
        }
        Change::LeaveAtMost { units } => ("leave_at_most", None, units, None),
        Change::Draw { most, least } => ("draw", Some(least), most, None),
        Change::Spend { units } => ("spend", None, units, None),
        Change::Release { id } => ("release", None, 0, Some(id)),
        Change::Renew { id } => ("renew", None, 0, Some(id)),
        _ => return Err(StoreError::did_not_run("this change is not known here")),
    };
    call.args.extend([or_empty(now_us), verb.to_owned(), or_empty(detail)]);
    call.args.push(channel(naming.prefix));
    call.args.push(units.to_string());
    call.args.extend(parameters(quota, permit));
    Ok(call)
}

/// The amending script's numbers: what became of it, and the units forgiven, or those drawn and how
/// the state is, or those that were reserved and when.
pub(crate) fn amended(numbers: &[i64]) -> Option<Amended> {
    let mut wholes = numbers.iter().map(|number| u64::try_from(*number).unwrap_or(0));
    let mut next = || wholes.next();
    Some(match (next()?, next()?) {
        (0, _) => Amended::Unknown,
        (1, forgiven) => Amended::Done { forgiven },
        (2, _) => Amended::Repeated,
        (3, units) => {
            Amended::Drawn(Drawn { units, left: next()?, reset_after_us: next()?, at_us: next()? })
        }
        (4, forgiven) => Amended::Settled(Settled { forgiven, reserved: next()?, age_us: next()? }),
        _ => return None,
    })
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
