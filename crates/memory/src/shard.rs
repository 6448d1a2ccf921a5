//! Owns [`Shard`]: the keys and records that come, go and move under one mutex, and how their
//! states are read and written.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};

use parking_lot::{Mutex, MutexGuard};
use tollkeeper_core::consistency::MAX_PARTS;
use tollkeeper_core::{Algorithm, Entry as Shown, Filter, Quota, State, Step, split_key};

use crate::fingerprint::{Fingerprint, Fingerprinter};
use crate::group::{Entry, WIDTH};
use crate::groups::{Beside, Groups};
use crate::names::Names;
use crate::packed::Packed;
use crate::record::Record;
use crate::rows::{RowId, Rows, Unit};
use crate::slots::{Budget, Slots};
use crate::whole::{Whole, Wholes};

/// What all shards of a store read.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) fingerprinter: Fingerprinter,
    pub(crate) rows: Rows,
}

impl Common {
    pub(crate) fn new(random: &RandomState) -> Self {
        Self { fingerprinter: Fingerprinter::new(random), rows: Rows::new(random.clone()) }
    }

    /// Always inline, as all of the short way is: left to itself, the compiler makes calls of its parts in a
    /// large program and not in a small one, and a decision takes half as long again.
    #[inline(always)]
    pub(crate) fn id(&self, limit: &str, algorithm: Algorithm, key: &str) -> Id {
        let fingerprint = self.fingerprinter.of(limit, algorithm, key);
        Id { fingerprint, place: fingerprint.place() }
    }
}

/// Which state is meant, and where it lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Id {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) place: u64,
}

/// What a state is written under.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Under<'a> {
    pub(crate) common: &'a Common,
    pub(crate) limit: &'a str,
    pub(crate) quota: &'a Quota,
    pub(crate) now_us: u64,
}

/// What changes only with the keys, and is not needed to decide on one that is known. In lines of its own,
/// so that whoever takes the mutex of another waits for nobody.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Shard(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    beside: Beside<Names>,
    /// The row of the last state that was packed anew: as a rule that of the next one, too.
    row: RowId,
    wholes: Wholes,
    records: Slots<Record>,
}

impl Shard {
    pub(crate) fn new(random: &RandomState, number: usize, named: bool) -> Self {
        let seed = random.hash_one((number, "shard"));
        Self(Mutex::new(Inner {
            beside: Beside::new(seed, named),
            row: RowId::NONE,
            wholes: Wholes::default(),
            records: Slots::new(),
        }))
    }

    /// Locks it with its groups.
    pub(crate) fn lock<'a>(&'a self, groups: Groups<'a>) -> Keys<'a> {
        // A panic cannot leave a shard half written in a way that matters: nothing panics between
        // two writes that belong together.
        Keys { groups, inner: self.0.lock() }
    }

    pub(crate) fn try_lock<'a>(&'a self, groups: Groups<'a>) -> Option<Keys<'a>> {
        Some(Keys { groups, inner: self.0.try_lock()? })
    }
}

/// A shard under its mutex. Every state that is read or written stays locked until this ends, so
/// that all of it is one step.
#[derive(Debug)]
pub(crate) struct Keys<'a> {
    groups: Groups<'a>,
    inner: MutexGuard<'a, Inner>,
}

impl Drop for Keys<'_> {
    fn drop(&mut self) {
        self.groups.release(&mut self.inner.beside);
    }
}

impl Keys<'_> {
    pub(crate) fn find(&self, id: Id) -> Option<usize> {
        self.groups.find(id.fingerprint, id.place)
    }

    pub(crate) fn bring_home(&mut self, id: Id) {
        self.groups.bring_home(&mut self.inner.beside, id.fingerprint, Fingerprint::place);
    }

    pub(crate) fn has_room(&self) -> bool {
        self.groups.has_room(&self.inner.beside)
    }

    pub(crate) fn records(&mut self) -> &mut Slots<Record> {
        &mut self.inner.records
    }

    fn locked(&mut self, at: usize) -> Option<Entry> {
        self.groups.locked(&mut self.inner.beside, at)
    }

    fn set(&mut self, at: usize, state: Packed) {
        self.groups.set_state(&mut self.inner.beside, at, state);
    }

    /// Locks the state that was found, if one was; the latest time that it has seen.
    pub(crate) fn seen_us(&mut self, at: Option<usize>, common: &Common) -> u64 {
        let Some(Entry { state, .. }) = at.and_then(|at| self.locked(at)) else { return 0 };
        if let Some(place) = state.place() {
            return self.inner.wholes.get(place).map_or(0, |whole| whole.seen_us);
        }
        common.rows.get(state.row()).map_or(0, |row| state.seen_us(row.unit))
    }

    /// Asks, charges or anchors, and reads the numbers of the state at `at`.
    pub(crate) fn step(
        &mut self,
        at: usize,
        under: Under<'_>,
        cost: u64,
        permit: u128,
    ) -> Option<Step> {
        self.work(at, under, |state| {
            let step = state.step(under.quota, cost, permit, under.now_us);
            (step, step.written)
        })
    }

    /// Hands the state at `at` to `work`, a fresh one if it has expired, and keeps it if `work`
    /// says that it was written.
    pub(crate) fn work<T>(
        &mut self,
        at: usize,
        under: Under<'_>,
        work: impl FnOnce(&mut State) -> (T, bool),
    ) -> Option<T> {
        let packed = self.locked(at)?.state;
        let row = under.common.rows.get(packed.row());
        let Some((unit, state)) = row.and_then(|row| Some((row.unit, packed.state(row.unit)?)))
        else {
            return self.work_on_whole(packed.place()?, under, work);
        };
        let mut state = match packed.has_expired(unit, under.now_us) {
            true => State::fresh(under.quota, under.now_us),
            false => state,
        };
        let (done, written) = work(&mut state);
        if written {
            let same = Unit::of(under.quota) == unit;
            let same = same.then(|| Packed::new(&state, unit, packed.row())).flatten();
            let packed = same.unwrap_or_else(|| self.pack(state, under));
            self.set(at, packed);
        }
        Some(done)
    }

    #[cold]
    fn work_on_whole<T>(
        &mut self,
        place: u32,
        Under { quota, now_us, .. }: Under<'_>,
        work: impl FnOnce(&mut State) -> (T, bool),
    ) -> Option<T> {
        let whole = self.inner.wholes.get_mut(place)?;
        if whole.expires_us <= now_us {
            whole.state = State::fresh(quota, now_us);
        }
        let (done, written) = work(&mut whole.state);
        whole.seen_us = now_us;
        if written {
            whole.expires_us = now_us + whole.state.reset_after_us(quota, now_us);
        }
        Some(done)
    }

    /// Packs a state, or keeps it whole.
    fn pack(&mut self, state: State, Under { common, limit, quota, now_us }: Under<'_>) -> Packed {
        let unit = Unit::of(quota);
        let row = common.rows.find_from(self.inner.row, limit, quota.algorithm(), unit);
        self.inner.row = row.unwrap_or(RowId::NONE);
        if let Some(packed) = row.and_then(|row| Packed::new(&state, unit, row)) {
            return packed;
        }
        let expires_us = now_us + state.reset_after_us(quota, now_us);
        let limit = row.is_none().then(|| (limit.into(), quota.algorithm()));
        let place = self.inner.wholes.insert(Whole { state, expires_us, seen_us: now_us, limit });
        Packed::elsewhere(place, row.unwrap_or(RowId::NONE))
    }

    /// Adds the state of a key that is not there yet. Others may move.
    pub(crate) fn insert(&mut self, id: Id, key: &str, state: State, under: Under<'_>) {
        let entry = Entry { fingerprint: id.fingerprint, state: self.pack(state, under) };
        let names = || Names::new(under.limit, under.quota.algorithm(), key);
        self.groups.insert(&mut self.inner.beside, entry, names, Fingerprint::place);
    }

    /// Takes an entry away. Others may move.
    pub(crate) fn remove(&mut self, at: usize) {
        if let Some(place) = self.locked(at).and_then(|entry| entry.state.place()) {
            self.inner.wholes.remove(place);
        }
        self.groups.remove(&mut self.inner.beside, at, Fingerprint::place);
    }

    /// When the state at `at` is as new; 0 if there is none.
    pub(crate) fn expires_us(&mut self, at: usize, common: &Common) -> u64 {
        self.locked(at).map_or(0, |entry| expires_us(entry.state, common, &self.inner.wholes))
    }

    /// Moves the hand over `most` places and takes away what has expired; how many.
    pub(crate) fn sweep(
        &mut self,
        most: usize,
        common: &Common,
        now_us: u64,
        budget: &mut Budget,
    ) -> usize {
        let before = self.inner.beside.len();
        let mut left = most;
        loop {
            let Inner { beside, wholes, .. } = &mut *self.inner;
            let expired = |state: Packed| has_expired(state, common, wholes, now_us);
            let Some(at) = self.groups.next(beside, &mut left, budget, expired) else { break };
            if self.groups.locked(beside, at).is_some_and(|entry| expired(entry.state)) {
                // Another entry may move here, and is looked at next.
                self.remove(at);
            } else {
                self.groups.pass(beside);
            }
        }
        before - self.inner.beside.len()
    }

    /// Of a sample, the entry that expires first among those that `may_go`, and when it does.
    pub(crate) fn first_to_expire(
        &mut self,
        size: usize,
        common: &Common,
        budget: &mut Budget,
        may_go: impl Fn(Fingerprint) -> bool,
    ) -> Option<(u64, usize)> {
        let Inner { beside, wholes, .. } = &mut *self.inner;
        let rank = |entry: &Entry| {
            may_go(entry.fingerprint).then(|| expires_us(entry.state, common, wholes))
        };
        self.groups.least(beside, size, budget, rank)
    }

    /// Forgets what `filter` names: live states, states, records.
    pub(crate) fn reset(
        &mut self,
        filter: Filter<'_>,
        common: &Common,
        now_us: u64,
    ) -> (u64, usize, usize) {
        let (before, mut live, mut at) = (self.inner.beside.len(), 0, 0);
        while at < self.groups.places() {
            let named = self.groups.get(at).and_then(|entry| self.named(&entry, filter, common));
            if named.is_none() {
                at += 1;
                continue;
            }
            live += u64::from(self.expires_us(at, common) > now_us);
            self.remove(at);
            // Others may move here, or to any place of this group from one that is not looked at yet.
            at = at / WIDTH * WIDTH;
            self.groups.release(&mut self.inner.beside);
        }
        let records = self.records().remove_all(|entry| entry.names.match_filter(filter));
        (live, before - self.inner.beside.len(), records)
    }

    /// The limit and the algorithm of an entry.
    fn limit<'a>(&'a self, entry: &Entry, common: &'a Common) -> Option<(&'a str, Algorithm)> {
        if let Some(row) = common.rows.get(entry.state.row()) {
            return Some((&row.limit, row.algorithm));
        }
        let whole = self.inner.wholes.get(entry.state.place()?)?;
        whole.limit.as_ref().map(|(limit, algorithm)| (&**limit, *algorithm))
    }

    /// The key of an entry that `filter` names, as far as that says it.
    fn named<'a>(
        &self,
        entry: &Entry,
        filter: Filter<'a>,
        common: &Common,
    ) -> Option<Option<Cow<'a, str>>> {
        let (limit, algorithm) = self.limit(entry, common)?;
        if filter.limits.is_some_and(|limits| !limits.contains(&limit)) {
            return None;
        }
        let Some(whole) = filter.key else { return Some(None) };
        let is_it = |key: &str| common.fingerprinter.of(limit, algorithm, key) == entry.fingerprint;
        if is_it(whole) {
            return Some(Some(whole.into()));
        }
        let parts = if filter.split.contains(&limit) { 0..MAX_PARTS } else { 0..0 };
        let mut parts = parts.map(|part| split_key(whole, part));
        parts.find(|key| is_it(key)).map(|key| Some(key.into()))
    }

    /// The live states that `filter` names, of keys whose name is known: from the filter, or kept.
    pub(crate) fn show<'a>(
        &'a mut self,
        filter: Filter<'a>,
        common: &'a Common,
        now_us: u64,
    ) -> impl Iterator<Item = Shown> + 'a {
        (0..self.groups.places()).filter_map(move |at| {
            let key = self.named(&self.groups.get(at)?, filter, common)?;
            let shown = self.show_one(at, key, common, now_us);
            self.groups.release(&mut self.inner.beside);
            shown
        })
    }

    /// Units of a state that are out.
    fn lent(&self, fingerprint: Fingerprint, now_us: u64) -> u64 {
        let records = &self.inner.records;
        let loans = records
            .find(Record::hash_of_loans(fingerprint), |record| record.is_lent_of(fingerprint))
            .and_then(|at| records.get(at)?.loans());
        loans.filter(|loans| loans.expires_us() > now_us).map_or(0, |loans| loans.out())
    }

    fn show_one(
        &mut self,
        at: usize,
        key: Option<Cow<'_, str>>,
        common: &Common,
        now_us: u64,
    ) -> Option<Shown> {
        let entry = self.locked(at)?;
        let key = key.or_else(|| self.inner.beside.note(at).map(|note| note.key().into()))?;
        let expires_us = expires_us(entry.state, common, &self.inner.wholes);
        let (limit, algorithm) = self.limit(&entry, common)?;
        let packed = common.rows.get(entry.state.row());
        let packed = packed.and_then(|row| entry.state.state(row.unit));
        let whole = || Some(self.inner.wholes.get(entry.state.place()?)?.state.clone());
        (expires_us > now_us).then_some(())?;
        let lent = self.lent(entry.fingerprint, now_us);
        Some(Shown {
            limit: limit.to_owned(),
            algorithm,
            key: key.into_owned(),
            state: packed.or_else(whole)?,
            lent,
            ttl_us: expires_us - now_us,
        })
    }
}

fn expires_us(state: Packed, common: &Common, wholes: &Wholes) -> u64 {
    match state.place() {
        Some(place) => wholes.get(place).map_or(0, |whole| whole.expires_us),
        None => common.rows.get(state.row()).map_or(0, |row| state.expires_us(row.unit)),
    }
}

#[inline]
fn has_expired(state: Packed, common: &Common, wholes: &Wholes, now_us: u64) -> bool {
    match (state.place(), common.rows.get(state.row())) {
        (None, Some(row)) => state.has_expired(row.unit, now_us),
        _ => expires_us(state, common, wholes) <= now_us,
    }
}
