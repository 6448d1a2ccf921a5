//! One connection: TLS where the doors have a certificate, then HTTP until it ends.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::body::Incoming as IncomingBody;
use hyper::server::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::unconstrained;

use crate::http::{Answerer, Answering, Reply};
use crate::lazy_timer::LazyTimer;
use crate::patient::Patient;
use crate::tls::Certificate;

/// How long a connection may take to send the head of a request, the wait for it included.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);

/// The most that is read of a connection before it is used, and so the largest head. It is what
/// each connection can make us hold, whether it ever completes a request or not.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// How long a client may take until TLS stands.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(5);

/// How a request came in.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// Who is at the other end.
    pub(crate) peer: SocketAddr,
    /// Whether it came by TLS.
    pub(crate) secure: bool,
    /// Its place among the connections, free when the last clone is gone.
    _place: Arc<OwnedSemaphorePermit>,
}

/// A connection that came in at a door.
pub(crate) struct Incoming {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) place: OwnedSemaphorePermit,
    /// What answers.
    pub(crate) answerer: Answerer,
    /// Whether it can become a tunnel, which outlives its request.
    pub(crate) tunnels: bool,
    pub(crate) certificate: Option<Arc<Certificate>>,
}

impl Incoming {
    /// Answers its requests until it ends, or, once `closing` says so, the one under way.
    pub(crate) async fn serve(self, closing: watch::Receiver<bool>) {
        let Self { stream, peer, place, answerer, tunnels, certificate } = self;
        // Small answers are not to wait for more of them.
        let _ = stream.set_nodelay(true);
        let arrival = Arrival { peer, secure: certificate.is_some(), _place: Arc::new(place) };
        let handler = Handler { arrival, answerer, tunnels };
        let Some(certificate) = certificate else {
            return speak(stream, handler, closing).await;
        };
        let shaking = certificate.acceptor().accept(stream);
        if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_PATIENCE, shaking).await {
            speak(stream, handler, closing).await;
        }
    }
}

/// Answers the requests of a stream that came in at no door, until it ends.
pub(crate) async fn answer_all<T>(stream: T, answerer: Answerer)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Ok(place) = Arc::new(Semaphore::new(1)).try_acquire_owned() else { return };
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let arrival = Arrival { peer, secure: false, _place: Arc::new(place) };
    let (_open, closing) = watch::channel(false);
    speak(stream, Handler { arrival, answerer, tunnels: false }, closing).await;
}

/// Whoever closes waits until this has ended, and with it the listening.
async fn speak<T>(stream: T, handler: Handler, mut closing: watch::Receiver<bool>)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(LazyTimer::default())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(MAX_HEAD_BYTES)
        // Our own answers are short: copied behind their heads they go out cheaper than in two
        // pieces. What comes through the gateway can be long, and is not copied.
        .writev(handler.tunnels)
        .serve_connection(TokioIo::new(Patient::new(stream)), handler)
        .with_upgrades();
    let mut connection = pin!(connection);
    let news = closing.clone();
    // Never put off, so that whoever asks once is told.
    let mut told = pin!(unconstrained(closing.wait_for(|closing| *closing)));
    let mut asked = false;
    let ended = poll_fn(|context| {
        if connection.as_mut().poll(context).is_ready() {
            return Poll::Ready(true);
        }
        // Who has asked is woken when there is news: a look at it in each turn is enough.
        if asked && matches!(news.has_changed(), Ok(false)) {
            return Poll::Pending;
        }
        asked = true;
        told.as_mut().poll(context).map(|_| false)
    });
    // A connection that breaks off is its client's affair.
    if !ended.await {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

/// What answers, for one connection: it tells each request how it came.
#[derive(Clone, Debug)]
struct Handler {
    arrival: Arrival,
    answerer: Answerer,
    tunnels: bool,
}

impl hyper::service::Service<Request<IncomingBody>> for Handler {
    type Response = Response<Reply>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, mut request: Request<IncomingBody>) -> Answering {
        if self.tunnels {
            request.extensions_mut().insert(self.arrival.clone());
        }
        self.answerer.call(request, self.arrival.peer)
    }
}
