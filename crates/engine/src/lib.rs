//! What every door asks: policy and store in, verdict out.
//!
//! A door decodes its bytes into an [`Ask`]. The [`Engine`] finds the limits that it meets, lets
//! the store decide them in one step, and folds the answer into a [`Verdict`] with names.
//! It knows no backend and no protocol.

mod ask;
mod engine;
mod error;
mod handle;
mod met;
mod verdict;

pub use ask::{Ask, Target};
pub use engine::Engine;
pub use error::EngineError;
pub use handle::{Handle, HandleError, HandleKind};
pub use verdict::{LimitVerdict, Source, Verdict};
