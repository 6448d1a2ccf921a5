//! Headers that are for one hop alone, and those by which a proxy tells what it knows.

use std::net::IpAddr;

use hyper::header::{
    CONNECTION, EXPECT, FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE,
};

const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// What never goes further than one hop, beside what `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HTTP2_SETTINGS,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The only protocol that a connection can become. In another, HTTP/2 above all, one tunnel would
/// hold requests that nobody counts.
pub(super) const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");

/// Takes away what was for this hop alone. Returns the protocol that was asked for, if it is one that
/// is handed on.
pub(super) fn take_hop_by_hop(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let named: Vec<HeaderName> = tokens(headers, &CONNECTION)
        .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
        .collect();
    let asked = named.contains(&UPGRADE) && names_websocket(headers);
    for name in HOP_BY_HOP.iter().chain(&named) {
        // Whose request it is stays, whatever a client names.
        if *name != HOST {
            headers.remove(name);
        }
    }
    asked.then_some(WEBSOCKET)
}

/// Whether it is a WebSocket that `Upgrade` asks for, or agrees to.
pub(super) fn names_websocket(headers: &HeaderMap) -> bool {
    tokens(headers, &UPGRADE)
        .any(|token| token.as_bytes().eq_ignore_ascii_case(WEBSOCKET.as_bytes()))
}

/// Asks the next hop for a protocol, or tells the last one that it speaks it now.
pub(super) fn upgrade_to(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}

/// Whether the client takes trailers.
pub(super) fn takes_trailers(headers: &HeaderMap) -> bool {
    tokens(headers, &TE).any(|token| token.eq_ignore_ascii_case("trailers"))
}

/// Takes away the wish to be asked for the body: it is answered here, once the body is wanted.
pub(super) fn take_expectation(headers: &mut HeaderMap) {
    headers.remove(EXPECT);
}

/// A request's way so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<'a> {
    /// Who is at the other end of the connection.
    pub(super) peer: IpAddr,
    /// Who sent it, by what trusted proxies say.
    pub(super) client: IpAddr,
    /// Whether the peer is a trusted proxy.
    pub(super) trusted: bool,
    /// How it came: `http` or `https`.
    pub(super) scheme: &'static str,
    /// The host that it asks for.
    pub(super) host: Option<&'a HeaderValue>,
}

/// Tells the app who asks. What a client says of that itself is taken away; what a trusted proxy
/// says stays, and is added to.
pub(super) fn tell_way(headers: &mut HeaderMap, way: Way<'_>) {
    let Way { peer, client, trusted, scheme, host } = way;
    if !trusted {
        for name in [X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO, X_FORWARDED_PORT] {
            headers.remove(name);
        }
        headers.remove(FORWARDED);
    }
    append(headers, X_FORWARDED_FOR, &peer.to_string());
    if headers.contains_key(FORWARDED) {
        let node = if peer.is_ipv6() { format!("\"[{peer}]\"") } else { peer.to_string() };
        append(headers, FORWARDED, &format!("for={node};proto={scheme}"));
    }
    headers.entry(X_FORWARDED_PROTO).or_insert(HeaderValue::from_static(scheme));
    if let Some(host) = host {
        headers.entry(X_FORWARDED_HOST).or_insert_with(|| host.clone());
    }
    if let Ok(client) = HeaderValue::from_str(&client.to_string()) {
        headers.insert(X_REAL_IP, client);
    }
}

/// Adds to a list, in one line with what is there.
fn append(headers: &mut HeaderMap, name: HeaderName, element: &str) {
    let mut list: Vec<u8> = Vec::new();
    for line in headers.get_all(&name) {
        list.extend_from_slice(line.as_bytes());
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(element.as_bytes());
    if let Ok(list) = HeaderValue::from_bytes(&list) {
        headers.insert(name, list);
    }
}

/// The elements of a header that is a list of words.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        headers
    }

    fn all<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
        headers.get_all(name).into_iter().map(|value| value.to_str().unwrap()).collect()
    }

    fn way(peer: &str, client: &str, trusted: bool) -> Way<'static> {
        let (peer, client) = (peer.parse().unwrap(), client.parse().unwrap());
        Way { peer, client, trusted, scheme: "http", host: None }
    }

    #[test]
    fn what_connection_names_goes_no_further() {
        let mut headers = headers(&[
            ("connection", "close, X-Secret"),
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("x-secret", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers, deflate"),
            ("transfer-encoding", "chunked"),
            ("proxy-authorization", "Basic eA=="),
            ("x-kept", "1"),
        ]);
        assert!(takes_trailers(&headers));
        assert_eq!(take_hop_by_hop(&mut headers).unwrap(), "websocket");
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-kept"]);
    }

    /// The app answered 101 to `h2c`, and whatever came on that connection was never counted.
    #[test]
    fn only_a_web_socket_is_handed_on() {
        for (upgrade, handed_on) in [
            ("websocket", true),
            ("WebSocket", true),
            ("h2c, websocket", true),
            ("h2c", false),
            ("TLS/1.0", false),
            ("websocket2", false),
            ("", false),
        ] {
            let mut headers = headers(&[
                ("connection", "Upgrade, HTTP2-Settings"),
                ("upgrade", upgrade),
                ("http2-settings", "AAMAAABkAAQAoAAAAAIAAAAA"),
            ]);
            let asked = take_hop_by_hop(&mut headers);
            assert_eq!(asked.is_some_and(|asked| asked == "websocket"), handed_on, "{upgrade}");
            assert!(headers.is_empty(), "{headers:?}");
        }
        let mut headers = headers(&[("http2-settings", "AAMAAABk")]);
        take_hop_by_hop(&mut headers);
        assert!(headers.is_empty(), "whether `Connection` names it or not");
    }

    #[test]
    fn a_client_cannot_name_away_whose_request_it_is() {
        let mut headers = headers(&[("connection", "host"), ("host", "app"), ("upgrade", "x")]);
        assert!(take_hop_by_hop(&mut headers).is_none(), "upgrade is not named");
        assert_eq!(all(&headers, "host"), ["app"]);
    }

    #[test]
    fn the_word_of_a_client_on_itself_is_taken_away() {
        let mut headers = headers(&[
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "evil"),
            ("x-forwarded-port", "1"),
            ("forwarded", "for=1.1.1.1"),
            ("x-real-ip", "1.1.1.1"),
        ]);
        tell_way(&mut headers, way("203.0.113.9", "203.0.113.9", false));
        assert_eq!(all(&headers, "x-forwarded-for"), ["203.0.113.9"]);
        assert_eq!(all(&headers, "x-forwarded-proto"), ["http"]);
        assert_eq!(all(&headers, "x-real-ip"), ["203.0.113.9"]);
        for name in ["x-forwarded-host", "x-forwarded-port", "forwarded"] {
            assert!(!headers.contains_key(name), "{name}");
        }
    }

    #[test]
    fn the_word_of_a_trusted_proxy_stays_and_is_added_to() {
        let mut headers = headers(&[
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-for", "10.0.0.2"),
            ("x-forwarded-proto", "https"),
            ("forwarded", "for=1.1.1.1"),
        ]);
        tell_way(&mut headers, way("fd00::1", "1.1.1.1", true));
        assert_eq!(all(&headers, "x-forwarded-for"), ["1.1.1.1, 10.0.0.2, fd00::1"]);
        assert_eq!(all(&headers, "x-forwarded-proto"), ["https"]);
        assert_eq!(all(&headers, "forwarded"), ["for=1.1.1.1, for=\"[fd00::1]\";proto=http"]);
        assert_eq!(all(&headers, "x-real-ip"), ["1.1.1.1"]);
    }
}
