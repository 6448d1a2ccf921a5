//! What of a request the store decides. A key that is split lies anywhere: the parts of the store are
//! asked one after the other, and what was charged is given back if one of them denies.

use smallvec::SmallVec;
use tokio::time::timeout;
use tollkeeper_core::{
    Amendment, Answer, Change, Check, Consistency, Outcome, Part, Request, Store, StoreError,
    Ticket,
};

use super::Hybrid;
use super::owed::Owed;
use crate::local::elsewhere;
use crate::share::Place;
use crate::shares::begun_with;
use crate::stored::ToDecide;

/// One limit's numbers, and when it was charged, if it was.
type Told = (Outcome, Option<u64>);

/// What the store said.
pub(super) struct There {
    /// Its time.
    pub(super) now_us: u64,
    pub(super) told: SmallVec<[Told; 4]>,
}

/// Which checks lie in one part of the store.
struct Group {
    part: Part,
    /// Whether they are all of keys that are split.
    is_split: bool,
    which: SmallVec<[usize; 4]>,
}

impl<S: Store + 'static> Hybrid<S> {
    /// Decides all of it or nothing.
    pub(super) async fn decide_there(
        &self,
        rest: &[ToDecide<'_>],
        ticket: Option<Ticket>,
    ) -> Result<There, StoreError> {
        let mut groups = self.groups(rest);
        // Only units have to be given back: whoever holds a permit is asked last.
        groups.sort_by_key(|group| !group.is_split);
        let mut told: SmallVec<[Option<Told>; 4]> = SmallVec::from_elem(None, rest.len());
        let (mut now_us, mut is_denied) = (0, false);
        // Where the whole key lies: whoever waits watches that server.
        let home = rest.first().map_or(0, |one| self.local.home(one.whole_key()));
        let is_several = groups.len() > 1;
        let mut owed = Owed::nothing(&self.local);
        for group in &groups {
            let checks = group.which.iter().map(|nth| rest[*nth].check(is_denied));
            let request = Request::of_parts(checks, ticket)
                .map_err(|error| StoreError::did_not_run(error.to_string()));
            let answer = match request {
                Ok(request) if group.part.shard == home => {
                    self.local.store.decide_one(&request).await
                }
                Ok(request) => self.decide_elsewhere(&request).await,
                Err(error) => Err(error),
            };
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => {
                    owed.give_back().await;
                    return Err(error);
                }
            };
            now_us = answer.now_us;
            is_denied |= !answer.allowed;
            for (nth, (place, outcome)) in group.which.iter().zip(answer.outcomes()).enumerate() {
                let charged_at_us = answer.charged_at(nth);
                told[*place] = Some((*outcome, charged_at_us));
                if is_several && charged_at_us.is_some() {
                    let check = rest[*place].check(false);
                    owed.charged(&check, undoing(&check, ticket, charged_at_us));
                }
            }
        }
        match is_denied {
            true => owed.give_back().await,
            false => owed.keep(),
        }
        let missing = || StoreError::may_have_run("the store told nothing of a limit");
        let told: Option<SmallVec<[Told; 4]>> = told.into_iter().collect();
        Ok(There { now_us, told: told.ok_or_else(missing)? })
    }

    /// Of a limit that was parted the store has heard nothing: it is to have no more than what has
    /// flown in since, as long as that is less than all.
    pub(super) async fn begin_there(&self, check: &Check<'_>) -> Result<(), StoreError> {
        let Consistency::Share { nodes } = check.consistency else { return Ok(()) };
        let now_us = self.local.clock.now_us();
        let from_us = self.is_there(check, nodes, now_us)?;
        let Some(units) = begun_with(check.quota, from_us, now_us) else { return Ok(()) };
        let Check { limit, quota, key, consistency, .. } = *check;
        let change = Change::LeaveAtMost { units };
        let amendment = Amendment { limit, quota, key, change, consistency };
        let amended = self.local.store.amend(&[amendment]).await.into_iter().next();
        amended.unwrap_or_else(|| Err(StoreError::may_have_run("no answer came")))?;
        // Meanwhile there may be parts.
        self.is_there(check, nodes, self.local.clock.now_us()).map(drop)
    }

    /// Since when the store hands out all of a limit, if it does.
    fn is_there(
        &self,
        check: &Check<'_>,
        nodes: Option<u32>,
        now_us: u64,
    ) -> Result<u64, StoreError> {
        match self.place(check.quota, nodes, now_us) {
            Place::Store { from_us } => Ok(from_us),
            _ => Err(StoreError::undecided_here("there are parts of the limit by now")),
        }
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

    /// Asks another server than the one that whoever waits watches: that is not to be blamed, also if
    /// this one says nothing.
    async fn decide_elsewhere(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        let patience = elsewhere(self.local.patience());
        match timeout(patience, self.local.store.decide_one(request)).await {
            Ok(Err(error)) => Err(StoreError::undecided_here(error.to_string())),
            Ok(answer) => answer,
            Err(_) => Err(StoreError::undecided_here("another server gave no answer")),
        }
    }
}

/// What gives a charge back.
fn undoing(check: &Check<'_>, ticket: Option<Ticket>, charged_at_us: Option<u64>) -> Change {
    match ticket.filter(|ticket| ticket.reserve_for_us.is_some()) {
        Some(Ticket { id, .. }) => Change::Settle { id, actual: 0 },
        None => Change::Refund { units: check.cost, charged_at_us },
    }
}

fn is_split(check: &Check<'_>) -> bool {
    matches!(check.consistency, Consistency::Sync { parts: 2.., .. })
}
