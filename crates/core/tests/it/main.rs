//! What the algorithms promise, asked as a store asks them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod after;
mod change;
mod clock;
mod common;
mod drift;
mod edges;
mod idle;
mod permits;
mod retry;
mod state;
