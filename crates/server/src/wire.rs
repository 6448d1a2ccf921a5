//! Builds the concrete things: the store that an URL names, and the engine on it.

use std::sync::Arc;

use tollkeeper_core::{
    Amended, Amendment, Answer, Clock, Entry, Filter, Request, Store, StoreError,
};
use tollkeeper_engine::Engine;
use tollkeeper_memory::{MemoryStore, Settings, Stats, SystemClock};
use tollkeeper_policy::{Policy, StoreSettings};
use tollkeeper_redis::RedisStore;

/// The engine that the doors ask.
pub type AppEngine = Engine<MemoryStore<SystemClock>>;

/// The engine of a policy on the embedded store, by the given clock.
pub fn engine<C: Clock>(policy: Policy, clock: C) -> Engine<MemoryStore<C>> {
    let store = memory(policy.store(), clock);
    Engine::new(policy, store)
}

fn memory<C: Clock>(settings: &StoreSettings, clock: C) -> MemoryStore<C> {
    let StoreSettings { max_keys, when_full, .. } = *settings;
    MemoryStore::new(Settings { max_keys, when_full }, clock)
}

/// A store that was chosen when the program ran.
#[derive(Debug)]
pub enum AnyStore<C> {
    /// `memory://`
    Memory(MemoryStore<C>),
    /// `redis://`
    Redis(Box<RedisStore>),
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No store has such a URL. The URL itself is not told: it can hold a password.
    #[error("the store's URL begins with `{scheme}`; expected memory:// or redis://")]
    Scheme {
        /// What it begins with.
        scheme: String,
    },
    /// The server cannot be used.
    #[error("the store at {place} cannot be used: {source}")]
    Server {
        /// Where it is, without the password.
        place: String,
        /// What the driver said.
        source: StoreError,
    },
}

impl<C: Clock + Clone + 'static> AnyStore<C> {
    /// Opens a store for a run in virtual time. On a server the run has keys of its own, under
    /// `prefix`.
    pub async fn simulated(
        url: &str,
        prefix: &str,
        settings: &StoreSettings,
        clock: C,
    ) -> Result<Self, OpenError> {
        if url == "memory://" {
            return Ok(Self::Memory(memory(settings, clock)));
        }
        let virtual_clock: Arc<dyn Clock> = Arc::new(clock);
        let settings = tollkeeper_redis::Settings {
            prefix: prefix.to_owned(),
            virtual_clock: Some(virtual_clock),
        };
        redis(url, settings).await
    }

    /// Opens a store to decide in, by its own clock.
    pub async fn open(url: &str, settings: &StoreSettings, clock: C) -> Result<Self, OpenError> {
        if url == "memory://" {
            return Ok(Self::Memory(memory(settings, clock)));
        }
        redis(url, tollkeeper_redis::Settings::default()).await
    }

    /// What the embedded table did by itself.
    pub fn stats(&self) -> Option<Stats> {
        match self {
            Self::Memory(store) => Some(store.stats()),
            Self::Redis(_) => None,
        }
    }
}

async fn redis<C>(
    url: &str,
    settings: tollkeeper_redis::Settings,
) -> Result<AnyStore<C>, OpenError> {
    let Some(rest) = url.strip_prefix("redis://") else {
        let scheme = url.split_once("://").map_or("nothing", |(scheme, _)| scheme);
        return Err(OpenError::Scheme { scheme: scheme.chars().take(20).collect() });
    };
    let opened = RedisStore::connect(url, settings).await;
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place).to_owned();
    let store = opened.map_err(|source| OpenError::Server { place, source })?;
    Ok(AnyStore::Redis(Box::new(store)))
}

impl<C: Clock> Store for AnyStore<C> {
    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        match self {
            Self::Memory(store) => store.decide(requests).await,
            Self::Redis(store) => store.decide(requests).await,
        }
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        match self {
            Self::Memory(store) => store.amend(amendments).await,
            Self::Redis(store) => store.amend(amendments).await,
        }
    }

    async fn reset(&self, filter: Filter<'_>) -> Result<u64, StoreError> {
        match self {
            Self::Memory(store) => store.reset(filter).await,
            Self::Redis(store) => store.reset(filter).await,
        }
    }

    async fn inspect(&self, filter: Filter<'_>, most: usize) -> Result<Vec<Entry>, StoreError> {
        match self {
            Self::Memory(store) => store.inspect(filter, most).await,
            Self::Redis(store) => store.inspect(filter, most).await,
        }
    }
}
