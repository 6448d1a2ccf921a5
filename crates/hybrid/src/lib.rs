//! Local decisions with leave of a shared store.
//!
//! A [`Hybrid`] is a store over another. What it plans is a pure function of numbers: how many units a
//! process takes in advance ([`lease`]), what it admits between two reports ([`sync`]), how many
//! there are to share a limit ([`share`]). The calls around it are small.

pub mod demand;
mod hybrid;
mod keys;
mod known;
pub mod lease;
mod local;
mod members;
pub mod plan;
pub mod share;
pub mod shares;
mod stats;
mod stored;
pub mod sync;

pub use hybrid::Hybrid;
pub use stats::{Called, Stats};
