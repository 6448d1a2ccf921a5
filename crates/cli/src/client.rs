//! Asks a running service.

use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{HeaderMap, Method, Request, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::output::Failure;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The largest answer that is read.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// What the service said.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Sends one request.
pub(crate) async fn send(method: Method, url: &str, body: String) -> Result<Reply, Failure> {
    let uri: Uri = url.parse().map_err(|_| bad_url(url))?;
    let url = &shown(url);
    if uri.scheme_str() != Some("http") || uri.host().is_none() {
        return Err(bad_url(url));
    }
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(Failure::told)?;
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let asked = async {
        let response = client.request(request).await.map_err(|error| {
            let why =
                std::error::Error::source(&error).map_or_else(String::new, |s| format!(": {s}"));
            Failure::told(format!(
                "no answer from {url}: {error}{why}\nIs `tollkeeper serve` running?"
            ))
        })?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER).collect().await;
        let body = body.map_err(|error| Failure::told(format!("{url}: {error}")))?.to_bytes();
        Ok(Reply { status: parts.status, headers: parts.headers, body })
    };
    let late = |_| Failure::told(format!("no answer from {url} within {} s", PATIENCE.as_secs()));
    tokio::time::timeout(PATIENCE, asked).await.map_err(late)?
}

fn bad_url(url: &str) -> Failure {
    let url = shown(url);
    Failure::told(format!("`--url` is `{url}`; expected one such as http://127.0.0.1:8080"))
}

/// A URL without the user and the password that may stand in it.
fn shown(url: &str) -> String {
    let begins = url.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at(begins);
    let ends = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..ends].rfind('@') {
        Some(at) => format!("{scheme}{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_is_not_told() {
        for (url, told) in [
            ("http://u:secret@127.0.0.1:1/v1?x=@", "http://127.0.0.1:1/v1?x=@"),
            ("http://a@b:secret@host", "http://host"),
            ("u:secret@host/x", "host/x"),
            ("http://host/a@b", "http://host/a@b"),
            ("nonsense", "nonsense"),
        ] {
            assert_eq!(shown(url), told);
        }
    }
}
