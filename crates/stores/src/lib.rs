//! The store that a URL names, and the engine on it: what the service and the library both need.
//!
//! [`AnyStore`] is chosen when the program runs. [`engine`] guards it if it can fail.

mod any;
mod open;

pub use any::AnyStore;
pub use open::{OpenError, StoreEngine, engine};
