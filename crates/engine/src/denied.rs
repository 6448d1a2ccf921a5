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
//! An admission after which as much again would be denied tells when that ends, as a denial does. So a
//! busy key costs about one call for each unit that it admits: of one that was denied lately one caller
//! asks at a time, and whoever comes meanwhile waits for what he is told ([`asking`]).
//!
//! Not for `concurrency`, whose permits come back at any moment, and not for shadows, which deny
//! nobody.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::{Equivalent, HashMap};
use parking_lot::Mutex;
use tollkeeper_core::{Algorithm, Answer, Bucket, Check, Hears, Outcome, Quota};
use tollkeeper_policy::CompactString;

use crate::guard::{Deadline, Guard};
use crate::timer::Timer;

use asking::{Asking, Turn};
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
    /// Which limits were asked together: the answer has the numbers of each.
    together: u64,
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

    /// A denial that holds for these checks, or has held at some moment since they came: its numbers are
    /// as last seen, its times go on.
    pub(crate) fn find(&self, checks: &[Check<'_>], came_us: u64, now_us: u64) -> Option<Answer> {
        let mut deny = checks.iter().enumerate().filter(|(_, check)| can_hold(check));
        deny.find_map(|(nth, check)| self.find_by(checks, nth, check, came_us, now_us))
    }

    fn find_by(
        &self,
        checks: &[Check<'_>],
        nth: usize,
        check: &Check<'_>,
        came_us: u64,
        now_us: u64,
    ) -> Option<Answer> {
        let name = named(check);
        let table = self.table(&name).lock();
        let entry = table.entries.get(&name).filter(|entry| entry.until_us > came_us)?;
        if check.cost < entry.cost || entry.together != self.together(checks) {
            return None;
        }
        let denied = entry.answer.outcomes().get(nth)?;
        let retry_after_us = retry_after_us(check.quota, denied, entry.cost, check.cost)?;
        let passed_us = now_us.saturating_sub(entry.sent_us);
        let outcomes = entry.answer.outcomes().iter().enumerate().map(|(at, outcome)| {
            let retry = if at == nth { retry_after_us } else { outcome.retry_after_us };
            aged(outcome, retry, passed_us)
        });
        Some(Answer::new(entry.answer.now_us.saturating_add(passed_us), false, outcomes))
    }

    /// Lets a request that no denial answers wait while somebody else asks.
    pub(crate) async fn wait(
        &self,
        guard: &Guard,
        checks: &[Check<'_>],
        deadline: Deadline,
    ) -> Told {
        let mut sent_us = deadline.began_us();
        loop {
            let waiting = match self.turn(checks) {
                Turn::Free => return Told::Ask { lead: None, sent_us },
                Turn::Lead(lead) => return Told::Ask { lead: Some(lead), sent_us },
                Turn::Wait(waiting) => waiting,
            };
            let waited = guard.wait(deadline, waiting.end()).await;
            sent_us = guard.now_us();
            // What was denied at any moment since it came is denied.
            if let Some(answer) = self.find(checks, deadline.began_us(), sent_us) {
                return Told::Denied(answer.into());
            }
            if waited.is_err() {
                return Told::Nothing;
            }
        }
    }

    /// What somebody is to do whose request no denial answers.
    fn turn(&self, checks: &[Check<'_>]) -> Turn {
        let turn = checks.iter().filter(|check| can_hold(check)).find_map(|check| {
            let name = named(check);
            let mut table = self.table(&name).lock();
            let entry = table.entries.get_mut(&name)?;
            if let Some(left) = entry.left.checked_sub(check.cost) {
                entry.left = left;
                return Some(Turn::Free);
            }
            if let Some(asking) = entry.asking.as_ref().filter(|asking| !asking.has_ended()) {
                return Some(asking.join().map_or(Turn::Free, Turn::Wait));
            }
            let asking = entry.asking.insert(Arc::default());
            Some(Turn::Lead(Lead(Arc::clone(asking))))
        });
        turn.unwrap_or(Turn::Free)
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
        if !answer.allowed {
            self.keep(checks, answer, sent_us, most_us);
        } else if lead.is_some() {
            // Only of a key that was denied before: others would fill the table for nothing.
            match next_denied(checks, answer) {
                Some(denial) => self.keep(checks, &denial, sent_us, most_us),
                None => checks.iter().zip(answer.outcomes()).for_each(|(check, outcome)| {
                    self.pass(&named(check), outcome, sent_us);
                }),
            }
        }
    }

    /// Somebody was admitted, and something is left. More than half of the limit, and nobody need wait
    /// for anybody any more.
    fn pass(&self, name: &Named<'_>, outcome: &Outcome, now_us: u64) {
        let mut table = self.table(name).lock();
        let Some(entry) = table.entries.get_mut(name) else { return };
        entry.left = outcome.remaining;
        if entry.until_us <= now_us && outcome.remaining > outcome.limit / 2 {
            table.entries.remove(name);
        }
    }

    fn keep(&self, checks: &[Check<'_>], answer: &Answer, sent_us: u64, most_us: u64) {
        let holds_us = |outcome: &Outcome| {
            // Clocks drift.
            let retry_us = outcome.retry_after_us.map_or(u64::MAX, |us| us - us / 1000);
            retry_us.min(most_us)
        };
        let denials = checks.iter().zip(answer.outcomes());
        let denials = denials.filter(|(check, outcome)| outcome.denies() && can_hold(check));
        let Some((check, outcome)) = denials.max_by_key(|(_, outcome)| holds_us(outcome)) else {
            return;
        };
        let entry = Entry {
            cost: check.cost,
            sent_us,
            until_us: sent_us.saturating_add(holds_us(outcome)),
            together: self.together(checks),
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
        // By its quota too: a state can be asked for by several, such as a tier's or one that comes
        // with the request, and what one of them denies another may admit.
        let names = checks.iter().map(|check| (check.limit, check.key, check.shadow, check.quota));
        self.hasher.hash_one(names.collect::<smallvec::SmallVec<[_; 4]>>())
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
        self.cost < other.cost && self.until_us > other.sent_us && self.together == other.together
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
    check.cost > 0 && !check.shadow && !matches!(check.quota, Quota::Concurrency(_))
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
    let retries: smallvec::SmallVec<[Option<u64>; 4]> = retries.collect();
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
