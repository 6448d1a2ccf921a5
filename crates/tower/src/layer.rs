//! Owns [`RateLimitLayer`]: what protects a service, before there is one.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::request::Parts;
use http::{Extensions, Response};
use tokio::sync::Semaphore;
use tollkeeper_core::Store;
use tollkeeper_engine::Engine;
use tower_layer::Layer;

use crate::identity::Identity;
use crate::refusal::Refusal;
use crate::service::RateLimit;

/// Requests that wait for their turn in a leaking bucket at the same time; further ones are denied.
pub(crate) const MAX_WAITING: usize = 10_000;

/// The peer at the other end of the connection, for servers that have no word of their own for it.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddr(pub SocketAddr);

/// Tells who is asking.
pub(crate) type Identify = Arc<dyn Fn(&Parts) -> Identity + Send + Sync>;

/// Turns a refusal into an answer.
pub(crate) type Respond = Arc<dyn Fn(&Refusal<'_>) -> Response<String> + Send + Sync>;

/// Protects a service by the rules of an engine.
pub struct RateLimitLayer<S, L = S> {
    pub(crate) shared: Arc<Shared<S, L>>,
}

pub(crate) struct Shared<S, L> {
    pub(crate) engine: Arc<Engine<S, L>>,
    pub(crate) identify: Option<Identify>,
    pub(crate) respond: Option<Respond>,
    pub(crate) waiting: Arc<Semaphore>,
}

impl<S: Store, L: Store> RateLimitLayer<S, L> {
    /// Protects by the rules of `engine`.
    #[must_use]
    pub fn new(engine: Arc<Engine<S, L>>) -> Self {
        let waiting = Arc::new(Semaphore::new(MAX_WAITING));
        Self { shared: Arc::new(Shared { engine, identify: None, respond: None, waiting }) }
    }

    /// The same, where `identify` tells what the app knows of a request: attributes by which rules
    /// count, and that no client can forge.
    #[must_use]
    pub fn identify(self, identify: impl Fn(&Parts) -> Identity + Send + Sync + 'static) -> Self {
        self.change(|shared| shared.identify = Some(Arc::new(identify)))
    }

    /// The same, where `respond` writes the answer to a request that may not go. The headers of
    /// the refusal are added to it.
    #[must_use]
    pub fn respond(
        self,
        respond: impl Fn(&Refusal<'_>) -> Response<String> + Send + Sync + 'static,
    ) -> Self {
        self.change(|shared| shared.respond = Some(Arc::new(respond)))
    }

    fn change(self, change: impl FnOnce(&mut Shared<S, L>)) -> Self {
        let Shared { engine, identify, respond, waiting } = &*self.shared;
        let mut shared = Shared {
            engine: Arc::clone(engine),
            identify: identify.clone(),
            respond: respond.clone(),
            waiting: Arc::clone(waiting),
        };
        change(&mut shared);
        Self { shared: Arc::new(shared) }
    }
}

impl<S, L> Clone for RateLimitLayer<S, L> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<S, L> fmt::Debug for RateLimitLayer<S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").finish_non_exhaustive()
    }
}

impl<S, L, T> Layer<T> for RateLimitLayer<S, L> {
    type Service = RateLimit<T, S, L>;

    fn layer(&self, inner: T) -> Self::Service {
        RateLimit { inner, shared: Arc::clone(&self.shared) }
    }
}

/// The peer's address, as whichever server wrote it down.
pub(crate) fn peer(extensions: &Extensions) -> Option<IpAddr> {
    #[cfg(feature = "axum")]
    if let Some(info) = extensions.get::<axum::extract::ConnectInfo<SocketAddr>>() {
        return Some(info.0.ip());
    }
    extensions.get::<PeerAddr>().map(|peer| peer.0.ip())
}

/// What the app calls the route.
pub(crate) fn route(extensions: &Extensions) -> Option<&str> {
    #[cfg(feature = "axum")]
    if let Some(matched) = extensions.get::<axum::extract::MatchedPath>() {
        return Some(matched.as_str());
    }
    let _ = extensions;
    None
}
