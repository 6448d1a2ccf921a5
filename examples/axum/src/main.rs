//! An axum app that one layer protects. Its rules are in the file that it is given, or in the one
//! that lies beside it.

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::http::request::Parts;
use axum::routing::get;
use tokio::net::TcpListener;
use tollkeeper::{Identity, Tollkeeper};

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tollkeeper.yaml");

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let rules = std::fs::read_to_string(args.next().unwrap_or_else(|| RULES.to_owned()))?;

    let limiter = Tollkeeper::from_yaml(&rules)?;
    let app = Router::new()
        .route("/", get(async || "Hello.\n"))
        .route("/reports/{id}", get(async || "A report.\n"))
        .layer(limiter.layer().identify(who));

    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    // The peer's address is what rules with `key: ip` count by.
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>())
        .with_graceful_shutdown(stopped())
        .await?;
    // What the last requests held would be theirs until its lease ends.
    limiter.given_back().await;
    Ok(())
}

async fn stopped() {
    // Without a way to be told it runs until it is killed.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Who sends a request. A real app looks its token up.
fn who(request: &Parts) -> Identity {
    let token = request.headers.get("authorization").and_then(|token| token.to_str().ok());
    match token {
        Some("Bearer alices-token") => Identity::user("alice").with("plan", "pro"),
        Some("Bearer bobs-token") => Identity::user("bob"),
        _ => Identity::unknown(),
    }
}
