//! Owns [`Heard`]: remembers how the store's health changed, and hands everything on to what the service counts with.

use std::sync::{Arc, Mutex};

use tollkeeper_core::StoreError;
use tollkeeper_engine::{Observer, StoreChange, Verdict};

#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) changes: Mutex<Vec<StoreChange>>,
    metrics: Arc<dyn Observer>,
}

impl Heard {
    pub(crate) fn before(metrics: Arc<dyn Observer>) -> Self {
        Self { changes: Mutex::default(), metrics }
    }
}

impl Observer for Heard {
    fn decided(&self, verdict: &Verdict) {
        self.metrics.decided(verdict);
    }

    fn lacked(&self, rule: &str, shadow: bool) {
        self.metrics.lacked(rule, shadow);
    }

    fn store_called(&self, took_us: u64) {
        self.metrics.store_called(took_us);
    }

    fn store_changed(&self, shard: &str, change: &StoreChange) {
        self.changes.lock().unwrap().push(change.clone());
        self.metrics.store_changed(shard, change);
    }

    fn kept_charge(&self, shard: &str, error: &StoreError) {
        self.metrics.kept_charge(shard, error);
    }

    fn state_failed(&self, error: &StoreError) {
        self.metrics.state_failed(error);
    }
}
