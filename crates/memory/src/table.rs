//! Owns [`Table`]: the shards, and which of them a key belongs to.

use std::hash::RandomState;
use std::sync::atomic::{AtomicUsize, Ordering};

use smallvec::SmallVec;
use tollkeeper_core::{Check, Clock};

use crate::group::Held;
use crate::groups::Land;
use crate::settings::Settings;
use crate::shard::{Common, Id, Keys, Shard};
use crate::turn;

/// The most keys that a shard is meant for: so many shards that threads that add keys seldom meet.
const KEYS_PER_SHARD: usize = 8192;
const MAX_SHARDS: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct Table {
    land: Land,
    shards: Box<[Shard]>,
    pub(crate) common: Common,
    pub(crate) keys: AtomicUsize,
    pub(crate) records: AtomicUsize,
    /// The shard that is swept next, whoever calls.
    hand: AtomicUsize,
}

impl Table {
    /// `None` if the system has not the memory for so many keys.
    pub(crate) fn new(settings: &Settings) -> Option<Self> {
        let shards = settings.max_keys.div_ceil(KEYS_PER_SHARD);
        let shards = shards.clamp(1, MAX_SHARDS).next_power_of_two();
        // Keys are spread at random: half as many more than its share is more than a shard ever gets.
        let share = settings.max_keys.div_ceil(shards);
        let most = if shards == 1 { share } else { share + share / 2 };
        let land = Land::new(shards, most)?;
        let random = RandomState::new();
        let shard = |number| Shard::new(&random, number, settings.names);
        Some(Self {
            land,
            shards: (0..shards).map(shard).collect(),
            common: Common::new(&random),
            keys: AtomicUsize::new(0),
            records: AtomicUsize::new(0),
            hand: AtomicUsize::new(0),
        })
    }

    #[inline(always)]
    pub(crate) fn id(&self, check: &Check<'_>) -> Id {
        self.common.id(check.limit, check.quota.algorithm(), check.key)
    }

    #[inline]
    fn number_of(&self, id: Id) -> usize {
        low(id) & (self.shards.len() - 1)
    }

    /// The state of a known key, locked. `None` is nothing but a reason to take the mutex and look
    /// again.
    #[inline(always)]
    pub(crate) fn hold(&self, id: Id) -> Option<Held<'_>> {
        match self.land.shard(low(id)).hold_home(id.fingerprint, id.place) {
            None => self.hold_away(id),
            held => held,
        }
    }

    /// The same for one that is not in its home line. Now and then it is brought there, unless that had to be
    /// waited for.
    #[inline(never)]
    fn hold_away(&self, id: Id) -> Option<Held<'_>> {
        let groups = self.land.shard(low(id));
        let held = groups.hold_away(id.fingerprint, id.place)?;
        if !turn::brings_home() {
            return Some(held);
        }
        drop(held);
        if let Some(mut shard) = self.shards[self.number_of(id)].try_lock(groups) {
            shard.bring_home(id);
        }
        let held = groups.hold_home(id.fingerprint, id.place);
        held.or_else(|| groups.hold_away(id.fingerprint, id.place))
    }

    fn lock(&self, number: usize) -> Keys<'_> {
        self.shards[number].lock(self.land.shard(number))
    }

    /// Locks the shard of a key.
    pub(crate) fn lock_of(&self, id: Id) -> Keys<'_> {
        self.lock(self.number_of(id))
    }

    /// The next shard in turn, unless somebody is using it. So shards without traffic are swept
    /// too.
    pub(crate) fn try_lock_next(&self) -> Option<Keys<'_>> {
        let number = self.hand.fetch_add(1, Ordering::Relaxed) & (self.shards.len() - 1);
        self.shards[number].try_lock(self.land.shard(number))
    }

    /// Each shard, one after the other, never two at once.
    pub(crate) fn each(&self) -> impl Iterator<Item = Keys<'_>> {
        (0..self.shards.len()).map(|number| self.lock(number))
    }

    /// Locks every shard that `checks` need, in order of their number, so that no two calls can
    /// wait for each other.
    pub(crate) fn lock_all(&self, checks: &[Check<'_>]) -> Locked<'_> {
        let ids: SmallVec<[Id; 4]> = checks.iter().map(|check| self.id(check)).collect();
        let mut numbers: SmallVec<[usize; 4]> = ids.iter().map(|id| self.number_of(*id)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let guards = numbers.iter().map(|number| (*number, self.lock(*number))).collect();
        Locked { table: self, ids, guards }
    }
}

/// The shard goes by the low bits of the place: where a key lies in it goes by the high ones.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low bits are what is wanted")]
fn low(id: Id) -> usize {
    id.place as usize
}

/// The shards of one request.
pub(crate) struct Locked<'a> {
    table: &'a Table,
    /// Of each check.
    pub(crate) ids: SmallVec<[Id; 4]>,
    guards: SmallVec<[(usize, Keys<'a>); 4]>,
}

/// The time, read before the lock where that does no harm: while the processor waits for memory it
/// can read the clock. By a clock that cannot step back, what a state has seen meanwhile is the time;
/// by another one only a reading under the lock is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Early(Option<u64>);

impl Early {
    #[inline]
    pub(crate) fn read(clock: &impl Clock) -> Self {
        Self((!clock.may_step_back()).then(|| clock.now_us()))
    }

    /// The time, under the lock of a state that has seen `seen_us`.
    #[inline]
    pub(crate) fn now_us(self, clock: &impl Clock, seen_us: u64) -> u64 {
        self.0.map_or_else(|| clock.now_us(), |reading_us| reading_us.max(seen_us))
    }
}

impl<'a> Locked<'a> {
    /// The time, read under all of its locks.
    pub(crate) fn now_us(&mut self, clock: &impl Clock) -> u64 {
        let ids = self.ids.clone();
        let common = &self.table.common;
        let seen_us = ids.iter().map(|id| {
            let shard = self.shard(*id);
            let known = shard.find(*id);
            shard.seen_us(known, common)
        });
        let seen_us = seen_us.max().unwrap_or(0);
        Early::read(clock).now_us(clock, seen_us)
    }

    /// The shard of one of the request's checks.
    pub(crate) fn shard(&mut self, id: Id) -> &mut Keys<'a> {
        let number = self.table.number_of(id);
        let found = self.guards.iter().position(|(locked, _)| *locked == number);
        // Every check of the request has its guard.
        &mut self.guards[found.unwrap_or(0)].1
    }
}

#[cfg(test)]
mod tests {
    use tollkeeper_core::{ManualClock, Quota};

    use super::*;
    use crate::store::MemoryStore;

    /// Of a table that is nearly full a fifth of all keys lay elsewhere for ever, however often they were asked for.
    #[test]
    fn what_is_asked_for_often_lies_where_it_is_looked_for_first() {
        const KEYS: usize = 300_000;
        const OFTEN: usize = 1_000;
        let settings = Settings { max_keys: KEYS, names: false, ..Settings::default() };
        let store = MemoryStore::new(settings, ManualClock::at(1_000_000));
        let quota = Quota::fixed_window(1_000, 1_000_000).unwrap();
        let keys: Vec<String> = (0..KEYS).map(|nth| format!("user:{nth}")).collect();
        let check = |key| Check::new("api", &quota, key, 1);
        let ask = |key| assert!(store.check_now(&check(key)).unwrap().outcome.allowed);
        let at_home = || {
            let often = keys.iter().step_by(KEYS / OFTEN).map(|key| store.table.id(&check(key)));
            let groups = |id| store.table.land.shard(low(id));
            let home = often.filter(|id| groups(*id).hold_home(id.fingerprint, id.place).is_some());
            home.count()
        };
        keys.iter().for_each(|key| ask(key));
        let before = at_home();
        assert!((OFTEN / 2..OFTEN * 9 / 10).contains(&before), "{before}");
        for _ in 0..100 {
            keys.iter().step_by(KEYS / OFTEN).for_each(|key| ask(key));
        }
        // Few of them have no room together.
        let after = at_home();
        assert!(after > OFTEN * 99 / 100, "{before}, {after}");
    }

    #[test]
    fn no_shard_is_meant_for_more_keys_than_it_should_have() {
        for max_keys in [1, 8191, 8192, 8193, 16_383, 16_384, 24_575, 1_000_000] {
            let table = Table::new(&Settings { max_keys, ..Settings::default() }).unwrap();
            let share = max_keys.div_ceil(table.shards.len());
            assert!(share <= KEYS_PER_SHARD, "{share} of {max_keys}");
        }
    }
}
