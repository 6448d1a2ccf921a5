//! Owns [`AnyStore`]: one of the stores there are.

use std::sync::Arc;

use tollkeeper_core::{
    Alone, Amended, Amendment, Answer, Check, Clock, Colocate, Entry, Filter, Hears, Part, Request,
    Single, Store, StoreError, state_name,
};
#[cfg(feature = "redis")]
use tollkeeper_hybrid::{Hybrid, Stats as LocalStats};
use tollkeeper_memory::{MemoryStore, Stats};
#[cfg(feature = "redis")]
use tollkeeper_redis::{RedisStore, Shards};

/// A store that was chosen when the program ran.
#[derive(Debug)]
#[non_exhaustive]
pub enum AnyStore<C> {
    /// `memory://`
    Memory(MemoryStore<C>),
    /// `redis://`, `rediss://`, `redis+unix://`, `redis+sentinel://`, `redis+cluster://`
    #[cfg(feature = "redis")]
    Redis(Box<Hybrid<RedisStore>>),
    /// A list of those.
    #[cfg(feature = "redis")]
    Shards(Box<Hybrid<Shards>>),
}

impl<C: Clock> AnyStore<C> {
    /// What the embedded table did by itself.
    #[must_use]
    pub fn stats(&self) -> Option<Stats> {
        match self {
            Self::Memory(store) => Some(store.stats()),
            #[cfg(feature = "redis")]
            Self::Redis(_) | Self::Shards(_) => None,
        }
    }

    /// How limits of a server do that are decided here.
    #[cfg(feature = "redis")]
    #[must_use]
    pub fn local_stats(&self) -> Option<LocalStats> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(store) => Some(store.stats()),
            Self::Shards(store) => Some(store.stats()),
        }
    }

    /// The kind of store, for people.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            #[cfg(feature = "redis")]
            Self::Redis(_) | Self::Shards(_) => "redis",
        }
    }

    /// What a state is called on the server, or would be.
    #[must_use]
    pub fn name_of(&self, entry: &Entry) -> String {
        let (prefix, colocate) = match self {
            Self::Memory(_) => ("rl", Colocate::default()),
            #[cfg(feature = "redis")]
            Self::Redis(store) => (store.store().prefix(), store.store().colocate()),
            #[cfg(feature = "redis")]
            Self::Shards(store) => (store.store().prefix(), store.store().colocate()),
        };
        state_name(prefix, colocate, &entry.limit, entry.algorithm, &entry.key)
    }

    /// Begins to count the processes that share the store, where anybody can share it.
    pub fn count_nodes(&self) {
        match self {
            Self::Memory(_) => {}
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.count_nodes(),
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.count_nodes(),
        }
    }

    /// How long this process has to wait for its first part of what is shared, if it does.
    #[must_use]
    pub fn begins_in_us(&self) -> Option<u64> {
        match self {
            Self::Memory(_) => None,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.begins_in_us(),
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.begins_in_us(),
        }
    }
}

impl<C: Clock> Store for AnyStore<C> {
    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        match self {
            Self::Memory(store) => store.decide(requests).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.decide(requests).await,
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.decide(requests).await,
        }
    }

    async fn decide_one(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        match self {
            Self::Memory(store) => store.decide_one(request).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.decide_one(request).await,
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.decide_one(request).await,
        }
    }

    fn decide_at_once(&self, request: &Request<'_>) -> Option<Result<Answer, StoreError>> {
        match self {
            Self::Memory(store) => store.decide_at_once(request),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.decide_at_once(request),
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.decide_at_once(request),
        }
    }

    #[inline]
    fn check_at_once(&self, check: &Check<'_>) -> Option<Result<Single, StoreError>> {
        match self {
            Self::Memory(store) => store.check_at_once(check),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.check_at_once(check),
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.check_at_once(check),
        }
    }

    fn decide_alone<'a, 'r: 'a>(&'a self, request: &Request<'r>) -> Option<Alone<'a>> {
        match self {
            Self::Memory(store) => store.decide_alone(request),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.decide_alone(request),
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.decide_alone(request),
        }
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        match self {
            Self::Memory(store) => store.amend(amendments).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.amend(amendments).await,
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.amend(amendments).await,
        }
    }

    async fn reset(&self, filter: Filter<'_>) -> Result<u64, StoreError> {
        match self {
            Self::Memory(store) => store.reset(filter).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.reset(filter).await,
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.reset(filter).await,
        }
    }

    async fn inspect(&self, filter: Filter<'_>, most: usize) -> Result<Vec<Entry>, StoreError> {
        match self {
            Self::Memory(store) => store.inspect(filter, most).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.inspect(filter, most).await,
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.inspect(filter, most).await,
        }
    }

    async fn opened(&self) -> Result<(), StoreError> {
        match self {
            Self::Memory(store) => store.opened().await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.opened().await,
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.opened().await,
        }
    }

    fn tell(&self, hears: Arc<dyn Hears>) {
        match self {
            Self::Memory(store) => store.tell(hears),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.tell(hears),
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.tell(hears),
        }
    }

    fn set_timeout(&self, timeout_us: u64) {
        match self {
            Self::Memory(store) => store.set_timeout(timeout_us),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.set_timeout(timeout_us),
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.set_timeout(timeout_us),
        }
    }

    fn nodes(&self) -> Option<u64> {
        match self {
            Self::Memory(store) => store.nodes(),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.nodes(),
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.nodes(),
        }
    }

    fn left_per_mille(&self, check: &Check<'_>) -> Option<u64> {
        match self {
            Self::Memory(store) => store.left_per_mille(check),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.left_per_mille(check),
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.left_per_mille(check),
        }
    }

    fn part(&self, key: &str) -> Part {
        match self {
            Self::Memory(store) => store.part(key),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.part(key),
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.part(key),
        }
    }

    fn shards(&self) -> usize {
        match self {
            Self::Memory(_) => 1,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.shards(),
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.shards(),
        }
    }

    fn is_used(&self, shard: usize) -> bool {
        match self {
            Self::Memory(store) => store.is_used(shard),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.is_used(shard),
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.is_used(shard),
        }
    }

    fn shard_name(&self, shard: usize) -> String {
        match self {
            Self::Memory(store) => store.shard_name(shard),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.shard_name(shard),
            #[cfg(feature = "redis")]
            Self::Shards(store) => store.shard_name(shard),
        }
    }
}
