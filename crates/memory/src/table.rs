//! Owns [`Table`]: the shards, their locks, and which of them a key belongs to.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use siphasher::sip::SipHasher13;
use smallvec::SmallVec;
use tollkeeper_core::{Check, Clock};

use crate::shard::Shard;

/// Keys a shard is meant for; below it one lock guards everything.
const KEYS_PER_SHARD: usize = 4096;
const MAX_SHARDS: usize = 256;

/// Names up to this length are hashed without a look at the heap.
const SHORT: usize = 64;

#[derive(Debug)]
pub(crate) struct Table {
    shards: Box<[Mutex<Shard>]>,
    /// SipHash with a random key: nobody outside can choose keys that collide.
    hasher: SipHasher13,
    pub(crate) keys: AtomicUsize,
    pub(crate) reservations: AtomicUsize,
    /// The shard that is swept next, whoever calls.
    hand: AtomicUsize,
}

impl Table {
    pub(crate) fn new(max_keys: usize) -> Self {
        let shards = (max_keys / KEYS_PER_SHARD).clamp(1, MAX_SHARDS).next_power_of_two();
        let random = RandomState::new();
        let hasher = SipHasher13::new_with_keys(random.hash_one(0), random.hash_one(1));
        let shard = |number: usize| Mutex::new(Shard::new(random.hash_one(number + 2)));
        Self {
            shards: (0..shards).map(shard).collect(),
            hasher,
            keys: AtomicUsize::new(0),
            reservations: AtomicUsize::new(0),
            hand: AtomicUsize::new(0),
        }
    }

    pub(crate) fn hash(&self, limit: &str, key: &str) -> u64 {
        // Which part is the limit is not hashed: so few names collide by that as there are limits,
        // and names are compared in full anyway.
        let (limit, key) = (limit.as_bytes(), key.as_bytes());
        let length = limit.len() + key.len();
        if length > SHORT {
            return self.hasher.hash(&[limit, key].concat());
        }
        let mut bytes = [0; SHORT];
        bytes[..limit.len()].copy_from_slice(limit);
        bytes[limit.len()..length].copy_from_slice(key);
        self.hasher.hash(&bytes[..length])
    }

    fn number_of(&self, hash: u64) -> usize {
        // The high bits: the shard's own index uses the low ones, and the seven highest.
        usize::try_from(hash >> 32).unwrap_or(0) & (self.shards.len() - 1)
    }

    fn lock(&self, number: usize) -> MutexGuard<'_, Shard> {
        // A panic cannot leave a shard half written in a way that matters: every change is one
        // assignment.
        self.shards[number].lock()
    }

    pub(crate) fn lock_of(&self, hash: u64) -> MutexGuard<'_, Shard> {
        self.lock(self.number_of(hash))
    }

    /// The next shard in turn, unless somebody is using it. So shards without traffic are swept
    /// too.
    pub(crate) fn try_lock_next(&self) -> Option<MutexGuard<'_, Shard>> {
        let number = self.hand.fetch_add(1, Ordering::Relaxed) & (self.shards.len() - 1);
        self.shards[number].try_lock()
    }

    /// Each shard, one after the other, never two at once.
    pub(crate) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        (0..self.shards.len()).map(|number| self.lock(number))
    }

    /// Locks every shard that `checks` need, in order of their number, so that no two calls can
    /// wait for each other.
    pub(crate) fn lock_all(&self, checks: &[Check<'_>]) -> Locked<'_> {
        let hash = |check: &Check<'_>| self.hash(check.limit, check.key);
        let hashes: SmallVec<[u64; 4]> = checks.iter().map(hash).collect();
        let mut numbers: SmallVec<[usize; 4]> =
            hashes.iter().map(|hash| self.number_of(*hash)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let guards = numbers.iter().map(|number| (*number, self.lock(*number))).collect();
        Locked { table: self, hashes, guards }
    }
}

/// The shards of one request.
pub(crate) struct Locked<'a> {
    table: &'a Table,
    /// Of each check.
    pub(crate) hashes: SmallVec<[u64; 4]>,
    guards: SmallVec<[(usize, MutexGuard<'a, Shard>); 4]>,
}

/// The time, read under a shard's lock.
#[inline]
pub(crate) fn now_us(clock: &impl Clock, shard: &mut Shard) -> u64 {
    let reading_us = clock.now_us();
    if clock.may_step_back() { reading_us } else { shard.not_before(reading_us) }
}

impl Locked<'_> {
    /// The time, read under all of its locks.
    pub(crate) fn now_us(&mut self, clock: &impl Clock) -> u64 {
        let reading_us = clock.now_us();
        if clock.may_step_back() {
            return reading_us;
        }
        let latest = self.guards.iter_mut().map(|(_, shard)| shard.not_before(reading_us)).max();
        let latest_us = latest.unwrap_or(reading_us);
        self.guards.iter_mut().for_each(|(_, shard)| _ = shard.not_before(latest_us));
        latest_us
    }

    /// The shard of the check with this `hash`.
    pub(crate) fn shard(&mut self, hash: u64) -> &mut Shard {
        let number = self.table.number_of(hash);
        let found = self.guards.iter().position(|(locked, _)| *locked == number);
        // Every hash of the request has its guard.
        &mut self.guards[found.unwrap_or(0)].1
    }
}
