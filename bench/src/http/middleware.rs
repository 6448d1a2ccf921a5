//! An axum app with the layer and without it, called without a socket.

use std::hint::black_box;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::routing::get;
use tokio::runtime::Builder;
use tollkeeper::{Limit, Tollkeeper};
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::KeyExtractor;
use tower_governor::{GovernorError, GovernorLayer};
use tower_layer::layer_fn;
use tower_service::Service;

const REQUESTS: u64 = 50_000;

/// The turns of a round, so that a slow moment hits everybody.
const TURNS: u64 = 10;

/// Ours, of which something is demanded.
pub(super) const OURS: &str = "tollkeeper, by header";

/// Who is compared, in this order.
pub(super) const NAMES: [&str; 5] = [
    "axum alone",
    "a layer that is empty",
    OURS,
    "tower_governor, by header",
    "tower_governor with headers",
];

/// Nanoseconds for one request, of everybody.
pub(super) fn round(keys: u64) -> Vec<f64> {
    let limit = Limit::per_second(1_000_000).by("header:x-api-key");
    let limiter = Tollkeeper::memory().limit("api", limit).build();
    let app = || Router::new().route("/", get(async || "hello"));
    let mut governor = GovernorConfigBuilder::default().key_extractor(ByHeader);
    governor.per_nanosecond(1_000).burst_size(1_000_000);
    let telling = governor.use_headers().finish().unwrap();
    let apps = [
        app(),
        app().layer(layer_fn(|inner| Empty { inner })),
        app().layer(limiter.layer()),
        app().layer(GovernorLayer::new(governor.finish().unwrap())),
        app().layer(GovernorLayer::new(telling)),
    ];
    // As axum's own server does: layers are put on once, and not for each request.
    let mut apps: [Router; NAMES.len()] = apps.map(|app| app.with_state(()));
    let runtime = Builder::new_current_thread().build().unwrap();
    let mut sums_ns = vec![0.0; apps.len()];
    for _ in 0..TURNS {
        for (app, sum_ns) in apps.iter_mut().zip(&mut sums_ns) {
            *sum_ns += runtime.block_on(run(app, keys));
        }
    }
    sums_ns.into_iter().map(|sum_ns| sum_ns / TURNS as f64).collect()
}

/// Counts by the same header.
#[derive(Clone)]
struct ByHeader;

impl KeyExtractor for ByHeader {
    type Key = String;

    fn extract<T>(&self, request: &axum::http::Request<T>) -> Result<String, GovernorError> {
        let key = request.headers().get("x-api-key").and_then(|key| key.to_str().ok());
        key.map(str::to_owned).ok_or(GovernorError::UnableToExtractKey)
    }
}

/// What axum itself takes for a layer.
#[derive(Clone)]
struct Empty<S> {
    inner: S,
}

impl<S: Service<Request>> Service<Request> for Empty<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> S::Future {
        self.inner.call(request)
    }
}

async fn run(app: &mut Router, keys: u64) -> f64 {
    let peer: SocketAddr = ([203, 0, 113, 9], 4711).into();
    let requests = REQUESTS / TURNS;
    let mut prepared: Vec<Request> = (0..requests)
        .map(|nth| {
            let key = format!("key-{}", nth * 7919 % keys);
            let mut request =
                Request::builder().uri("/").header("x-api-key", key).body(Body::empty()).unwrap();
            request.extensions_mut().insert(ConnectInfo(peer));
            request
        })
        .collect();
    let begun = Instant::now();
    for request in prepared.drain(..) {
        black_box(app.call(request).await.unwrap());
    }
    begun.elapsed().as_secs_f64() * 1e9 / requests as f64
}
