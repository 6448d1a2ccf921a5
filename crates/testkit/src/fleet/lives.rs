//! Nodes come, go, fall ill, and are woken.

use super::queue::Event;
use super::scenario::{NodeSickness, Scenario};
use super::world::{Seat, World};

impl World<'_> {
    pub(super) fn begin(&mut self, nth: usize) {
        let Scenario { quota, nodes, .. } = self.scenario;
        let process = &mut self.processes[nth];
        let seat = Seat {
            nth,
            life: process.life,
            nodes: nodes.len(),
            quota: *quota,
            now_us: nodes[nth].skew.shows_us(self.now_us),
        };
        process.node = Some((self.factory)(&seat));
        self.arm(nth);
    }

    fn end(&mut self, node: usize) {
        self.ledger.report.untold += self.processes[node].end();
    }

    pub(super) fn leave(&mut self, at: usize) {
        if !self.processes[at].is_paused {
            self.with(at, self.now_us, |node, now_us, calls, _| node.leave(now_us, calls));
        }
        self.end(at);
        self.processes[at].is_crashed = false;
    }

    pub(super) fn node_sick(&mut self, at: usize, kind: NodeSickness) {
        let process = &mut self.processes[at];
        match kind {
            NodeSickness::CutOff => process.is_cut = true,
            _ if process.node.is_none() => {}
            NodeSickness::Paused => process.is_paused = true,
            NodeSickness::Crashed => {
                process.is_crashed = true;
                self.ledger.faults().crashes += 1;
                self.end(at);
            }
        }
    }

    pub(super) fn node_well(&mut self, at: usize, kind: NodeSickness) {
        let process = &mut self.processes[at];
        match kind {
            NodeSickness::CutOff => process.is_cut = false,
            NodeSickness::Paused if process.is_paused => self.resume(at),
            NodeSickness::Crashed if process.is_crashed => {
                process.is_crashed = false;
                self.begin(at);
            }
            _ => {}
        }
    }

    /// All that was due comes at once: first its own waking, then the rest as it came.
    fn resume(&mut self, at: usize) {
        self.processes[at].is_paused = false;
        self.wake(at);
        for (came_us, held) in std::mem::take(&mut self.processes[at].held) {
            self.late(came_us);
            self.deliver(at, held);
        }
    }

    fn late(&mut self, due_us: u64) {
        let late_us = self.now_us.saturating_sub(due_us);
        let latest_us = &mut self.ledger.faults().latest_us;
        *latest_us = late_us.max(*latest_us);
    }

    /// Arranges the next waking, unless an earlier one is arranged, which will arrange it.
    pub(super) fn arm(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let Some(wake_us) = process.node.as_ref().and_then(|node| node.wake_us()) else { return };
        let due_us = self.scenario.nodes[at].skew.when_us(wake_us).max(self.now_us + 1);
        if process.armed_us.is_none_or(|armed_us| due_us < armed_us) {
            process.armed_us = Some(due_us);
            self.queue.at(due_us, Event::Wake { node: at });
        }
    }

    pub(super) fn ring(&mut self, at: usize) {
        let process = &mut self.processes[at];
        if process.armed_us != Some(self.now_us) {
            return;
        }
        process.armed_us = None;
        if !process.is_paused {
            self.wake(at);
        }
    }

    fn wake(&mut self, at: usize) {
        let Some(wake_us) = self.processes[at].node.as_ref().and_then(|node| node.wake_us()) else {
            return;
        };
        let due_us = self.scenario.nodes[at].skew.when_us(wake_us);
        if due_us > self.now_us {
            return self.arm(at);
        }
        self.with(at, self.now_us, |node, now_us, calls, told| node.wake(now_us, calls, told));
    }
}
