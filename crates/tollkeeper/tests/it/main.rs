//! The crate as applications use it. `axum.rs` is beside: it watches the memory of its process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod library;
#[cfg(feature = "redis")]
mod local;
#[cfg(all(feature = "axum", feature = "redis"))]
mod readme;
#[cfg(feature = "redis")]
mod redis;
