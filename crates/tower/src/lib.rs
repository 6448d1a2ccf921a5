//! Tollkeeper in front of any tower service that speaks HTTP.
//!
//! [`RateLimitLayer`] asks an engine which rules a request meets, and lets it go, wait, or be
//! refused. [`client_ip`] finds who is at the other end of proxies, [`Identity`] is what the app
//! knows itself, and [`headers`] tells a verdict in the styles that clients know.

mod body;
pub mod client_ip;
mod future;
pub mod headers;
mod held;
mod identity;
mod layer;
mod number;
mod refusal;
mod request;
mod service;
mod slow;
mod told;
mod unheard;

pub use body::Body;
pub use future::ResponseFuture;
pub use held::{InFlight, ToTheEnd, check_waiting, releasing, repay};
pub use identity::Identity;
pub use layer::{PeerAddr, RateLimitLayer};
pub use refusal::{Refusal, media_type};
pub use request::HttpRequest;
pub use service::RateLimit;
