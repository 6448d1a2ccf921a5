//! Owns [`HttpRequest`]: a request over HTTP, as rules look at it.

use std::cell::OnceCell;
use std::net::IpAddr;

use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header};
use tollkeeper_policy::{ClientIp, RequestView};

use crate::client_ip::{Client, client};
use crate::layer::{peer, route};
use crate::unheard::{Seen, notice};

/// Up to so many headers it is cheaper to look at each than to look a name up.
const FEW_HEADERS: usize = 16;

/// A request, by its parts. What rules seldom ask for is found when they do.
#[derive(Clone, Debug)]
pub struct HttpRequest<'a> {
    line: Line<'a>,
    headers: &'a HeaderMap,
    noted: Noted<'a>,
    /// Whose word on the client's address counts.
    settings: &'a ClientIp,
    client: OnceCell<Option<Client>>,
    seen: Seen,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
enum Line<'a> {
    AsItCame { method: &'a Method, uri: &'a Uri },
    Told { method: &'a str, path: &'a str, query: Option<&'a str>, host: Option<&'a str> },
}

impl<'a> Line<'a> {
    /// The host, if it stands there: in HTTP/2 it does.
    fn host(&self) -> Option<&'a str> {
        match *self {
            Self::AsItCame { uri, .. } => uri.authority().map(http::uri::Authority::as_str),
            Self::Told { host, .. } => host,
        }
    }
}

/// What stands beside the request itself: who sent it, and what the app calls its route.
#[derive(Clone, Copy, Debug)]
enum Noted<'a> {
    Told { peer: Option<IpAddr>, route: Option<&'a str> },
    ByServer(&'a Extensions),
}

impl<'a> HttpRequest<'a> {
    /// A request as it came from `peer`, if that is known.
    #[must_use]
    pub fn new(
        method: &'a Method,
        uri: &'a Uri,
        headers: &'a HeaderMap,
        peer: Option<IpAddr>,
        settings: &'a ClientIp,
    ) -> Self {
        Self::noted(method, uri, headers, Noted::Told { peer, route: None }, settings)
    }

    /// A request as a server handed it to the app.
    #[inline]
    pub(crate) fn of<Q>(request: &'a Request<Q>, settings: &'a ClientIp) -> Self {
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        Self::noted(method, uri, headers, Noted::ByServer(request.extensions()), settings)
    }

    #[inline]
    fn noted(
        method: &'a Method,
        uri: &'a Uri,
        headers: &'a HeaderMap,
        noted: Noted<'a>,
        settings: &'a ClientIp,
    ) -> Self {
        Self {
            line: Line::AsItCame { method, uri },
            headers,
            noted,
            settings,
            client: OnceCell::new(),
            seen: Seen::Itself,
        }
    }

    fn peer(&self) -> Option<IpAddr> {
        match self.noted {
            Noted::Told { peer, .. } => peer,
            Noted::ByServer(extensions) => peer(extensions),
        }
    }

    fn client(&self) -> Option<Client> {
        let client = || Some(client(self.settings, self.peer()?, self.headers));
        *self.client.get_or_init(client)
    }

    /// The same request under what the app calls its route, such as `/users/{id}`.
    #[must_use]
    pub fn routed(self, route: &'a str) -> Self {
        let noted = Noted::Told { peer: self.peer(), route: Some(route) };
        Self { noted, ..self }
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
        let line = Line::Told { method, path, query, host: host.or(self.line.host()) };
        Self { line, seen: Seen::AskedAbout, ..self }
    }
}

impl RequestView for HttpRequest<'_> {
    fn method(&self) -> Option<&str> {
        Some(match self.line {
            Line::AsItCame { method, .. } => method.as_str(),
            Line::Told { method, .. } => method,
        })
    }

    fn path(&self) -> Option<&str> {
        Some(match self.line {
            Line::AsItCame { uri, .. } => uri.path(),
            Line::Told { path, .. } => path,
        })
    }

    fn query(&self) -> Option<&str> {
        match self.line {
            Line::AsItCame { uri, .. } => uri.query(),
            Line::Told { query, .. } => query,
        }
    }

    fn host(&self) -> Option<&str> {
        self.line.host().or_else(|| self.headers.get(header::HOST)?.to_str().ok())
    }

    fn header(&self, name: &str) -> Option<&str> {
        str::from_utf8(self.header_line(name, 0)?).ok()
    }

    #[inline]
    fn header_line(&self, name: &str, nth: usize) -> Option<&[u8]> {
        // Both are in lower case.
        let is_it = |known: &HeaderName| known.as_str() == name;
        let value = match self.headers.len() <= FEW_HEADERS {
            true => {
                let mut lines = self.headers.iter().filter(|(known, _)| is_it(known));
                lines.nth(nth).map(|(_, value)| value)
            }
            false if nth == 0 => self.headers.get(name),
            false => self.headers.get_all(name).iter().nth(nth),
        };
        value.map(HeaderValue::as_bytes)
    }

    fn ip(&self) -> Option<IpAddr> {
        let client = self.client()?;
        // Only where a rule asks for the address does it matter whose it is.
        if self.settings.trusted_proxies.is_empty() {
            notice(client.ip, self.headers, self.seen);
        }
        Some(client.ip)
    }

    fn route(&self) -> Option<&str> {
        match self.noted {
            Noted::Told { route, .. } => route,
            Noted::ByServer(extensions) => route(extensions),
        }
    }

    fn is_trusted(&self) -> bool {
        self.client().is_some_and(|client| client.via_trusted)
    }
}
