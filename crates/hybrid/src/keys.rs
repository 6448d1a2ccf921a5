//! Owns [`Keys`]: what is known of each key, bounded, and looked up without an allocation.

use std::hash::{Hash, Hasher};

use ahash::RandomState;
use hashbrown::{Equivalent, HashMap};
use parking_lot::Mutex;
use tollkeeper_core::{Algorithm, Filter};

/// Tables, each with a lock of its own.
const TABLES: usize = 64;

/// The most keys of one table: 64 k in all.
const MOST: usize = 1024;

/// How often a full table is looked through for what can be forgotten.
const LOOK_EVERY_US: u64 = 100_000;

/// A state's name, which is also that of what is known of it here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Named<'a> {
    pub(crate) limit: &'a str,
    pub(crate) algorithm: Algorithm,
    pub(crate) key: &'a str,
}

/// The same, kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    limit: Box<str>,
    algorithm: Algorithm,
    key: Box<str>,
}

impl Name {
    pub(crate) fn named(&self) -> Named<'_> {
        Named { limit: &self.limit, algorithm: self.algorithm, key: &self.key }
    }
}

impl From<Named<'_>> for Name {
    fn from(named: Named<'_>) -> Self {
        let Named { limit, algorithm, key } = named;
        Self { limit: limit.into(), algorithm, key: key.into() }
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.named().hash(state);
    }
}

impl Equivalent<Name> for Named<'_> {
    fn equivalent(&self, name: &Name) -> bool {
        *self == name.named()
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
    known: HashMap<Name, T, RandomState>,
    looked_us: u64,
}

impl<T> Keys<T> {
    pub(crate) fn new() -> Self {
        let hasher = RandomState::new();
        let table = || Table { known: HashMap::with_hasher(hasher.clone()), looked_us: 0 };
        Self { tables: (0..TABLES).map(|_| Mutex::new(table())).collect(), hasher }
    }

    /// Does something about a key, which is made known if there is room. `is_idle` says of others
    /// whether they can make room.
    #[inline]
    pub(crate) fn work<R>(
        &self,
        name: Named<'_>,
        now_us: u64,
        make: impl FnOnce() -> Option<T>,
        is_idle: impl Fn(&T) -> bool,
        work: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let mut table = self.table(&name).lock();
        if let Some(known) = table.known.get_mut(&name) {
            return Some(work(known));
        }
        if !table.has_room(now_us, is_idle) {
            return None;
        }
        let known = table.known.entry(name.into()).or_insert(make()?);
        Some(work(known))
    }

    /// Does something about a key that is known. If it says so, the key is forgotten.
    pub(crate) fn find<R>(
        &self,
        name: Named<'_>,
        work: impl FnOnce(&mut T) -> (R, bool),
    ) -> Option<R> {
        let mut table = self.table(&name).lock();
        let (done, forget) = work(table.known.get_mut(&name)?);
        if forget {
            table.known.remove(&name);
        }
        Some(done)
    }

    /// Looks at every key.
    pub(crate) fn each(&self, mut look: impl FnMut(&T)) {
        for table in &self.tables {
            table.lock().known.values().for_each(&mut look);
        }
    }

    /// Forgets every key that is meant.
    pub(crate) fn forget(&self, filter: Filter<'_>) {
        for table in &self.tables {
            table.lock().known.retain(|name, _| !filter.matches(&name.limit, &name.key));
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "any part of a hash will do")]
    fn table(&self, name: &Named<'_>) -> &Mutex<Table<T>> {
        &self.tables[self.hasher.hash_one(name) as usize % TABLES]
    }
}

impl<T> Table<T> {
    fn has_room(&mut self, now_us: u64, is_idle: impl Fn(&T) -> bool) -> bool {
        if self.known.len() < MOST {
            return true;
        }
        if now_us.saturating_sub(self.looked_us) < LOOK_EVERY_US {
            return false;
        }
        self.looked_us = now_us;
        self.known.retain(|_, known| !is_idle(known));
        self.known.len() < MOST
    }
}
