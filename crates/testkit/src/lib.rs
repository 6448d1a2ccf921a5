//! What Tollkeeper is tested with.
//!
//! [`model`] is an independent statement of the contract in exact rational arithmetic. [`suite`]
//! is what every store must pass, [`vectors`] the golden cases that other languages read too.
//! Time is a [`ManualClock`] that stands, jumps and steps back.

pub mod case;
pub mod dice;
pub mod model;
pub mod random;
pub mod ready;
pub mod redis_server;
pub mod replay;
pub mod suite;
pub mod vectors;

pub use tollkeeper_core::ManualClock;
