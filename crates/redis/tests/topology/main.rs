//! Sentinels and clusters: who is asked, what is followed, and what is told of bad input.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod cluster;
mod kit;
mod moving;
mod sentinel;
#[path = "../kit/store.rs"]
mod store;
mod strangers;
#[path = "../kit/until.rs"]
mod until;
mod users;
