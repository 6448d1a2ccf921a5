//! An axum app with one layer, over a real socket.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use futures_util::{StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tollkeeper::{Identity, InFlight, Limit, Tollkeeper};
use tungstenite::Message;

const POLICY: &str = "
rules:
  per-ip: { key: ip, limit: 1000/day }
  per-route: { match: { path: '/users/{id}' }, key: [user, route], limit: 2/day }
";

const GB: u64 = 1 << 30;

/// What the process may need more for a body of any length; the app and its client are in it, too.
const MOST_GROWTH_KB: u64 = 16 << 10;

async fn serve(app: Router) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    (address, tokio::spawn(async move { axum::serve(listener, service).await.unwrap() }))
}

async fn status(address: SocketAddr, path: &str, user: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nx-user: {user}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    (answer[9..12].parse().unwrap(), answer)
}

#[tokio::test]
async fn one_layer_protects_an_app_by_peer_route_and_user() {
    let limiter = Tollkeeper::from_yaml(POLICY).unwrap();
    let layer = limiter.layer().identify(|parts| match parts.headers.get("x-user") {
        Some(user) => Identity::user(user.to_str().unwrap_or_default()),
        None => Identity::unknown(),
    });
    let app = Router::new()
        .route("/users/{id}", get(async || "a user"))
        .route("/about", get(async || "about"))
        .layer(layer);
    let (address, serving) = serve(app).await;

    // One route, however many users it shows.
    assert_eq!(status(address, "/users/1", "alice").await.0, 200);
    assert_eq!(status(address, "/users/2", "alice").await.0, 200);
    let (denied, answer) = status(address, "/users/3", "alice").await;
    assert_eq!(denied, 429, "{answer}");
    assert!(answer.contains("retry-after: ") && answer.contains("per-route"), "{answer}");
    assert_eq!(status(address, "/users/1", "bob").await.0, 200);
    let (_, about) = status(address, "/about", "alice").await;
    // Whoever is denied is charged by no rule.
    assert!(about.contains("x-ratelimit-remaining: 996"), "{about}");
    serving.abort();
}

#[tokio::test]
async fn rules_made_in_code_say_where_they_apply_and_what_they_count_by() {
    let limiter = Tollkeeper::memory()
        .limit("login", Limit::per_day(1).by("header:x-user").on("/login").on("/signup"))
        .limit("all", Limit::per_day(1000).by("ip"))
        .build();
    let app = Router::new().fallback(async || "hello").layer(limiter.layer());
    let (address, serving) = serve(app).await;
    assert_eq!(status(address, "/login", "alice").await.0, 200);
    assert_eq!(status(address, "/signup", "alice").await.0, 429);
    assert_eq!(status(address, "/login", "bob").await.0, 200);
    assert_eq!(status(address, "/elsewhere", "alice").await.0, 200);
    serving.abort();

    let wrong = Tollkeeper::memory().limit("login", Limit::per_day(1).by("ipp")).try_build();
    let error = wrong.unwrap_err().to_string();
    assert!(error.starts_with("limit `login`: ") && error.contains("`ipp`"), "{error}");
    let wrong = Tollkeeper::memory().limit("login", Limit::per_day(1).on("login")).try_build();
    let error = wrong.unwrap_err().to_string();
    assert!(error.starts_with("limit `login`: ") && error.contains("`login`"), "{error}");
    let wrong = Tollkeeper::memory().trusted_proxies(["10.0.0.0/33"]).try_build();
    assert!(wrong.unwrap_err().to_string().contains("`10.0.0.0/33`"));
}

async fn answer_model(State(tokens): State<Tollkeeper>, request: Request) -> Response {
    let user = request.headers()["x-user"].to_str().unwrap().to_owned();
    let reservation = tokens.reservation("tokens", &user, 500).await.unwrap();
    if !reservation.decision().allowed() {
        return StatusCode::TOO_MANY_REQUESTS.into_response();
    }
    if request.uri().path() == "/fails" {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    reservation.settle(120).await.unwrap();
    "an answer of 120 tokens".into_response()
}

#[tokio::test]
async fn a_handler_settles_what_it_reserved_or_gives_it_back() {
    let tokens = Tollkeeper::memory().limit("tokens", Limit::per_day(1000)).build();
    let app = Router::new().fallback(answer_model).with_state(tokens.clone());
    let (address, serving) = serve(app).await;
    let left = async || tokens.peek("tokens", "alice").await.unwrap().remaining();
    assert_eq!(status(address, "/", "alice").await.0, 200);
    assert_eq!(left().await, 880);
    assert_eq!(status(address, "/fails", "alice").await.0, 500);
    while left().await != 880 {
        tokio::task::yield_now().await;
    }
    for _ in 0..4 {
        assert_eq!(status(address, "/", "alice").await.0, 200);
    }
    assert_eq!(left().await, 400);
    assert_eq!(status(address, "/", "alice").await.0, 429);
    tokens.reservation("tokens", "alice", 400).await.unwrap().keep();
    assert_eq!(left().await, 0);
    serving.abort();
}

async fn chat(upgrade: WebSocketUpgrade, held: Option<Extension<InFlight>>) -> Response {
    upgrade.on_upgrade(|mut socket: WebSocket| async move {
        while let Some(Ok(message)) = socket.recv().await {
            if socket.send(message).await.is_err() {
                break;
            }
        }
        drop(held);
    })
}

#[tokio::test]
async fn a_web_socket_passes_and_counts_for_as_long_as_its_handler_says() {
    let limiter = Tollkeeper::memory().limit("sockets", Limit::concurrency(1, "1h")).build();
    let app = Router::new()
        .route("/chat", any(chat))
        .route("/", get(async || "hello"))
        .layer(limiter.layer());
    let (address, serving) = serve(app).await;
    let talk = tokio::task::spawn_blocking(move || {
        let stream = std::net::TcpStream::connect(address).unwrap();
        let (mut socket, response) =
            tungstenite::client(format!("ws://{address}/chat"), stream).unwrap();
        assert_eq!(response.headers()["x-ratelimit-remaining"], "0");
        socket.send(Message::text("hello")).unwrap();
        assert_eq!(socket.read().unwrap(), Message::text("hello"));
        socket
    });
    let mut socket = talk.await.unwrap();
    assert_eq!(status(address, "/", "alice").await.0, 429, "the socket is still there");
    socket.close(None).unwrap();
    while status(address, "/", "alice").await.0 != 200 {}
    serving.abort();
}

/// The most memory that this process ever had.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

async fn upload(request: Request) -> String {
    let mut body = request.into_body().into_data_stream();
    let mut bytes = 0;
    while let Some(part) = body.next().await {
        bytes += part.unwrap().len();
    }
    bytes.to_string()
}

async fn download() -> Body {
    let part = Bytes::from(vec![b'x'; 1 << 20]);
    Body::from_stream(stream::iter((0..GB >> 20).map(move |_| Ok::<_, Infallible>(part.clone()))))
}

#[tokio::test]
async fn a_gigabyte_passes_both_ways_and_memory_stays_flat() {
    let limiter = Tollkeeper::memory().limit("all", Limit::concurrency(10, "30s")).build();
    let app = Router::new()
        .route("/upload", post(upload))
        .route("/download", get(download))
        .layer(limiter.layer());
    let (address, serving) = serve(app).await;
    let part = vec![b'x'; 1 << 20];
    let before_kb = peak_kb();

    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /upload HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {GB}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..GB >> 20 {
        stream.write_all(&part).await.unwrap();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with(&GB.to_string()), "{answer}");

    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "GET /download HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let bytes = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.unwrap();
    assert!(bytes > GB, "all of it, and the head: {bytes}");

    let grown_kb = peak_kb() - before_kb;
    assert!(grown_kb < MOST_GROWTH_KB, "{grown_kb} kB more for two bodies of a gigabyte");
    serving.abort();
}

#[tokio::test]
async fn what_requests_held_is_given_back_before_the_end() {
    let limiter = Tollkeeper::memory().limit("few", Limit::concurrency(20, "1h")).build();
    let app = Router::new().route("/", get(async || "hello")).layer(limiter.layer());
    let (address, serving) = serve(app).await;
    for _ in 0..20 {
        assert_eq!(status(address, "/", "alice").await.0, 200);
    }
    serving.abort();
    let _ = serving.await;
    limiter.given_back().await;
    assert_eq!(limiter.peek("few", "global").await.unwrap().remaining(), 20);
}
