//! Owns [`Ledger`]: the books that a [`Report`] is made of.

use tollkeeper_core::{Quota, State};

use super::node::AskId;
use super::report::{Admission, Faults, Report, Served, Slice};
use super::scenario::Scenario;

/// How long a slice is where the limit has no windows.
const SLICE_US: u64 = 1_000_000;

/// A request that came. Times are true.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) id: AskId,
    pub(super) cost: u64,
    pub(super) came_us: u64,
}

/// What has been written down so far.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) report: Report,
    warm_up_us: u64,
    /// The limit as it would be if every request were decided where and when it came.
    ideal: State,
}

impl Ledger {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let store_clock = scenario.store.clock();
        let report = Report {
            quota: scenario.quota,
            store_clock,
            admissions: Vec::new(),
            nodes: vec![Served::default(); scenario.nodes.len()],
            slices: Vec::new(),
            ideal: 0,
            requests: 0,
            calls: 0,
            failed: 0,
            waited_us: Vec::new(),
            untold: 0,
            faults: Faults::default(),
        };
        let ideal = State::fresh(&scenario.quota, store_clock.shows_us(0));
        Self { report, warm_up_us: scenario.warm_up_us, ideal }
    }

    /// A request comes to a node that is there.
    pub(super) fn asked(&mut self, node: usize, cost: u64, now_us: u64) -> Asked {
        let report = &mut self.report;
        let id = report.requests;
        report.requests += 1;
        let shown_us = report.store_clock.shows_us(now_us);
        let step = self.ideal.step(&report.quota, cost, id.into(), shown_us);
        report.nodes[node].requests += 1;
        if now_us >= self.warm_up_us {
            report.nodes[node].demanded += cost;
            report.ideal += if step.admission.is_yes() { cost } else { 0 };
        }
        self.slice(now_us).asked += cost;
        Asked { id: AskId(id), cost, came_us: now_us }
    }

    /// The slice that a time lies in.
    fn slice(&mut self, at_us: u64) -> &mut Slice {
        let Report { quota, store_clock, slices, .. } = &mut self.report;
        let long_us = match quota {
            Quota::FixedWindow(window)
            | Quota::SlidingWindowLog(window)
            | Quota::SlidingWindowCounter(window) => window.size_us(),
            _ => SLICE_US,
        };
        let nth = |at_us| store_clock.shows_us(at_us) / long_us;
        let at = usize::try_from(nth(at_us) - nth(0)).unwrap_or(0);
        while slices.len() <= at {
            let from_us = store_clock.when_us((nth(0) + slices.len() as u64) * long_us);
            slices.push(Slice { from_us, ..Slice::default() });
        }
        &mut slices[at]
    }

    /// A request is admitted.
    pub(super) fn admitted(&mut self, node: usize, asked: Asked, told_us: u64, decided_us: u64) {
        let admission = Admission { told_us, decided_us, node, units: asked.cost };
        self.report.admissions.push(admission);
        if asked.came_us >= self.warm_up_us {
            self.report.nodes[node].admitted += asked.cost;
        }
        self.slice(told_us).admitted += asked.cost;
    }

    /// A node calls the store.
    pub(super) fn called(&mut self, node: usize) {
        self.report.calls += 1;
        self.report.nodes[node].calls += 1;
    }

    /// A node hears that a call failed.
    pub(super) fn failed(&mut self, node: usize) {
        self.report.failed += 1;
        self.report.nodes[node].failed += 1;
    }

    pub(super) fn faults(&mut self) -> &mut Faults {
        &mut self.report.faults
    }

    /// Closes the books.
    pub(super) fn close(mut self) -> Report {
        self.report.waited_us.sort_unstable();
        self.report
    }
}
