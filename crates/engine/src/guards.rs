//! Owns [`Guards`]: a guard for each server of the store, so that one that fails is the affair of
//! its own keys.

use std::sync::Arc;

use tollkeeper_core::MAX_SHARDS;

use crate::breaker::BreakerState;
use crate::guard::{Deadline, Guard, Health};
use crate::observe::Observer;
use crate::timer::Timer;

/// Tells the pauses of servers apart: two to the 64th, divided by the golden ratio.
const APART: u64 = 0x9E37_79B9_7F4A_7C15;

/// Stand between the engine and the servers of its store. There is one for as many as a store can
/// have: it may get more of them while it is in use.
#[derive(Debug)]
pub(crate) struct Guards {
    each: Vec<Guard>,
}

impl Guards {
    pub(crate) fn new(
        timer: &Arc<dyn Timer>,
        observer: &Arc<dyn Observer>,
        timeout_us: u64,
        seed: u64,
    ) -> Self {
        let seeds = (0..MAX_SHARDS).scan(seed, |seed, _| {
            *seed = seed.wrapping_add(APART);
            Some(*seed)
        });
        let guard = |seed| Guard::new(Arc::clone(timer), Arc::clone(observer), timeout_us, seed);
        Self { each: seeds.map(guard).collect() }
    }

    pub(crate) fn observed(&mut self, observer: &Arc<dyn Observer>) {
        self.each.iter_mut().for_each(|guard| guard.observed(Arc::clone(observer)));
    }

    pub(crate) fn set_timeout(&self, timeout_us: u64) {
        self.each.iter().for_each(|guard| guard.set_timeout(timeout_us));
    }

    /// The guard of a server; those beyond the last share one.
    pub(crate) fn of(&self, shard: usize) -> &Guard {
        &self.each[shard.min(MAX_SHARDS - 1)]
    }

    /// The deadline of a decision that begins now, whichever servers it asks.
    pub(crate) fn begin(&self) -> Deadline {
        self.of(0).begin()
    }

    /// The time of their timer.
    pub(crate) fn now_us(&self) -> u64 {
        self.of(0).now_us()
    }

    /// How the worst of some servers is.
    pub(crate) fn worst(&self, shards: impl Iterator<Item = usize>) -> Health {
        let badness = |state| match state {
            BreakerState::Closed => 0,
            BreakerState::HalfOpen => 1,
            BreakerState::Open => 2,
        };
        let all = shards.map(|shard| self.of(shard).health());
        all.reduce(|one, other| Health {
            breaker: if badness(one.breaker) >= badness(other.breaker) {
                one.breaker
            } else {
                other.breaker
            },
            down_for_us: one.down_for_us.max(other.down_for_us),
        })
        .unwrap_or(Health::WELL)
    }
}
