//! Owns [`Clock`], and a [`ManualClock`] for whoever wants to move time by hand.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whole microseconds since the Unix epoch.
pub trait Clock: Debug + Send + Sync {
    /// The time now.
    fn now_us(&self) -> u64;

    /// Whether time itself can step back here. Where it cannot, a reading before another one only
    /// means that two threads read at once, and the later of the two holds.
    fn may_step_back(&self) -> bool {
        true
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now_us(&self) -> u64 {
        (**self).now_us()
    }

    fn may_step_back(&self) -> bool {
        (**self).may_step_back()
    }
}

/// A clock that stands until it is moved. Clones show the same time.
///
/// ```
/// use tollkeeper_core::{Clock, ManualClock};
/// let clock = ManualClock::at(1_000);
/// clock.advance(500);
/// assert_eq!(clock.now_us(), 1_500);
/// clock.set(20); // steps back
/// assert_eq!(clock.now_us(), 20);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    now_us: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that stands at `now_us`.
    #[must_use]
    pub fn at(now_us: u64) -> Self {
        Self { now_us: Arc::new(AtomicU64::new(now_us)) }
    }

    /// Jumps to `now_us`, forward or back.
    pub fn set(&self, now_us: u64) {
        self.now_us.store(now_us, Ordering::SeqCst);
    }

    /// Moves forward by `by_us`.
    pub fn advance(&self, by_us: u64) {
        self.now_us.fetch_add(by_us, Ordering::SeqCst);
    }

    /// Steps back by `by_us`, at most to the epoch.
    pub fn step_back(&self, by_us: u64) {
        let back = |now_us: u64| Some(now_us.saturating_sub(by_us));
        // The closure always returns a value, so the update cannot fail.
        let _ = self.now_us.fetch_update(Ordering::SeqCst, Ordering::SeqCst, back);
    }
}

impl Clock for ManualClock {
    fn now_us(&self) -> u64 {
        self.now_us.load(Ordering::SeqCst)
    }
}
