//! Owns [`Refusal`]: why a request may not go, and the answer that says so.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use tollkeeper_engine::Verdict;

use crate::headers::{seconds, write};

/// The problem type of a request that is over its quota.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// Why a request may not go.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Refusal<'a> {
    /// A limit denies it, or a store that failed.
    Denied(&'a Verdict),
    /// It lacks what a rule counts by.
    Missing {
        /// The rule.
        rule: &'a str,
        /// What is missing, as the policy names it.
        part: &'a str,
    },
    /// Too many requests wait for their turn already.
    Crowded(&'a Verdict),
    /// The limiter itself cannot decide.
    Unable(&'a str),
}

impl Refusal<'_> {
    /// 429, or 503 where the limiter failed and not the client.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Denied(verdict) if verdict.failed_closed() => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unable(_) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// What the client can do about it.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::Denied(verdict) => denied(verdict),
            Self::Crowded(_) => "Too many requests wait for their turn; try again".to_owned(),
            Self::Missing { rule, part } => {
                format!("The request has no {part}, by which the rule {rule} counts")
            }
            Self::Unable(why) => format!("The limiter cannot decide: {why}"),
        }
    }

    /// The body as JSON, with the members of a problem document.
    #[must_use]
    pub fn body(&self) -> Value {
        let status = self.status();
        let limited = status == StatusCode::TOO_MANY_REQUESTS;
        let mut body = json!({
            "error": if limited { "rate_limited" } else { "limiter_unavailable" },
            "message": self.message(),
            "type": "about:blank",
            "title": status.canonical_reason(),
            "status": status.as_u16(),
        });
        match self {
            Self::Denied(verdict) if limited => {
                let violated = verdict.limits().filter(|limit| limit.outcome.denies());
                body["type"] = QUOTA_EXCEEDED.into();
                body["violated-policies"] = violated.map(|limit| limit.name).collect();
                body["rule"] = verdict.rule().into();
            }
            Self::Missing { rule, .. } => body["rule"] = (*rule).into(),
            _ => {}
        }
        body
    }

    /// The answer where nobody wrote another, to a client that accepts this.
    #[must_use]
    pub fn response(&self, accept: Option<&str>) -> Response<String> {
        let mut response = Response::new(self.body().to_string());
        *response.status_mut() = self.status();
        response.headers_mut().insert(header::CONTENT_TYPE, media_type(accept));
        self.write(response.headers_mut());
        response
    }

    /// Writes the headers of every refusal, and of a limit's those that its verdict says.
    pub fn write(&self, headers: &mut HeaderMap) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        match self {
            Self::Denied(verdict) => write(headers, verdict.policy().headers(), verdict),
            Self::Crowded(verdict) => {
                write(headers, verdict.policy().headers(), verdict);
                // Those who wait have gone by the time at which it would have been its turn.
                let us = verdict.decision().delay_us;
                headers.insert(header::RETRY_AFTER, seconds(us).max(1).into());
            }
            Self::Missing { .. } | Self::Unable(_) => {}
        }
    }
}

/// What a refusal is written as, to a client that accepts this.
#[must_use]
pub fn media_type(accept: Option<&str>) -> HeaderValue {
    let is_problem = accept.is_some_and(|accept| accept.contains("application/problem+json"));
    let kind = if is_problem { "application/problem+json" } else { "application/json" };
    HeaderValue::from_static(kind)
}

/// When to come back, or that it never fits.
fn denied(verdict: &Verdict) -> String {
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
