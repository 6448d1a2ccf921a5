//! What every door asks: policy and store in, verdict out.
//!
//! A door decodes its bytes into an [`Ask`]. The [`Engine`] finds the limits that it meets, lets
//! the store decide them in one step, and folds the answer into a [`Verdict`] with names.
//! It knows no backend and no protocol.
//!
//! Limits that lie in several parts of a store are decided part by part, and given back when one of
//! them denies; [`Whole`] does the same for whoever has a store alone.
//!
//! A store that can fail is guarded: every decision has a deadline, a breaker keeps a sick store
//! from being asked, and each rule says what is told without it (open, closed or static). Who was
//! denied is told so again without asking, for as long as that holds.

mod ask;
mod breaker;
mod denied;
mod engine;
mod error;
mod failure;
mod guard;
mod guards;
mod handle;
mod met;
mod observe;
mod parts;
mod returns;
mod timer;
mod verdict;

pub use ask::{Ask, Target};
pub use breaker::BreakerState;
pub use engine::{Brief, Encounter, Engine, Judgement, Undecided};
pub use error::{EngineError, ReloadError};
pub use guard::{Health, MAX_IN_FLIGHT};
pub use handle::{Handle, HandleError, HandleKind};
pub use observe::{Observer, StoreChange};
pub use parts::Whole;
pub use returns::{Returning, Returns};
pub use timer::{ManualTimer, SystemTimer, Timer};
pub use verdict::{Counted, LimitVerdict, Source, Verdict};
