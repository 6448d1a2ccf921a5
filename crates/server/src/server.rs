//! Owns [`Server`]: binds, serves a bounded number of connections, and drains when it is told to
//! stop.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tollkeeper_core::{Store, StoreError};
use tollkeeper_policy::Policy;
use tollkeeper_stores::OpenError;

use crate::connection::Incoming;
use crate::gateway::{self, Tunnels};
use crate::http::{self, Answerer, App};
use crate::places::places;
use crate::reload::{self, PolicyFile, Reloader};
use crate::tls::TlsError;
use crate::watch::watch as watch_store;
use crate::wire::app;

/// How long requests under way may take to finish once the server was told to stop.
pub const DRAIN: Duration = Duration::from_secs(10);

/// How much longer than the calls of one request may take it may take to give back what all of them held.
const GIVE_BACK: Duration = Duration::from_secs(2);

/// The most connections that wait to be accepted.
const MAX_WAITING: u32 = 1024;

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
    /// The certificate cannot be shown.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// `listen` opens no door.
    #[error("`listen` names no door; expected `http` or `gateway`")]
    NoDoor,
    /// The listener failed.
    #[error("the listener failed: {0}")]
    Io(#[from] std::io::Error),
}

/// A server that listens and does not serve yet.
#[derive(Debug)]
pub struct Server {
    listeners: Listeners,
    app: App,
    /// Listened to from the beginning: a SIGHUP that nobody listens to ends the process.
    hangups: Option<Signal>,
}

#[derive(Debug)]
struct Listeners {
    http: Option<TcpListener>,
    admin: Option<TcpListener>,
    gateway: Option<TcpListener>,
}

/// Where a server listens; a door without an address is closed.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The HTTP API.
    pub http: Option<SocketAddr>,
    /// Admin calls, where they have a door of their own.
    pub admin: Option<SocketAddr>,
    /// The gateway.
    pub gateway: Option<SocketAddr>,
}

/// Where connections come in, and what answers them.
struct Door {
    listener: TcpListener,
    answerer: Answerer,
    /// Whether a connection can become a tunnel, which outlives its request.
    tunnels: bool,
}

impl Server {
    /// Listens where the policy says.
    pub async fn bind(policy: Policy) -> Result<Self, ServeError> {
        let listen = policy.listen().clone();
        let listeners = Listeners {
            http: bind(listen.http)?,
            admin: bind(listen.admin)?,
            gateway: bind(listen.gateway)?,
        };
        if listeners.http.is_none() && listeners.gateway.is_none() {
            return Err(ServeError::NoDoor);
        }
        Ok(Self { listeners, app: app(policy)?, hangups: None })
    }

    /// Waits until the store can be asked. If it cannot, the server serves all the same: the
    /// policy says what is told without it.
    pub async fn store_opened(&self) -> Result<(), StoreError> {
        self.app.engine.store().opened().await
    }

    /// Reads the policy again when its file changes, at SIGHUP, and when an operator asks.
    #[must_use]
    pub fn reloading(mut self, file: PolicyFile) -> Self {
        let App { engine, metrics, certificate, .. } = self.app.clone();
        self.app.reloader = Some(Arc::new(Reloader { engine, metrics, certificate, file }));
        self.hangups = signal(SignalKind::hangup()).ok();
        self
    }

    /// Where it listens.
    pub fn addresses(&self) -> Result<Addresses, ServeError> {
        let Listeners { http, admin, gateway } = &self.listeners;
        let address =
            |door: &Option<TcpListener>| door.as_ref().map(TcpListener::local_addr).transpose();
        Ok(Addresses { http: address(http)?, admin: address(admin)?, gateway: address(gateway)? })
    }

    /// Serves until `stop` is ready, then lets requests under way finish for a while.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        let mut beside = JoinSet::new();
        beside.spawn(watch_store(Arc::clone(&self.app.engine)));
        if let Some(reloader) = &self.app.reloader {
            beside.spawn(reload::watch(Arc::clone(reloader)));
            if let Some(hangups) = self.hangups {
                beside.spawn(reload::at_hangup(Arc::clone(reloader), hangups));
            }
        }
        let certificate = self.app.certificate.clone();
        // Behind the gateway each may have a connection of its own.
        let files = if self.listeners.gateway.is_some() { 2 } else { 1 };
        let tunnels = Tunnels::default();
        let engine = Arc::clone(&self.app.engine);
        let doors = doors(self.listeners, self.app, tunnels.clone());
        let (close, closing) = watch::channel(false);
        let mut connections = JoinSet::new();
        let places = Arc::new(Semaphore::new(places(files)));
        let mut stop = std::pin::pin!(stop);
        let mut last = 0;
        loop {
            let next = async {
                // The semaphore is never closed.
                let place = Arc::clone(&places).acquire_owned().await.ok()?;
                Some((place, accept(&doors, last).await))
            };
            let next = tokio::select! {
                next = next => next,
                () = &mut stop => break,
            };
            let Some((place, (nth, accepted))) = next else { break };
            last = nth;
            let Ok((stream, peer)) = accepted else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let Door { answerer, tunnels, .. } = &doors[nth];
            let (answerer, tunnels) = (answerer.clone(), *tunnels);
            let certificate = certificate.clone();
            let incoming = Incoming { stream, peer, place, answerer, tunnels, certificate };
            while connections.try_join_next().is_some() {}
            connections.spawn(incoming.serve(closing.clone()));
        }
        drop(doors);
        drop(beside);
        let _ = close.send(true);
        // What is not done by then is cut off.
        let all_done = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(DRAIN, all_done).await;
        connections.shutdown().await;
        tunnels.close().await;
        // A decision that was cut off is one call, and what it was given another.
        let two_calls = 2 * Duration::from_micros(engine.policy().store().timeout_us);
        let _ = tokio::time::timeout(two_calls + GIVE_BACK, engine.given_back()).await;
    }
}

/// Listens at an address, if there is one.
fn bind(address: Option<SocketAddr>) -> Result<Option<TcpListener>, ServeError> {
    let Some(address) = address else { return Ok(None) };
    listen(address).map(Some).map_err(|source| ServeError::Bind { address, source })
}

/// As `TcpListener::bind` does, with more room for those who are not let in yet: who finds none
/// tries again after a second, and then two, and four.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(MAX_WAITING)
}

/// Admin calls have a door of their own, or share the API's.
fn doors(listeners: Listeners, app: App, tunnels: Tunnels) -> Vec<Door> {
    let Listeners { http, admin, gateway } = listeners;
    let (calls, admin_calls) = (http::calls(), http::admin_calls(&app));
    let (calls, admin_calls) = match admin.is_some() {
        true => (calls, admin_calls),
        false => (calls.merge(admin_calls), Default::default()),
    };
    let door = |listener: Option<TcpListener>, answerer, tunnels| {
        listener.map(|listener| Door { listener, answerer, tunnels })
    };
    let routed = |router| Answerer { router, check: None };
    let gateway_routes = routed(gateway::routes(&app, tunnels));
    let doors = [
        door(http, http::api(calls, app.clone()), false),
        door(admin, routed(http::finish("admin", admin_calls, app)), false),
        door(gateway, gateway_routes, true),
    ];
    doors.into_iter().flatten().collect()
}

/// The next connection, and the door at which it came. The door after the `last` one is looked at
/// first, so that a flood at one does not keep the other shut.
async fn accept(doors: &[Door], last: usize) -> (usize, std::io::Result<(TcpStream, SocketAddr)>) {
    poll_fn(|context| {
        for turn in 1..=doors.len() {
            let nth = (last + turn) % doors.len();
            if let Poll::Ready(accepted) = doors[nth].listener.poll_accept(context) {
                return Poll::Ready((nth, accepted));
            }
        }
        Poll::Pending
    })
    .await
}
