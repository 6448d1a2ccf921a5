//! What Tollkeeper is tested with.
//!
//! [`model`] is an independent statement of the contract in exact rational arithmetic. [`suite`]
//! is what every store must pass, [`vectors`] the golden cases that other languages read too.
//! Time is a [`ManualClock`] that stands, jumps and steps back. [`redis_server`] and [`proxy`] are
//! real servers and a bad network between them and a test, [`front`] and [`app`] real proxies and
//! what stands behind them. A [`fleet`] is many nodes and one store in virtual time.

pub mod app;
pub mod call;
pub mod case;
pub mod cluster;
pub mod dice;
pub mod faulty;
pub mod fleet;
pub mod folder;
pub mod front;
pub mod model;
pub mod moment;
pub mod parted;
pub mod passing;
pub mod peers;
pub mod port;
pub mod proxy;
pub mod random;
pub mod ready;
pub mod redis_server;
pub mod relay;
pub mod replay;
pub mod resp;
pub mod sentinels;
pub mod suite;
pub mod tls;
mod together;
pub mod vectors;

pub use tollkeeper_core::ManualClock;
