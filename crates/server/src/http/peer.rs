//! Owns [`Peer`]: who is at the other end of the connection; and to whom a request is.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};

use super::problem::Problem;

/// The address at the other end, where it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(Option<SocketAddr>);

impl Peer {
    pub(super) fn ip(self) -> Option<IpAddr> {
        self.0.map(|address| address.ip())
    }
}

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0)))
    }
}

/// Refuses a request to several hosts: rules go by one, and whoever gets it might by another.
pub(crate) fn one_host(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get_all(header::HOST).iter().nth(1) {
        None => Ok(()),
        Some(_) => Err(Problem::bad_request("`Host` is there more than once; expected one host")),
    }
}
