//! Writes a verdict: its JSON, its headers, and the 429. Milliseconds and seconds are rounded
//! here, up, and nowhere else.

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tollkeeper_engine::{HandleKind, Judgement, LimitVerdict, Verdict};
use tollkeeper_policy::HeaderStyle;
use tollkeeper_tower::Refusal;
use tollkeeper_tower::headers::write;

fn ms(us: u64) -> u64 {
    us.div_ceil(1000)
}

/// The answer of the API: the decision as JSON, 200, 429 or 503, with headers.
pub(crate) fn answer(verdict: &Verdict, styles: &[HeaderStyle]) -> Response {
    let status = if verdict.allowed() { StatusCode::OK } else { Refusal::Denied(verdict).status() };
    (status, headers(verdict, styles), Json(decision(verdict))).into_response()
}

/// The answer of the API to a request for which the policy found the rules.
pub(crate) fn judged(judgement: &Judgement, styles: &[HeaderStyle]) -> Response {
    let status = match judgement {
        Judgement::Decided(verdict) => return answer(verdict, styles),
        Judgement::Free => StatusCode::OK,
        _ => StatusCode::TOO_MANY_REQUESTS,
    };
    (status, Json(judgement_json(judgement))).into_response()
}

/// The same JSON, where no limit has any numbers.
pub(crate) fn judgement_json(judgement: &Judgement) -> Value {
    let mut body = json!({
        "allowed": true,
        "limit": null,
        "remaining": null,
        "reset_after_ms": 0,
        "reset_at_ms": 0,
        "retry_after_ms": 0,
        "delay_ms": 0,
        "rule": null,
        "source": "policy",
        "charged_at_us": null,
        "limits": [],
    });
    match judgement {
        Judgement::Decided(verdict) => return decision(verdict),
        Judgement::Missing { rule, part } => {
            body["allowed"] = false.into();
            body["retry_after_ms"] = Value::Null;
            body["rule"] = rule.as_str().into();
            body["message"] = Refusal::Missing { rule, part }.message().into();
        }
        _ => {}
    }
    body
}

/// The refusal that a client of a protected route sees, with the decision's numbers.
pub(crate) fn refusal(verdict: &Verdict, styles: &[HeaderStyle], accept: Option<&str>) -> Response {
    let problem = accept.is_some_and(|accept| accept.contains("application/problem+json"));
    let kind = if problem { "application/problem+json" } else { "application/json" };
    let mut headers = headers(verdict, styles);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    (Refusal::Denied(verdict).status(), headers, refused(verdict).to_string()).into_response()
}

/// The body of that refusal.
pub(crate) fn refused(verdict: &Verdict) -> Value {
    let mut body = decision(verdict);
    if let (Value::Object(body), Value::Object(members)) =
        (&mut body, Refusal::Denied(verdict).body())
    {
        body.extend(members);
    }
    body
}

/// The headers of every answer, and those of a refusal.
pub(crate) fn headers(verdict: &Verdict, styles: &[HeaderStyle]) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(6);
    write(&mut headers, styles, verdict);
    headers
}

/// The refusal of a request that lacks what a rule counts by.
pub(crate) fn lacking(rule: &str, part: &str) -> Response {
    let refusal = Refusal::Missing { rule, part };
    let headers = [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    (refusal.status(), headers, Json(refusal.body())).into_response()
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
        "limits": verdict.limits().map(|limit| limit_of(verdict, &limit)).collect::<Vec<_>>(),
    });
    if !decision.allowed {
        body["message"] = Refusal::Denied(verdict).message().into();
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

/// Where limits were not decided in one step, each also tells by whom and when it was charged.
fn limit_of(verdict: &Verdict, limit: &LimitVerdict<'_>) -> Value {
    let mut numbers = one_limit(limit);
    if verdict.is_apart() {
        numbers["source"] = limit.source().name().into();
        numbers["charged_at_us"] = limit.charged_at_us.into();
    }
    numbers
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
