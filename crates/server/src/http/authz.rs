//! `/v1/authz`: forward-auth. A proxy asks about a request that it has got, and lets it through or
//! gives back our answer.
//!
//! Whoever can reach this call can ask about any request: it charges, and so belongs on an address
//! that only proxies reach.

use std::pin::pin;
use std::time::Duration;

use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tollkeeper_engine::Judgement;
use tollkeeper_tower::{HttpRequest, Refusal};

use super::meant::Meant;
use super::peer::{Peer, one_host};
use super::problem::Problem;
use super::{Engine, encode};
use crate::telemetry::deciding;

/// What the answer would have been without `deny`, for proxies that cannot give it back as it is:
/// its status, and its body without the numbers of each limit.
const STATUS: HeaderName = HeaderName::from_static("x-tollkeeper-status");
const BODY: HeaderName = HeaderName::from_static("x-tollkeeper-body");

pub(super) async fn authz(
    State(engine): Engine,
    peer: Peer,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers();
    let policy = engine.policy();
    let (deny, encounter) = {
        let meant = Meant::read(headers)?;
        if meant.host().is_none() {
            // Then it is the one of the call itself.
            one_host(headers)?;
        }
        let query = query.filter(|query| !query.is_empty() && !meant.has_left(query));
        let deny = query.as_deref().map(deny_status).transpose()?;
        let method = meant.method.unwrap_or_else(|| request.method().as_str());
        let asked = request.uri();
        let view =
            HttpRequest::new(request.method(), asked, headers, peer.ip(), policy.client_ip())
                .forwarded(method, meant.path_and_query(), meant.host());
        (deny, engine.meet(&view))
    };
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let accept = accept.map(str::to_owned);
    drop(request);
    let (mut response, body) = match deciding(&engine, pin!(engine.judge(encounter))).await? {
        Judgement::Decided(verdict) if verdict.allowed() => {
            // A request whose turn comes later goes to the app when it comes.
            let delay_us = verdict.decision().delay_us;
            if delay_us > 0 {
                tokio::time::sleep(Duration::from_micros(delay_us)).await;
            }
            return Ok(
                (StatusCode::OK, encode::headers(&verdict, policy.headers())).into_response()
            );
        }
        Judgement::Decided(verdict) => (
            encode::refusal(&verdict, policy.headers(), accept.as_deref()),
            encode::refused(&verdict),
        ),
        Judgement::Missing { rule, part } => {
            let body = Refusal::Missing { rule: &rule, part: &part }.body();
            (encode::lacking(&rule, &part, accept.as_deref()), body)
        }
        _ => return Ok(StatusCode::OK.into_response()),
    };
    if let Some(status) = deny {
        tell_in_headers(&mut response, body);
        *response.status_mut() = status;
    }
    Ok(response)
}

fn tell_in_headers(response: &mut Response, mut body: Value) {
    if let Value::Object(members) = &mut body {
        // As many as there are limits; their numbers are in other headers.
        members.shift_remove("limits");
    }
    let status = response.status().as_u16();
    let headers = response.headers_mut();
    headers.insert(STATUS, status.into());
    if let Ok(body) = HeaderValue::try_from(body.to_string()) {
        headers.insert(BODY, body);
    }
}

/// What a refusal is turned into, for proxies that know only some: nginx takes 401 and 403.
fn deny_status(query: &str) -> Result<StatusCode, Problem> {
    let status = query.strip_prefix("deny=").and_then(|status| status.parse::<u16>().ok());
    match status.and_then(|status| StatusCode::from_u16(status).ok()) {
        Some(status) if status.is_client_error() || status.is_server_error() => Ok(status),
        _ => Err(Problem::field("deny", query, "`deny=` and a status from 400 to 599")),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tollkeeper_policy::Policy;
    use tower_service::Service;

    use super::*;

    #[tokio::test]
    async fn of_two_hosts_none_is_chosen_unless_the_proxy_says_which() {
        let policy = "rules: { a: { match: { host: a.test }, limit: 1000/s } }";
        let mut routes = crate::routes(Policy::parse(policy, &|_| None).unwrap()).unwrap();
        for (told, hosts, status) in [
            (None, &["b.test", "a.test"][..], 400),
            (Some("a.test"), &["b.test", "a.test"], 200),
            (None, &["a.test"], 200),
            (None, &[], 200),
        ] {
            let mut request = Request::builder().uri("/v1/authz").header("x-forwarded-uri", "/");
            for host in hosts {
                request = request.header(header::HOST, *host);
            }
            if let Some(told) = told {
                request = request.header("x-forwarded-host", told);
            }
            let answer = routes.call(request.body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(answer.status(), status, "{told:?} {hosts:?}");
        }
    }
}
