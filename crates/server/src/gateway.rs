//! The gateway: a reverse proxy that lets through what the limits let through.
//!
//! Nothing is buffered: bodies pass as they come, in both directions, and what becomes a WebSocket,
//! or any other protocol, is a tunnel from then on.

mod body;
mod connector;
mod forward;
mod hop;
mod progress;
mod tunnel;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use tollkeeper_memory::{MemoryStore, SystemClock};
use tollkeeper_stores::AnyStore;
use tollkeeper_tower::{PeerAddr, RateLimit, RateLimitLayer};
use tower_layer::Layer;
use tower_service::Service;

use crate::connection::Arrival;
use crate::wire::AppEngine;
use forward::Forwarder;

/// What answers the gateway's requests.
#[derive(Clone, Debug)]
pub(crate) struct Gateway {
    limited: RateLimit<Behind, AnyStore<SystemClock>, MemoryStore<SystemClock>>,
}

impl Gateway {
    /// Lets through by the rules of `engine`, to the app that its policy names.
    pub(crate) fn new(engine: Arc<AppEngine>) -> Self {
        let forwarder = Arc::new(Forwarder::new(Arc::clone(&engine)));
        Self { limited: RateLimitLayer::new(engine).layer(Behind { forwarder }) }
    }

    /// Answers a request that came by `arrival`.
    pub(crate) async fn answer(
        mut self,
        mut request: Request<Incoming>,
        arrival: Arrival,
    ) -> Response {
        request.extensions_mut().insert(PeerAddr(arrival.peer));
        request.extensions_mut().insert(arrival);
        let Ok(response) = self.limited.call(request).await;
        response.map(Body::new)
    }
}

/// What stands behind the limits.
#[derive(Clone, Debug)]
struct Behind {
    forwarder: Arc<Forwarder>,
}

impl Service<Request<Incoming>> for Behind {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let forwarder = Arc::clone(&self.forwarder);
        Box::pin(async move { Ok(forwarder.forward(request).await) })
    }
}
