//! Real servers, real failures, under load: nobody waits past the deadline, nobody is admitted
//! beyond the bound, and everything is well again by itself.
//!
//! Six engines share a server while each of them is asked by several callers: two fail open, two
//! closed and two static, of which one each tells denials again and lets checks go together, and the
//! other asks the server for every check by itself. One scenario runs at a time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod field;
mod heard;
mod metrics;
mod network;
mod report;
mod server;

use tokio::sync::{Mutex, MutexGuard};

/// The scenario that runs.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Two scenarios at once would be late because of each other.
async fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().await
}
