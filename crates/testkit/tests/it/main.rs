//! The kit itself.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod fleet;
mod proxy;
mod servers;
mod vectors;
