//! The shared store: every decision is one script on the server, in one round trip.
//!
//! [`RedisStore`] sends which algorithm, which quota and which cost; the script looks at every
//! limit of a request and then charges all or none, by the server's own clock. The scripts are the
//! files in `lua/`, named and ordered like the algorithms of `tollkeeper-core`. [`Shards`] spreads
//! keys over several of them.

mod call;
mod connections;
mod decode;
mod driver;
mod error;
mod examine;
mod hearsay;
mod look;
mod merge;
mod names;
mod script;
mod shards;
mod slot;
mod store;
mod topology;

pub use shards::Shards;
pub use store::{RedisStore, Settings};
