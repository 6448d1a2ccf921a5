//! Waits for what another process or task will have done, with a bound.

use std::time::Duration;

use tokio::time::{interval, timeout};

/// How long anything may take that must come at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
const TICK: Duration = Duration::from_millis(2);

/// Waits until there is something.
pub(crate) async fn until<T>(what: &str, mut find: impl AsyncFnMut() -> Option<T>) -> T {
    let waited = timeout(PATIENCE, async {
        let mut ticks = interval(TICK);
        loop {
            ticks.tick().await;
            if let Some(found) = find().await {
                return found;
            }
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}
