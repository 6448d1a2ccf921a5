//! How one request is decided: what lies here first, then what the store has to.

use smallvec::SmallVec;
use tollkeeper_core::{
    Alone, Answer, Check, Consistency, Hold, Outcome, Quota, Request, Store, StoreError, Ticket,
};

use super::Hybrid;
use super::there::There;
use crate::known::{Decided, Taken};
use crate::members;
use crate::plan::Spent;
use crate::share::{Place, Standing};
use crate::stored::ToDecide;

/// Units that were taken here, put back unless the request goes.
struct Held<'a, S: Store + 'static> {
    hybrid: &'a Hybrid<S>,
    /// What names the reservation, if it is one.
    ticket: Option<Ticket>,
    checks: SmallVec<[(Check<'a>, Spent); 4]>,
}

impl<'a, S: Store + 'static> Held<'a, S> {
    fn new(hybrid: &'a Hybrid<S>, ticket: Option<Ticket>) -> Self {
        Self { hybrid, ticket, checks: SmallVec::new() }
    }

    fn hold(&mut self, check: &Check<'a>, decided: &Decided) {
        self.checks.extend(decided.spent.map(|spent| (*check, spent)));
    }

    fn keep(mut self) {
        self.checks.clear();
    }
}

impl<S: Store + 'static> Hold for Held<'_, S> {
    fn keep(self: Box<Self>) {
        Held::keep(*self);
    }
}

impl<S: Store + 'static> Drop for Held<'_, S> {
    fn drop(&mut self) {
        for (check, spent) in &self.checks {
            match check.consistency {
                Consistency::Share { .. } => {
                    let now_us = self.hybrid.local.clock.now_us();
                    self.hybrid.shares.put_back(check, self.ticket, spent.at_us, now_us);
                }
                _ => self.hybrid.local.put_back(check, *spent),
            }
        }
    }
}

impl<S: Store + 'static> Hybrid<S> {
    pub(super) fn is_any_here(&self, request: &Request<'_>) -> bool {
        let is_here = |check: &Check<'_>| check.consistency != Consistency::Exact;
        !self.is_exact && request.checks().iter().any(is_here)
    }

    /// Whether this process has a part of what so many share, or as many as there are.
    pub(super) fn place(&self, quota: &Quota, nodes: Option<u32>, now_us: u64) -> Place {
        let Some(nodes) = nodes else {
            self.count_nodes();
            return self.members.place_of(quota.limit(), now_us);
        };
        let (nodes, since_us) = (nodes.into(), self.since_us);
        let (from_us, parted_us) = (since_us, since_us);
        Place::Serves(Standing { nodes, is_counted: false, from_us, since_us, parted_us })
    }

    /// Decides a check, if it can be decided here.
    #[inline]
    fn take(&self, check: &Check<'_>, ticket: Option<Ticket>, now_us: u64) -> Taken {
        let Consistency::Share { nodes } = check.consistency else {
            return self.local.take(check, now_us);
        };
        let standing = match self.place(check.quota, nodes, now_us) {
            Place::Serves(standing) => standing,
            Place::Store { .. } => return Taken::Store,
            Place::Waits { us } => return Taken::Decided(nothing_yet(check, Some(us))),
            // Of the server that counts, not of whichever the key lies on.
            Place::Lost => {
                let is_news = self.local.home(check.key) == self.local.home(members::KEY);
                return Taken::Lost { is_news };
            }
        };
        match self.shares.take(check, ticket, standing, now_us) {
            Ok(Some(outcome)) => {
                let spent = Spent { at_us: now_us, ..Spent::now(outcome.remaining) };
                let spent = outcome.allowed.then_some(spent);
                Taken::Decided(Decided { outcome, spent, store_us: None })
            }
            // So slow that it cannot be parted among so many.
            Ok(None) => Taken::Decided(nothing_yet(check, None)),
            Err(_) => Taken::Lost { is_news: false },
        }
    }

    /// Decides each limit that can be decided here without waiting.
    fn take_all<'a, 'r: 'a>(
        &'a self,
        request: &Request<'r>,
        now_us: u64,
    ) -> (Held<'a, S>, SmallVec<[Option<Decided>; 4]>) {
        let mut held = Held::new(self, None);
        let mut here: SmallVec<[Option<Decided>; 4]> = SmallVec::new();
        for check in request.checks() {
            let taken = match check.consistency {
                Consistency::Exact => Taken::Store,
                _ => self.take(check, None, now_us),
            };
            let Taken::Decided(decided) = taken else {
                here.push(None);
                continue;
            };
            held.hold(check, &decided);
            here.push(Some(decided));
        }
        (held, here)
    }

    /// Decides what lies here alone, or is denied here, without waiting.
    pub(super) fn decide_here(&self, request: &Request<'_>) -> Option<Answer> {
        if reservation(request).is_some() {
            return None;
        }
        let now_us = self.local.clock.now_us();
        if let [check] = request.checks() {
            return self.decide_one_here(check, now_us);
        }
        let (held, here) = self.take_all(request, now_us);
        if is_enough(&here) {
            return Some(told(request.checks(), &here, held, now_us));
        }
        // Whoever waits for the store asks for all of them again.
        request.checks().iter().for_each(|check| self.local.unask(check, now_us));
        None
    }

    /// The same for one limit, which is what most requests meet: there is nothing to hold for others.
    #[inline]
    fn decide_one_here(&self, check: &Check<'_>, now_us: u64) -> Option<Answer> {
        let Taken::Decided(decided) = self.take(check, None, now_us) else {
            self.local.unask(check, now_us);
            return None;
        };
        let store_us = decided.store_us.unwrap_or(now_us);
        let mut answer = Answer::one(store_us, false, decided.outcome);
        answer.charged_at_us = decided.charged_at_us(check);
        Some(answer)
    }

    /// Decides what lies here, and leaves the rest to whoever goes without the store. What is reserved
    /// has its record there: it is not for here to decide.
    pub(super) fn decide_some<'a, 'r: 'a>(&'a self, request: &Request<'r>) -> Option<Alone<'a>> {
        if reservation(request).is_some() {
            return None;
        }
        let now_us = self.local.clock.now_us();
        let (held, here) = self.take_all(request, now_us);
        let is_all = is_enough(&here);
        let each = here.iter().zip(request.checks()).enumerate();
        let each = each.filter(|(_, (here, _))| is_all || here.is_some());
        let which: SmallVec<[usize; 4]> = each.clone().map(|(nth, _)| nth).collect();
        let checks: SmallVec<[Check<'_>; 4]> = each.clone().map(|(_, (_, check))| *check).collect();
        let here: SmallVec<[Option<Decided>; 4]> = each.map(|(_, (here, _))| *here).collect();
        let held: Box<dyn Hold + 'a> = Box::new(held);
        let answer = answer(&checks, &here, now_us);
        (!which.is_empty()).then_some(Alone { which, answer, held })
    }

    /// Decides what lies here, and then what the store has to.
    pub(super) async fn decide_both(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        let reservation = reservation(request);
        let mut held = Held::new(self, reservation);
        let mut here: SmallVec<[Option<Decided>; 4]> = SmallVec::new();
        for check in request.checks() {
            let decided = match is_taken_here(check, reservation) {
                true => self.take_waiting(check, &mut held).await?,
                false => None,
            };
            here.push(decided);
        }
        // What is charged here and may be settled anywhere has its record in the store.
        let is_there = |here: &Option<Decided>| {
            here.is_none_or(|decided| reservation.is_some() && decided.spent.is_some())
        };
        // What does not go anyway is worth no call, nor is it to depend on one.
        if is_denied(&here) || !here.iter().any(is_there) {
            return Ok(told(request.checks(), &here, held, self.local.clock.now_us()));
        }
        let rest = request.checks().iter().zip(&here).filter(|(_, here)| is_there(here));
        let id = reservation.map(|ticket| ticket.id);
        let part = |check: &Check<'_>| self.local.part(check.consistency, id);
        let rest: SmallVec<[ToDecide<'_>; 4]> =
            rest.map(|(check, _)| ToDecide::new(check, part(check))).collect();
        for (check, here) in request.checks().iter().zip(&here) {
            if here.is_none() {
                self.begin_there(check).await?;
            }
        }
        let There { now_us, told } = self.decide_there(&rest, request.ticket()).await?;
        let mut there = told.into_iter();
        let told = here.iter().zip(request.checks()).map(|(here, check)| {
            let limit = check.quota.limit();
            let there = if is_there(here) { there.next() } else { None };
            let there = there.map(|(outcome, at_us)| (Outcome { limit, ..outcome }, at_us));
            match (here, there) {
                (Some(decided), there) => there
                    .filter(|(outcome, _)| outcome.denies())
                    .unwrap_or((decided.outcome, decided.charged_at_us(check))),
                (None, there) => there.unwrap_or_else(|| (Outcome::unknown(check), None)),
            }
        });
        let told: SmallVec<[(Outcome, Option<u64>); 4]> = told.collect();
        let answer = Answer::new(now_us, false, told.iter().map(|(outcome, _)| *outcome));
        if !answer.allowed {
            return Ok(answer);
        }
        held.keep();
        Ok(answer.dated(told.iter().map(|(_, charged_at_us)| *charged_at_us)))
    }

    /// Decides a check here, if it can be.
    async fn take_waiting<'a>(
        &self,
        check: &Check<'a>,
        held: &mut Held<'a, S>,
    ) -> Result<Option<Decided>, StoreError> {
        let mut now_us = self.local.clock.now_us();
        let mut taken = self.take(check, held.ticket, now_us);
        while let Taken::Waits(answered) = taken {
            answered.await;
            now_us = self.local.clock.now_us();
            taken = self.local.take_again(check, now_us);
        }
        match taken {
            Taken::Decided(decided) => {
                held.hold(check, &decided);
                Ok(Some(decided))
            }
            Taken::Lost { is_news } => {
                let why = "the store gave no leave to decide without it";
                if !is_news {
                    return Err(StoreError::undecided_here(why));
                }
                self.local.heard(check);
                Err(StoreError::did_not_run(why))
            }
            Taken::Store | Taken::Waits(_) => Ok(None),
        }
    }
}

/// Whether one of the limits stands in the request's way.
fn is_denied(here: &[Option<Decided>]) -> bool {
    here.iter().flatten().any(|decided| decided.outcome.denies())
}

/// Whether nothing else need be known: all of it was decided here, or denied.
fn is_enough(here: &[Option<Decided>]) -> bool {
    here.iter().all(Option::is_some) || is_denied(here)
}

/// The answer to a request that nobody else is asked for. If it goes, what it took is spent.
fn told<S: Store + 'static>(
    checks: &[Check<'_>],
    here: &[Option<Decided>],
    held: Held<'_, S>,
    now_us: u64,
) -> Answer {
    let answer = answer(checks, here, now_us);
    if answer.allowed {
        held.keep();
    }
    answer
}

/// What limits say that were decided here. Of others the store was not asked.
fn answer(checks: &[Check<'_>], here: &[Option<Decided>], now_us: u64) -> Answer {
    let store_us = here.iter().flatten().find_map(|decided| decided.store_us).unwrap_or(now_us);
    let each = here.iter().zip(checks);
    let outcomes = each
        .clone()
        .map(|(here, check)| here.map_or_else(|| Outcome::unknown(check), |it| it.outcome));
    let answer = Answer::new(store_us, false, outcomes);
    if !answer.allowed {
        return answer;
    }
    answer.dated(each.map(|(here, check)| here.and_then(|it| it.charged_at_us(check))))
}

/// What names the reservation that a request makes, if it makes one.
fn reservation(request: &Request<'_>) -> Option<Ticket> {
    request.ticket().filter(|ticket| ticket.reserve_for_us.is_some())
}

/// Whether a check is decided here. What is reserved is charged by the store, which has its record,
/// and where a process has a part of its own, by that as well.
fn is_taken_here(check: &Check<'_>, reservation: Option<Ticket>) -> bool {
    match check.consistency {
        Consistency::Exact => false,
        Consistency::Share { .. } => true,
        _ => reservation.is_none(),
    }
}

/// What a limit says of which this process has no part yet, or never has.
fn nothing_yet(check: &Check<'_>, us: Option<u64>) -> Decided {
    let allowed = check.cost == 0;
    let retry_after_us = if allowed { Some(0) } else { us };
    let reset_after_us = us.unwrap_or(0);
    let outcome = Outcome { allowed, retry_after_us, reset_after_us, ..Outcome::unknown(check) };
    Decided { outcome, spent: None, store_us: None }
}
