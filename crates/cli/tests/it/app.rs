//! An app to stand behind proxies: it tells what it got, takes and gives bodies of any length, and
//! misbehaves on demand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

/// A running app, on a port of its own.
pub(crate) struct App {
    pub(crate) address: SocketAddr,
    state: Shared,
    // Ends with it.
    _runtime: Runtime,
}

#[derive(Clone)]
struct Shared {
    calls: Arc<AtomicU64>,
    /// What a stream waits for before it goes on.
    go: Arc<Semaphore>,
}

impl App {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let state = Shared { calls: Arc::default(), go: Arc::new(Semaphore::new(0)) };
        let router = Router::new()
            .route("/upload", post(upload))
            .route("/download/{bytes}", get(download))
            .route("/status/{status}", any(status))
            .route("/stream", get(slow_stream))
            .route("/trailers", get(trailers))
            .route("/silent", any(std::future::pending::<()>))
            .route("/ws", any(web_socket))
            .fallback(echo)
            .layer(axum::middleware::map_request_with_state(state.clone(), count))
            .with_state(state.clone());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { address, state, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests came.
    pub(crate) fn calls(&self) -> u64 {
        self.state.calls.load(Ordering::SeqCst)
    }

    /// Lets a stream send its next part.
    pub(crate) fn go_on(&self) {
        self.state.go.add_permits(1);
    }
}

async fn count(State(state): State<Shared>, request: Request) -> Request {
    state.calls.fetch_add(1, Ordering::SeqCst);
    request
}

/// What it got: the request's line, then a line for each header, then the body.
async fn echo(request: Request) -> String {
    let (parts, body) = request.into_parts();
    let mut text = format!("{} {} {:?}\n", parts.method, parts.uri, parts.version);
    for (name, value) in &parts.headers {
        text.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())));
    }
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    text + "\n" + &String::from_utf8_lossy(&body)
}

async fn upload(request: Request) -> Response {
    let mut bytes = 0;
    let mut body = request.into_body().into_data_stream();
    while let Some(part) = body.next().await {
        let Ok(part) = part else { return StatusCode::BAD_REQUEST.into_response() };
        bytes += part.len();
    }
    bytes.to_string().into_response()
}

async fn download(Path(bytes): Path<u64>) -> Response {
    const PART: u64 = 64 << 10;
    let parts = (0..bytes.div_ceil(PART)).map(move |nth| {
        let length = PART.min(bytes - nth * PART);
        Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; usize::try_from(length).unwrap()]))
    });
    let body = Body::from_stream(stream::iter(parts));
    ([("content-length", bytes.to_string())], body).into_response()
}

async fn status(Path(status): Path<u16>) -> (StatusCode, &'static str) {
    (StatusCode::from_u16(status).unwrap(), "as you wish")
}

/// Three parts, of which each waits for its turn.
async fn slow_stream(State(state): State<Shared>) -> Response {
    let parts = stream::iter(["one\n", "two\n", "three\n"]).then(move |part| {
        let go = Arc::clone(&state.go);
        async move {
            go.acquire().await.unwrap().forget();
            Ok::<_, std::io::Error>(part)
        }
    });
    Body::from_stream(parts).into_response()
}

async fn trailers() -> Response {
    let trailers = HeaderMap::from_iter([(
        axum::http::HeaderName::from_static("x-check"),
        HeaderValue::from_static("right"),
    )]);
    let frames = [Frame::data(Bytes::from("all of it")), Frame::trailers(trailers)];
    let body = StreamBody::new(stream::iter(frames.map(Ok::<_, std::io::Error>)));
    ([("trailer", "x-check")], Body::new(body)).into_response()
}

async fn web_socket(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(|mut socket: WebSocket| async move {
        while let Some(Ok(message)) = socket.recv().await {
            if socket.send(message).await.is_err() {
                break;
            }
        }
    })
}
