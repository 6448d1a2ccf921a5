//! What is told of each request: a line of the log at `debug`, and a span with a child for the
//! decision where traces are collected. Never a key, a token, a header or a query.
//!
//! Where neither is wanted there is nothing in the router's way: the layer is left out when the
//! doors are opened, and the rest finds no [`REQUEST`] to write to.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use tollkeeper_engine::{Source, SystemTimer, Timer, Verdict};
use tracing::field::Empty;
use tracing::{Instrument, Level, Span};

use crate::traces;
use crate::wire::AppEngine;

/// The target of the lines that are told of requests.
const LINES: &str = "tollkeeper::request";

/// The target of spans: what is collected as a trace, and nothing else is.
pub const SPANS: &str = "tollkeeper::trace";

/// The longest part of a path that is told, in bytes.
const MAX_PATH: usize = 256;

tokio::task_local! {
    /// What has been decided in the request of this task, where somebody wants to know.
    static REQUEST: RefCell<Told>;
}

/// What was decided in one request.
#[derive(Debug, Default)]
struct Told {
    decisions: u64,
    denied: u64,
    /// The rule that decided last, and who decided.
    rule: String,
    source: &'static str,
}

/// One decision that can be told as such, or how many there were.
struct Summary {
    decisions: Option<u64>,
    rule: Option<String>,
    result: Option<&'static str>,
    source: Option<&'static str>,
}

impl Told {
    fn summary(&self) -> Summary {
        let result = match (self.decisions, self.denied) {
            (0, _) => None,
            (_, 0) => Some("allowed"),
            (all, denied) if all == denied => Some("denied"),
            _ => Some("mixed"),
        };
        let one = self.decisions == 1;
        Summary {
            decisions: (self.decisions > 1).then_some(self.decisions),
            rule: one.then(|| self.rule.clone()),
            source: one.then_some(self.source),
            result,
        }
    }
}

impl Summary {
    fn record(&self, span: &Span) {
        span.record("tollkeeper.rule", self.rule.as_deref());
        span.record("tollkeeper.result", self.result);
        span.record("tollkeeper.source", self.source);
        span.record("tollkeeper.decisions", self.decisions.and_then(|n| i64::try_from(n).ok()));
    }
}

/// Remembers a decision for what is told of its request.
pub(crate) fn decided(verdict: &Verdict) {
    remember(|| (verdict.rule(), verdict.allowed(), verdict.source()));
}

/// A rule denied the request under way outright.
pub(crate) fn lacked(rule: &str) {
    remember(|| (rule, false, Source::Policy));
}

/// Which rule decided, how, and who did. It is asked for only where somebody is told.
fn remember<'a>(decision: impl FnOnce() -> (&'a str, bool, Source)) {
    let _ = REQUEST.try_with(|told| {
        let (rule, allowed, source) = decision();
        let mut told = told.borrow_mut();
        told.decisions += 1;
        told.denied += u64::from(!allowed);
        rule.clone_into(&mut told.rule);
        told.source = source.name();
    });
}

/// Lets the engine decide, within a span of its own where traces are collected.
pub(crate) async fn deciding<T>(engine: &AppEngine, call: Pin<&mut impl Future<Output = T>>) -> T {
    if REQUEST.try_with(|_| ()).is_err() {
        return call.await;
    }
    let span = tracing::info_span!(
        target: SPANS,
        "decide",
        otel.kind = "internal",
        tollkeeper.store = engine.store().kind(),
        tollkeeper.rule = Empty,
        tollkeeper.result = Empty,
        tollkeeper.source = Empty,
        tollkeeper.decisions = Empty,
    );
    let answer = call.instrument(span.clone()).await;
    let _ = REQUEST.try_with(|told| told.borrow().summary().record(&span));
    answer
}

/// Whom requests come through.
#[derive(Clone, Copy, Debug)]
struct Door {
    name: &'static str,
    scheme: &'static str,
    timer: SystemTimer,
}

/// Whether anybody wants to know of requests.
pub(crate) fn is_wanted() -> bool {
    let lines = tracing::enabled!(target: LINES, Level::DEBUG);
    let spans = tracing::enabled!(target: SPANS, Level::INFO);
    lines || spans
}

/// The same routes, of whose requests is told what somebody wants to know.
pub(crate) fn watched(router: Router, door: &'static str, secure: bool) -> Router {
    if !is_wanted() {
        return router;
    }
    let scheme = if secure { "https" } else { "http" };
    let door = Door { name: door, scheme, timer: SystemTimer::new() };
    router.layer(from_fn_with_state(door, watch))
}

async fn watch(State(door): State<Door>, request: Request, next: Next) -> Response {
    let began_us = door.timer.now_us();
    let method = known(request.method());
    let path = shown(request.uri().path()).to_owned();
    let span = span_of(&request, door, method, &path);
    let answering = async {
        let response = next.run(request).await;
        (response, REQUEST.with(|told| told.borrow().summary()))
    };
    let answering = REQUEST.scope(RefCell::default(), answering);
    let (response, told) = answering.instrument(span.clone()).await;
    let status = response.status();
    told.record(&span);
    span.record("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", status.as_str());
    }
    let took_us = door.timer.now_us().saturating_sub(began_us);
    tracing::debug!(
        target: LINES,
        door = door.name,
        method,
        path,
        status = status.as_u16(),
        rule = told.rule,
        result = told.result,
        source = told.source,
        decisions = told.decisions,
        duration_ms = took_us as f64 / 1e3,
        "request"
    );
    response
}

fn span_of(request: &Request, door: Door, method: &'static str, path: &str) -> Span {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let name = match route {
        Some(route) => format!("{method} {route}"),
        None => method.to_owned(),
    };
    let span = tracing::info_span!(
        target: SPANS,
        "request",
        otel.name = name,
        otel.kind = "server",
        otel.status_code = Empty,
        error.type = Empty,
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
        url.path = path,
        url.scheme = door.scheme,
        tollkeeper.door = door.name,
        tollkeeper.rule = Empty,
        tollkeeper.result = Empty,
        tollkeeper.source = Empty,
        tollkeeper.decisions = Empty,
    );
    traces::continues(&span, request.headers());
    span
}

/// The method, if it is one of those that everybody knows.
fn known(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
    known.into_iter().find(|name| method.as_str() == *name).unwrap_or("_OTHER")
}

/// The path, cut where it is long.
fn shown(path: &str) -> &str {
    &path[..path.floor_char_boundary(MAX_PATH)]
}
