//! What is told when the store gives no answer, to the microsecond: time and failures are injected.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod after;
mod alike;
mod alone;
mod among;
mod apart;
mod behind;
mod breaker;
mod brief;
mod cached;
mod choices;
mod counted;
mod crowd;
mod deadline;
mod denied;
mod judged;
mod kit;
mod leave;
mod overload;
mod owed;
mod reload;
mod storms;
mod warm;
