//! The layer around real services.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod brief;
mod client_ip;
mod held;
mod layer;
mod unheard;
