//! What a rate limit is.
//!
//! A [`Quota`] says how much is allowed and by which algorithm. A [`Request`] is the limits that
//! something meets, a [`Store`] decides it in one atomic step, all or nothing, and an [`Answer`]
//! carries the numbers of each limit. Time is a [`Clock`]'s whole microseconds.
//!
//! Everything here is a pure function of numbers: no I/O, no clock of its own, no async runtime,
//! no logging, and no panic on any input.

pub mod algorithm;
mod alone;
mod check;
mod clock;
pub mod consistency;
mod decision;
mod describe;
mod divisor;
mod lent;
pub mod limits;
mod part;
mod quota;
mod rate;
mod redis_url;
mod share;
mod state;
mod store;
mod text;

pub use algorithm::{Admission, Algorithm, UnknownAlgorithm};
pub use alone::{Alone, Hold};
pub use check::{Check, Request, RequestError, Ticket, validate_key};
pub use clock::{Clock, ManualClock};
pub use consistency::{Consistency, Unsuited};
pub use decision::{Answer, Decision, Outcome, Single};
pub use describe::{Field, describe, describe_raw, state_name};
pub use lent::{Back, Lend, Lent, Loans, TURNS};
pub use part::{Colocate, MAX_SHARDS, Part};
pub use quota::{Bucket, InFlight, Leak, LeakMode, Quota, QuotaError, Window};
pub use rate::Rate;
pub use redis_url::{HostPort, RedisAddress, RedisUrl, Secret};
pub use state::{State, Step};
pub use store::{
    About, Amended, Amendment, Change, Drawn, Entry, Filter, Hears, Ran, Settled, Store,
    StoreError, WhenFull, drawn, split_key,
};
pub use text::{
    ShortLimit, ShortLimitError, TextError, format_duration, parse_duration_us, whole_us,
};
