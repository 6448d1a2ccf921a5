//! Owns [`Ledger`]: the books that a [`Report`] is made of.

use tollkeeper_core::State;

use super::node::AskId;
use super::report::{Admission, Faults, Report, Served};
use super::scenario::Scenario;

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
        if now_us >= self.warm_up_us {
            report.nodes[node].demanded += cost;
            report.ideal += if step.admission.is_yes() { cost } else { 0 };
        }
        Asked { id: AskId(id), cost, came_us: now_us }
    }

    /// A request is admitted.
    pub(super) fn admitted(&mut self, node: usize, asked: Asked, told_us: u64, decided_us: u64) {
        let admission = Admission { told_us, decided_us, node, units: asked.cost };
        self.report.admissions.push(admission);
        if asked.came_us >= self.warm_up_us {
            self.report.nodes[node].admitted += asked.cost;
        }
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
