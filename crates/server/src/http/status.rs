//! `/readyz` and `/metrics`: how the service is.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tollkeeper_policy::OnFailure;

use super::{App, Engine};

/// What a scraper is told that the text is.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Ready while every rule can be decided: by the store, or without it by rules that are not closed.
pub(super) async fn ready(State(engine): Engine) -> Response {
    let up = engine.store_decides().await;
    let policy = engine.policy();
    let standing = policy.store().on_failure;
    let is_closed = |choice: Option<OnFailure>| choice.unwrap_or(standing) == OnFailure::Closed;
    let closed: Vec<&str> = policy
        .rules()
        .iter()
        .filter(|rule| !rule.is_shadow() && is_closed(rule.on_failure()))
        .map(|rule| rule.name())
        .collect();
    let ready = up || closed.is_empty();
    let mut body = json!({
        "ready": ready,
        "store": if up { "up" } else { "down" },
        "down_ms": engine.health().down_for_us.div_ceil(1000),
    });
    if !ready {
        body["closed_rules"] = closed.into();
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
