//! The limiters that are compared, each behind one method. All of them allow everything here.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use governor::RateLimiter;
use governor::clock::DefaultClock;
use governor::middleware::{NoOpMiddleware, StateInformationMiddleware};
use governor::state::keyed::DashMapStateStore;
use throttlecrab::PeriodicStore;
use tollkeeper::{Limit, Tollkeeper};
use tollkeeper_core::{Check, Quota, Rate};
use tollkeeper_memory::{MemoryStore, Settings, SystemClock};

use super::thread_ns;

/// A limiter under test.
pub(crate) trait Contestant: Sync {
    fn allows(&self, key: &String) -> bool;
}

/// So much that nobody is denied, while one unit in ten minutes comes back: no key becomes as new
/// while it is measured, which would make it a new key.
const BURST: u32 = 7_000_000;
const UNIT_US: u64 = 600_000_000;

/// The same for windows, which are as long as can be.
const WINDOW_US: u64 = 400 * 86_400 * 1_000_000;

pub(crate) struct Ours {
    store: MemoryStore,
    quota: Quota,
}

impl Ours {
    fn new(quota: Quota) -> Self {
        Self::sized(quota, 2_000_000)
    }

    /// A table for so many keys.
    pub(crate) fn sized(quota: Quota, max_keys: usize) -> Self {
        Self::by(quota, Settings { max_keys, names: false, ..Settings::default() })
    }

    /// The same, with the keys' text.
    pub(crate) fn named(quota: Quota, max_keys: usize) -> Self {
        Self::by(quota, Settings { max_keys, names: true, ..Settings::default() })
    }

    fn by(quota: Quota, settings: Settings) -> Self {
        Self { store: MemoryStore::new(settings, SystemClock::new()), quota }
    }

    pub(crate) fn bucket() -> Quota {
        let rate = Rate::new(1, UNIT_US).unwrap();
        Quota::gcra(u64::from(BURST), rate).unwrap()
    }

    pub(crate) fn gcra() -> Self {
        Self::new(Self::bucket())
    }

    pub(crate) fn fixed_window() -> Self {
        Self::new(Quota::fixed_window(1 << 32, WINDOW_US).unwrap())
    }

    pub(crate) fn sliding_counter() -> Self {
        Self::new(Quota::sliding_window_counter(1 << 32, WINDOW_US).unwrap())
    }
}

impl Contestant for Ours {
    fn allows(&self, key: &String) -> bool {
        let check = Check::new("api", &self.quota, key, 1);
        self.store.check_now(&check).unwrap().outcome.allowed
    }
}

/// The same, and what is told to a client is read.
pub(crate) struct OursTold(Ours);

impl Default for OursTold {
    fn default() -> Self {
        Self(Ours::gcra())
    }
}

impl Contestant for OursTold {
    fn allows(&self, key: &String) -> bool {
        let check = Check::new("api", &self.0.quota, key, 1);
        let outcome = self.0.store.check_now(&check).unwrap().outcome;
        black_box((outcome.limit, outcome.remaining, outcome.reset_after_us));
        outcome.allowed
    }
}

/// Ours as an app meets it.
pub(crate) struct Library(Tollkeeper);

impl Library {
    pub(crate) fn new() -> Self {
        let limit = Limit::gcra(u64::from(BURST), "1 per 10 min");
        Self(Tollkeeper::memory().limit("api", limit).max_keys(2_000_000).build())
    }
}

impl Contestant for Library {
    fn allows(&self, key: &String) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(decision) = pin!(self.0.check("api", key)).poll(&mut context) else {
            unreachable!("what lies in memory is decided at once");
        };
        let decision = decision.unwrap();
        black_box((decision.limit(), decision.remaining(), decision.reset_after()));
        decision.allowed()
    }
}

/// Nobody decides: what is left is the time that it takes to write down the key.
pub(crate) struct Nobody;

impl Contestant for Nobody {
    fn allows(&self, key: &String) -> bool {
        !key.is_empty()
    }
}

/// Nobody decides and no memory is touched: what it takes is arithmetic, of about so many nanoseconds.
pub(crate) struct Busy {
    rounds: u64,
}

impl Busy {
    /// Calls of which the average is taken.
    const TRIES: u32 = 1_000;

    pub(crate) fn for_ns(wanted_ns: f64) -> Self {
        let is_enough = |busy: &Self| {
            let started_ns = thread_ns();
            (0..Self::TRIES).for_each(|_| _ = busy.work());
            thread_ns() - started_ns >= wanted_ns * f64::from(Self::TRIES)
        };
        (1..).map(|tens| Self { rounds: 10 * tens }).find(is_enough).unwrap()
    }

    fn work(&self) -> bool {
        (0..self.rounds).fold(1u64, |number, round| black_box(number.wrapping_mul(3) ^ round)) > 0
    }
}

impl Contestant for Busy {
    fn allows(&self, key: &String) -> bool {
        self.work();
        !key.is_empty()
    }
}

/// The same, and each page of as much memory as a table takes is touched once, as it grows, in an order that
/// jumps about as keys do.
pub(crate) struct Fresh {
    busy: Busy,
    bytes_each: usize,
    /// How far the memory has been used.
    used: Mutex<(usize, Vec<u8>)>,
}

impl Fresh {
    const PAGE: usize = 4096;

    /// For so many calls.
    pub(crate) fn new(busy: Busy, bytes_each: usize, calls: u32) -> Self {
        // The system clears a page when it is first touched.
        let memory = vec![0; bytes_each * calls as usize + Self::PAGE];
        Self { busy, bytes_each, used: Mutex::new((0, memory)) }
    }
}

impl Contestant for Fresh {
    fn allows(&self, key: &String) -> bool {
        /// Has no factor in common with any number of pages that there can be.
        const STEP: usize = 1_000_003;
        let (used, memory) = &mut *self.used.lock().unwrap();
        let before = *used / Self::PAGE;
        *used += self.bytes_each;
        if before != *used / Self::PAGE {
            let pages = memory.len() / Self::PAGE;
            memory[before * STEP % pages * Self::PAGE] = 1;
        }
        self.busy.allows(key)
    }
}

type Keyed<S, M = NoOpMiddleware> =
    RateLimiter<String, DashMapStateStore<String, S>, DefaultClock, M>;

fn governor_quota() -> governor::Quota {
    governor::Quota::per_second(NonZeroU32::MIN).allow_burst(NonZeroU32::new(BURST).unwrap())
}

/// governor as it comes.
pub(crate) struct Governor(Keyed<std::hash::RandomState>);

impl Default for Governor {
    fn default() -> Self {
        Self(RateLimiter::dashmap(governor_quota()))
    }
}

impl Contestant for Governor {
    fn allows(&self, key: &String) -> bool {
        self.0.check_key(key).is_ok()
    }
}

/// governor with a faster hash.
pub(crate) struct GovernorAhash(Keyed<ahash::RandomState>);

impl Default for GovernorAhash {
    fn default() -> Self {
        Self(RateLimiter::dashmap_with_hasher(governor_quota(), ahash::RandomState::new()))
    }
}

impl Contestant for GovernorAhash {
    fn allows(&self, key: &String) -> bool {
        self.0.check_key(key).is_ok()
    }
}

/// The same, and what it tells is read: how many are left.
pub(crate) struct GovernorTold(Keyed<ahash::RandomState, StateInformationMiddleware>);

impl Default for GovernorTold {
    fn default() -> Self {
        let GovernorAhash(governor) = GovernorAhash::default();
        Self(governor.with_middleware())
    }
}

impl Contestant for GovernorTold {
    fn allows(&self, key: &String) -> bool {
        let told = self.0.check_key(key);
        told.is_ok_and(|snapshot| {
            black_box(snapshot.remaining_burst_capacity());
            true
        })
    }
}

/// throttlecrab with the store that it recommends for few and busy keys.
pub(crate) struct ThrottleCrab(Mutex<throttlecrab::RateLimiter<PeriodicStore>>);

impl Default for ThrottleCrab {
    fn default() -> Self {
        Self(Mutex::new(throttlecrab::RateLimiter::new(PeriodicStore::with_capacity(1_000_000))))
    }
}

impl Contestant for ThrottleCrab {
    fn allows(&self, key: &String) -> bool {
        let (burst, period_s) = (i64::from(BURST), 600);
        let mut crab = self.0.lock().unwrap();
        crab.rate_limit(key, burst, 1, period_s, 1, SystemTime::now()).unwrap().0
    }
}
