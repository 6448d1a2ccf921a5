//! The doors: what listens, and how it is wired to the engine.
//!
//! [`Server`] binds and serves until it is told to stop. `wire` is the only file that knows every
//! crate; `http` is the only folder that knows HTTP, `metrics` what is counted, `hot` for whom, `telemetry` what is
//! told of each request.

mod connection;
mod gateway;
mod hot;
mod http;
mod lazy_timer;
mod metrics;
mod patient;
mod places;
mod reload;
mod server;
mod telemetry;
mod tls;
#[cfg_attr(not(feature = "otlp"), path = "no_traces.rs")]
mod traces;
mod watch;
mod wire;

pub use http::decision_json;
pub use reload::PolicyFile;
pub use server::{Addresses, DRAIN, ServeError, Server};
pub use telemetry::SPANS;
pub use tls::TlsError;
pub use traces::{TraceLayer, Traces};
pub use wire::{both_ways, engine_and_metrics, routes};
