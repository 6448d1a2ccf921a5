//! Writes a verdict: its JSON, its headers, and the 429. Milliseconds and seconds are rounded
//! here, up, and nowhere else.

use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tollkeeper_engine::{HandleKind, LimitVerdict, Verdict};

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The problem type of a request that is over its quota.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

fn ms(us: u64) -> u64 {
    us.div_ceil(1000)
}

fn seconds(us: u64) -> u64 {
    us.div_ceil(1_000_000)
}

/// The answer of the API: the decision as JSON, 200, 429 or 503, with headers.
pub(crate) fn answer(verdict: &Verdict) -> Response {
    let status = if verdict.allowed() { StatusCode::OK } else { refusal_status(verdict) };
    (status, headers(verdict), Json(decision(verdict))).into_response()
}

/// Who was denied because the store failed has done nothing too often.
fn refusal_status(verdict: &Verdict) -> StatusCode {
    match verdict.failed_closed() {
        true => StatusCode::SERVICE_UNAVAILABLE,
        false => StatusCode::TOO_MANY_REQUESTS,
    }
}

/// The refusal that a client of a protected route sees.
pub(crate) fn refusal(verdict: &Verdict, accept: Option<&str>) -> Response {
    let status = refusal_status(verdict);
    let mut body = json!({
        "error": "rate_limited",
        "message": message(verdict),
        "type": QUOTA_EXCEEDED,
        "title": status.canonical_reason(),
        "status": status.as_u16(),
    });
    if verdict.failed_closed() {
        body["error"] = "limiter_unavailable".into();
        body["type"] = "about:blank".into();
    } else {
        let violated = verdict.limits().filter(|limit| limit.outcome.denies());
        body["violated-policies"] = violated.map(|limit| limit.name).collect();
    }
    if let (Value::Object(body), Value::Object(numbers)) = (&mut body, decision(verdict)) {
        body.extend(numbers);
    }
    let problem = accept.is_some_and(|accept| accept.contains("application/problem+json"));
    let kind = if problem { "application/problem+json" } else { "application/json" };
    let mut headers = headers(verdict);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    (status, headers, body.to_string()).into_response()
}

/// What the client can do about it.
fn message(verdict: &Verdict) -> String {
    let decision = verdict.decision();
    match decision.retry_after_us {
        Some(us) => format!("Try again in {}s", seconds(us).max(1)),
        None => format!(
            "A cost of {} can never fit a limit of {}; ask for less at a time",
            verdict.cost(),
            decision.limit
        ),
    }
}

/// The headers of every answer, and those of a refusal.
pub(crate) fn headers(verdict: &Verdict) -> HeaderMap {
    let decision = verdict.decision();
    let mut headers = HeaderMap::with_capacity(6);
    headers.insert(LIMIT, decision.limit.into());
    headers.insert(REMAINING, decision.remaining.into());
    headers.insert(RESET, seconds(decision.now_us + decision.reset_after_us).into());
    if !decision.allowed {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(us) = decision.retry_after_us {
            headers.insert(header::RETRY_AFTER, seconds(us).max(1).into());
        }
    }
    headers
}

/// The decision's JSON, as the API answers it.
#[must_use]
pub fn decision(verdict: &Verdict) -> Value {
    let decision = verdict.decision();
    let mut body = json!({
        "allowed": decision.allowed,
        "limit": decision.limit,
        "remaining": decision.remaining,
        "reset_after_ms": ms(decision.reset_after_us),
        "reset_at_ms": ms(decision.now_us + decision.reset_after_us),
        "retry_after_ms": decision.retry_after_us.map(ms),
        "delay_ms": ms(decision.delay_us),
        "rule": verdict.rule(),
        "source": verdict.source().name(),
        "charged_at_us": decision.charged_at_us,
        "limits": verdict.limits().map(|limit| one_limit(&limit)).collect::<Vec<_>>(),
    });
    if !decision.allowed {
        body["message"] = message(verdict).into();
    }
    if let (Value::Object(body), Some(handle)) = (&mut body, verdict.handle()) {
        let name = match handle.kind() {
            HandleKind::Permit => "permit",
            HandleKind::Reservation => "reservation",
        };
        body.insert(name.to_owned(), handle.to_string().into());
    }
    body
}

fn one_limit(limit: &LimitVerdict<'_>) -> Value {
    let outcome = limit.outcome;
    let mut numbers = Map::new();
    numbers.insert("name".into(), limit.name.into());
    numbers.insert("rule".into(), limit.rule.into());
    numbers.insert("algorithm".into(), limit.algorithm.name().into());
    numbers.insert("allowed".into(), outcome.allowed.into());
    numbers.insert("shadow".into(), outcome.shadow.into());
    numbers.insert("limit".into(), outcome.limit.into());
    numbers.insert("remaining".into(), outcome.remaining.into());
    numbers.insert("reset_after_ms".into(), ms(outcome.reset_after_us).into());
    numbers.insert("retry_after_ms".into(), outcome.retry_after_us.map(ms).into());
    numbers.insert("delay_ms".into(), ms(outcome.delay_us).into());
    Value::Object(numbers)
}
