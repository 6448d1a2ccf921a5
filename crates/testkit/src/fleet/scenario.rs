//! Owns [`Scenario`]: all that happens to a fleet, as plain data. Times are true, from its beginning.

use tollkeeper_core::Quota;

use super::demand::{Demand, Spread};
use super::skew::Skew;

/// A fleet, its store, its network, and what befalls them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// What everything that looks random comes from.
    pub seed: u64,
    /// The limit that the fleet shares.
    pub quota: Quota,
    /// How long requests come. What is under way then is still answered.
    pub duration_us: u64,
    /// Requests before this are decided, but not counted in shares.
    pub warm_up_us: u64,
    /// What is asked.
    pub demand: Demand,
    /// What lies between nodes and store.
    pub network: Network,
    /// The store.
    pub store: StorePlan,
    /// Each node.
    pub nodes: Vec<NodePlan>,
}

impl Scenario {
    /// A fleet that nothing happens to: ten seconds of twice the limit, spread evenly, an exact
    /// millisecond there and back.
    #[must_use]
    pub fn calm(seed: u64, quota: Quota, nodes: usize) -> Self {
        Self {
            seed,
            quota,
            duration_us: 10_000_000,
            warm_up_us: 1_000_000,
            demand: Demand { percent: 200, spread: Spread::Even, most_cost: 1, bursts: None },
            network: Network {
                one_way_us: 500,
                jitter_us: 0,
                lost_calls_ppm: 0,
                lost_answers_ppm: 0,
                time_out_us: 20_000,
            },
            store: StorePlan::default(),
            nodes: vec![NodePlan::default(); nodes],
        }
    }
}

/// The way to the store and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// How long each way takes at least.
    pub one_way_us: u64,
    /// How much longer it takes on average. Exponential: few take many times as long.
    pub jitter_us: u64,
    /// Of a million calls, how many never reach the store.
    pub lost_calls_ppm: u64,
    /// Of a million answers, how many never come back.
    pub lost_answers_ppm: u64,
    /// How long a node waits, in true time. An answer that comes later is not heard.
    pub time_out_us: u64,
}

/// The store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorePlan {
    /// How far its clock is ahead.
    pub offset_us: i64,
    /// What befalls it, in order, one at a time.
    pub troubles: Vec<StoreTrouble>,
}

impl StorePlan {
    /// The store's clock.
    #[must_use]
    pub fn clock(&self) -> Skew {
        Skew { offset_us: self.offset_us, drift_ppm: 0 }
    }
}

/// A while in which the store is not well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreTrouble {
    /// When it begins.
    pub from_us: u64,
    /// When it is over.
    pub to_us: u64,
    /// What it is.
    pub kind: StoreSickness,
}

/// What a store can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreSickness {
    /// It does nothing, then all that came meanwhile.
    Paused,
    /// It is gone, calls fail as soon as they arrive, and it comes back with what it knew.
    Crashed,
    /// It is gone, and comes back empty.
    Emptied,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePlan {
    /// Its clock.
    pub skew: Skew,
    /// When it joins.
    pub joins_us: u64,
    /// When it leaves for good, if it does.
    pub leaves_us: Option<u64>,
    /// What befalls it, in order, one at a time.
    pub troubles: Vec<NodeTrouble>,
}

/// A while in which a node is not well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeTrouble {
    /// When it begins.
    pub from_us: u64,
    /// When it is over.
    pub to_us: u64,
    /// What it is.
    pub kind: NodeSickness,
}

/// What a node can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeSickness {
    /// It does nothing; then all that was due comes at once, late.
    Paused,
    /// It is gone with all that it knew, and whoever waited. Another begins in its place.
    Crashed,
    /// Nothing that it sends arrives, and nothing that is sent to it.
    CutOff,
}
