//! Owns [`Keys`]: what is known of each key, bounded, and looked up without an allocation.

use std::hash::{Hash, Hasher};

use ahash::RandomState;
use hashbrown::HashTable;
use parking_lot::Mutex;
use tollkeeper_core::{Consistency, Filter, Quota};

/// Tables, each with a lock of its own.
const TABLES: usize = 64;

/// The most keys of one table: 64 k in all.
const MOST: usize = 1024;

/// How often a full table is looked through for what can be forgotten.
const LOOK_EVERY_US: u64 = 100_000;

/// A state's name, and by what it is decided here. A state can be asked for by several quotas in turn, such
/// as a rule's tiers: what is known of each is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named<'a> {
    pub(crate) limit: &'a str,
    pub(crate) key: &'a str,
    pub(crate) quota: &'a Quota,
    pub(crate) consistency: Consistency,
}

impl Named<'_> {
    /// Whether it is one state, by whichever quotas.
    fn is_of_state(&self, other: &Self) -> bool {
        let state = |named: &Self| named.quota.algorithm();
        (self.limit, self.key, state(self)) == (other.limit, other.key, state(other))
    }
}

/// Whatever is known of a state lies together.
impl Hash for Named<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.limit, self.key, self.quota.algorithm()).hash(state);
    }
}

/// The same, kept.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    limit: Box<str>,
    key: Box<str>,
    quota: Quota,
    consistency: Consistency,
}

impl Name {
    pub(crate) fn named(&self) -> Named<'_> {
        let Self { limit, key, quota, consistency } = self;
        Named { limit, key, quota, consistency: *consistency }
    }
}

impl From<Named<'_>> for Name {
    fn from(named: Named<'_>) -> Self {
        let Named { limit, key, quota, consistency } = named;
        Self { limit: limit.into(), key: key.into(), quota: *quota, consistency }
    }
}

/// What is known of each key.
#[derive(Debug)]
pub(crate) struct Keys<T> {
    tables: Box<[Mutex<Table<T>>]>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Table<T> {
    known: HashTable<(Name, T)>,
    looked_us: u64,
}

impl<T> Keys<T> {
    pub(crate) fn new() -> Self {
        let table = || Table { known: HashTable::new(), looked_us: 0 };
        let tables = (0..TABLES).map(|_| Mutex::new(table())).collect();
        Self { tables, hasher: RandomState::new() }
    }

    /// Does something about a key, which is made known if there is room. Others make room that are idle, as
    /// `is_idle` says; if there are none, those of which nothing but how often they came would be lost if they
    /// did not come since a moment, as `is_spare` says.
    #[inline]
    pub(crate) fn work<R>(
        &self,
        name: Named<'_>,
        now_us: u64,
        make: impl FnOnce() -> Option<T>,
        is_idle: impl Fn(&T) -> bool,
        is_spare: impl Fn(&T, u64) -> bool,
        work: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let hash = self.hasher.hash_one(name);
        let mut table = self.table(hash).lock();
        if let Some((_, known)) = table.known.find_mut(hash, |(it, _)| it.named() == name) {
            return Some(work(known));
        }
        if !table.has_room(now_us, is_idle, is_spare) {
            return None;
        }
        let known = (name.into(), make()?);
        let rehash = |(it, _): &(Name, T)| self.hasher.hash_one(it.named());
        let mut entry = table.known.insert_unique(hash, known, rehash);
        Some(work(&mut entry.get_mut().1))
    }

    /// Does something about a key that is known. If it says so, the key is forgotten.
    pub(crate) fn find<R>(
        &self,
        name: Named<'_>,
        work: impl FnOnce(&mut T) -> (R, bool),
    ) -> Option<R> {
        let hash = self.hasher.hash_one(name);
        let mut table = self.table(hash).lock();
        let mut entry = table.known.find_entry(hash, |(it, _)| it.named() == name).ok()?;
        let (done, forget) = work(&mut entry.get_mut().1);
        if forget {
            entry.remove();
        }
        Some(done)
    }

    /// Does something about whatever else is known of a state, by other quotas.
    pub(crate) fn others(&self, name: Named<'_>, mut work: impl FnMut(&mut T)) {
        let hash = self.hasher.hash_one(name);
        let mut table = self.table(hash).lock();
        for (it, known) in table.known.iter_hash_mut(hash) {
            if it.named().is_of_state(&name) && it.named() != name {
                work(known);
            }
        }
    }

    /// Looks at every key.
    pub(crate) fn each(&self, mut look: impl FnMut(&T)) {
        for table in &self.tables {
            table.lock().known.iter().for_each(|(_, known)| look(known));
        }
    }

    /// Forgets every key that is meant.
    pub(crate) fn forget(&self, filter: Filter<'_>) {
        for table in &self.tables {
            table.lock().known.retain(|(name, _)| !filter.matches(&name.limit, &name.key));
        }
    }

    /// By other bits than those that say where in a table a key lies.
    fn table(&self, hash: u64) -> &Mutex<Table<T>> {
        &self.tables[(hash >> 32) as usize % TABLES]
    }
}

impl<T> Table<T> {
    fn has_room(
        &mut self,
        now_us: u64,
        is_idle: impl Fn(&T) -> bool,
        is_spare: impl Fn(&T, u64) -> bool,
    ) -> bool {
        if self.known.len() < MOST {
            return true;
        }
        if now_us.saturating_sub(self.looked_us) < LOOK_EVERY_US {
            return false;
        }
        let since_us = std::mem::replace(&mut self.looked_us, now_us);
        self.known.retain(|(_, known)| !is_idle(known));
        if self.known.len() >= MOST {
            self.known.retain(|(_, known)| !is_spare(known, since_us));
        }
        self.known.len() < MOST
    }
}
