//! `/readyz` and `/metrics`: how the service is.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tollkeeper_core::Store;
use tollkeeper_policy::OnFailure;

use super::{App, Engine};

/// What a scraper is told that the text is.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Ready while rules can be decided: by the store, or without it by rules that are not closed. One
/// server of several that is down is the affair of its own keys. Who has just come has no part yet of
/// what is shared, and would deny everybody.
pub(super) async fn ready(State(engine): Engine) -> Response {
    let asked = (0..engine.store().shards()).map(|shard| engine.shard_decides(shard));
    let shards = join_all(asked).await;
    // Where no key lies, nothing is decided.
    let used = || shards.iter().flatten();
    let up = !used().any(|decides| !decides);
    let policy = engine.policy();
    let standing = policy.store().on_failure;
    let is_closed = |choice: Option<OnFailure>| choice.unwrap_or(standing) == OnFailure::Closed;
    let closed: Vec<&str> = policy
        .rules()
        .iter()
        .filter(|rule| !rule.is_shadow() && is_closed(rule.on_failure()))
        .map(|rule| rule.name())
        .collect();
    let in_part = used().any(|decides| *decides);
    let begins_in_us = engine.store().begins_in_us().filter(|_| policy.is_shared_by_count());
    let ready = (in_part || closed.is_empty()) && begins_in_us.is_none();
    let mut body = json!({
        "ready": ready,
        "store": if up { "up" } else if in_part { "partly down" } else { "down" },
        "down_ms": engine.health().down_for_us.div_ceil(1000),
    });
    if shards.len() > 1 {
        let told = shards.iter().enumerate().map(|(shard, decides)| {
            let state = if decides.unwrap_or(true) { "up" } else { "down" };
            (engine.store().shard_name(shard), state.into())
        });
        body["shards"] = Value::Object(told.collect());
    }
    if !up && !closed.is_empty() {
        body["closed_rules"] = closed.into();
    }
    if let Some(us) = begins_in_us {
        body["begins_in_ms"] = us.div_ceil(1000).into();
    }
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(body)).into_response()
}

pub(super) async fn metrics(State(app): State<App>) -> Response {
    match app.metrics.text(&app.engine) {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
