//! Who may make admin calls: whoever has the token; without one, only somebody on this machine who
//! was not sent here by a proxy or by a web page.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::Response;

use subtle::ConstantTimeEq;
use tollkeeper_policy::Secret;

use super::Engine;
use super::problem::Problem;

pub(super) async fn guard(
    State(engine): Engine,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if let Some(token) = engine.policy().admin_token() {
        if !carries(request.headers(), token) {
            return Err(Problem::unauthorized("admin calls need `Authorization: Bearer TOKEN`"));
        }
        return Ok(next.run(request).await);
    }
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    match refusal(peer, request.uri(), request.headers()) {
        None => Ok(next.run(request).await),
        Some(reason) => Err(Problem::forbidden(format!(
            "admin calls are closed here: {reason}; `admin: {{ token: … }}` opens them"
        ))),
    }
}

/// Whether the call carries the token. How long it takes tells nothing about how much of it fits.
fn carries(headers: &HeaderMap, token: &Secret) -> bool {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(given), None) = (given.next(), given.next()) else { return false };
    let bearer = given.as_bytes().split_first_chunk::<7>();
    bearer.is_some_and(|(scheme, given)| {
        scheme.eq_ignore_ascii_case(b"bearer ") && given.ct_eq(token.expose().as_bytes()).into()
    })
}

/// Why the call is refused, if it is.
fn refusal(peer: Option<SocketAddr>, uri: &Uri, headers: &HeaderMap) -> Option<&'static str> {
    if !peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback()) {
        return Some("the call comes from another machine");
    }
    let forwarded = |name: &str| name == "forwarded" || name.starts_with("x-forwarded-");
    if headers.keys().any(|name| forwarded(name.as_str())) {
        return Some("the call was forwarded by a proxy");
    }
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    let mut hosts = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or(""));
    let named = hosts.next().is_some_and(is_loopback_host) && hosts.next().is_none();
    let authority = uri.authority().map(axum::http::uri::Authority::as_str);
    if !named || !authority.is_none_or(is_loopback_host) {
        return Some("`Host` is not this machine");
    }
    // A page that a browser loaded from elsewhere says so.
    let foreign =
        |origin: &str| !origin.split_once("://").is_some_and(|(_, host)| is_loopback_host(host));
    if text(header::ORIGIN).is_some_and(foreign) {
        return Some("`Origin` is another site");
    }
    None
}

/// Whether a host, with or without a port, is a name of this machine. Nothing else may stand in it.
fn is_loopback_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, port)) => (name, port),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let port = port.strip_prefix(':').unwrap_or(port);
    let plain = port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    let address = name.parse::<std::net::IpAddr>();
    let local = name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback());
    plain && local
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn call(peer: &str, headers: &[(&'static str, &'static str)]) -> Option<&'static str> {
        let pairs = headers.iter().map(|(name, value)| {
            (header::HeaderName::from_static(name), HeaderValue::from_static(value))
        });
        refusal(peer.parse().ok(), &Uri::from_static("/debug/state"), &pairs.collect())
    }

    #[test]
    fn a_caller_on_this_machine_is_served() {
        for (peer, host) in [
            ("127.0.0.1:5", "127.0.0.1:8080"),
            ("[::1]:5", "[::1]:8080"),
            ("[::ffff:127.0.0.1]:5", "LOCALHOST"),
        ] {
            assert_eq!(call(peer, &[("host", host)]), None, "{peer} {host}");
        }
        let own = [("host", "localhost:8080"), ("origin", "http://localhost:8080")];
        assert_eq!(call("127.0.0.1:5", &own), None);
    }

    #[test]
    fn everybody_else_is_not() {
        let local = ("host", "localhost");
        assert!(call("10.0.0.1:5", &[local]).is_some());
        assert!(call("127.0.0.1:5", &[]).is_some());
        let elsewhere = Uri::from_static("http://evil.example/debug/state");
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("localhost"))]);
        assert!(refusal("127.0.0.1:5".parse().ok(), &elsewhere, &headers).is_some());
        let mut twice = headers.clone();
        twice.append(header::HOST, HeaderValue::from_static("evil.example"));
        let uri = Uri::from_static("/debug/state");
        assert!(refusal("127.0.0.1:5".parse().ok(), &uri, &twice).is_some());
        for foreign in [
            ("host", "evil.example"),
            ("host", "localhost.evil.example"),
            ("host", "127.0.0.1:80@evil.example"),
            ("host", "127.0.0.1:evil.example"),
            ("host", "[::1]evil.example"),
            ("origin", "http://127.0.0.1:1@evil.example"),
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("forwarded", "for=1.2.3.4"),
            ("x-forwarded-for", "127.0.0.1"),
            ("x-forwarded-host", "localhost"),
        ] {
            let headers = if foreign.0 == "host" { vec![foreign] } else { vec![local, foreign] };
            assert!(call("127.0.0.1:5", &headers).is_some(), "{foreign:?}");
        }
    }
}
