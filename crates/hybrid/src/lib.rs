//! Local decisions with leave of a shared store.
//!
//! What is planned here is a pure function of numbers: how many units a process takes in advance,
//! when, and what it tells a request meanwhile. Whoever has a store does the calls.

pub mod demand;
pub mod lease;
