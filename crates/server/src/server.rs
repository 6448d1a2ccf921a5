//! Owns [`Server`]: binds, serves a bounded number of connections, and drains when it is told to
//! stop.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tollkeeper_core::StoreError;
use tollkeeper_policy::Policy;
use tollkeeper_stores::OpenError;
use tower_service::Service;

use crate::http::{self, App};
use crate::reload::{self, PolicyFile, Reloader};
use crate::watch::watch;
use crate::wire::app;

/// How long requests under way may take to finish once the server was told to stop.
const DRAIN: Duration = Duration::from_secs(10);

/// How long a connection may take to send the head of a request, the wait for it included.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);

/// The most connections at once; further ones wait until one ends.
const MAX_CONNECTIONS: usize = 10_000;

/// How long accepting pauses when the system has no more to give, such as file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why the server did not start, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source} (choose another with --listen)")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The store cannot be opened as the policy says.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// `listen` opens a door that this version does not have.
    #[error("`listen.gateway` is not served by this version; use /v1/authz or the middleware")]
    NoGateway,
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
    http: TcpListener,
    admin: Option<TcpListener>,
    app: App,
}

/// Where connections come in, and what answers them.
struct Door {
    listener: TcpListener,
    router: Router,
}

impl Server {
    /// Listens where the policy says.
    pub async fn bind(policy: Policy) -> Result<Self, ServeError> {
        let listen = policy.listen().clone();
        if listen.gateway.is_some() {
            return Err(ServeError::NoGateway);
        }
        let http = bind(listen.http.ok_or(ServeError::NoDoor)?).await?;
        let admin = match listen.admin {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        Ok(Self { http, admin, app: app(policy)? })
    }

    /// Waits until the store can be asked. If it cannot, the server serves all the same: the
    /// policy says what is told without it.
    pub async fn store_opened(&self) -> Result<(), StoreError> {
        self.app.engine.store().opened().await
    }

    /// Reads the policy again when its file changes, at SIGHUP, and when an operator asks.
    #[must_use]
    pub fn reloading(mut self, file: PolicyFile) -> Self {
        let (engine, metrics) = (Arc::clone(&self.app.engine), Arc::clone(&self.app.metrics));
        self.app.reloader = Some(Arc::new(Reloader { engine, metrics, file }));
        self
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr, ServeError> {
        Ok(self.http.local_addr()?)
    }

    /// Where it listens for admin calls, if that is elsewhere.
    pub fn admin_address(&self) -> Result<Option<SocketAddr>, ServeError> {
        Ok(self.admin.as_ref().map(TcpListener::local_addr).transpose()?)
    }

    /// Serves until `stop` is ready, then lets requests under way finish for a while.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        let mut beside = JoinSet::new();
        beside.spawn(watch(Arc::clone(&self.app.engine)));
        if let Some(reloader) = &self.app.reloader {
            beside.spawn(reload::watch(Arc::clone(reloader)));
            beside.spawn(reload::at_hangup(Arc::clone(reloader)));
        }
        let doors = doors(self.http, self.admin, self.app);
        let connections = GracefulShutdown::new();
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut stop = std::pin::pin!(stop);
        loop {
            let next = async {
                // The semaphore is never closed.
                let place = Arc::clone(&places).acquire_owned().await.ok();
                (place, accept(&doors).await)
            };
            let (place, (nth, accepted)) = tokio::select! {
                next = next => next,
                () = &mut stop => break,
            };
            let Ok((stream, peer)) = accepted else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let connection = connections.watch(serve(stream, peer, doors[nth].router.clone()));
            tokio::spawn(async move {
                // A connection that breaks off is its client's affair.
                let _ = connection.await;
                drop(place);
            });
        }
        drop(doors);
        drop(beside);
        // What is not done by then is cut off.
        let _ = tokio::time::timeout(DRAIN, connections.shutdown()).await;
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| ServeError::Bind { address, source })
}

/// Admin calls have a door of their own, or share the API's.
fn doors(http: TcpListener, admin: Option<TcpListener>, app: App) -> Vec<Door> {
    let (calls, admin_calls) = (http::calls(), http::admin_calls(&app));
    let Some(admin) = admin else {
        return vec![Door { listener: http, router: http::finish(calls.merge(admin_calls), app) }];
    };
    vec![
        Door { listener: http, router: http::finish(calls, app.clone()) },
        Door { listener: admin, router: http::finish(admin_calls, app) },
    ]
}

/// The next connection, and the door at which it came.
async fn accept(doors: &[Door]) -> (usize, std::io::Result<(TcpStream, SocketAddr)>) {
    poll_fn(|context| {
        for (nth, door) in doors.iter().enumerate() {
            if let Poll::Ready(accepted) = door.listener.poll_accept(context) {
                return Poll::Ready((nth, accepted));
            }
        }
        Poll::Pending
    })
    .await
}

type Connection = hyper::server::conn::http1::Connection<TokioIo<TcpStream>, Handler>;

/// Answers the requests of one connection.
fn serve(stream: TcpStream, peer: SocketAddr, router: Router) -> Connection {
    // Small answers are not to wait for more of them.
    let _ = stream.set_nodelay(true);
    let handler = Handler { peer, router };
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .serve_connection(TokioIo::new(stream), handler)
}

/// The router, for one connection: it tells each request who is at its other end.
#[derive(Clone, Debug)]
struct Handler {
    peer: SocketAddr,
    router: Router,
}

impl hyper::service::Service<hyper::Request<Incoming>> for Handler {
    type Response = axum::response::Response;
    type Error = std::convert::Infallible;
    type Future = <Router as Service<axum::extract::Request>>::Future;

    fn call(&self, request: hyper::Request<Incoming>) -> Self::Future {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(self.peer));
        self.router.clone().call(request)
    }
}
