//! Owns [`AnyStore`]: one of the stores there are.

use tollkeeper_core::{
    Amended, Amendment, Answer, Clock, Entry, Filter, Request, Store, StoreError,
};
use tollkeeper_memory::{MemoryStore, Stats};
#[cfg(feature = "redis")]
use tollkeeper_redis::RedisStore;

/// A store that was chosen when the program ran.
#[derive(Debug)]
#[non_exhaustive]
pub enum AnyStore<C> {
    /// `memory://`
    Memory(MemoryStore<C>),
    /// `redis://`, `rediss://`, `redis+unix://`
    #[cfg(feature = "redis")]
    Redis(Box<RedisStore>),
}

impl<C: Clock> AnyStore<C> {
    /// What the embedded table did by itself.
    #[must_use]
    pub fn stats(&self) -> Option<Stats> {
        match self {
            Self::Memory(store) => Some(store.stats()),
            #[cfg(feature = "redis")]
            Self::Redis(_) => None,
        }
    }

    /// The kind of store, for people.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            #[cfg(feature = "redis")]
            Self::Redis(_) => "redis",
        }
    }

    /// What every key begins with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        match self {
            Self::Memory(_) => "rl",
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.prefix(),
        }
    }

    /// Waits until the store can be asked, or cannot.
    pub async fn opened(&self) -> Result<(), StoreError> {
        match self {
            Self::Memory(_) => Ok(()),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.opened().await,
        }
    }
}

impl<C: Clock> Store for AnyStore<C> {
    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        match self {
            Self::Memory(store) => store.decide(requests).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.decide(requests).await,
        }
    }

    async fn decide_one(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        match self {
            Self::Memory(store) => store.decide_one(request).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.decide_one(request).await,
        }
    }

    fn decide_at_once(&self, request: &Request<'_>) -> Option<Result<Answer, StoreError>> {
        match self {
            Self::Memory(store) => store.decide_at_once(request),
            #[cfg(feature = "redis")]
            Self::Redis(_) => None,
        }
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        match self {
            Self::Memory(store) => store.amend(amendments).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.amend(amendments).await,
        }
    }

    async fn reset(&self, filter: Filter<'_>) -> Result<u64, StoreError> {
        match self {
            Self::Memory(store) => store.reset(filter).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.reset(filter).await,
        }
    }

    async fn inspect(&self, filter: Filter<'_>, most: usize) -> Result<Vec<Entry>, StoreError> {
        match self {
            Self::Memory(store) => store.inspect(filter, most).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.inspect(filter, most).await,
        }
    }
}
