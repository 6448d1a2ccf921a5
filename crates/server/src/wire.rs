//! Builds the concrete things that the doors work on: the engine on its store, and what is counted.

use std::sync::Arc;

use axum::Router;
use tollkeeper_engine::Observer;
use tollkeeper_memory::SystemClock;
use tollkeeper_policy::Policy;
use tollkeeper_stores::{StoreEngine, engine};

use crate::http::{self, App};
use crate::metrics::Metrics;
use crate::server::ServeError;
use crate::tls::Certificate;

/// The engine that the doors ask.
pub(crate) type AppEngine = StoreEngine<SystemClock>;

/// Everything that the doors need to serve by `policy`.
pub(crate) fn app(policy: Policy) -> Result<App, ServeError> {
    let certificate = policy.tls().map(Certificate::open).transpose()?.map(Arc::new);
    let metrics = Arc::new(Metrics::new(&policy));
    let observer = Arc::clone(&metrics) as Arc<dyn Observer>;
    let engine = Arc::new(engine(policy, SystemClock::new())?.observed(observer));
    Ok(App { engine, metrics, certificate, reloader: None })
}

/// The routes of the API on a store of their own, for tests that call them without a socket.
#[doc(hidden)]
pub fn routes(policy: Policy) -> Result<Router, ServeError> {
    Ok(http::finish("http", http::calls(), app(policy)?))
}
