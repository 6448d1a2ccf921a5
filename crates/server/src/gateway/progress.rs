//! Owns [`Progress`]: whether something still moves, so that only silence is given up on.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts what moves. Clones count together.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    moved: Arc<AtomicU64>,
}

impl Progress {
    pub(super) fn moved(&self) {
        self.moved.fetch_add(1, Ordering::Relaxed);
    }

    /// What `future` gives, or nothing if it takes one to two `patience` in which nothing moves.
    pub(super) async fn of<F: Future>(&self, future: F, patience: Duration) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut before = 0;
        loop {
            if let Ok(output) = tokio::time::timeout(patience, future.as_mut()).await {
                return Some(output);
            }
            let now = self.moved.load(Ordering::Relaxed);
            if now == before {
                return None;
            }
            before = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn silence_is_given_up_on() {
        assert_eq!(Progress::default().of(pending::<()>(), PATIENCE).await, None);
        assert_eq!(Progress::default().of(async { 7 }, PATIENCE).await, Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn what_moves_may_take_for_ever() {
        let progress = Progress::default();
        let slow = async {
            for _ in 0..100 {
                tokio::time::advance(Duration::from_secs(59)).await;
                progress.moved();
            }
            7
        };
        assert_eq!(progress.of(slow, PATIENCE).await, Some(7));
    }
}
