//! Owns the split: a request whose limits lie in several parts of a store is decided part by part,
//! all at once, and what was charged is given back when one of them denies.
//!
//! Meanwhile others may be denied wrongly, for as long as the two round trips take; nobody is
//! admitted wrongly. There is one algorithm, [`decide`], for the engine, which asks through guards
//! and decides without the store what that does not answer, and for [`Whole`], which asks a store.

use std::future::Future;

use futures_util::future::join_all;
use smallvec::SmallVec;
use tollkeeper_core::limits::MAX_CHECKS;
use tollkeeper_core::{
    Amendment, Answer, Change, Check, Consistency, Hold, Outcome, Part, Quota, Request,
    RequestError, Store, Ticket,
};

mod whole;

pub(crate) use whole::Plain;
pub use whole::Whole;

/// Which of a request's limits: a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Which(u32);

const _: () = assert!(MAX_CHECKS <= 32, "a request's limits have a bit each");

impl Which {
    pub(crate) const ALL: Self = Self(u32::MAX);
    pub(crate) const NONE: Self = Self(0);

    /// The first so many.
    pub(crate) fn first(count: usize) -> Self {
        (0..count).fold(Self::NONE, Self::with)
    }

    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }

    pub(crate) fn has(self, nth: usize) -> bool {
        nth < MAX_CHECKS && self.0 >> nth & 1 == 1
    }

    pub(crate) fn with(self, nth: usize) -> Self {
        if nth < MAX_CHECKS { Self(self.0 | 1 << nth) } else { self }
    }

    /// Those of them that are not among `others`.
    pub(crate) fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Those of `all` that are meant.
    pub(crate) fn of<T>(self, all: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        all.enumerate().filter(move |(nth, _)| self.has(*nth)).map(|(_, one)| one)
    }
}

/// The limits of a request that lie in one part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) part: Part,
    pub(crate) which: Which,
}

/// Where the limits of a request lie.
#[derive(Debug)]
pub(crate) enum Spread {
    /// All in one part.
    One(Part),
    /// In several; each limit in one of them.
    Several(SmallVec<[Piece; 4]>),
}

/// Where the limits of a request lie. The usual one costs a comparison for each further key.
#[inline]
pub(crate) fn spread<S: Store>(store: &S, checks: &[Check<'_>]) -> Spread {
    let Some((first, others)) = checks.split_first() else { return Spread::One(Part::default()) };
    let part = store.part(first.key);
    let beside = |check: &Check<'_>| check.key == first.key || store.part(check.key) == part;
    if others.iter().all(beside) {
        Spread::One(part)
    } else {
        Spread::Several(apart(store, checks))
    }
}

#[cold]
fn apart<S: Store>(store: &S, checks: &[Check<'_>]) -> SmallVec<[Piece; 4]> {
    let mut pieces: SmallVec<[Piece; 4]> = SmallVec::new();
    for (nth, check) in checks.iter().enumerate() {
        let part = store.part(check.key);
        match pieces.iter_mut().find(|piece| piece.part == part) {
            Some(piece) => piece.which = piece.which.with(nth),
            None => pieces.push(Piece { part, which: Which::NONE.with(nth) }),
        }
    }
    pieces
}

/// What was said to a piece.
pub(crate) struct Said<'a> {
    pub(crate) piece: Piece,
    pub(crate) answer: Answer,
    /// Whether each limit did as its rule says, since the store gave no answer.
    pub(crate) fell: bool,
    /// What was taken by leave of before, since it gave none: put back unless the request goes.
    pub(crate) held: Option<Box<dyn Hold + 'a>>,
}

/// What was said to a piece: at once, or of some of it by leave of before and of the rest not.
pub(crate) type Saids<'a> = SmallVec<[Said<'a>; 1]>;

impl Said<'_> {
    /// What the store said.
    pub(crate) fn by_store(piece: Piece, answer: Answer) -> Self {
        Self { piece, answer, fell: false, held: None }
    }
}

/// Whom the pieces of a request are asked of.
pub(crate) trait Desk: Sync {
    /// Why nothing is said at all.
    type Error: Send;

    /// Decides a piece.
    fn decide(&self, piece: Piece) -> impl Future<Output = Result<Saids<'_>, Self::Error>> + Send;

    /// Gives back what a piece was charged. What of it fails is told to whoever watches: it is
    /// not tried again.
    fn give_back(&self, said: &Said<'_>) -> impl Future<Output = ()> + Send;

    /// The numbers of a piece as they are, if they can be had.
    fn look(&self, said: &Said<'_>) -> impl Future<Output = Option<Answer>> + Send;
}

/// Decides every piece of a request, all or nothing. What is said of each, in their order.
pub(crate) async fn decide<'d, D: Desk>(
    desk: &'d D,
    request: &Request<'_>,
    pieces: &[Piece],
) -> Result<Vec<Said<'d>>, D::Error> {
    let mut asked = Vec::with_capacity(pieces.len());
    for piece in pieces {
        asked.push(desk.decide(*piece));
    }
    agree(desk, request, join_all(asked).await).await
}

/// Lets a request go if all admit it; else gives back what was charged. An error of one is the
/// error of all.
pub(crate) async fn agree<'d, D: Desk>(
    desk: &'d D,
    request: &Request<'_>,
    said: Vec<Result<Saids<'d>, D::Error>>,
) -> Result<Vec<Said<'d>>, D::Error> {
    let (mut all, mut failed) = (Vec::with_capacity(said.len()), None);
    for said in said {
        match said {
            Ok(said) => all.extend(said),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    if failed.is_none() && all.iter().all(|said| said.answer.allowed) {
        all.iter_mut().filter_map(|said| said.held.take()).for_each(Hold::keep);
        return Ok(all);
    }
    let mut undone = Vec::with_capacity(all.len());
    for said in all {
        undone.push(undo(desk, request, said));
    }
    let undone = join_all(undone).await;
    failed.map_or(Ok(undone), Err)
}

/// What is said of a piece once it was given back.
async fn undo<'d, D: Desk>(desk: &'d D, request: &Request<'_>, mut said: Said<'d>) -> Said<'d> {
    if said.answer.charged_at_us.is_none() {
        return said;
    }
    let seen = match said.held.take() {
        // What it took is back.
        Some(_) => None,
        None => {
            desk.give_back(&said).await;
            desk.look(&said).await
        }
    };
    let now_us = seen.as_ref().map_or(said.answer.now_us, |seen| seen.now_us);
    let seen = seen.as_ref().map(Answer::outcomes).unwrap_or_default();
    let checks = said.piece.which.of(request.checks().iter());
    let outcomes = checks.zip(said.answer.outcomes()).enumerate().map(|(nth, (check, outcome))| {
        match seen.get(nth) {
            // A look asks for nothing, so whether the request was let in is not in it.
            Some(seen) => Outcome {
                remaining: seen.remaining,
                reset_after_us: seen.reset_after_us,
                ..*outcome
            },
            None => uncharged(outcome, check.cost),
        }
    });
    let outcomes: SmallVec<[Outcome; 4]> = outcomes.collect();
    said.answer = Answer::new(now_us, false, outcomes);
    said
}

/// What a limit has left that was not charged after all. Its reset is at most too late.
fn uncharged(outcome: &Outcome, cost: u64) -> Outcome {
    let cost = if outcome.allowed { cost } else { 0 };
    let remaining = outcome.remaining.saturating_add(cost).min(outcome.limit);
    Outcome { remaining, ..*outcome }
}

/// What was said to the pieces, as the answer to the request, and which of its limits did as their
/// rules say without a store. Its times are those of the piece in which the limit lies that binds.
pub(crate) fn merge(count: usize, said: &[Said<'_>]) -> (Answer, Which) {
    let mut fell = Which::NONE;
    let mut outcomes: SmallVec<[Option<Outcome>; 4]> = SmallVec::from_elem(None, count);
    let mut times: SmallVec<[Option<u64>; 4]> = SmallVec::from_elem(None, count);
    for said in said {
        let places = said.piece.which.of(0..count);
        for (nth, (place, outcome)) in places.zip(said.answer.outcomes()).enumerate() {
            outcomes[place] = Some(*outcome);
            times[place] = said.answer.charged_at(nth);
            fell = if said.fell { fell.with(place) } else { fell };
        }
    }
    let answer = Answer::new(0, false, outcomes.into_iter().flatten());
    let mut answer = answer.dated(times.iter().copied());
    let binding = answer.fold().map_or(0, |decision| decision.binding);
    if let Some(said) = said.iter().find(|said| said.piece.which.has(binding)) {
        answer.now_us = said.answer.now_us;
        answer.charged_at_us = said.answer.charged_at_us.or(answer.charged_at_us);
    }
    (answer, fell)
}

/// A piece as a request of its own; `look` asks for nothing.
pub(crate) fn request_of<'a>(
    request: &Request<'a>,
    which: Which,
    look: bool,
) -> Result<Request<'a>, RequestError> {
    let checks = which.of(request.checks().iter()).map(|check| match look {
        true => Check { cost: 0, ..*check },
        false => *check,
    });
    Request::new(checks, request.ticket())
}

/// What gives back each limit of a piece that was charged.
pub(crate) fn amendments_of<'a>(
    request: &Request<'a>,
    which: Which,
    answer: &Answer,
) -> Vec<Amendment<'a>> {
    let limits = which.of(request.checks().iter()).zip(answer.outcomes()).enumerate();
    let undoing = limits.flat_map(|(nth, (check, outcome))| {
        undoing(check, outcome, request.ticket(), answer.charged_at(nth))
    });
    undoing.collect()
}

/// What gives back a charge of `charged_at_us`, if there was one: the permit, the reservation, or the
/// units.
pub(crate) fn undoing<'a>(
    check: &Check<'a>,
    outcome: &Outcome,
    ticket: Option<Ticket>,
    charged_at_us: Option<u64>,
) -> SmallVec<[Amendment<'a>; 2]> {
    let Check { limit, quota, key, cost: units, consistency, .. } = *check;
    let mut changes: SmallVec<[Change; 2]> = SmallVec::new();
    let charged_at_us = charged_at_us.map(|at_us| at_us + drained_before_us(check, outcome));
    let refund = Change::Refund { units, charged_at_us };
    match (quota, ticket) {
        _ if units == 0 || charged_at_us.is_none() => {}
        (Quota::Concurrency(_), Some(Ticket { id, .. })) => changes.push(Change::Release { id }),
        // Of a limit that is shared, a refund would reach the part alone.
        (_, Some(Ticket { id, reserve_for_us: Some(_) }))
            if quota.bucket().is_some() && !matches!(consistency, Consistency::Share { .. }) =>
        {
            changes.extend([Change::Settle { id, actual: units }, refund]);
        }
        (_, Some(Ticket { id, reserve_for_us: Some(_) })) => {
            changes.push(Change::Settle { id, actual: 0 });
        }
        _ => changes.push(refund),
    }
    changes.into_iter().map(|change| Amendment { limit, quota, key, consistency, change }).collect()
}

/// How long a bucket drains what was in it before the charge. A refund takes a charge to drain from
/// when it was made, which is right for an empty bucket. Here it is known what was before it, and
/// until that has drained nothing of the charge has.
fn drained_before_us(check: &Check<'_>, outcome: &Outcome) -> u64 {
    let Some(bucket) = check.quota.bucket() else { return 0 };
    let charge = u128::from(check.cost) * u128::from(bucket.unit());
    let charge_us = charge.div_ceil(u128::from(bucket.drain().max(1)));
    let charge_us = u64::try_from(charge_us).unwrap_or(u64::MAX);
    // What is told is rounded up, where there is anything to round.
    let rounded_us = u64::from(bucket.drain() > 1);
    outcome.reset_after_us.saturating_sub(rounded_us).saturating_sub(charge_us)
}

#[cfg(test)]
mod tests {
    use tollkeeper_core::Rate;

    use super::*;

    /// The store's charge of a reservation that is shared stood for ever: a refund after it reached
    /// only the part of this process.
    #[test]
    fn a_reservation_of_a_limit_that_is_shared_is_undone_by_its_settlement_alone() {
        let quota = Quota::token_bucket(10, Rate::new(1, 1_000_000).unwrap()).unwrap();
        let ticket = Some(Ticket { id: 7, reserve_for_us: Some(1_000_000) });
        let undone = |consistency| {
            let check = Check { consistency, ..Check::new("api", &quota, "a", 3) };
            let outcome = Outcome {
                allowed: true,
                shadow: false,
                limit: 10,
                remaining: 7,
                retry_after_us: Some(0),
                reset_after_us: 3_000_000,
                delay_us: 0,
                here: false,
            };
            let undoing = undoing(&check, &outcome, ticket, Some(1_000_000));
            undoing.iter().map(|amendment| amendment.change).collect::<Vec<_>>()
        };
        let refund = Change::Refund { units: 3, charged_at_us: Some(1_000_000) };
        let settled = |actual| Change::Settle { id: 7, actual };
        assert_eq!(undone(Consistency::Exact), [settled(3), refund]);
        assert_eq!(undone(Consistency::Share { nodes: None }), [settled(0)]);
    }
}
