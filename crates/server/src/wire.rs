//! Builds the concrete things that the doors work on: the engine on its store, and what is counted.

use std::sync::Arc;

use axum::Router;
use tokio::io::{AsyncRead, AsyncWrite};
use tollkeeper_engine::Observer;
use tollkeeper_memory::SystemClock;
use tollkeeper_policy::Policy;
use tollkeeper_stores::{StoreEngine, engine};

use crate::connection;
use crate::http::{self, App};
use crate::metrics::Metrics;
use crate::server::ServeError;
use crate::tls::Certificate;

/// The engine that the doors ask.
pub(crate) type AppEngine = StoreEngine<SystemClock>;

/// Everything that the doors need to serve by `policy`.
pub(crate) fn app(policy: Policy) -> Result<App, ServeError> {
    app_by(policy, SystemClock::new())
}

fn app_by(policy: Policy, clock: SystemClock) -> Result<App, ServeError> {
    let certificate = policy.tls().map(Certificate::open).transpose()?.map(Arc::new);
    let metrics = Arc::new(Metrics::new(&policy, Arc::new(clock.clone())));
    let observer = Arc::clone(&metrics) as Arc<dyn Observer>;
    let engine = Arc::new(engine(policy, clock)?.observed(observer));
    Ok(App { engine, metrics, certificate, reloader: None })
}

/// The routes of the API on a store of their own, for tests that call them without a socket.
#[doc(hidden)]
pub fn routes(policy: Policy) -> Result<Router, ServeError> {
    Ok(http::finish("http", http::calls(), app(policy)?))
}

/// The routes of the API, and its door, which answers whatever stream it is given: each on a store
/// of its own, at a moment that lasts. For tests that hold the one way to an answer beside the other.
#[doc(hidden)]
pub fn both_ways<T>(policy: Policy, now_us: u64) -> Result<(Router, impl AsyncFn(T)), ServeError>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let clock = SystemClock::standing(now_us);
    let router = http::finish("http", http::calls(), app_by(policy.clone(), clock.clone())?);
    let answerer = http::api(http::calls(), app_by(policy, clock)?);
    Ok((router, async move |stream| connection::answer_all(stream, answerer.clone()).await))
}
