//! A fleet in virtual time: many nodes that decide by themselves, and sometimes ask one store.
//!
//! [`run`] lets a [`Scenario`] happen to nodes that a test brings, as [`Node`]s, and gives a
//! [`Report`]: what was admitted when, how much of the limit was used, what the store was asked, how
//! fair it was. Clocks are off and drift; nodes pause, crash, are cut off, come and go; calls and
//! answers are late or lost; the store pauses, crashes and forgets. Everything comes from one seed.
//!
//! There is no I/O, no thread and no real time here, so that a thousand fleets take seconds.

mod apportioned;
mod demand;
mod flights;
pub mod judge;
mod ledger;
mod lives;
mod network;
mod node;
mod process;
mod queue;
mod random;
mod report;
mod scenario;
mod skew;
mod store;
mod world;

pub use apportioned::Part;
pub use demand::{Bursts, Demand, Spread};
pub use node::{Ask, AskId, Call, CallId, Calls, Node, Op, Reply, Telling, Told};
pub use report::{Admission, Dated, Faults, Report, Served, Slice};
pub use scenario::{
    Network, NodePlan, NodeSickness, NodeTrouble, Scenario, StorePlan, StoreSickness, StoreTrouble,
};
pub use skew::{BEGIN_US, Skew};
pub use world::{Seat, run};
