//! The store on real servers: one, sentinels, clusters. What needs several processes of ours is beside.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod conformance;
mod connections;
mod memory;
mod merging;
mod reload;
mod scripts;
mod server;
#[path = "../kit/store.rs"]
mod store;
mod topology;
mod turns;
#[path = "../kit/until.rs"]
mod until;
