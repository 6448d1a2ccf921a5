//! Keeps an eye on a store that is down, so that it is found well again also when nobody asks.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{MissedTickBehavior, interval};
use tollkeeper_core::Store;
use tollkeeper_engine::BreakerState;

use crate::wire::AppEngine;

/// How often a server that is not up is thought of. How often it is asked is the breaker's to say.
const EVERY: Duration = Duration::from_millis(50);

/// Probes each server of the store whenever it is not up. Never ends.
pub(crate) async fn watch(engine: Arc<AppEngine>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let is_up = |shard: &usize| engine.shard_health(*shard).breaker == BreakerState::Closed;
        let down = (0..engine.store().shards()).filter(|shard| !is_up(shard));
        let down = down.filter(|shard| engine.store().is_used(*shard));
        join_all(down.map(|shard| engine.shard_decides(shard))).await;
    }
}
