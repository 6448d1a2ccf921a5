//! What is asked of Tollkeeper with hostile input.
//!
//! Each target takes any bytes at all, makes an input of them, and panics if something is not as it
//! should be. The fuzzer in `fuzz/` calls them with bytes that it makes up, the test of this crate
//! with those that are kept in `fuzz/corpus/`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "to panic is how a target fails")]

mod bodies;
mod forwarded;
mod paths;
mod policy;

pub use bodies::bodies;
pub use forwarded::forwarded;
pub use paths::paths;
pub use policy::policy;

/// Something that is asked of any bytes.
pub type Target = fn(&[u8]);

/// Every target, by the name of its corpus.
pub const TARGETS: [(&str, Target); 4] =
    [("policy", policy), ("forwarded", forwarded), ("bodies", bodies), ("paths", paths)];
