//! Builds the concrete things: the store that the policy names, and the engine on it.

use tollkeeper_core::Clock;
use tollkeeper_engine::Engine;
use tollkeeper_memory::{MemoryStore, Settings, SystemClock};
use tollkeeper_policy::{Policy, StoreSettings};

/// The engine that the doors ask.
pub type AppEngine = Engine<MemoryStore<SystemClock>>;

/// The engine of a policy, on the store that it names, by the given clock.
pub fn engine<C: Clock>(policy: Policy, clock: C) -> Engine<MemoryStore<C>> {
    let StoreSettings { max_keys, when_full, .. } = *policy.store();
    let store = MemoryStore::new(Settings { max_keys, when_full }, clock);
    Engine::new(policy, store)
}
