//! Owns [`Denied`]: denials that still hold, so that who is over a limit is told so without the
//! store being asked.
//!
//! While nothing is given back, others can only make a key's state worse. So a denial of n units
//! holds for every cost from n on until its retry has come, counted from when the call was sent, by
//! this process's own clock, and a thousandth earlier since clocks drift. It admits nobody. It
//! denies wrongly only what another process has given back or reset meanwhile, until the store tells
//! of it and for no longer than the setting says; what this process does itself is forgotten here at
//! once.
//!
//! It holds whatever else a request meets: one limit that denies is enough. Of others that were not asked
//! together with it nothing is known then, and they say so.
//!
//! An admission after which as much again would be denied tells when that ends, as a denial does. So a
//! busy key costs about one call for each unit that it admits: of one that was denied lately one caller
//! asks at a time, and whoever comes meanwhile waits for what he is told ([`asking`]).
//!
//! Not for `concurrency`, whose permits come back at any moment, not for shadows, which deny
//! nobody, and not for what this process decides by itself.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::{Equivalent, HashMap};
use parking_lot::Mutex;
use smallvec::SmallVec;
use tollkeeper_core::{Algorithm, Answer, Bucket, Check, Consistency, Hears, Outcome, Quota};
use tollkeeper_policy::CompactString;

use crate::timer::Timer;

use asking::Asking;
pub(crate) use asking::{Lead, Told};

mod asking;

/// Tables, each with a lock of its own.
const TABLES: usize = 64;

/// The most denials of one table: 64 k in all.
const MOST: usize = 1024;

/// Denials that still hold.
#[derive(Debug)]
pub(crate) struct Denied {
    tables: Vec<Mutex<Table>>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Table {
    entries: HashMap<Name, Entry, RandomState>,
    /// When something of this table was last amended: a denial that was asked for before is not
    /// kept.
    amended_us: Option<u64>,
    /// Nothing passes before: until then nobody need look for room.
    passes_us: u64,
}

/// Which state has denied.
#[derive(Debug, PartialEq, Eq)]
struct Name {
    limit: CompactString,
    algorithm: Algorithm,
    key: CompactString,
}

/// The same, of somebody who asks.
#[derive(Hash)]
struct Named<'a>(&'a str, Algorithm, &'a str);

impl std::hash::Hash for Name {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Named(&self.limit, self.algorithm, &self.key).hash(state);
    }
}

impl Equivalent<Name> for Named<'_> {
    fn equivalent(&self, name: &Name) -> bool {
        self.0 == name.limit && self.1 == name.algorithm && self.2 == name.key
    }
}

/// A denial.
#[derive(Debug)]
struct Entry {
    /// What was asked of the state that denied.
    cost: u64,
    sent_us: u64,
    until_us: u64,
    /// Of what size the limit was. A state can be asked for by several, such as a tier's or one that comes
    /// with the request, and what one of them denies another may admit.
    quota: Quota,
    /// Which limits were asked together, and which of them this is: the answer has the numbers of each.
    together: u64,
    nth: usize,
    answer: Answer,
    /// Who asks whether it still holds.
    asking: Option<Arc<Asking>>,
    /// Units that were left when somebody last asked: so much may be asked for by anybody.
    left: u64,
}

impl Denied {
    pub(crate) fn new() -> Self {
        let hasher = RandomState::new();
        let table = || Table {
            entries: HashMap::with_hasher(hasher.clone()),
            amended_us: None,
            passes_us: u64::MAX,
        };
        Self { tables: (0..TABLES).map(|_| Mutex::new(table())).collect(), hasher }
    }

    /// A denial that holds for one of these checks, or has held at some moment since they came: numbers are as
    /// last seen, times go on.
    pub(crate) fn find(&self, checks: &[Check<'_>], came_us: u64, now_us: u64) -> Option<Answer> {
        if let [check] = checks {
            let (now_us, outcome) = self.find_own(check, came_us, now_us, |_, _| ())?;
            return Some(Answer::one(now_us, false, outcome));
        }
        let mut together: Option<SmallVec<[Outcome; 4]>> = None;
        let own = |check| {
            self.find_own(check, came_us, now_us, |entry, passed_us| {
                if together.is_none() && entry.together == self.together(checks) {
                    let told = entry.answer.outcomes().iter();
                    let aged = told.map(|told| aged(told, told.retry_after_us, passed_us));
                    together = Some(aged.collect());
                }
            })
        };
        let own: SmallVec<[Option<(u64, Outcome)>; 4]> = checks.iter().map(own).collect();
        let now_us = own.iter().flatten().map(|(now_us, _)| *now_us).max()?;
        let outcomes = checks.iter().zip(&own).enumerate().map(|(nth, (check, own))| {
            let told = || together.as_ref().and_then(|told| told.get(nth).copied());
            own.map(|(_, own)| own).or_else(told).unwrap_or_else(|| Outcome::unknown(check))
        });
        Some(Answer::new(now_us, false, outcomes))
    }

    /// What one of the checks was told itself, and when by the store's clock. `seen` is shown by what, and
    /// how long ago.
    fn find_own(
        &self,
        check: &Check<'_>,
        came_us: u64,
        now_us: u64,
        seen: impl FnOnce(&Entry, u64),
    ) -> Option<(u64, Outcome)> {
        if !can_hold(check) {
            return None;
        }
        let name = named(check);
        let table = self.table(&name).lock();
        let entry = table.entries.get(&name).filter(|entry| entry.until_us > came_us)?;
        if check.cost < entry.cost || entry.quota != *check.quota {
            return None;
        }
        let denied = entry.answer.outcomes().get(entry.nth)?;
        let retry_after_us = retry_after_us(check.quota, denied, entry.cost, check.cost)?;
        let passed_us = now_us.saturating_sub(entry.sent_us);
        seen(entry, passed_us);
        let now_us = entry.answer.now_us.saturating_add(passed_us);
        Some((now_us, aged(denied, retry_after_us, passed_us)))
    }

    /// Keeps what an answer says of those who come next, for as long as it holds and at most `most_us`.
    /// It was asked for at `sent_us`; for others too, if there is a `lead`.
    pub(crate) fn learn(
        &self,
        checks: &[Check<'_>],
        answer: &Answer,
        sent_us: u64,
        most_us: u64,
        lead: Option<Lead>,
    ) {
        if most_us == 0 {
            return;
        }
        // Only of a key that was denied before: others would fill the table for nothing.
        if answer.allowed && lead.is_none() {
            return;
        }
        let next = if answer.allowed { next_denied(checks, answer) } else { None };
        let denial = if answer.allowed { next.as_ref() } else { Some(answer) };
        for (nth, (check, outcome)) in checks.iter().zip(answer.outcomes()).enumerate() {
            // What is decided here says nothing of the store.
            if !can_hold(check) || outcome.here {
                continue;
            }
            match denial.filter(|denial| denial.outcomes()[nth].denies()) {
                Some(denial) => self.keep(checks, nth, denial, sent_us, most_us),
                None => self.pass(&named(check), outcome, sent_us),
            }
        }
    }

    /// A limit admits, and something is left of it. More than half, and nobody need wait for anybody any
    /// more.
    fn pass(&self, name: &Named<'_>, outcome: &Outcome, now_us: u64) {
        let mut table = self.table(name).lock();
        let Some(entry) = table.entries.get_mut(name) else { return };
        entry.left = outcome.remaining;
        if entry.until_us <= now_us && outcome.remaining > outcome.limit / 2 {
            table.entries.remove(name);
        }
    }

    fn keep(&self, checks: &[Check<'_>], nth: usize, answer: &Answer, sent_us: u64, most_us: u64) {
        let (check, outcome) = (&checks[nth], &answer.outcomes()[nth]);
        // Clocks drift.
        let retry_us = outcome.retry_after_us.map_or(u64::MAX, |us| us - us / 1000);
        let entry = Entry {
            cost: check.cost,
            sent_us,
            until_us: sent_us.saturating_add(retry_us.min(most_us)),
            quota: *check.quota,
            together: self.together(checks),
            nth,
            answer: answer.clone(),
            asking: None,
            left: 0,
        };
        let name = named(check);
        let mut table = self.table(&name).lock();
        if table.amended_us.is_some_and(|at_us| at_us >= sent_us) {
            return;
        }
        if table.entries.get(&name).is_some_and(|kept| kept.says_more_than(&entry)) {
            return;
        }
        if table.entries.contains_key(&name) || table.has_room(sent_us) {
            let Named(limit, algorithm, key) = name;
            table.passes_us = table.passes_us.min(entry.until_us);
            table.entries.insert(Name { limit: limit.into(), algorithm, key: key.into() }, entry);
        }
    }

    /// Forgets a state's denial, since something was given back.
    pub(crate) fn forget(&self, limit: &str, algorithm: Algorithm, key: &str, now_us: u64) {
        let name = Named(limit, algorithm, key);
        let mut table = self.table(&name).lock();
        table.amended_us = table.amended_us.max(Some(now_us));
        table.entries.remove(&name);
    }

    /// Forgets everything, since anything may have been raised or reset.
    pub(crate) fn forget_all(&self, now_us: u64) {
        for table in &self.tables {
            let mut table = table.lock();
            table.amended_us = table.amended_us.max(Some(now_us));
            table.entries.clear();
        }
    }

    /// How many are kept, some of which may have passed.
    pub(crate) fn count(&self) -> usize {
        self.tables.iter().map(|table| table.lock().entries.len()).sum()
    }

    fn table(&self, name: &Named<'_>) -> &Mutex<Table> {
        // Not the lowest bits, by which a table finds its own places, nor the highest, by which it
        // tells them apart.
        &self.tables[(self.hasher.hash_one(name) >> 32) as usize % TABLES]
    }

    fn together(&self, checks: &[Check<'_>]) -> u64 {
        let names = checks.iter().map(|check| (check.limit, check.key, check.shadow, check.quota));
        self.hasher.hash_one(names.collect::<SmallVec<[_; 4]>>())
    }
}

/// What the store tells of what others give back.
#[derive(Debug)]
pub(crate) struct Hearsay {
    pub(crate) denied: Arc<Denied>,
    pub(crate) timer: Arc<dyn Timer>,
}

impl Hears for Hearsay {
    fn given_back(&self, limit: &str, algorithm: Algorithm, key: &str) {
        self.denied.forget(limit, algorithm, key, self.timer.now_us());
    }

    fn anything(&self) {
        self.denied.forget_all(self.timer.now_us());
    }
}

impl Entry {
    /// Whether it holds for whoever `other` holds for, and for smaller costs too. Else two costs that
    /// come in turn would drive each other out.
    fn says_more_than(&self, other: &Self) -> bool {
        self.cost < other.cost && self.until_us > other.sent_us && self.quota == other.quota
    }
}

impl Table {
    /// Whether there is room for one more.
    fn has_room(&mut self, now_us: u64) -> bool {
        if self.entries.len() >= MOST && self.passes_us <= now_us {
            self.entries.retain(|_, entry| entry.until_us > now_us);
            let until = self.entries.values().map(|entry| entry.until_us);
            self.passes_us = until.min().unwrap_or(u64::MAX);
        }
        self.entries.len() < MOST
    }
}

fn named<'a>(check: &Check<'a>) -> Named<'a> {
    Named(check.limit, check.quota.algorithm(), check.key)
}

/// Whether a denial by this limit lasts.
fn can_hold(check: &Check<'_>) -> bool {
    let is_kept = !check.shadow && !matches!(check.quota, Quota::Concurrency(_));
    is_kept && check.cost > 0 && check.consistency == Consistency::Exact
}

/// When to retry for `cost` units, of which a smaller number was denied. `None` where only the
/// store knows.
fn retry_after_us(quota: &Quota, denied: &Outcome, smaller: u64, cost: u64) -> Option<Option<u64>> {
    if cost == smaller || denied.retry_after_us.is_none() {
        return Some(denied.retry_after_us);
    }
    if cost > quota.limit() {
        return Some(None);
    }
    let after = |bucket: &Bucket| {
        let more = u128::from(cost - smaller) * u128::from(bucket.unit());
        let more_us = more.div_ceil(u128::from(bucket.drain()));
        Some(denied.retry_after_us?.saturating_add(u64::try_from(more_us).ok()?))
    };
    match quota {
        Quota::TokenBucket(bucket) | Quota::Gcra(bucket) => Some(after(bucket)),
        Quota::FixedWindow(_) => Some(denied.retry_after_us),
        _ => None,
    }
}

/// What the same request would be told right after it was admitted, if it would be denied and that can
/// be told to the microsecond.
fn next_denied(checks: &[Check<'_>], answer: &Answer) -> Option<Answer> {
    let retries = checks.iter().zip(answer.outcomes()).map(|(check, outcome)| {
        let may_deny = can_hold(check) && check.cost > outcome.remaining;
        may_deny.then(|| retry_when_taken_us(check.quota, outcome, check.cost)).flatten()
    });
    let retries: SmallVec<[Option<u64>; 4]> = retries.collect();
    retries.iter().any(Option::is_some).then_some(())?;
    let outcomes = answer.outcomes().iter().zip(&retries).map(|(outcome, retry)| match *retry {
        Some(us) => Outcome { allowed: false, retry_after_us: Some(us), delay_us: 0, ..*outcome },
        None => *outcome,
    });
    Some(Answer::new(answer.now_us, false, outcomes))
}

/// When to retry for `cost` units, more than are left by these numbers. `None` where they do not tell.
fn retry_when_taken_us(quota: &Quota, taken: &Outcome, cost: u64) -> Option<u64> {
    if cost > quota.limit() {
        return None;
    }
    match quota {
        // The reset is the debt over R, rounded up. It lacks nothing where R divides what is kept free.
        Quota::TokenBucket(bucket) | Quota::Gcra(bucket) => {
            let free = bucket.capacity() - cost;
            let free_us = free.is_multiple_of(bucket.drain()).then(|| free / bucket.drain())?;
            taken.reset_after_us.checked_sub(free_us.checked_mul(bucket.unit())?)
        }
        Quota::FixedWindow(_) => Some(taken.reset_after_us),
        _ => None,
    }
    .filter(|us| *us > 0)
}

/// Numbers as last seen, so much later.
fn aged(outcome: &Outcome, retry_after_us: Option<u64>, passed_us: u64) -> Outcome {
    let least = u64::from(!outcome.allowed);
    Outcome {
        retry_after_us: retry_after_us.map(|us| us.saturating_sub(passed_us).max(least)),
        reset_after_us: outcome.reset_after_us.saturating_sub(passed_us),
        ..*outcome
    }
}

#[cfg(test)]
mod tests;
