//! Owns [`Returns`]: what an engine gives back beside its requests. It knows how much that is, and lets so much of
//! it go at once.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, Semaphore};

/// How many are given back at once.
const TURNS: usize = 64;

/// The most that an engine gives back before it leaves to their leases what nobody was told of.
const MOST_OWED: usize = 4096;

/// What one engine is giving back. Another engine in the same process has its own: their stores have nothing
/// to do with each other.
#[derive(Debug)]
pub struct Returns {
    turns: Semaphore,
    under_way: AtomicUsize,
    done: Notify,
}

impl Returns {
    pub(crate) fn new() -> Self {
        let (turns, done) = (Semaphore::new(TURNS), Notify::new());
        Self { turns, under_way: AtomicUsize::new(0), done }
    }

    /// Counts something that is given back, until what is returned is dropped.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> Returning {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        Returning(Arc::clone(self))
    }

    /// The same, unless there is very much already.
    pub(crate) fn begin_owed(self: &Arc<Self>) -> Option<Returning> {
        let returning = self.begin();
        // It is counted itself.
        (self.under_way.load(Ordering::Relaxed) <= MOST_OWED).then_some(returning)
    }

    /// Gives back when it is its turn: very many at once, as when an app dies, would be more than may be under way
    /// to a store, and those that are too many would not be given back.
    pub async fn in_turn<T>(&self, giving_back: impl Future<Output = T>) -> T {
        // It is never closed.
        let _turn = self.turns.acquire().await;
        giving_back.await
    }

    /// Waits until nothing is given back any more.
    pub async fn done(&self) {
        loop {
            let mut heard = pin!(self.done.notified());
            heard.as_mut().enable();
            if self.under_way.load(Ordering::Acquire) == 0 {
                return;
            }
            heard.await;
        }
    }
}

/// Something that is given back. It is counted until it is dropped, be that with the runtime.
#[derive(Debug)]
pub struct Returning(Arc<Returns>);

impl Drop for Returning {
    fn drop(&mut self) {
        if self.0.under_way.fetch_sub(1, Ordering::Release) == 1 {
            self.0.done.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn what_nobody_was_told_of_is_bounded() {
        let returns = Arc::new(Returns::new());
        let told = returns.begin();
        let owed: Vec<_> = (0..2 * MOST_OWED).map_while(|_| returns.begin_owed()).collect();
        assert_eq!(owed.len(), MOST_OWED - 1);
        assert!(returns.done().now_or_never().is_none());
        drop(owed);
        assert!(returns.begin_owed().is_some() && returns.done().now_or_never().is_none());
        drop(told);
        assert!(returns.done().now_or_never().is_some());
    }
}
