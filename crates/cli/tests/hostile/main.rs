//! The real binary among people who mean it ill, or change their minds a lot: idle, slow, broken
//! and greedy connections, a thousand reloads; and clients who do as they are told.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod client;
mod flood;
mod greedy;
mod idle;
#[path = "../it/kit.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod kit;
mod obedient;
mod process;
mod reload;
mod slow;

use std::sync::{Mutex, MutexGuard, PoisonError};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Two crowds at once would be late because of each other.
fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}
