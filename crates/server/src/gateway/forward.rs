//! Owns [`Forwarder`]: a request goes to the app, and its answer back.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::header::{HOST, HeaderValue, TE};
use hyper::http::uri::{PathAndQuery, Scheme};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, StatusCode, Uri, Version};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tollkeeper_policy::{Policy, Upstream};
use tollkeeper_tower::{InFlight, client_ip};

use super::body::{Awaited, Silent};
use super::connector::Connector;
use super::hop::{
    WEBSOCKET, Way, names_websocket, take_expectation, take_hop_by_hop, takes_trailers, tell_way,
    upgrade_to,
};
use super::progress::Progress;
use super::tunnel::{self, Tunnels};
use crate::connection::Arrival;
use crate::http::{Problem, one_host};
use crate::wire::AppEngine;

/// Connections to the app that are kept for the next request, and for how long.
const MAX_IDLE: usize = 256;
const IDLE: Duration = Duration::from_secs(30);

/// Passes requests on.
#[derive(Debug)]
pub(super) struct Forwarder {
    engine: Arc<AppEngine>,
    client: Client<Connector, Awaited<Body>>,
    tunnels: Tunnels,
    /// Whether the app could not be reached when it was tried last.
    is_away: AtomicBool,
}

/// A client that asked for a WebSocket, and what it keeps occupied.
struct Upgrading {
    client: OnUpgrade,
    arrival: Option<Arrival>,
    in_flight: Option<InFlight>,
}

impl Forwarder {
    pub(super) fn new(engine: Arc<AppEngine>, tunnels: Tunnels) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MAX_IDLE)
            .build(Connector::new(Arc::clone(&engine)));
        Self { engine, client, tunnels, is_away: AtomicBool::new(false) }
    }

    pub(super) async fn forward(&self, request: Request) -> Response {
        let policy = self.engine.policy();
        let Some(upstream) = policy.upstream() else {
            return Problem::bad_gateway("the policy names no `upstream`").into_response();
        };
        self.pass(request, &policy, upstream).await.unwrap_or_else(IntoResponse::into_response)
    }

    async fn pass(
        &self,
        mut request: Request,
        policy: &Policy,
        upstream: &Upstream,
    ) -> Result<Response, Problem> {
        let upgrading = address(&mut request, policy, upstream)?;
        let patience = Duration::from_micros(policy.gateway().timeout_us);
        let progress = Progress::default();
        let request = request.map(|body| Awaited::new(body, patience, progress.clone()));
        let answered = progress.of(self.client.request(request), patience).await;
        let response = match answered {
            Some(Ok(response)) => response,
            Some(Err(error)) => return Err(self.failed(upstream, &error)),
            None => return Err(Problem::gateway_timeout("the app did not answer in time")),
        };
        if self.is_away.swap(false, Ordering::Relaxed) {
            tracing::info!(%upstream, "the app behind the gateway is reached again");
        }
        let mut response =
            response.map(|body| Body::new(Awaited::new(body, patience, Progress::default())));
        let app = hyper::upgrade::on(&mut response);
        let agreed = names_websocket(response.headers());
        take_hop_by_hop(response.headers_mut());
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        let Some(upgrading) = upgrading.filter(|_| agreed) else {
            return Err(Problem::bad_gateway("the app spoke another protocol than it was asked"));
        };
        upgrade_to(response.headers_mut(), WEBSOCKET);
        let patience = Duration::from_micros(policy.gateway().tunnel_timeout_us);
        self.tunnels.open(async move {
            let Upgrading { client, arrival, in_flight } = upgrading;
            tunnel::join(client, app, patience).await;
            drop((arrival, in_flight));
        });
        Ok(response.map(|_| Body::empty()))
    }

    /// What the client is told of an app that gave no answer. The log hears of it once.
    fn failed(&self, upstream: &Upstream, error: &ClientError) -> Problem {
        if caused_by::<Silent>(error).is_some() {
            return Problem::timeout();
        }
        if !error.is_connect() {
            return Problem::bad_gateway("the app broke off before it answered");
        }
        if !self.is_away.swap(true, Ordering::Relaxed) {
            let why = innermost(error);
            tracing::warn!(%upstream, "the app behind the gateway cannot be reached: {why}");
        }
        match caused_by::<io::Error>(error).is_some_and(|io| io.kind() == io::ErrorKind::TimedOut) {
            true => Problem::gateway_timeout("the app could not be reached in time"),
            false => Problem::bad_gateway("the app cannot be reached"),
        }
    }
}

/// Makes a request one to the app: its address, the headers of the next hop, who sent it. Returns
/// the client's side of what may become a tunnel.
fn address(
    request: &mut Request,
    policy: &Policy,
    upstream: &Upstream,
) -> Result<Option<Upgrading>, Problem> {
    if request.method() == Method::CONNECT {
        return Err(Problem::method_not_allowed(&Method::CONNECT, "the gateway"));
    }
    one_host(request.headers())?;
    // A request to a whole URL is to its host, whatever `Host` says.
    if let Some(asked) = request.uri().authority() {
        let host = HeaderValue::from_str(asked.as_str());
        let host = host.map_err(|_| Problem::bad_request("the host cannot be read"))?;
        request.headers_mut().insert(HOST, host);
    }
    *request.uri_mut() = uri_at(upstream, request.uri())?;
    *request.version_mut() = Version::HTTP_11;

    let arrival = request.extensions().get::<Arrival>().cloned();
    let in_flight = request.extensions().get::<InFlight>().cloned();
    let trailers = takes_trailers(request.headers());
    let protocol = take_hop_by_hop(request.headers_mut());
    take_expectation(request.headers_mut());
    if trailers {
        request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
    }
    if let Some(arrival) = &arrival {
        let client = client_ip::client(policy.client_ip(), arrival.peer.ip(), request.headers());
        let host = request.headers().get(HOST).cloned();
        let way = Way {
            peer: arrival.peer.ip().to_canonical(),
            client: client.ip,
            trusted: client.via_trusted,
            scheme: if arrival.secure { "https" } else { "http" },
            host: host.as_ref(),
        };
        tell_way(request.headers_mut(), way);
    }
    Ok(protocol.map(|protocol| {
        upgrade_to(request.headers_mut(), protocol);
        Upgrading { client: hyper::upgrade::on(request), arrival, in_flight }
    }))
}

/// The same path and query at the app.
fn uri_at(upstream: &Upstream, asked: &Uri) -> Result<Uri, Problem> {
    let path = asked.path_and_query().map_or("/", PathAndQuery::as_str);
    if path == "*" {
        return Err(Problem::bad_request("`*` is no path; expected one of the app's"));
    }
    let uri = Uri::builder()
        .scheme(Scheme::HTTP)
        .authority(upstream.authority())
        .path_and_query(path)
        .build();
    uri.map_err(|_| Problem::bad_request("the target of the request cannot be passed on"))
}

/// The first cause of a kind.
fn caused_by<E: Error + 'static>(error: &ClientError) -> Option<&E> {
    let mut cause = error.source();
    while let Some(error) = cause {
        // An error of ours that a wrapper carries is not its source.
        let carried = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let carried =
            carried.and_then(|carried| (carried as &(dyn Error + 'static)).downcast_ref());
        if let Some(found) = error.downcast_ref::<E>().or(carried) {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

fn innermost(error: &ClientError) -> String {
    let mut innermost: &dyn Error = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}
