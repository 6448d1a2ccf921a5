//! Owns [`Timer`]: when a deadline has passed. [`SystemTimer`] is the runtime's, [`ManualTimer`] is
//! moved by hand.

use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use tollkeeper_core::whole_us;

/// Time that only moves forward, and a way to wait for it.
pub trait Timer: Debug + Send + Sync {
    /// Microseconds since a moment of its own choice.
    fn now_us(&self) -> u64;

    /// Is ready once [`now_us`](Self::now_us) has reached `at_us`.
    fn at(&self, at_us: u64) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// The runtime's own timer.
#[derive(Clone, Copy, Debug)]
pub struct SystemTimer {
    origin: tokio::time::Instant,
}

impl SystemTimer {
    /// A timer whose time begins now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: tokio::time::Instant::now() }
    }
}

impl Default for SystemTimer {
    fn default() -> Self {
        Self::new()
    }
}

impl Timer for SystemTimer {
    fn now_us(&self) -> u64 {
        whole_us(self.origin.elapsed())
    }

    fn at(&self, at_us: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let moment = self.origin + std::time::Duration::from_micros(at_us);
        Box::pin(tokio::time::sleep_until(moment))
    }
}

/// A timer that stands until it is moved. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct ManualTimer {
    inner: Arc<Mutex<Manual>>,
}

#[derive(Debug, Default)]
struct Manual {
    now_us: u64,
    waiting: Vec<Waker>,
}

impl ManualTimer {
    /// Moves forward, and wakes whoever waits.
    pub fn advance(&self, by_us: u64) {
        let mut inner = self.inner.lock();
        inner.now_us = inner.now_us.saturating_add(by_us);
        inner.waiting.drain(..).for_each(Waker::wake);
    }

    /// How many wait for it.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.inner.lock().waiting.len()
    }
}

impl Timer for ManualTimer {
    fn now_us(&self) -> u64 {
        self.inner.lock().now_us
    }

    fn at(&self, at_us: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(poll_fn(move |context| {
            let mut inner = inner.lock();
            if inner.now_us >= at_us {
                return Poll::Ready(());
            }
            inner.waiting.push(context.waker().clone());
            Poll::Pending
        }))
    }
}
