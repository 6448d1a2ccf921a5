//! Tollkeeper in front of any tower service that speaks HTTP.
//!
//! [`client_ip`] finds who is at the other end of proxies, [`HttpRequest`] is a request as rules
//! look at it, and [`headers`] tells a verdict in the styles that clients know.

pub mod client_ip;
pub mod headers;
mod request;

pub use request::HttpRequest;
