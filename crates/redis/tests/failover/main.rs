//! Four processes that ask all the time, while masters die, freeze, and slots move.
//!
//! What is asserted of each: nobody waits beyond the deadline, only the keys of the server concerned
//! fail and only until there is another, nothing is charged twice, and it is well again by itself.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod cluster;
mod load;
mod report;
mod sentinel;
#[path = "../kit/store.rs"]
mod store;
#[path = "../kit/workers.rs"]
mod workers;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Scenarios do not disturb each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does nothing unless this process was started as a worker.
#[test]
fn a_worker() {
    if let Some((nth, place)) = workers::role() {
        // Every other process asks the server for each check by itself.
        load::work(&place, nth.is_multiple_of(2));
    }
}
