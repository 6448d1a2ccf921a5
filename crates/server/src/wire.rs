//! Builds the concrete things: the store that a URL names, and the engine on it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tollkeeper_core::{
    Amended, Amendment, Answer, Clock, Entry, Filter, RedisUrl, Request, Store, StoreError,
};
use tollkeeper_engine::{Engine, EngineError, SystemTimer};
use tollkeeper_memory::{MemoryStore, Stats, SystemClock};
use tollkeeper_policy::{Policy, StoreSettings, StoreUrl};
use tollkeeper_redis::RedisStore;

/// The engine that the doors ask.
pub(crate) type AppEngine = Engine<AnyStore<SystemClock>, MemoryStore<SystemClock>>;

/// How long a connection may take to open, in multiples of the time that a decision may wait.
const CONNECT_TIMEOUTS: u64 = 10;

/// A store that was chosen when the program ran.
#[derive(Debug)]
pub enum AnyStore<C> {
    /// `memory://`
    Memory(MemoryStore<C>),
    /// `redis://`, `rediss://`, `redis+unix://`
    Redis(Box<RedisStore>),
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file of the authorities to be trusted cannot be read.
    #[error("`store.ca` is {path}, which cannot be read: {source}")]
    Ca {
        /// Where it should be.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The server cannot be used.
    #[error("the store cannot be used: {0}")]
    Store(#[from] StoreError),
    /// The engine cannot be made.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// No store of this version has such a URL.
    #[error("the store's URL is of a kind that this version does not know")]
    Unknown,
}

/// The engine of the service. A server that is not there yet is no error: the policy says what is
/// told without it.
pub(crate) fn app_engine(policy: Policy) -> Result<AppEngine, OpenError> {
    let settings = policy.store();
    let StoreUrl::Redis(url) = &settings.url else {
        let store = AnyStore::Memory(memory(settings, SystemClock::new()));
        return Ok(Engine::unguarded(policy, store));
    };
    let store = AnyStore::Redis(Box::new(RedisStore::open(url, redis_settings(settings)?)?));
    let local = memory(settings, SystemClock::new());
    Ok(Engine::guarded(policy, store, local, Arc::new(SystemTimer::new()))?)
}

impl<C: Clock + Clone + 'static> AnyStore<C> {
    /// Opens a store for a run in virtual time. On a server the run has keys of its own, under
    /// `prefix`.
    pub async fn simulated(
        url: &StoreUrl,
        prefix: &str,
        settings: &StoreSettings,
        clock: C,
    ) -> Result<Self, OpenError> {
        match url {
            StoreUrl::Memory => Ok(Self::Memory(memory(settings, clock))),
            StoreUrl::Redis(url) => {
                let virtual_clock: Arc<dyn Clock> = Arc::new(clock);
                let settings = tollkeeper_redis::Settings {
                    prefix: prefix.to_owned(),
                    virtual_clock: Some(virtual_clock),
                    ..redis_settings(settings)?
                };
                redis(url, settings).await
            }
            _ => Err(OpenError::Unknown),
        }
    }

    /// Opens a store to decide in, by its own clock.
    pub async fn open(
        url: &StoreUrl,
        settings: &StoreSettings,
        clock: C,
    ) -> Result<Self, OpenError> {
        match url {
            StoreUrl::Memory => Ok(Self::Memory(memory(settings, clock))),
            StoreUrl::Redis(url) => redis(url, redis_settings(settings)?).await,
            _ => Err(OpenError::Unknown),
        }
    }
}

impl<C> AnyStore<C> {
    /// What the embedded table did by itself.
    pub fn stats(&self) -> Option<Stats>
    where
        C: Clock,
    {
        match self {
            Self::Memory(store) => Some(store.stats()),
            Self::Redis(_) => None,
        }
    }

    /// The kind of store, as `/debug/state` tells it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Redis(_) => "redis",
        }
    }

    /// What every key begins with.
    pub(crate) fn prefix(&self) -> &str {
        match self {
            Self::Memory(_) => "rl",
            Self::Redis(store) => store.prefix(),
        }
    }

    /// Waits until the store can be asked, or cannot.
    pub(crate) async fn opened(&self) -> Result<(), StoreError> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Redis(store) => store.opened().await,
        }
    }
}

fn memory<C: Clock>(settings: &StoreSettings, clock: C) -> MemoryStore<C> {
    let StoreSettings { max_keys, when_full, .. } = *settings;
    MemoryStore::new(tollkeeper_memory::Settings { max_keys, when_full }, clock)
}

async fn redis<C>(
    url: &RedisUrl,
    settings: tollkeeper_redis::Settings,
) -> Result<AnyStore<C>, OpenError> {
    Ok(AnyStore::Redis(Box::new(RedisStore::connect(url, settings).await?)))
}

fn redis_settings(settings: &StoreSettings) -> Result<tollkeeper_redis::Settings, OpenError> {
    let defaults = tollkeeper_redis::Settings::default();
    let read = |path: &PathBuf| {
        let wrong = |source| OpenError::Ca { path: path.clone(), source };
        std::fs::read(path).map_err(wrong)
    };
    let is_tls = matches!(&settings.url, StoreUrl::Redis(url) if url.is_tls());
    let patience = Duration::from_micros(settings.timeout_us.saturating_mul(CONNECT_TIMEOUTS));
    Ok(tollkeeper_redis::Settings {
        prefix: settings.prefix.clone(),
        connections: settings.connections,
        connect_patience: patience.max(defaults.connect_patience),
        ca: settings.ca.as_ref().filter(|_| is_tls).map(read).transpose()?,
        ..defaults
    })
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
