//! Keeps an eye on a store that is down, so that it is found well again also when nobody asks.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tollkeeper_engine::BreakerState;

use crate::wire::AppEngine;

/// How often a store that is not up is thought of. How often it is asked is the breaker's to say.
const EVERY: Duration = Duration::from_millis(50);

/// Probes the store whenever it is not up. Never ends.
pub(crate) async fn watch(engine: Arc<AppEngine>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if engine.health().breaker != BreakerState::Closed {
            engine.store_decides().await;
        }
    }
}
