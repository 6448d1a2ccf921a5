//! Owns [`Shard`]: the keys and reservations that one lock guards, and how their states are read
//! and written.

use std::hash::{BuildHasher, RandomState};

use tollkeeper_core::{Algorithm, Entry as Shown, Filter, Quota, State, Step};

use crate::fingerprint::{Fingerprint, Fingerprinter};
use crate::lines::{Entry, Lines};
use crate::names::Names;
use crate::packed::Packed;
use crate::rows::{Rows, Unit};
use crate::slots::{Budget, Expires, Slots};
use crate::whole::{Whole, Wholes};

/// Every so many calls to a shard, one sweeps it, and then the shard whose turn it is.
const CALLS_PER_SWEEP: u32 = 32;

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

    #[inline]
    pub(crate) fn id(&self, limit: &str, algorithm: Algorithm, key: &str) -> Id {
        let fingerprint = self.fingerprinter.of(limit, algorithm, key);
        Id { fingerprint, place: self.fingerprinter.place(fingerprint) }
    }

    fn places(&self) -> impl Fn(Fingerprint) -> u64 {
        |fingerprint| self.fingerprinter.place(fingerprint)
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

#[derive(Debug)]
pub(crate) struct Shard {
    lines: Lines<Names>,
    /// The latest time that it has seen, by a clock that cannot step back.
    latest_us: u64,
    /// Calls so far, to tell every few of them apart.
    calls: u32,
    rest: Box<Rest>,
}

/// What few decisions need.
#[derive(Debug)]
struct Rest {
    wholes: Wholes,
    reservations: Slots<Reservation>,
}

impl Shard {
    pub(crate) fn new(random: &RandomState, number: usize, named: bool) -> Self {
        let seed = random.hash_one((number, "shard"));
        let rest = Box::new(Rest { wholes: Wholes::default(), reservations: Slots::new() });
        Self { lines: Lines::new(seed, named), latest_us: 0, calls: 0, rest }
    }

    /// The later of a reading, by a clock that cannot step back, and the latest before it.
    #[inline]
    pub(crate) fn not_before(&mut self, reading_us: u64) -> u64 {
        self.latest_us = self.latest_us.max(reading_us);
        self.latest_us
    }

    /// Counts a call; whether it is one of those that sweep.
    #[inline]
    pub(crate) fn is_sweep_due(&mut self) -> bool {
        self.calls = self.calls.wrapping_add(1);
        self.calls.is_multiple_of(CALLS_PER_SWEEP)
    }

    #[inline]
    pub(crate) fn find(&self, id: Id) -> Option<usize> {
        self.lines.find(id.fingerprint, id.place)
    }

    pub(crate) fn has_room(&self) -> bool {
        self.lines.has_room()
    }

    pub(crate) fn reservations(&mut self) -> &mut Slots<Reservation> {
        &mut self.rest.reservations
    }

    /// Asks, charges or anchors, and reads the numbers of the state at `at`.
    #[inline]
    pub(crate) fn step(
        &mut self,
        at: usize,
        under: Under<'_>,
        cost: u64,
        permit: u128,
    ) -> Option<Step> {
        let Under { common, quota, now_us, .. } = under;
        let packed = self.lines.get(at)?.state;
        if let Some(row) = common.rows.get(packed.row())
            && row.unit == Unit::of(quota)
            && let Some((step, packed)) = packed.step(quota, row.unit, cost, now_us)
        {
            if step.written {
                self.lines.set(at, packed);
            }
            return Some(step);
        }
        self.step_unpacked(at, under, cost, permit)
    }

    #[inline(never)]
    fn step_unpacked(
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
        let packed = self.lines.get(at)?.state;
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
            self.lines.set(at, packed);
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
        let whole = self.rest.wholes.get_mut(place)?;
        if whole.expires_us <= now_us {
            whole.state = State::fresh(quota, now_us);
        }
        let (done, written) = work(&mut whole.state);
        if written {
            whole.expires_us = now_us + whole.state.reset_after_us(quota, now_us);
        }
        Some(done)
    }

    /// Packs a state, or keeps it whole.
    fn pack(&mut self, state: State, Under { common, limit, quota, now_us }: Under<'_>) -> Packed {
        let unit = Unit::of(quota);
        let row = common.rows.find(limit, quota.algorithm(), unit);
        if let Some(packed) = row.and_then(|row| Packed::new(&state, unit, row)) {
            return packed;
        }
        let expires_us = now_us + state.reset_after_us(quota, now_us);
        let limit = row.is_none().then(|| (limit.into(), quota.algorithm()));
        let place = self.rest.wholes.insert(Whole { state, expires_us, limit });
        Packed::elsewhere(place, row.unwrap_or(crate::rows::RowId::NONE))
    }

    /// Adds the state of a key that is not there yet. Others may move.
    pub(crate) fn insert(&mut self, id: Id, key: &str, state: State, under: Under<'_>) {
        let entry = Entry { fingerprint: id.fingerprint, state: self.pack(state, under) };
        let names = || Names::new(under.limit, under.quota.algorithm(), key);
        self.lines.insert(entry, names, under.common.places());
    }

    /// Takes an entry away. Others may move.
    pub(crate) fn remove(&mut self, at: usize, common: &Common) {
        if let Some(place) = self.lines.get(at).and_then(|entry| entry.state.place()) {
            self.rest.wholes.remove(place);
        }
        self.lines.remove(at, common.places());
    }

    /// When the state at `at` is as new; 0 if there is none.
    pub(crate) fn expires_us(&self, at: usize, common: &Common) -> u64 {
        self.lines.get(at).map_or(0, |entry| expires_us(entry, common, &self.rest.wholes))
    }

    /// Moves the hand over `most` places and takes away what has expired; how many.
    pub(crate) fn sweep(
        &mut self,
        most: usize,
        common: &Common,
        now_us: u64,
        budget: &mut Budget,
    ) -> usize {
        let before = self.lines.len();
        let mut left = most;
        loop {
            let wholes = &self.rest.wholes;
            let expired = |entry: &Entry| has_expired(entry, common, wholes, now_us);
            let Some(at) = self.lines.next(&mut left, budget, expired) else { break };
            // Another entry may move here, and is looked at next.
            self.remove(at, common);
        }
        let swept = before - self.lines.len();
        if swept > 0 {
            self.lines.shrink(common.places());
        }
        swept
    }

    /// Of a sample, the entry that expires first among those that `may_go`, and when it does.
    pub(crate) fn first_to_expire(
        &mut self,
        size: usize,
        common: &Common,
        budget: &mut Budget,
        may_go: impl Fn(Fingerprint) -> bool,
    ) -> Option<(u64, usize)> {
        let wholes = &self.rest.wholes;
        let rank =
            |entry: &Entry| may_go(entry.fingerprint).then(|| expires_us(entry, common, wholes));
        self.lines.least(size, budget, rank)
    }

    /// Forgets what `filter` names: live states, states, reservations.
    pub(crate) fn reset(
        &mut self,
        filter: Filter<'_>,
        common: &Common,
        now_us: u64,
    ) -> (u64, usize, usize) {
        let (before, mut live, mut at) = (self.lines.len(), 0, 0);
        while at < self.lines.places() {
            let named =
                self.lines.get(at).is_some_and(|entry| self.is_named(entry, filter, common));
            if !named {
                at += 1;
                continue;
            }
            live += u64::from(self.expires_us(at, common) > now_us);
            // Another entry may move here, and is looked at next.
            self.remove(at, common);
        }
        self.lines.shrink(common.places());
        let reservations = self.reservations().remove_all(|entry| entry.names.match_filter(filter));
        (live, before - self.lines.len(), reservations)
    }

    /// The limit and the algorithm of an entry.
    fn limit<'a>(&'a self, entry: &Entry, common: &'a Common) -> Option<(&'a str, Algorithm)> {
        if let Some(row) = common.rows.get(entry.state.row()) {
            return Some((&row.limit, row.algorithm));
        }
        let whole = self.rest.wholes.get(entry.state.place()?)?;
        whole.limit.as_ref().map(|(limit, algorithm)| (&**limit, *algorithm))
    }

    fn is_named(&self, entry: &Entry, filter: Filter<'_>, common: &Common) -> bool {
        let Some((limit, algorithm)) = self.limit(entry, common) else { return false };
        filter.limits.is_none_or(|limits| limits.contains(&limit))
            && filter.key.is_none_or(|key| {
                common.fingerprinter.of(limit, algorithm, key) == entry.fingerprint
            })
    }

    /// The live states that `filter` names, of keys whose name is known: from the filter, or kept.
    pub(crate) fn show<'a>(
        &'a self,
        filter: Filter<'a>,
        common: &'a Common,
        now_us: u64,
    ) -> impl Iterator<Item = Shown> + 'a {
        let named = move |entry: &Entry| self.is_named(entry, filter, common);
        self.lines.iter().filter(move |(_, entry)| named(entry)).filter_map(move |(at, entry)| {
            let key = filter.key.or_else(|| self.lines.note(at).map(Names::key))?;
            let expires_us = self.expires_us(at, common);
            let (limit, algorithm) = self.limit(entry, common)?;
            let packed = common.rows.get(entry.state.row());
            let packed = packed.and_then(|row| entry.state.state(row.unit));
            let whole = || Some(self.rest.wholes.get(entry.state.place()?)?.state.clone());
            (expires_us > now_us).then_some(())?;
            Some(Shown {
                limit: limit.to_owned(),
                algorithm,
                key: key.to_owned(),
                state: packed.or_else(whole)?,
                ttl_us: expires_us - now_us,
            })
        })
    }
}

fn expires_us(entry: &Entry, common: &Common, wholes: &Wholes) -> u64 {
    match entry.state.place() {
        Some(place) => wholes.get(place).map_or(0, |whole| whole.expires_us),
        None => {
            common.rows.get(entry.state.row()).map_or(0, |row| entry.state.expires_us(row.unit))
        }
    }
}

#[inline]
fn has_expired(entry: &Entry, common: &Common, wholes: &Wholes, now_us: u64) -> bool {
    match (entry.state.place(), common.rows.get(entry.state.row())) {
        (None, Some(row)) => entry.state.has_expired(row.unit, now_us),
        _ => expires_us(entry, common, wholes) <= now_us,
    }
}

/// A charge that can still be settled. It outlives its settling, so that a repeat is known as one.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(crate) id: u128,
    pub(crate) place: u64,
    pub(crate) names: Names,
    pub(crate) units: u64,
    pub(crate) charged_at_us: u64,
    pub(crate) expires_us: u64,
    pub(crate) settled: bool,
}

impl Expires for Reservation {
    fn hash(&self) -> u64 {
        self.place
    }

    fn expires_us(&self) -> u64 {
        self.expires_us
    }
}
