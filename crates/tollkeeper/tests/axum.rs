//! An axum app with one layer, over a real socket.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollkeeper::{Identity, Tollkeeper};

const POLICY: &str = "
rules:
  per-ip: { key: ip, limit: 1000/day }
  per-route: { match: { path: '/users/{id}' }, key: [user, route], limit: 2/day }
";

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
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    let serving = tokio::spawn(async move { axum::serve(listener, service).await });

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
