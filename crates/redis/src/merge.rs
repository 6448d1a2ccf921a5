//! Owns [`Merger`]: checks that wait for the same server at the same moment go to it together.
//!
//! Whoever comes while few calls are under way goes at once. Whoever comes later waits until one of
//! them is over, and then goes with all who wait by then: those that ask the same of keys of one slot
//! in one call, which decides them in the order in which they came, and the calls of several kinds one
//! behind the other. So nobody waits for company, and a key that everybody asks for costs a call
//! for each of few departures under way, and not for each check. What a server sends on to another, or asks to try
//! again, steps [`Aside`]: nobody waits for that who need not.

use std::fmt::{self, Debug};
use std::sync::{Arc, Weak};

use futures_util::future::{Either, join_all, select};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tollkeeper_core::{MAX_SHARDS, StoreError};

use crate::call::{Terms, Told};

#[cfg(test)]
mod tests;

/// The departures that may be under way to one server before others wait.
const MOST_UNDER_WAY: usize = 2;

/// Those that may wait for one server. Further ones go at once.
const MOST_WAITING: usize = 1024;

/// Lets those go who wait for a call, though that is not over.
#[derive(Clone, Copy)]
pub(crate) struct Aside<'a>(Option<&'a (dyn Fn() + Sync)>);

impl Aside<'_> {
    /// Where nobody waits.
    pub(crate) const NOBODY: Self = Self(None);

    pub(crate) fn step(self) {
        if let Some(step) = self.0 {
            step();
        }
    }
}

impl Debug for Aside<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Aside").field(&self.0.is_some()).finish()
    }
}

/// Sends requests that ask the same in one call.
pub(crate) trait Carrier: Debug + Send + Sync + 'static {
    /// Decides one request.
    fn carry_one(
        &self,
        terms: &Terms,
        keys: Vec<String>,
        aside: Aside<'_>,
    ) -> impl Future<Output = Told> + Send;

    /// Decides what asks `terms` of keys that lie together, in order; an answer for each.
    fn carry(
        &self,
        terms: &Terms,
        keys: Vec<Vec<String>>,
        aside: Aside<'_>,
    ) -> impl Future<Output = Vec<Told>> + Send;
}

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) terms: Terms,
    pub(crate) slot: u16,
    pub(crate) keys: Vec<String>,
}

impl Asked {
    fn goes_with(&self, other: &Self) -> bool {
        self.slot == other.slot && self.terms == other.terms
    }
}

/// Where requests wait, for each server.
#[derive(Debug)]
pub(crate) struct Merger<C: Carrier> {
    lanes: Box<[Mutex<Lane>]>,
    runtime: Handle,
    carrier: C,
}

#[derive(Debug, Default)]
struct Lane {
    under_way: usize,
    waiting: Vec<Waiting>,
}

/// One who waits, or has gone with others.
#[derive(Debug)]
struct Waiting {
    asked: Asked,
    told: oneshot::Sender<Told>,
}

impl<C: Carrier> Merger<C> {
    /// Needs a runtime.
    pub(crate) fn new(carrier: C) -> Arc<Self> {
        let lanes = (0..MAX_SHARDS).map(|_| Mutex::default()).collect();
        Arc::new(Self { lanes, runtime: Handle::current(), carrier })
    }

    pub(crate) fn carrier(&self) -> &C {
        &self.carrier
    }

    /// Asks at once, or with others who wait for the server `shard`.
    pub(crate) async fn ask(self: &Arc<Self>, shard: usize, asked: Asked) -> Told {
        let (departure, asked) = match self.enter(shard, asked) {
            Ok(goes) => goes,
            Err(waits) => return waits.await.unwrap_or_else(|_| Err(nobody())),
        };
        let departure = Mutex::new(Some(departure));
        let leave = || drop(departure.lock().take());
        let told = self.carrier.carry_one(&asked.terms, asked.keys, Aside(Some(&leave))).await;
        leave();
        told
    }

    /// Lets one go, or else says where it will be told.
    fn enter(
        self: &Arc<Self>,
        shard: usize,
        asked: Asked,
    ) -> Result<(Departure<C>, Asked), oneshot::Receiver<Told>> {
        let shard = shard.min(self.lanes.len() - 1);
        let mut lane = self.lanes[shard].lock();
        if lane.under_way >= MOST_UNDER_WAY && lane.waiting.len() < MOST_WAITING {
            let (told, tells) = oneshot::channel();
            lane.waiting.push(Waiting { asked, told });
            return Err(tells);
        }
        lane.under_way += 1;
        Ok((Departure { merger: Arc::downgrade(self), shard }, asked))
    }

    /// Sends those who still wait for an answer, and waits for the answers. The departure is over when all of its
    /// calls are, or have stepped aside.
    async fn depart(&self, waiting: Vec<Waiting>, departure: Departure<C>) {
        let mut groups: Vec<Vec<Waiting>> = Vec::new();
        for one in waiting.into_iter().filter(|one| !one.told.is_closed()) {
            let most = one.asked.terms.most_together();
            let with = |group: &&mut Vec<Waiting>| {
                group.len() < most && group[0].asked.goes_with(&one.asked)
            };
            match groups.iter_mut().find(with) {
                Some(group) => group.push(one),
                None => groups.push(vec![one]),
            }
        }
        let departure = Arc::new(departure);
        let carry = |group| self.carry(group, Arc::clone(&departure));
        let carried: Vec<_> = groups.into_iter().map(carry).collect();
        drop(departure);
        join_all(carried).await;
    }

    /// Sends those who ask the same. Nobody waits for an answer that nobody waits for.
    async fn carry(&self, group: Vec<Waiting>, departure: Arc<Departure<C>>) {
        let (mut keys, mut tells, mut terms) = (Vec::new(), Vec::new(), None);
        for Waiting { asked, told } in group {
            keys.push(asked.keys);
            tells.push(told);
            terms.get_or_insert(asked.terms);
        }
        let Some(terms) = terms else { return };
        let departure = Mutex::new(Some(departure));
        let leave = || drop(departure.lock().take());
        let carried = {
            let aside = Aside(Some(&leave));
            let carrying = std::pin::pin!(self.carrier.carry(&terms, keys, aside));
            let given_up = std::pin::pin!(async {
                for tell in &mut tells {
                    tell.closed().await;
                }
            });
            match select(carrying, given_up).await {
                Either::Left((carried, _)) => carried,
                Either::Right(_) => return,
            }
        };
        for (tell, told) in tells.into_iter().zip(carried) {
            // Whoever has given up meanwhile is not told.
            let _ = tell.send(told);
        }
    }
}

/// One that is under way. When it is over, also because nobody waits for it any more, those go who
/// wait.
struct Departure<C: Carrier> {
    merger: Weak<Merger<C>>,
    shard: usize,
}

impl<C: Carrier> Drop for Departure<C> {
    fn drop(&mut self) {
        let Some(merger) = self.merger.upgrade() else { return };
        let waiting = {
            let mut lane = merger.lanes[self.shard].lock();
            if lane.waiting.is_empty() {
                lane.under_way -= 1;
                return;
            }
            std::mem::take(&mut lane.waiting)
        };
        let next = Self { merger: self.merger.clone(), shard: self.shard };
        let runtime = merger.runtime.clone();
        runtime.spawn(async move {
            merger.depart(waiting, next).await;
        });
    }
}

/// What is told to those whose departure never was: the runtime is being shut down.
fn nobody() -> StoreError {
    StoreError::may_have_run("the call was given up")
}
