//! Owns [`Connector`]: connections to the app, opened in the time that the policy gives.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::wire::AppEngine;

/// How often a connection without traffic is tried, so that one whose other end is gone is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(super) struct Connector {
    engine: Arc<AppEngine>,
    inner: HttpConnector,
}

impl Connector {
    pub(super) fn new(engine: Arc<AppEngine>) -> Self {
        let mut inner = HttpConnector::new();
        inner.set_nodelay(true);
        inner.set_keepalive(Some(KEEP_ALIVE));
        Self { engine, inner }
    }
}

type Connecting = Pin<Box<dyn Future<Output = io::Result<TokioIo<TcpStream>>> + Send>>;

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Connecting;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_ready(context).map_err(io::Error::other)
    }

    fn call(&mut self, uri: Uri) -> Connecting {
        // The name is looked up in that time, too.
        let patience = Duration::from_micros(self.engine.policy().gateway().connect_timeout_us);
        let connecting = self.inner.call(uri);
        Box::pin(async move {
            match tokio::time::timeout(patience, connecting).await {
                Ok(connected) => connected.map_err(io::Error::other),
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no connection in time")),
            }
        })
    }
}
