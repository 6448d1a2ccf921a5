//! Requests and amendments as calls of scripts, and the scripts' numbers as answers.

use std::collections::HashSet;
use std::iter::once;

use smallvec::SmallVec;
use tollkeeper_core::limits::EXACT;
use tollkeeper_core::{
    Algorithm, Amended, Amendment, Answer, Bucket, Change, Check, Drawn, LeakMode, Lend, Lent,
    Outcome, Quota, Request, Settled, StoreError, Ticket,
};

use crate::driver::{Fault, Reply};
use crate::hearsay::channel;
use crate::names::{Naming, loans_key, permit_text, record_key, state_key};
use crate::script::{Call, letter};

/// Numbers that the script gives for each check.
const NUMBERS: usize = 4;

/// The most units that a script is told to change: it counts no more one by one, and no limit has room
/// for more.
const MOST_UNITS: u64 = EXACT - 1;

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
        let algorithm = self.common_algorithm();
        let mut numbers = Vec::new();
        self.limits.iter().for_each(|limit| push_numbers(&mut numbers, limit.cost, &limit.quota));
        let letter = |limit: &Limit| letter(limit.quota.algorithm());
        let letters: String = match algorithm {
            Some(_) => String::new(),
            None => self.limits.iter().map(letter).collect(),
        };
        let permit = self.ticket.map_or_else(String::new, |ticket| permit_text(ticket.id));
        let reserved = self.ticket.and_then(|ticket| Some((ticket.id, ticket.reserve_for_us?)));
        let life = or_empty(reserved.map(|(_, us)| us));
        let digit = |limit: &Limit| if limit.shadow { '1' } else { '0' };
        let shadows: String = match self.limits.iter().any(|limit| limit.shadow) {
            true => self.limits.iter().map(digit).collect(),
            false => String::new(),
        };
        let again = if are_different(&keys) { "" } else { "again" };
        let mut args = vec![or_empty(self.now_us), numbers, letters.into(), permit.into(), life];
        args.extend([shadows.into(), again.into()]);
        // What there is not to say at the end is not sent.
        while args.len() > 2 && args.last().is_some_and(Vec::is_empty) {
            args.pop();
        }
        let mut call = Call { algorithm, keys, args };
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
        Change::Lend(Lend { most, least, .. }) => {
            call.keys.push(loans_key(&call.keys[0]));
            ("lend", Some(least), most, None)
        }
        Change::Spend { units } => ("spend", None, units, None),
        Change::Release { id } => ("release", None, 0, Some(id)),
        Change::Renew { id } => ("renew", None, 0, Some(id)),
        _ => return Err(StoreError::did_not_run("this change is not known here")),
    };
    let mut numbers = Vec::new();
    push_numbers(&mut numbers, units.min(MOST_UNITS), quota);
    let permit = permit.map_or_else(String::new, permit_text);
    call.args = vec![or_empty(now_us), numbers, verb.into(), permit.into(), or_empty(detail)];
    call.args.push(channel(naming.prefix).into());
    if let Change::Lend(lend) = change {
        call.args.push(loans_numbers(&lend));
    }
    Ok(call)
}

/// What the script that lends counts by.
fn loans_numbers(lend: &Lend) -> Vec<u8> {
    let back = lend.back.iter().flat_map(|back| [back.turn, back.spent, back.unspent]);
    let numbers = [lend.most_out, lend.period_us.max(1)].into_iter().chain(back);
    numbers.flat_map(|number| double(number.min(MOST_UNITS)).to_le_bytes()).collect()
}

/// The amending script's numbers: what became of `change`, and the units forgiven, or those drawn and
/// how the state is, or those that were reserved and when.
pub(crate) fn amended(change: Change, numbers: &[i64]) -> Option<Amended> {
    // Those that the script was not told of.
    let beyond = match change {
        Change::Settle { actual, .. } => actual.saturating_sub(MOST_UNITS),
        _ => 0,
    };
    let mut wholes = numbers.iter().map(|number| u64::try_from(*number).unwrap_or(0));
    let mut next = || wholes.next();
    Some(match (next()?, next()?) {
        (0, _) => Amended::Unknown,
        (1, forgiven) => Amended::Done { forgiven },
        (2, _) => Amended::Repeated,
        (3, units) => {
            Amended::Drawn(Drawn { units, left: next()?, reset_after_us: next()?, at_us: next()? })
        }
        (5, units) => {
            let drawn = Drawn { units, left: next()?, reset_after_us: next()?, at_us: next()? };
            Amended::Lent(Lent { drawn, turn: next()?, life_us: next()? })
        }
        (4, forgiven) => {
            let forgiven = forgiven.saturating_add(beyond);
            Amended::Settled(Settled { forgiven, reserved: next()?, age_us: next()? })
        }
        _ => return None,
    })
}

/// Whether no key comes twice.
fn are_different(keys: &[String]) -> bool {
    if keys.len() < 2 {
        return true;
    }
    let mut seen = HashSet::with_capacity(keys.len());
    keys.iter().all(|key| seen.insert(key.as_str()))
}

/// A cost and its quota as the algorithm's script takes them.
fn push_numbers(bytes: &mut Vec<u8>, cost: u64, quota: &Quota) {
    let mut push = |numbers: &[f64]| {
        numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    };
    push(&[double(cost)]);
    match quota {
        Quota::TokenBucket(bucket) | Quota::Gcra(bucket) => push(&bucket_numbers(bucket)),
        Quota::LeakingBucket(leak) => {
            push(&bucket_numbers(leak.bucket()));
            let shapes = leak.mode() == LeakMode::Shape;
            push(&[leak.max_delay_us().map_or(-1.0, double), f64::from(u8::from(shapes))]);
        }
        Quota::FixedWindow(window)
        | Quota::SlidingWindowLog(window)
        | Quota::SlidingWindowCounter(window) => {
            push(&[window.max_requests(), window.size_us()].map(double));
        }
        Quota::Concurrency(in_flight) => {
            push(&[in_flight.max_in_flight(), in_flight.lease_us()].map(double));
        }
        _ => {}
    }
}

fn bucket_numbers(bucket: &Bucket) -> [f64; 3] {
    [bucket.capacity(), bucket.drain(), bucket.unit()].map(double)
}

/// A script's numbers are doubles. All of a quota are below 2^53, and a cost beyond that fits nowhere
/// either way.
#[expect(clippy::cast_precision_loss, reason = "as said")]
fn double(number: u64) -> f64 {
    number as f64
}

/// A number that may be missing.
fn or_empty(number: Option<u64>) -> Vec<u8> {
    number.map_or_else(String::new, |number| number.to_string()).into()
}
