//! What operators ask: which states are stored, and to forget them.

use tollkeeper_core::{Check, Consistency, Entry, Filter, Quota, Rate, Request, Store};
use tollkeeper_policy::{Limit, Policy, Rule};

use super::Engine;
use crate::error::EngineError;
use crate::met;

/// How long these calls may take: they look at every key.
const PATIENCE_US: u64 = 5_000_000;

/// A limit that nobody uses: no rule can be called so.
const PROBE: &str = "(health)";
const PROBE_KEY: &str = "health";

/// What is charged to it is as new after a microsecond.
const PROBES_PER_SECOND: u64 = 1_000_000;

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
        let rate = Rate::new(PROBES_PER_SECOND, 1_000_000);
        let quota = rate.and_then(|rate| Quota::token_bucket(PROBES_PER_SECOND, rate));
        let Ok(quota) = quota else { return Some(false) };
        let request = Request::new([Check::new(PROBE, &quota, &key, 1)], None);
        let Ok(request) = request else { return Some(false) };
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

    /// Shows at most `most` stored states of a rule, or of everything, for a key, or for all.
    pub async fn inspect(
        &self,
        rule: Option<&str>,
        key: Option<&str>,
        most: usize,
    ) -> Result<Vec<Entry>, EngineError> {
        let policy = self.policy();
        let limits = rule.map(|name| limit_names(&policy, name)).transpose()?;
        let split = split_limits(&policy);
        let filter = Filter { limits: limits.as_deref(), key, split: &split };
        let call = self.store.inspect(filter, most);
        match &self.safety {
            None => Ok(call.await?),
            Some(safety) => Ok(safety.guards.of(0).call_patiently(PATIENCE_US, call).await?),
        }
    }

    /// Forgets the stored states of a rule, or of everything, for a key, or for all.
    pub async fn reset(&self, rule: Option<&str>, key: Option<&str>) -> Result<u64, EngineError> {
        let policy = self.policy();
        let limits = rule.map(|name| limit_names(&policy, name)).transpose()?;
        let split = split_limits(&policy);
        let filter = Filter { limits: limits.as_deref(), key, split: &split };
        let call = self.store.reset(filter);
        let Some(safety) = &self.safety else { return Ok(call.await?) };
        let forgotten = safety.guards.of(0).call_patiently(PATIENCE_US, call).await;
        safety.denied.forget_all(safety.guards.now_us());
        let forgotten = forgotten?;
        safety.fallback.local().reset(filter).await?;
        Ok(forgotten)
    }
}

/// What the limits of a rule are called, those of its tiers too.
fn limit_names<'a>(policy: &'a Policy, rule: &str) -> Result<Vec<&'a str>, EngineError> {
    let rule = &policy.rules()[met::number(policy, rule)?];
    let mut names: Vec<&str> = limits_of(rule).map(Limit::name).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// What the limits are called of which a key lies in parts.
fn split_limits(policy: &Policy) -> Vec<&str> {
    let is_split = |limit: &&Limit| {
        matches!(policy.consistency_of(limit), Consistency::Sync { parts: 2.., .. })
    };
    policy.rules().iter().flat_map(limits_of).filter(is_split).map(Limit::name).collect()
}

fn limits_of(rule: &Rule) -> impl Iterator<Item = &Limit> {
    let tiers = rule.tiers().map_or(0, |tiers| tiers.list().len());
    let every = std::iter::once(None).chain((0..tiers).map(Some));
    every.flat_map(|tier| rule.limits_of(tier))
}
