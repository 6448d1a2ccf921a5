//! What operators ask: which states are stored, and to forget them.

use tollkeeper_core::{Entry, Filter, Store};

use super::Engine;
use crate::ask::{Ask, Target};
use crate::error::EngineError;
use crate::met::Met;

/// How long these calls may take: they look at every key.
const PATIENCE_US: u64 = 5_000_000;

/// A limit that nobody uses, and that is as new after a microsecond.
const PROBE: Target<'_> = Target::Inline { limit: "1000000/s", algorithm: None };
const PROBE_KEY: &str = "health";

/// Keys among which one is looked for that lies on a server. Of 64 servers each misses one server
/// in 10 to the 28th times.
const PROBE_KEYS: usize = 4096;

impl<S: Store, L: Store> Engine<S, L> {
    /// Whether a server of the store can decide now; `None` if no key lies there. A request is
    /// charged to a limit that nobody uses, since a store that is full or read-only still answers
    /// looks; it counts nowhere. The store is asked as ever: not while it is down, but for probes.
    pub async fn shard_decides(&self, shard: usize) -> Option<bool> {
        let Some(safety) = &self.safety else { return Some(true) };
        let key = self.probe_key(shard)?;
        let ask = Ask { target: PROBE, key: Some(&key), cost: 1 };
        let Ok(met) = Met::find(self.policy(), ask) else { return Some(false) };
        let Ok(request) = met.request(None) else { return Some(false) };
        let call = self.store.decide_one(&request);
        let (guard, name) = (safety.guards.of(shard), || self.store.shard_name(shard));
        Some(guard.call(safety.guards.begin(), name, call).await.is_ok())
    }

    /// A key that lies on a server.
    fn probe_key(&self, shard: usize) -> Option<String> {
        let others = (1..PROBE_KEYS).map(|nth| format!("{PROBE_KEY}-{nth}"));
        let mut keys = std::iter::once(PROBE_KEY.to_owned()).chain(others);
        keys.find(|key| self.store.part(key).shard == shard)
    }

    fn rule(&self, name: &str) -> Result<Box<Met>, EngineError> {
        let ask = Ask { target: Target::Rule(name), key: None, cost: 0 };
        Met::find(self.policy(), ask)
    }

    /// Shows at most `most` stored states of a rule, or of everything, for a key, or for all.
    pub async fn inspect(
        &self,
        rule: Option<&str>,
        key: Option<&str>,
        most: usize,
    ) -> Result<Vec<Entry>, EngineError> {
        let met = rule.map(|name| self.rule(name)).transpose()?;
        let limits = met.as_deref().map(limit_names);
        let call = self.store.inspect(Filter { limits: limits.as_deref(), key }, most);
        match &self.safety {
            None => Ok(call.await?),
            Some(safety) => Ok(safety.guards.of(0).call_patiently(PATIENCE_US, call).await?),
        }
    }

    /// Forgets the stored states of a rule, or of everything, for a key, or for all.
    pub async fn reset(&self, rule: Option<&str>, key: Option<&str>) -> Result<u64, EngineError> {
        let met = rule.map(|name| self.rule(name)).transpose()?;
        let limits = met.as_deref().map(limit_names);
        let filter = Filter { limits: limits.as_deref(), key };
        let call = self.store.reset(filter);
        let Some(safety) = &self.safety else { return Ok(call.await?) };
        let forgotten = safety.guards.of(0).call_patiently(PATIENCE_US, call).await;
        safety.denied.forget_all(safety.guards.now_us());
        let forgotten = forgotten?;
        safety.fallback.local().reset(filter).await?;
        Ok(forgotten)
    }
}

fn limit_names(met: &Met) -> Vec<&str> {
    met.limits().map(|met| met.limit).collect()
}
