//! What of a request the store decides. A key that is split lies anywhere: the parts of the store are
//! asked one after the other, and what was charged is given back if one of them denies.

use smallvec::SmallVec;
use tollkeeper_core::{
    Amendment, Change, Check, Consistency, Outcome, Part, Request, Store, StoreError, Ticket,
};

use super::Hybrid;
use crate::stored::ToDecide;

/// What the store said.
pub(super) struct There {
    /// Its time.
    pub(super) now_us: u64,
    pub(super) charged: bool,
    pub(super) outcomes: SmallVec<[Outcome; 4]>,
}

/// Which checks lie in one part of the store.
struct Group {
    part: Part,
    /// Whether they are all of keys that are split.
    is_split: bool,
    which: SmallVec<[usize; 4]>,
}

impl<S: Store + 'static> Hybrid<S> {
    /// Decides all of it or nothing; with `only_look` the numbers are told as they are.
    pub(super) async fn decide_there(
        &self,
        rest: &[ToDecide<'_>],
        ticket: Option<Ticket>,
        only_look: bool,
    ) -> Result<There, StoreError> {
        let mut groups = self.groups(rest);
        // Only units have to be given back: whoever holds a permit is asked last.
        groups.sort_by_key(|group| !group.is_split);
        let mut outcomes: SmallVec<[Option<Outcome>; 4]> = SmallVec::from_elem(None, rest.len());
        let mut charged: SmallVec<[(&Group, u64); 2]> = SmallVec::new();
        let (mut now_us, mut is_denied) = (0, false);
        for group in &groups {
            let checks = group.which.iter().map(|nth| rest[*nth].check(only_look || is_denied));
            let request = Request::of_parts(checks, ticket)
                .map_err(|error| StoreError::did_not_run(error.to_string()));
            let answer = match request {
                Ok(request) => self.local.store.decide_one(&request).await,
                Err(error) => Err(error),
            };
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => {
                    self.give_back(rest, &charged, &outcomes, ticket).await;
                    return Err(error);
                }
            };
            now_us = answer.now_us;
            is_denied |= !answer.allowed;
            charged.extend(answer.charged_at_us.map(|at_us| (group, at_us)));
            for (nth, outcome) in group.which.iter().zip(answer.outcomes()) {
                outcomes[*nth] = Some(*outcome);
            }
        }
        if is_denied {
            self.give_back(rest, &charged, &outcomes, ticket).await;
            charged.clear();
        }
        let missing = || StoreError::may_have_run("the store told nothing of a limit");
        let outcomes: Option<SmallVec<[Outcome; 4]>> = outcomes.into_iter().collect();
        let outcomes = outcomes.ok_or_else(missing)?;
        Ok(There { now_us, charged: !charged.is_empty(), outcomes })
    }

    fn groups(&self, rest: &[ToDecide<'_>]) -> SmallVec<[Group; 2]> {
        let mut groups: SmallVec<[Group; 2]> = SmallVec::new();
        for (nth, to_decide) in rest.iter().enumerate() {
            let check = to_decide.check(true);
            let part = self.local.store.part(check.key);
            let is_split = is_split(&check);
            match groups.iter_mut().find(|group| group.part == part) {
                Some(group) => {
                    group.is_split &= is_split;
                    group.which.push(nth);
                }
                None => groups.push(Group { part, is_split, which: SmallVec::from_elem(nth, 1) }),
            }
        }
        groups
    }

    /// Gives back what was charged. If that fails, it is lost until it has flown in again.
    async fn give_back(
        &self,
        rest: &[ToDecide<'_>],
        charged: &[(&Group, u64)],
        outcomes: &[Option<Outcome>],
        ticket: Option<Ticket>,
    ) {
        let reserved = ticket.filter(|ticket| ticket.reserve_for_us.is_some());
        let mut amendments: SmallVec<[Amendment<'_>; 4]> = SmallVec::new();
        for (group, at_us) in charged {
            // A shadow that would have denied was not charged.
            let is_charged = |nth: &&usize| outcomes[**nth].is_some_and(|outcome| outcome.allowed);
            for nth in group.which.iter().filter(is_charged) {
                let Check { limit, quota, key, cost, consistency, .. } = rest[*nth].check(false);
                let change = match reserved {
                    Some(Ticket { id, .. }) => Change::Settle { id, actual: 0 },
                    None => Change::Refund { units: cost, charged_at_us: Some(*at_us) },
                };
                amendments.push(Amendment { limit, quota, key, consistency, change });
            }
        }
        if !amendments.is_empty() {
            let _ = self.local.store.amend(&amendments).await;
        }
    }
}

fn is_split(check: &Check<'_>) -> bool {
    matches!(check.consistency, Consistency::Sync { parts: 2.., .. })
}
