//! Local decisions with leave of a shared store.
//!
//! A [`Hybrid`] is a store over another. What it plans is a pure function of numbers, in [`lease`]: how
//! many units a process takes in advance, when, and what it tells a request meanwhile. The calls
//! around it are small.

pub mod demand;
mod hybrid;
mod keys;
pub mod lease;
mod leased;
pub mod plan;
pub mod sync;

pub use hybrid::Hybrid;
