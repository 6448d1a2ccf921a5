//! A store that hands every call on to another. A test says what of it is otherwise.

use std::future::Future;
use std::sync::Arc;

use tollkeeper_core::{
    Alone, Amended, Amendment, Answer, Check, Entry, Filter, Hears, Part, Request, Store,
    StoreError,
};

/// To which store calls are handed on, and what is otherwise.
pub trait Relay: Send + Sync {
    /// That store.
    type To: Store;

    /// That store.
    fn to(&self) -> &Self::To;

    /// Decides each request by itself.
    fn decide(
        &self,
        requests: &[Request<'_>],
    ) -> impl Future<Output = Vec<Result<Answer, StoreError>>> + Send {
        self.to().decide(requests)
    }

    /// Decides one request without waiting.
    fn decide_at_once(&self, request: &Request<'_>) -> Option<Result<Answer, StoreError>> {
        self.to().decide_at_once(request)
    }

    /// Changes what was decided.
    fn amend(
        &self,
        amendments: &[Amendment<'_>],
    ) -> impl Future<Output = Vec<Result<Amended, StoreError>>> + Send {
        self.to().amend(amendments)
    }

    /// How many processes share it.
    fn nodes(&self) -> Option<u64> {
        self.to().nodes()
    }

    /// Where the states of a key lie.
    fn part(&self, key: &str) -> Part {
        self.to().part(key)
    }
}

/// The store that a [`Relay`] makes.
#[derive(Clone, Debug)]
pub struct Relayed<R>(pub R);

impl<R: Relay> Store for Relayed<R> {
    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        self.0.decide(requests).await
    }

    fn decide_at_once(&self, request: &Request<'_>) -> Option<Result<Answer, StoreError>> {
        self.0.decide_at_once(request)
    }

    fn decide_alone<'a, 'r: 'a>(&'a self, request: &Request<'r>) -> Option<Alone<'a>> {
        self.0.to().decide_alone(request)
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        self.0.amend(amendments).await
    }

    async fn reset(&self, filter: Filter<'_>) -> Result<u64, StoreError> {
        self.0.to().reset(filter).await
    }

    async fn inspect(&self, filter: Filter<'_>, most: usize) -> Result<Vec<Entry>, StoreError> {
        self.0.to().inspect(filter, most).await
    }

    async fn opened(&self) -> Result<(), StoreError> {
        self.0.to().opened().await
    }

    fn tell(&self, hears: Arc<dyn Hears>) {
        self.0.to().tell(hears);
    }

    fn set_timeout(&self, timeout_us: u64) {
        self.0.to().set_timeout(timeout_us);
    }

    fn nodes(&self) -> Option<u64> {
        self.0.nodes()
    }

    fn left_per_mille(&self, check: &Check<'_>) -> Option<u64> {
        self.0.to().left_per_mille(check)
    }

    fn part(&self, key: &str) -> Part {
        self.0.part(key)
    }

    fn shards(&self) -> usize {
        self.0.to().shards()
    }

    fn is_used(&self, shard: usize) -> bool {
        self.0.to().is_used(shard)
    }

    fn shard_name(&self, shard: usize) -> String {
        self.0.to().shard_name(shard)
    }
}
