//! What operators ask: which states are stored, and to forget them.

use tollkeeper_core::{Entry, Filter, Store};

use super::Engine;
use crate::ask::{Ask, Target};
use crate::error::EngineError;
use crate::met::Met;

/// How long these calls may take: they look at every key.
const PATIENCE_US: u64 = 5_000_000;

/// A limit that nobody uses, and that is as new after a microsecond.
const PROBE: Ask<'_> = Ask {
    target: Target::Inline { limit: "1000000/s", algorithm: None },
    key: Some("health"),
    cost: 1,
};

impl<S: Store, L: Store> Engine<S, L> {
    /// Whether the store can decide now. A request is charged to a limit that nobody uses, since a
    /// store that is full or read-only still answers looks; it counts nowhere. The store is asked
    /// as ever: not while it is down, but for probes.
    pub async fn store_decides(&self) -> bool {
        let Some(safety) = &self.safety else { return true };
        let Ok(met) = Met::find(&self.policy(), PROBE) else { return false };
        let Ok(request) = met.request(None) else { return false };
        safety.guard.call(safety.guard.begin(), self.store.decide_one(&request)).await.is_ok()
    }

    fn rule(&self, name: &str) -> Result<Met, EngineError> {
        let ask = Ask { target: Target::Rule(name), key: None, cost: 0 };
        Met::find(&self.policy(), ask)
    }

    /// Shows at most `most` stored states of a rule, or of everything, for a key, or for all.
    pub async fn inspect(
        &self,
        rule: Option<&str>,
        key: Option<&str>,
        most: usize,
    ) -> Result<Vec<Entry>, EngineError> {
        let met = rule.map(|name| self.rule(name)).transpose()?;
        let limits = met.as_ref().map(limit_names);
        let call = self.store.inspect(Filter { limits: limits.as_deref(), key }, most);
        match &self.safety {
            None => Ok(call.await?),
            Some(safety) => Ok(safety.guard.call_patiently(PATIENCE_US, call).await?),
        }
    }

    /// Forgets the stored states of a rule, or of everything, for a key, or for all.
    pub async fn reset(&self, rule: Option<&str>, key: Option<&str>) -> Result<u64, EngineError> {
        let met = rule.map(|name| self.rule(name)).transpose()?;
        let limits = met.as_ref().map(limit_names);
        let filter = Filter { limits: limits.as_deref(), key };
        let call = self.store.reset(filter);
        let Some(safety) = &self.safety else { return Ok(call.await?) };
        let forgotten = safety.guard.call_patiently(PATIENCE_US, call).await?;
        safety.fallback.local().reset(filter).await?;
        Ok(forgotten)
    }
}

fn limit_names(met: &Met) -> Vec<&str> {
    met.limits().map(|met| met.limit).collect()
}
