//! Owns [`Server`]: binds, serves, and drains when it is told to stop.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tollkeeper_memory::SystemClock;
use tollkeeper_policy::Policy;

use crate::http;
use crate::wire::{AppEngine, engine};

/// How long requests under way may take to finish once the server was told to stop.
const DRAIN: Duration = Duration::from_secs(10);

/// Why the server did not start, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// `listen` opens no door.
    #[error("`listen` names no door; expected `http`")]
    NoDoor,
    /// The listener failed.
    #[error("the listener failed: {0}")]
    Io(#[from] std::io::Error),
}

/// A server that listens and does not serve yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    engine: Arc<AppEngine>,
}

impl Server {
    /// Listens where the policy says.
    pub async fn bind(policy: Policy) -> Result<Self, ServeError> {
        let address = policy.listen().http.ok_or(ServeError::NoDoor)?;
        let bound = TcpListener::bind(address).await;
        let listener = bound.map_err(|source| ServeError::Bind { address, source })?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, engine: Arc::new(engine(policy, SystemClock::new())) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is ready, then lets requests under way finish for a while.
    pub async fn run(
        self,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let (stopping, mut stopped) = tokio::sync::watch::channel(false);
        let service = http::router(self.engine).into_make_service_with_connect_info::<SocketAddr>();
        let serving = axum::serve(self.listener, service).with_graceful_shutdown(async move {
            stop.await;
            // Nobody listens any more only when serving has ended already.
            let _ = stopping.send(true);
        });
        let overdue = async move {
            if stopped.wait_for(|stopped| *stopped).await.is_ok() {
                tokio::time::sleep(DRAIN).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            served = serving => Ok(served?),
            () = overdue => Ok(()),
        }
    }
}
