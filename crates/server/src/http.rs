//! The HTTP door: its routes, and nothing else.

mod admin;
mod amend;
mod answering;
mod authz;
mod body;
mod check;
mod debug;
mod demo;
mod encode;
mod fields;
mod hot;
mod json;
mod meant;
mod openapi;
mod peer;
mod policy;
mod problem;
mod status;
mod strict;
mod usual;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, FromRef};
use axum::http::{Method, Request, Uri};
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get, post};
use hyper::body::Incoming;
use tower_service::Service;

use crate::metrics::Metrics;
use crate::reload::Reloader;
use crate::telemetry::{self, watched};
use crate::tls::Certificate;
use crate::wire::AppEngine;

pub(crate) use answering::{Answering, Reply};
pub(crate) use peer::one_host;
pub(crate) use problem::Problem;

pub use encode::decision as decision_json;

type Engine = axum::extract::State<Arc<AppEngine>>;

/// What the routes work on.
#[derive(Clone, Debug, FromRef)]
pub(crate) struct App {
    pub(crate) engine: Arc<AppEngine>,
    pub(crate) metrics: Arc<Metrics>,
    /// What the doors show, where they speak TLS.
    pub(crate) certificate: Option<Arc<Certificate>>,
    /// Reads the policy again, where it came from a file.
    pub(crate) reloader: Option<Arc<Reloader>>,
}

/// What everybody may call.
pub(crate) fn calls() -> Router<App> {
    Router::new()
        .route("/v1/check", post(check::check))
        .route("/v1/check/batch", post(check::batch))
        .route("/v1/reserve", post(check::reserve))
        .route("/v1/authz", any(authz::authz))
        .route("/v1/refund", post(amend::refund))
        .route("/v1/settle", post(amend::settle))
        .route("/v1/cancel", post(amend::cancel))
        .route("/v1/release", post(amend::release))
        .route("/v1/renew", post(amend::renew))
        .route("/api/resource", any(demo::resource))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(status::ready))
        .route("/openapi.json", get(openapi::document))
}

/// What operators may call.
pub(crate) fn admin_calls(app: &App) -> Router<App> {
    Router::new()
        .route("/debug/state", get(debug::state))
        .route("/debug/reset", post(debug::reset))
        .route("/debug/hot", get(hot::keys))
        .route("/metrics", get(status::metrics))
        .route("/policy/reload", post(policy::reload))
        .layer(from_fn_with_state(app.clone(), admin::guard))
}

/// What answers at a door.
#[derive(Clone, Debug)]
pub(crate) struct Answerer {
    pub(crate) router: Router,
    /// Answers `/v1/check` itself: it is the call that is made for every request of somebody's
    /// API, and on the way through the router it would cost twice as much.
    pub(crate) check: Option<Arc<AppEngine>>,
}

impl Answerer {
    pub(crate) fn call(&self, request: Request<Incoming>, peer: SocketAddr) -> Answering {
        if let Some(engine) = &self.check
            && request.method() == Method::POST
            && request.uri().path() == "/v1/check"
        {
            return Answering::check(Arc::clone(engine), request.into_body());
        }
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        Answering::routed(self.router.clone().call(request))
    }
}

/// The routes of the API at its door.
pub(crate) fn api(routes: Router<App>, app: App) -> Answerer {
    let check = (!telemetry::is_wanted()).then(|| Arc::clone(&app.engine));
    Answerer { router: finish("http", routes, app), check }
}

/// The routes of one door, with what is told where there is none.
pub(crate) fn finish(door: &'static str, routes: Router<App>, app: App) -> Router {
    let secure = app.certificate.is_some();
    let routes = routes
        .fallback(async |uri: Uri| Problem::not_found(uri.path()))
        .method_not_allowed_fallback(async |method: Method, uri: Uri| {
            Problem::method_not_allowed(&method, uri.path())
        })
        .with_state(app);
    watched(routes, door, secure)
}
