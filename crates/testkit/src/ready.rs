//! A harness for stores that never wait.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tollkeeper_core::{ManualClock, Store};

use crate::replay::Harness;

/// A store whose futures are ready at once, on a manual clock.
#[derive(Debug)]
pub struct Ready<S> {
    store: S,
    clock: ManualClock,
}

impl<S: Store> Ready<S> {
    /// A store made on a clock of its own.
    pub fn new(make: impl FnOnce(ManualClock) -> S) -> Self {
        let clock = ManualClock::default();
        Self { store: make(clock.clone()), clock }
    }
}

impl<S: Store> Harness for Ready<S> {
    type Store = S;

    fn store(&self) -> &S {
        &self.store
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => unreachable!("a store that never waits has waited"),
        }
    }
}
