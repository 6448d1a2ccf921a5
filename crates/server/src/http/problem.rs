//! Owns [`Problem`]: what a caller did wrong, or what we could not do, as a problem document
//! (RFC 9457).

use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tollkeeper_core::RequestError;
use tollkeeper_core::limits::MAX_KEY_BYTES;
use tollkeeper_engine::EngineError;

/// The longest part of a caller's own text that is given back.
const MAX_ECHO: usize = 80;

/// A refusal with its reason.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    title: &'static str,
    status: u16,
    detail: String,
    /// The field of the request that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
}

impl Problem {
    fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        Self { title, status: status.as_u16(), detail: detail.into(), field: None }
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// `name` is no algorithm; perhaps `near` was meant.
    pub(crate) fn algorithm(name: &str, near: Option<&str>, known: &str) -> Self {
        let advice = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("expected one of {known}"),
        };
        let detail = format!("`algorithm` is {}; {advice}", echo(name));
        Self { field: Some("algorithm".to_owned()), ..Self::bad_request(detail) }
    }

    /// `field` is `value` where `expected` should be.
    pub(crate) fn field(field: &str, value: &str, expected: &str) -> Self {
        // A field can be named by the caller, as those of `attributes` are.
        let field = cut(field);
        let detail = format!("`{field}` is {}; expected {expected}", echo(value));
        Self { field: Some(field), ..Self::bad_request(detail) }
    }

    pub(crate) fn missing(field: &str, expected: &str) -> Self {
        let detail = format!("`{field}` is missing; expected {expected}");
        Self { field: Some(field.to_owned()), ..Self::bad_request(detail) }
    }

    pub(crate) fn too_large(most: usize) -> Self {
        let detail = format!(
            "the body is larger than the {most} bytes that it may have; \
             a `key` may have {MAX_KEY_BYTES}"
        );
        let problem = Self::new(StatusCode::PAYLOAD_TOO_LARGE, detail);
        Self { field: Some("body".to_owned()), ..problem }
    }

    pub(crate) fn busy() -> Self {
        let detail = "there is no room for another large body now; try again, or send less at once";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    pub(crate) fn timeout() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")
    }

    pub(crate) fn bad_gateway(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, detail)
    }

    pub(crate) fn gateway_timeout(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, detail)
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    pub(crate) fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, detail)
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    pub(crate) fn unprocessable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    pub(crate) fn not_found(path: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("there is nothing at {}", echo(path)))
    }

    pub(crate) fn method_not_allowed(method: &Method, path: &str) -> Self {
        let detail = format!("{} does not take {}", echo(path), echo(method.as_str()));
        Self::new(StatusCode::METHOD_NOT_ALLOWED, detail)
    }

    /// The problem document as JSON, for an answer that holds several.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        let status = match error {
            EngineError::Store(_) | EngineError::NoRandom => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        };
        let field = match error {
            EngineError::UnknownRule { .. } => Some("rule"),
            EngineError::LimitText(_) | EngineError::Limit(_) => Some("limit"),
            EngineError::Request(RequestError::EmptyKey | RequestError::LongKey { .. }) => {
                Some("key")
            }
            EngineError::Request(RequestError::ReservationLife { .. }) => Some("ttl"),
            _ => None,
        };
        Self { field: field.map(str::to_owned), ..Self::new(status, error.to_string()) }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response =
            (status, [(header::CONTENT_TYPE, "application/problem+json")], body).into_response();
        if status == StatusCode::UNAUTHORIZED {
            // Such an answer says how to sign in.
            let bearer = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
        }
        response
    }
}

/// A caller's text, cut and without control characters, in backquotes.
pub(crate) fn echo(text: &str) -> String {
    format!("`{}`", cut(text))
}

fn cut(text: &str) -> String {
    let visible = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    let mut shown: String = text.chars().take(MAX_ECHO).map(visible).collect();
    if text.chars().nth(MAX_ECHO).is_some() {
        shown.push('…');
    }
    shown
}
