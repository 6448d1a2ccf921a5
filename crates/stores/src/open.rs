//! Opens what a URL names.

use std::path::PathBuf;
use std::sync::Arc;
#[cfg(feature = "redis")]
use std::time::Duration;

#[cfg(feature = "redis")]
use tollkeeper_core::Store;
use tollkeeper_core::{Clock, StoreError};
use tollkeeper_engine::{Engine, EngineError, SystemTimer};
use tollkeeper_memory::{MemoryStore, TooManyKeys};
use tollkeeper_policy::{Policy, StoreSettings, StoreUrl};

use crate::any::AnyStore;

/// An engine on whatever store, with a local limiter for when that fails.
pub type StoreEngine<C> = Engine<AnyStore<C>, MemoryStore<C>>;

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
    /// The system has not the memory for the table.
    #[error("`store.max_keys` is {}, a table that the system has not the memory for; expected fewer", .0.max_keys)]
    TooManyKeys(#[from] TooManyKeys),
    /// The server cannot be used.
    #[error("the store cannot be used: {0}")]
    Store(#[from] StoreError),
    /// The engine cannot be made.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// This program was built without the store.
    #[error("this program was built without the store that the URL names")]
    NotBuilt,
}

/// The engine of a policy on the store that it names, by `clock` where that store has none of its
/// own. A server that is not there yet is no error: the policy says what is told without it.
pub fn engine<C: Clock + Clone + 'static>(
    policy: Policy,
    clock: C,
) -> Result<StoreEngine<C>, OpenError> {
    let settings = policy.store();
    let store = AnyStore::open(settings, clock.clone())?;
    if matches!(store, AnyStore::Memory(_)) {
        return Ok(Engine::unguarded(policy, store));
    }
    if policy.counts_nodes() {
        store.count_nodes();
    }
    let local = memory(settings, clock)?;
    Ok(Engine::guarded(policy, store, local, Arc::new(SystemTimer::new()))?)
}

fn memory<C: Clock>(settings: &StoreSettings, clock: C) -> Result<MemoryStore<C>, TooManyKeys> {
    MemoryStore::try_new(bounds(settings), clock)
}

/// The bounds of a table in this process.
fn bounds(settings: &StoreSettings) -> tollkeeper_memory::Settings {
    let StoreSettings { max_keys, when_full, names, .. } = *settings;
    tollkeeper_memory::Settings { max_keys, when_full, names }
}

impl<C: Clock + 'static> AnyStore<C> {
    /// The store of `settings`, by its own clock. A server need not be there yet.
    pub fn open(settings: &StoreSettings, clock: C) -> Result<Self, OpenError> {
        match &settings.url {
            StoreUrl::Memory => Ok(Self::Memory(memory(settings, clock)?)),
            #[cfg(feature = "redis")]
            url => {
                let patience = Duration::from_micros(settings.timeout_us);
                let way = redis::Way::Hybrid { patience, bounds: bounds(settings) };
                redis::open(url, &redis::settings(settings)?, Arc::new(clock), way)
            }
            #[cfg(not(feature = "redis"))]
            _ => Err(OpenError::NotBuilt),
        }
    }

    /// The store of `settings` for a run in virtual time. On a server, which must be there, the
    /// run has keys of its own, under `prefix`.
    pub async fn simulated(
        settings: &StoreSettings,
        prefix: &str,
        clock: C,
    ) -> Result<Self, OpenError> {
        match &settings.url {
            StoreUrl::Memory => Ok(Self::Memory(memory(settings, clock)?)),
            #[cfg(feature = "redis")]
            url => {
                let clock: Arc<dyn Clock> = Arc::new(clock);
                let settings = tollkeeper_redis::Settings {
                    prefix: prefix.to_owned(),
                    virtual_clock: Some(Arc::clone(&clock)),
                    ..redis::settings(settings)?
                };
                let store = redis::open(url, &settings, clock, redis::Way::Exact)?;
                store.opened().await?;
                Ok(store)
            }
            #[cfg(not(feature = "redis"))]
            _ => {
                let _ = prefix;
                Err(OpenError::NotBuilt)
            }
        }
    }
}

#[cfg(feature = "redis")]
mod redis {
    //! What the policy says, in the terms of the Redis store.

    use std::path::PathBuf;
    use std::sync::Arc;
    use std::time::Duration;

    use tollkeeper_core::{Clock, Store};
    use tollkeeper_hybrid::Hybrid;
    use tollkeeper_policy::{RedisUrl, StoreSettings, StoreUrl};
    use tollkeeper_redis::{RedisStore, Settings, Shards};

    use super::{AnyStore, OpenError};

    /// How long a connection may take to open, in multiples of the time that a decision may wait: some
    /// round trips. Beyond a second it is twice that time and no more, since one that hangs when the server
    /// comes back has to end before the next can be tried.
    const CONNECT_TIMEOUTS: u32 = 10;
    const LONG: Duration = Duration::from_secs(1);
    const LONG_TIMEOUTS: u32 = 2;

    /// Who decides.
    #[derive(Clone, Copy)]
    pub(super) enum Way {
        /// The store alone.
        Exact,
        /// This process too, where a rule says so.
        Hybrid {
            /// How long a call of its own may take.
            patience: Duration,
            /// How large its tables may grow.
            bounds: tollkeeper_memory::Settings,
        },
    }

    impl Way {
        fn over<S: Store + 'static>(self, store: S, clock: Arc<dyn Clock>) -> Hybrid<S> {
            match self {
                Self::Exact => Hybrid::exact(store, clock),
                Self::Hybrid { patience, bounds } => {
                    Hybrid::new(store, clock, patience, bounds, chance())
                }
            }
        }
    }

    /// A number that hardly another process has.
    #[expect(clippy::cast_possible_truncation, reason = "any part of a hash will do")]
    fn chance() -> u32 {
        std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0) as u32
    }

    /// The server or the servers at `url`, which need not be there yet.
    pub(super) fn open<C>(
        url: &StoreUrl,
        settings: &Settings,
        clock: Arc<dyn Clock>,
        way: Way,
    ) -> Result<AnyStore<C>, OpenError> {
        // Authorities are for the servers that are reached through TLS.
        let of = |url: &RedisUrl| Settings {
            ca: settings.ca.clone().filter(|_| url.is_tls()),
            ..settings.clone()
        };
        match url.servers() {
            [server] => {
                let store = RedisStore::open(server, of(server))?;
                Ok(AnyStore::Redis(Box::new(way.over(store, clock))))
            }
            servers => {
                let store = Shards::open(servers, of)?;
                Ok(AnyStore::Shards(Box::new(way.over(store, clock))))
            }
        }
    }

    pub(super) fn settings(settings: &StoreSettings) -> Result<Settings, OpenError> {
        let defaults = Settings::default();
        let is_tls = settings.url.servers().iter().any(RedisUrl::is_tls);
        let read = |path: &PathBuf| {
            let wrong = |source| OpenError::Ca { path: path.clone(), source };
            std::fs::read(path).map_err(wrong)
        };
        let timeout = Duration::from_micros(settings.timeout_us);
        let most = timeout.saturating_mul(LONG_TIMEOUTS).max(LONG);
        let patience = timeout.saturating_mul(CONNECT_TIMEOUTS).min(most);
        Ok(Settings {
            prefix: settings.prefix.clone(),
            colocate: settings.colocate,
            merge: settings.merge,
            connections: settings.connections,
            connect_patience: patience.max(defaults.connect_patience),
            ca: settings.ca.as_ref().filter(|_| is_tls).map(read).transpose()?,
            ..defaults
        })
    }
}
