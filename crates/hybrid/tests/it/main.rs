//! Fleets of processes that decide by themselves, in virtual time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod alone;
mod calling;
mod compared;
mod counted;
mod hoarder;
mod hoarding;
mod judged;
mod leases;
mod living;
mod node;
mod otherwise;
mod refunds;
mod remaining;
mod reserved;
mod shares;
mod sharing;
mod split;
mod store;
mod storms;
mod syncing;
mod syncs;
mod thin;
mod tiers;
mod told;
mod trickling;
mod wanting;
