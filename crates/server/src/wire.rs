//! Builds the concrete things that the doors work on: the engine on its store, and what is counted.

use std::fmt;
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
    let (engine, metrics) = counted(policy, clock, |metrics| metrics)?;
    Ok(App { engine, metrics, certificate, reloader: None })
}

/// The engine, and what counts whatever it does. What the engine tells is heard by whom `hears` makes of that.
fn counted(
    policy: Policy,
    clock: SystemClock,
    hears: impl FnOnce(Arc<dyn Observer>) -> Arc<dyn Observer>,
) -> Result<(Arc<AppEngine>, Arc<Metrics>), ServeError> {
    let metrics = Arc::new(Metrics::new(&policy, Arc::new(clock.clone())));
    let observer = hears(Arc::clone(&metrics) as Arc<dyn Observer>);
    Ok((Arc::new(engine(policy, clock)?.observed(observer)), metrics))
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

/// What `/metrics` tells now.
type MetricsText = Box<dyn Fn() -> Result<String, fmt::Error> + Send + Sync>;

/// The engine as the doors ask it, and what `/metrics` tells of it. For tests that ask the engine itself, and put
/// somebody who hears too before what counts.
#[doc(hidden)]
pub fn engine_and_metrics(
    policy: Policy,
    hears: impl FnOnce(Arc<dyn Observer>) -> Arc<dyn Observer>,
) -> Result<(Arc<AppEngine>, MetricsText), ServeError> {
    let (engine, metrics) = counted(policy, SystemClock::new(), hears)?;
    let asked = Arc::clone(&engine);
    Ok((engine, Box::new(move || metrics.text(&asked))))
}
