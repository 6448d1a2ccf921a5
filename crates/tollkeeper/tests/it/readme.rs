//! The Rust of the README, as it stands there, compiled and run.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "it is what the README shows")]

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::http::request::Parts;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollkeeper::{Identity, Limit, Tollkeeper};
use tollkeeper_testkit::redis_server::RedisServer;

const README: &str = include_str!("../../../../README.md");
const THIS: &str = include_str!("readme.rs");

/// The texts between ```` ```rust ```` and the end of its block.
fn blocks() -> Vec<&'static str> {
    let parts = README.split("```rust\n").skip(1);
    parts.map(|part| part.split_once("\n```").unwrap().0).collect()
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn every_block_stands_below() {
    let below = squeezed(THIS);
    assert!(blocks().len() >= 4);
    for block in blocks() {
        // The address of a server is the test's own.
        let block = block.replace("\"redis://127.0.0.1:6379\"", "&url");
        assert!(below.contains(&squeezed(&block)), "this is not compiled by any test:\n{block}");
    }
}

#[tokio::test]
async fn the_library() -> Result<(), Box<dyn Error>> {
    use tollkeeper::{Limit, Tollkeeper};

    let limiter = Tollkeeper::memory().limit("api", Limit::per_second(10).burst(20)).build();
    let decision = limiter.check("api", "alice").await?;
    if !decision.allowed() {
        println!("come back in {:?}", decision.retry_after());
    }
    assert!(decision.allowed());
    Ok(())
}

struct ModelAnswer {
    tokens: u64,
}

async fn ask_the_model() -> Result<ModelAnswer, Box<dyn Error>> {
    Ok(ModelAnswer { tokens: 120 })
}

#[tokio::test]
async fn a_reservation() -> Result<(), Box<dyn Error>> {
    let limiter = Tollkeeper::memory().limit("tokens", Limit::per_day(1000)).build();
    let reservation = limiter.reservation("tokens", "alice", 500).await?;
    if reservation.decision().allowed() {
        let answer = ask_the_model().await?;
        reservation.settle(answer.tokens).await?;
    }
    assert_eq!(limiter.peek("tokens", "alice").await?.remaining(), 880);
    Ok(())
}

#[tokio::test]
async fn a_shared_store() -> Result<(), Box<dyn Error>> {
    let server = RedisServer::start("redis-server", &[])?;
    let url = format!("redis://127.0.0.1:{}", server.port());
    let limiter = Tollkeeper::redis(&url).limit("api", Limit::per_second(10).burst(20)).build();
    limiter.opened().await?;
    assert!(limiter.check("api", "alice").await?.allowed());
    Ok(())
}

async fn show_user() -> &'static str {
    "a user"
}

fn session_of(parts: &Parts) -> &str {
    parts.headers["x-session"].to_str().unwrap()
}

async fn serve(listener: TcpListener) -> Result<(), Box<dyn Error>> {
    let limiter = Tollkeeper::from_yaml(&std::fs::read_to_string("tollkeeper.yaml")?)?;
    let app = Router::new()
        .route("/users/{id}", get(show_user))
        .layer(limiter.layer().identify(|parts| Identity::user(session_of(parts))));
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

#[tokio::test]
async fn a_layer() -> Result<(), Box<dyn Error>> {
    let folder = tollkeeper_testkit::folder::Folder::new()?;
    std::fs::write(
        folder.path().join("tollkeeper.yaml"),
        "rules: { users: { key: user, limit: 1/day } }",
    )?;
    std::env::set_current_dir(folder.path())?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let asking = async move {
        let mut statuses = Vec::new();
        for session in ["alice", "alice", "bob"] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!(
                "GET /users/7 HTTP/1.1\r\nhost: a\r\nx-session: {session}\r\nconnection: close\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            statuses.push(answer[9..12].to_owned());
        }
        statuses
    };
    tokio::select! {
        served = serve(listener) => served,
        statuses = asking => {
            assert_eq!(statuses, ["200", "429", "200"]);
            Ok(())
        }
    }
}
