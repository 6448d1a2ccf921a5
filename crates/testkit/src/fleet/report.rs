//! Owns [`Report`]: what a fleet admitted, and what that took.

use tollkeeper_core::Quota;

use super::judge;
use super::skew::Skew;

/// What became of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The limit.
    pub quota: Quota,
    /// The store's clock.
    pub store_clock: Skew,
    /// Every admission, in the order in which requests were told.
    pub admissions: Vec<Admission>,
    /// What each node was asked, and gave.
    pub nodes: Vec<Served>,
    /// What was asked and admitted in each slice of the store's time: in each window, or second.
    pub slices: Vec<Slice>,
    /// Units that the limit would have admitted of the same requests after the warm-up, had each
    /// been decided where and when it came.
    pub ideal: u64,
    /// Requests that a node was asked.
    pub requests: u64,
    /// Calls to the store.
    pub calls: u64,
    /// Those of which nodes heard that they failed.
    pub failed: u64,
    /// How long each request waited that was not told at once, and was told; ascending.
    pub waited_us: Vec<u64>,
    /// Requests that waited and were never told: their node was gone, or it forgot them.
    pub untold: u64,
    /// What befell it.
    pub faults: Faults,
}

/// A request that was admitted. Times are true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// When it was told.
    pub told_us: u64,
    /// When that was decided: when the store ran the call whose answer let it go; when it was told
    /// where no answer did.
    pub decided_us: u64,
    /// By which node.
    pub node: usize,
    /// What it took.
    pub units: u64,
}

/// What a node was asked, gave of it, and asked of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Units asked for after the warm-up.
    pub demanded: u64,
    /// Units admitted of them.
    pub admitted: u64,
    /// All requests.
    pub requests: u64,
    /// All calls to the store.
    pub calls: u64,
    /// Those of which it heard that they failed.
    pub failed: u64,
}

/// Units that were asked for within a slice of time, and those of which somebody was told in it that they
/// are admitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// When it began, in true time; before the fleet's beginning is its beginning.
    pub from_us: u64,
    /// Units asked for.
    pub asked: u64,
    /// Units admitted.
    pub admitted: u64,
}

/// How often what went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Calls that never reached the store.
    pub lost_calls: u64,
    /// Answers of calls that ran, which never came back.
    pub lost_answers: u64,
    /// Calls that found no store.
    pub refused: u64,
    /// Calls that ran when nobody waited for them any longer.
    pub ran_late: u64,
    /// Answers for a node that was gone.
    pub unheard: u64,
    /// Nodes that crashed.
    pub crashes: u64,
    /// Requests that came to a node that was not there. Nobody was asked.
    pub unserved: u64,
    /// The longest that anything was delivered late, because a node paused.
    pub latest_us: u64,
}

/// Which time of an admission counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dated {
    /// When it was decided. What the store decides is right by this time.
    Decided,
    /// When the request was told. Answers that overtake each other can crowd what was decided
    /// apart.
    Told,
}

impl Report {
    /// The most that any interval admitted beyond the limit, in units. `None` where the limit
    /// promises nothing of an interval.
    #[must_use]
    pub fn excess(&self, dated: Dated) -> Option<u64> {
        let at_us = |admission: &Admission| match dated {
            Dated::Decided => admission.decided_us,
            Dated::Told => admission.told_us,
        };
        let each = self.admissions.iter().map(|admission| (at_us(admission), admission.units));
        let mut each: Vec<(u64, u64)> = each.collect();
        each.sort_by_key(|(at_us, _)| *at_us);
        judge::excess(&self.quota, &each, self.store_clock)
    }

    /// Units asked for after the warm-up.
    #[must_use]
    pub fn demanded(&self) -> u64 {
        self.nodes.iter().map(|node| node.demanded).sum()
    }

    /// Units admitted of them.
    #[must_use]
    pub fn admitted(&self) -> u64 {
        self.nodes.iter().map(|node| node.admitted).sum()
    }

    /// How much of what the limit would have admitted was admitted. 1 where that is nothing.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        ratio(self.admitted(), self.ideal)
    }

    /// Calls to the store for each request.
    #[must_use]
    pub fn calls_per_request(&self) -> f64 {
        ratio(self.calls, self.requests)
    }

    /// Jain's index of what nodes admitted of what they were asked: 1 if all the same part, 1/n if
    /// one alone admitted anything.
    #[must_use]
    pub fn fairness(&self) -> f64 {
        let asked = self.nodes.iter().filter(|node| node.demanded > 0);
        let parts: Vec<f64> = asked.map(|node| ratio(node.admitted, node.demanded)).collect();
        let sum: f64 = parts.iter().sum();
        let squares: f64 = parts.iter().map(|part| part * part).sum();
        if squares == 0.0 { 1.0 } else { sum * sum / (parts.len() as f64 * squares) }
    }

    /// How long the given percentage of those who waited did at most.
    #[must_use]
    pub fn waited_us(&self, percent: usize) -> u64 {
        let nth = (self.waited_us.len() * percent).div_ceil(100);
        self.waited_us.get(nth.saturating_sub(1)).copied().unwrap_or(0)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}
