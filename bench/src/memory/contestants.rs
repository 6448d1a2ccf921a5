//! The limiters that are compared, each behind one method. All of them allow everything here.

use std::num::NonZeroU32;

use governor::RateLimiter;
use governor::clock::DefaultClock;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use tollkeeper_core::{Check, Quota, Rate};
use tollkeeper_memory::{MemoryStore, Settings, SystemClock};

/// A limiter under test.
pub(crate) trait Contestant: Sync {
    fn allows(&self, key: &String) -> bool;
}

/// So much that nobody is denied, while one unit a second comes back: no key becomes as new.
const BURST: u32 = 1_000_000_000;

pub(crate) struct Ours {
    store: MemoryStore,
    quota: Quota,
}

impl Default for Ours {
    fn default() -> Self {
        let settings = Settings { max_keys: 2_000_000, ..Settings::default() };
        let rate = Rate::new(1, 1_000_000).unwrap();
        let quota = Quota::gcra(u64::from(BURST), rate).unwrap();
        Self { store: MemoryStore::new(settings, SystemClock::new()), quota }
    }
}

impl Contestant for Ours {
    fn allows(&self, key: &String) -> bool {
        let check = Check { limit: "api", quota: &self.quota, key, cost: 1, shadow: false };
        self.store.check_now(&check).unwrap().outcome.allowed
    }
}

type Keyed<S> = RateLimiter<String, DashMapStateStore<String, S>, DefaultClock, NoOpMiddleware>;

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
