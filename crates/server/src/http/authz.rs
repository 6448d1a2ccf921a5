//! `/v1/authz`: forward-auth. A proxy asks about a request that it has got, and lets it through or
//! gives back our answer.
//!
//! nginx tells the request in `X-Original-Method` and `X-Original-URI`, Traefik and Caddy in
//! `X-Forwarded-Method` and `X-Forwarded-Uri`. Whoever can reach this call can ask about any
//! request: it charges, and so belongs on an address that only proxies reach.

use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use tollkeeper_engine::Judgement;
use tollkeeper_tower::HttpRequest;

use super::peer::Peer;
use super::problem::Problem;
use super::{Engine, encode};

pub(super) async fn authz(
    State(engine): Engine,
    peer: Peer,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    let deny = deny_status(query.as_deref())?;
    let headers = request.headers();
    let text = |names: [&str; 2]| names.into_iter().find_map(|name| header(headers, name));
    let method = text(["x-forwarded-method", "x-original-method"])
        .unwrap_or_else(|| request.method().as_str());
    let uri = text(["x-forwarded-uri", "x-original-uri"]).ok_or_else(|| {
        Problem::bad_request(
            "which request is meant? expected `X-Forwarded-Uri` or `X-Original-URI`",
        )
    })?;
    let host = text(["x-forwarded-host", "x-original-host"]);
    let policy = engine.policy();
    let view =
        HttpRequest::new(request.method(), request.uri(), headers, peer.ip(), policy.client_ip())
            .forwarded(method, uri, host);
    let encounter = engine.meet(&view);
    let accept = header(headers, "accept").map(str::to_owned);
    drop(request);
    let mut response = match engine.judge(encounter).await? {
        Judgement::Decided(verdict) if verdict.allowed() => {
            (StatusCode::OK, encode::headers(&verdict, policy.headers())).into_response()
        }
        Judgement::Decided(verdict) => {
            encode::refusal(&verdict, policy.headers(), accept.as_deref())
        }
        Judgement::Missing { rule, part } => encode::lacking(&rule, &part),
        _ => StatusCode::OK.into_response(),
    };
    if let Some(status) = deny.filter(|_| !response.status().is_success()) {
        *response.status_mut() = status;
    }
    Ok(response)
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// What a refusal is turned into, for proxies that know only some: nginx takes 401 and 403.
fn deny_status(query: Option<&str>) -> Result<Option<StatusCode>, Problem> {
    let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok(None) };
    let status = query.strip_prefix("deny=").and_then(|status| status.parse::<u16>().ok());
    match status.and_then(|status| StatusCode::from_u16(status).ok()) {
        Some(status) if status.is_client_error() || status.is_server_error() => Ok(Some(status)),
        _ => Err(Problem::field("deny", query, "`deny=` and a status from 400 to 599")),
    }
}
