//! How the store reaches its server: every kind of URL, what is told where that fails, and what
//! becomes of calls when connections break. With real servers, a bad network, and servers that lie.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod again;
mod half_open;
mod kit;
mod liars;
mod many;
mod refusals;
mod strangers;
mod tls;
#[path = "../kit/until.rs"]
mod until;
mod urls;
mod users;
