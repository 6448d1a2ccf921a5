//! Owns [`Meant`]: the request that a proxy asks about.
//!
//! Traefik and Caddy tell it in `X-Forwarded-Method`, `-Uri` and `-Host`, nginx as one writes it in
//! its file, by custom in `X-Original-Method`, `-URI` and `-Host`. A proxy replaces the headers that
//! it writes, and hands on the client's others. So the two are never mixed, and a request that is
//! told both ways is refused: one of them is the client's own word, and nobody can say which.

use std::borrow::Cow;
use std::fmt::Write as _;

use axum::http::{HeaderMap, HeaderValue};

use super::problem::Problem;

/// The names of one way to tell a request.
struct Way {
    uri: &'static str,
    method: &'static str,
    host: &'static str,
}

const FORWARDED: Way =
    Way { uri: "x-forwarded-uri", method: "x-forwarded-method", host: "x-forwarded-host" };
const ORIGINAL: Way =
    Way { uri: "x-original-uri", method: "x-original-method", host: "x-original-host" };

/// What a proxy told of a request.
#[derive(Debug)]
pub(super) struct Meant<'h> {
    pub(super) method: Option<&'h str>,
    uri: Cow<'h, str>,
    host: Option<Cow<'h, str>>,
    is_forwarded: bool,
}

impl<'h> Meant<'h> {
    pub(super) fn read(headers: &'h HeaderMap) -> Result<Self, Problem> {
        let (way, uri) = match (only(headers, FORWARDED.uri)?, only(headers, ORIGINAL.uri)?) {
            (Some(uri), None) => (FORWARDED, uri),
            (None, Some(uri)) => (ORIGINAL, uri),
            (None, None) => {
                return Err(Problem::bad_request(
                    "which request is meant? expected `X-Forwarded-Uri` or `X-Original-URI`",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(Problem::bad_request(
                    "which request is meant? there are both `X-Forwarded-Uri` and \
                     `X-Original-URI`; let the proxy take away the one that it does not write",
                ));
            }
        };
        let method = only(headers, way.method)?.map(HeaderValue::to_str).transpose();
        Ok(Self {
            method: method
                .map_err(|_| Problem::bad_request(format!("`{}` is no method", way.method)))?,
            uri: ascii(uri),
            host: only(headers, way.host)?.map(ascii),
            is_forwarded: way.uri == FORWARDED.uri,
        })
    }

    pub(super) fn path_and_query(&self) -> &str {
        split(&self.uri).1
    }

    pub(super) fn host(&self) -> Option<&str> {
        self.host.as_deref().or(split(&self.uri).0)
    }

    /// Whether the query of our own URI is not for us, but the one of the request that is meant:
    /// Caddy asks under another path and leaves the query there.
    pub(super) fn has_left(&self, query: &str) -> bool {
        let own = self.uri.split_once('?').map(|(_, own)| own);
        self.is_forwarded && own.is_some_and(|own| own == encoded(query.as_bytes()))
    }
}

/// The value of a header that a proxy writes, and which is there once if it does.
fn only<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        _ => Err(Problem::bad_request(format!(
            "`{name}` is there more than once; let the proxy replace what a client sends"
        ))),
    }
}

/// The text with every other byte percent-encoded, which is how a path should have come.
fn ascii(value: &HeaderValue) -> Cow<'_, str> {
    value.to_str().map_or_else(|_| encoded(value.as_bytes()).into(), Into::into)
}

fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte.is_ascii() {
            true => text.push(char::from(*byte)),
            false => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}

/// Splits `http://host/path` into host and path; anything else is a path already.
fn split(uri: &str) -> (Option<&str>, &str) {
    let is_scheme =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match uri.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => {
            let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            (Some(authority), path)
        }
        _ => (None, uri),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    fn meant(pairs: &[(&str, &[u8])]) -> Result<String, ()> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        let meant = Meant::read(&headers).map_err(drop)?;
        let (method, host) = (meant.method.unwrap_or("-"), meant.host().unwrap_or("-"));
        Ok(format!("{method} {host} {}", meant.path_and_query()))
    }

    #[test]
    fn one_way_is_read_and_the_other_is_not_mixed_in() {
        let forwarded: &[(&str, &[u8])] = &[
            ("x-forwarded-uri", b"/a?b"),
            ("x-forwarded-method", b"PUT"),
            ("x-forwarded-host", b"h"),
        ];
        let original: &[(&str, &[u8])] = &[
            ("x-original-uri", b"/a?b"),
            ("x-original-method", b"PUT"),
            ("x-original-host", b"h"),
        ];
        for (way, other) in [(forwarded, original), (original, forwarded)] {
            assert_eq!(meant(way), Ok("PUT h /a?b".to_owned()));
            // What a client adds to what its proxy wrote.
            assert_eq!(meant(&[&way[..1], &other[1..]].concat()), Ok("- - /a?b".to_owned()));
            assert_eq!(meant(&[way, &other[..1]].concat()), Err(()));
            for again in way {
                assert_eq!(meant(&[way, &[*again]].concat()), Err(()));
            }
        }
        assert_eq!(meant(&[]), Err(()));
        assert_eq!(meant(&[("x-forwarded-method", b"GET")]), Err(()));
    }

    /// It used to count as absent, so that the client's own `X-Original-URI` took its place.
    #[test]
    fn a_uri_that_is_no_text_is_still_the_one_that_is_meant() {
        let uri: &[u8] = b"/caf\xc3\xa9?\xff";
        assert_eq!(meant(&[("x-forwarded-uri", uri)]), Ok("- - /caf%C3%A9?%FF".to_owned()));
        assert_eq!(meant(&[("x-forwarded-uri", uri), ("x-original-uri", b"/free")]), Err(()));
    }

    #[test]
    fn a_query_is_the_clients_where_a_proxy_has_left_it() {
        for (name, uri, left) in [
            ("x-forwarded-uri", "/a?deny=500", true),
            ("x-forwarded-uri", "/a?deny=403", false),
            ("x-forwarded-uri", "/a", false),
            // nginx writes a query of its own.
            ("x-original-uri", "/a?deny=500", false),
        ] {
            let name = HeaderName::from_static(name);
            let headers = HeaderMap::from_iter([(name, HeaderValue::from_static(uri))]);
            assert_eq!(Meant::read(&headers).unwrap().has_left("deny=500"), left, "{uri}");
        }
        let uri = HeaderValue::from_bytes("/a?é".as_bytes()).unwrap();
        let headers = HeaderMap::from_iter([(HeaderName::from_static("x-forwarded-uri"), uri)]);
        assert!(Meant::read(&headers).unwrap().has_left("é"));
    }

    #[test]
    fn a_whole_url_is_its_path_and_its_host() {
        for (uri, told) in [
            ("http://h:80/a?b", "- h:80 /a?b"),
            ("https://h?b", "- h ?b"),
            ("http://h", "- h "),
            ("//h/a", "- - //h/a"),
            ("/a?u=http://h/b", "- - /a?u=http://h/b"),
            ("*", "- - *"),
        ] {
            assert_eq!(meant(&[("x-forwarded-uri", uri.as_bytes())]), Ok(told.to_owned()));
        }
        let both: &[(&str, &[u8])] =
            &[("x-forwarded-uri", b"http://other/a"), ("x-forwarded-host", b"h")];
        assert_eq!(meant(both), Ok("- h /a".to_owned()));
    }
}
