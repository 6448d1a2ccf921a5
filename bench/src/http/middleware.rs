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
use tower_layer::layer_fn;
use tower_service::Service;

const REQUESTS: u64 = 50_000;

/// Nanoseconds for one request.
pub(super) struct Round {
    pub(super) bare_ns: f64,
    pub(super) empty_ns: f64,
    pub(super) limited_ns: f64,
}

/// What a round tells, by name.
pub(super) type Number = fn(&Round) -> f64;
pub(super) const NUMBERS: [(&str, Number); 3] = [
    ("axum alone", |round| round.bare_ns),
    ("with a layer that is empty", |round| round.empty_ns),
    ("with the layer, by header", |round| round.limited_ns),
];

pub(super) fn round(keys: u64) -> Round {
    let limiter = Tollkeeper::memory()
        .limit("api", Limit::per_second(1_000_000).by("header:x-api-key"))
        .build();
    let app = || Router::new().route("/", get(async || "hello"));
    let (mut bare, mut limited) = (app(), app().layer(limiter.layer()));
    let mut empty = app().layer(layer_fn(|inner| Empty { inner }));
    let runtime = Builder::new_current_thread().build().unwrap();
    // In turns, so that a slow moment hits both.
    let (mut bare_ns, mut empty_ns, mut limited_ns) = (0.0, 0.0, 0.0);
    for _ in 0..10 {
        bare_ns += runtime.block_on(run(&mut bare, keys));
        empty_ns += runtime.block_on(run(&mut empty, keys));
        limited_ns += runtime.block_on(run(&mut limited, keys));
    }
    Round { bare_ns: bare_ns / 10.0, empty_ns: empty_ns / 10.0, limited_ns: limited_ns / 10.0 }
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
    let requests = REQUESTS / 10;
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
