//! A rate limiter: give it a key and a limit, and it says allow or deny, exactly.
//!
//! ```
//! use tollkeeper::{Limit, Tollkeeper};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tollkeeper::Error> {
//! let limiter = Tollkeeper::memory().limit("api", Limit::per_second(10).burst(20)).build();
//! let decision = limiter.check("api", "alice").await?;
//! assert!(decision.allowed());
//! assert_eq!(decision.remaining(), 19);
//! # Ok(())
//! # }
//! ```
//!
//! [`Tollkeeper::redis`] instead of [`Tollkeeper::memory`] shares the limits between processes. A
//! busy limit can then be decided [without a call](Limit::lease).
//!
//! A limit has a name (`api`), and counts each key (`alice`) by itself. A denial is an answer, not
//! an error: it says when to [come back](Decision::retry_after). Every algorithm has its
//! [constructor](Limit), and time can be a [`ManualClock`] in your own tests.

mod builder;
mod decision;
mod limit;
mod limiter;
mod reservation;
mod way;

pub use builder::{BuildError, Builder};
pub use decision::{Decision, LimitDecision};
pub use limit::Limit;
pub use limiter::{Charge, Tollkeeper, YamlError};
pub use reservation::Reservation;
pub use tollkeeper_core::{Algorithm, Amended, Clock, Colocate, ManualClock, Settled, WhenFull};
pub use tollkeeper_engine::{EngineError as Error, Handle, Source};
pub use tollkeeper_memory::SystemClock;
pub use tollkeeper_policy::{Advice, AdviceCode, OnFailure, PolicyErrors};
#[cfg(feature = "tower")]
pub use tollkeeper_tower::{Identity, InFlight, PeerAddr, Refusal};

/// Protects a tower service: see [`Tollkeeper::layer`].
#[cfg(feature = "tower")]
pub type RateLimitLayer = tollkeeper_tower::RateLimitLayer<
    tollkeeper_stores::AnyStore<std::sync::Arc<dyn Clock>>,
    tollkeeper_memory::MemoryStore<std::sync::Arc<dyn Clock>>,
>;
