//! Writes a verdict: its JSON, its headers, and the 429. Milliseconds and seconds are rounded
//! here, up, and nowhere else.

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tollkeeper_engine::{HandleKind, Judgement, LimitVerdict, Verdict};
use tollkeeper_policy::HeaderStyle;
use tollkeeper_tower::headers::write;
use tollkeeper_tower::{Refusal, media_type};

use super::json::Writer;

/// Room for the text of a decision by one limit.
const USUAL_BYTES: usize = 512;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

fn ms(us: u64) -> u64 {
    us.div_ceil(1000)
}

/// The answer of the API: the decision as JSON, 200, 429 or 503, with headers.
pub(crate) fn answer(verdict: &Verdict) -> Response {
    told(verdict).map(Body::from)
}

/// The same, as one text.
pub(crate) fn told(verdict: &Verdict) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(text(verdict)));
    if !verdict.allowed() {
        *response.status_mut() = Refusal::Denied(verdict).status();
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, JSON);
    write(headers, verdict.policy().headers(), verdict);
    response
}

/// The answer of the API to a request for which the policy found the rules.
pub(crate) fn judged(judgement: &Judgement) -> Response {
    let status = match judgement {
        Judgement::Decided(verdict) => return answer(verdict),
        Judgement::Free => StatusCode::OK,
        _ => StatusCode::TOO_MANY_REQUESTS,
    };
    let mut response = (status, Json(judgement_json(judgement))).into_response();
    if let Judgement::Missing { rule, part } = judgement {
        Refusal::Missing { rule, part }.write(response.headers_mut());
    }
    response
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
    let mut headers = headers(verdict, styles);
    headers.insert(header::CONTENT_TYPE, media_type(accept));
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
    let mut headers = HeaderMap::new();
    write(&mut headers, styles, verdict);
    headers
}

/// The refusal of a request that lacks what a rule counts by.
pub(crate) fn lacking(rule: &str, part: &str, accept: Option<&str>) -> Response {
    Refusal::Missing { rule, part }.response(accept).map(Body::from)
}

/// The decision's JSON, as the API answers it.
#[must_use]
pub fn decision(verdict: &Verdict) -> Value {
    // What was written can be read.
    serde_json::from_slice(&text(verdict)).unwrap_or_default()
}

/// The same as text.
fn text(verdict: &Verdict) -> Vec<u8> {
    let mut out = Writer::with_capacity(USUAL_BYTES);
    let decision = verdict.decision();
    out.flag("{\"allowed\":", decision.allowed);
    out.whole(",\"limit\":", decision.limit);
    out.whole(",\"remaining\":", decision.remaining);
    at_least(&mut out, verdict.remaining_is_at_least());
    out.whole(",\"reset_after_ms\":", ms(decision.reset_after_us));
    out.whole(",\"reset_at_ms\":", ms(decision.now_us + decision.reset_after_us));
    out.whole_or_null(",\"retry_after_ms\":", decision.retry_after_us.map(ms));
    out.whole(",\"delay_ms\":", ms(decision.delay_us));
    out.text(",\"rule\":", verdict.rule());
    out.plain(",\"source\":", verdict.source().name());
    out.whole_or_null(",\"charged_at_us\":", decision.charged_at_us);
    out.raw(",\"limits\":[");
    for (nth, limit) in verdict.limits().enumerate() {
        one_limit(&mut out, if nth == 0 { "{\"name\":" } else { ",{\"name\":" }, &limit);
        // Where limits were not decided in one step, each also tells by whom and when it was
        // charged.
        if verdict.is_apart() {
            out.plain(",\"source\":", limit.source().name());
            out.whole_or_null(",\"charged_at_us\":", limit.charged_at_us);
        }
        out.raw("}");
    }
    out.raw("]");
    if !decision.allowed {
        out.text(",\"message\":", &Refusal::Denied(verdict).message());
    }
    if let Some(handle) = verdict.handle() {
        let before = match handle.kind() {
            HandleKind::Permit => ",\"permit\":",
            HandleKind::Reservation => ",\"reservation\":",
        };
        out.text(before, &handle.to_string());
    }
    out.raw("}");
    out.into_bytes()
}

/// Says that more may be left, where it may be.
fn at_least(out: &mut Writer, is_so: bool) {
    if is_so {
        out.flag(",\"at_least\":", true);
    }
}

fn one_limit(out: &mut Writer, before: &str, limit: &LimitVerdict<'_>) {
    let outcome = limit.outcome;
    out.text(before, limit.name);
    out.text(",\"rule\":", limit.rule);
    out.plain(",\"algorithm\":", limit.algorithm.name());
    out.flag(",\"allowed\":", outcome.allowed);
    out.flag(",\"shadow\":", outcome.shadow);
    out.whole(",\"limit\":", outcome.limit);
    out.whole(",\"remaining\":", outcome.remaining);
    at_least(out, limit.remaining_is_at_least());
    out.whole(",\"reset_after_ms\":", ms(outcome.reset_after_us));
    out.whole_or_null(",\"retry_after_ms\":", outcome.retry_after_us.map(ms));
    out.whole(",\"delay_ms\":", ms(outcome.delay_us));
}
