//! Builds the concrete things: the store that the policy names, and the engine on it.

use tollkeeper_core::Clock;
use tollkeeper_engine::Engine;
use tollkeeper_memory::{MemoryStore, Settings, SystemClock, WhenFull};
use tollkeeper_policy::{Policy, StoreSettings};

/// The engine that the doors ask.
pub type AppEngine = Engine<MemoryStore<SystemClock>>;

/// The engine of a policy, on the store that it names, by the given clock.
pub fn engine<C: Clock>(policy: Policy, clock: C) -> Engine<MemoryStore<C>> {
    let store = MemoryStore::new(memory_settings(policy.store()), clock);
    Engine::new(policy, store)
}

fn memory_settings(settings: &StoreSettings) -> Settings {
    let when_full = match settings.when_full {
        tollkeeper_policy::WhenFull::Evict => WhenFull::Evict,
        tollkeeper_policy::WhenFull::Deny => WhenFull::Deny,
        tollkeeper_policy::WhenFull::Allow => WhenFull::Allow,
    };
    Settings { max_keys: settings.max_keys, when_full }
}
