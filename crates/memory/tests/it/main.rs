//! The embedded store, from outside.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod allocation;
mod bounds;
mod conformance;
mod moving;
mod names;
