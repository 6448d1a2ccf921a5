//! The gateway: a reverse proxy that lets through what the limits let through.
//!
//! Nothing is buffered: bodies pass as they come, in both directions, and what becomes a WebSocket
//! is a tunnel from then on.

mod body;
mod connector;
mod forward;
mod hop;
mod progress;
#[cfg(test)]
mod tests;
mod tunnel;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use tollkeeper_tower::RateLimitLayer;
use tower_layer::Layer;
use tower_service::Service;

use crate::http::App;
use crate::telemetry::watched;
use forward::Forwarder;

pub(crate) use tunnel::Tunnels;

/// Every path, by the rules of the engine and to the app that its policy names.
pub(crate) fn routes(app: &App, tunnels: Tunnels) -> Router {
    let forwarder = Arc::new(Forwarder::new(Arc::clone(&app.engine), tunnels));
    let limited = RateLimitLayer::new(Arc::clone(&app.engine)).layer(Behind { forwarder });
    watched(Router::new().fallback_service(limited), "gateway", app.certificate.is_some())
}

/// What stands behind the limits.
#[derive(Clone, Debug)]
struct Behind {
    forwarder: Arc<Forwarder>,
}

impl Service<Request> for Behind {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let forwarder = Arc::clone(&self.forwarder);
        Box::pin(async move { Ok(forwarder.forward(request).await) })
    }
}
