//! Fleets of processes that decide by themselves, in virtual time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod alone;
mod calling;
mod counted;
mod hoarder;
mod judged;
mod leases;
mod node;
mod refunds;
mod remaining;
mod reserved;
mod shares;
mod sharing;
mod store;
mod storms;
mod syncing;
mod syncs;
mod told;
