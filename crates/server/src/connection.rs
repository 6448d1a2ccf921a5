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
        greet(stream, certificate.as_deref(), handler, closing).await;
    }
}

/// Answers the requests of a stream, by TLS where there is a certificate.
async fn greet<T>(
    stream: T,
    certificate: Option<&Certificate>,
    handler: Handler,
    closing: watch::Receiver<bool>,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = Patient::new(stream);
    let Some(certificate) = certificate else {
        return speak(stream, handler, closing).await;
    };
    let shaking = certificate.acceptor().accept(stream);
    if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_PATIENCE, shaking).await {
        speak(stream, handler, closing).await;
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
    greet(stream, None, Handler { arrival, answerer, tunnels: false }, closing).await;
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
        .serve_connection(TokioIo::new(stream), handler)
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

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, timeout};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;
    use tollkeeper_policy::Tls;

    use super::*;

    /// What is on its way between the two ends, as a small receive buffer has it.
    const ON_THE_WAY: usize = 2 * 1024;

    /// Less than TLS takes at once, so that no write ever waits.
    const ANSWER: usize = 48 * 1024;

    /// A client that has sent a request by TLS, and the connection at our end.
    async fn asked() -> (TlsStream<DuplexStream>, impl Future<Output = ()>) {
        let files = tollkeeper_testkit::tls::Tls::new().unwrap();
        let tls = Tls { certificate: files.certificate().into(), key: files.key().into() };
        let certificate = Certificate::open(&tls).unwrap();
        let (theirs, ours) = duplex(ON_THE_WAY);
        let router = Router::new().route("/", get(async || "x".repeat(ANSWER)));
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let arrival = Arrival { peer, secure: true, _place: Arc::new(place) };
        let answerer = Answerer { router, check: None };
        let handler = Handler { arrival, answerer, tunnels: false };
        let serving = tokio::spawn(async move {
            let (_open, closing) = watch::channel(false);
            greet(ours, Some(&certificate), handler, closing).await;
        });
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(files.ca()).unwrap()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let mut client = TlsConnector::from(Arc::new(config)).connect(name, theirs).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
        (client, async { serving.await.unwrap() })
    }

    /// TLS had taken the whole answer, and only writes were timed: such a client kept its place.
    #[tokio::test(start_paused = true)]
    async fn who_reads_nothing_by_tls_is_left_too() {
        let (_client, serving) = asked().await;
        let began = Instant::now();
        timeout(Duration::from_secs(60), serving).await.unwrap();
        assert_eq!(began.elapsed(), Duration::from_secs(10));
    }

    /// It takes something all the time, and longer for the whole than anybody waits for nothing.
    #[tokio::test(start_paused = true)]
    async fn who_is_slow_by_tls_is_waited_for() {
        let (mut client, serving) = asked().await;
        let (mut answer, mut piece) = (Vec::new(), [0; 1024]);
        while !answer.ends_with(&b"x".repeat(ANSWER)) {
            // TLS comes in pieces of 16 kB: one is read in eight seconds.
            tokio::time::advance(Duration::from_millis(500)).await;
            let read = client.read(&mut piece).await.unwrap();
            assert!(read > 0, "cut off after {} bytes", answer.len());
            answer.extend_from_slice(&piece[..read]);
        }
        drop(client);
        serving.await;
    }
}
