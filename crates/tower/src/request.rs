//! Owns [`HttpRequest`]: a request over HTTP, as rules look at it.

use std::net::IpAddr;

use http::{HeaderMap, Method, Uri, header};
use tollkeeper_policy::{ClientIp, RequestView};

use crate::client_ip::{Client, client};
use crate::unheard::{Seen, notice};

/// A request, by its parts.
#[derive(Clone, Copy, Debug)]
pub struct HttpRequest<'a> {
    method: &'a str,
    path: &'a str,
    query: Option<&'a str>,
    host: Option<&'a str>,
    headers: &'a HeaderMap,
    client: Option<Client>,
    /// Whether nobody's word on the client's address counts.
    trusts_nobody: bool,
    seen: Seen,
    route: Option<&'a str>,
}

impl<'a> HttpRequest<'a> {
    /// A request as it came from `peer`, if that is known.
    #[must_use]
    pub fn new(
        method: &'a Method,
        uri: &'a Uri,
        headers: &'a HeaderMap,
        peer: Option<IpAddr>,
        settings: &ClientIp,
    ) -> Self {
        Self {
            method: method.as_str(),
            path: uri.path(),
            query: uri.query(),
            // In HTTP/2 the host stands in the URI.
            host: uri.authority().map(http::uri::Authority::as_str),
            headers,
            client: peer.map(|peer| client(settings, peer, headers)),
            trusts_nobody: settings.trusted_proxies.is_empty(),
            seen: Seen::Itself,
            route: None,
        }
    }

    /// The same request under what the app calls its route, such as `/users/{id}`.
    #[must_use]
    pub fn routed(self, route: &'a str) -> Self {
        Self { route: Some(route), ..self }
    }

    /// The same request as a proxy in front, which asks about it, says that it was.
    #[must_use]
    pub fn forwarded(
        self,
        method: &'a str,
        path_and_query: &'a str,
        host: Option<&'a str>,
    ) -> Self {
        let (path, query) = match path_and_query.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path_and_query, None),
        };
        Self { method, path, query, host: host.or(self.host), seen: Seen::AskedAbout, ..self }
    }
}

impl RequestView for HttpRequest<'_> {
    fn method(&self) -> Option<&str> {
        Some(self.method)
    }

    fn path(&self) -> Option<&str> {
        Some(self.path)
    }

    fn query(&self) -> Option<&str> {
        self.query
    }

    fn host(&self) -> Option<&str> {
        self.host.or_else(|| self.headers.get(header::HOST)?.to_str().ok())
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn ip(&self) -> Option<IpAddr> {
        let client = self.client?;
        // Only where a rule asks for the address does it matter whose it is.
        if self.trusts_nobody {
            notice(client.ip, self.headers, self.seen);
        }
        Some(client.ip)
    }

    fn route(&self) -> Option<&str> {
        self.route
    }

    fn is_trusted(&self) -> bool {
        self.client.is_some_and(|client| client.via_trusted)
    }
}
