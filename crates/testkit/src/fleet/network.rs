//! Calls go to the store and back, or do not.

use super::demand::{exponential, stretched};
use super::flights::{Flight, Place};
use super::node::{Call, Reply};
use super::process::Held;
use super::queue::Event;
use super::scenario::{StoreSickness, StoreTrouble};
use super::world::World;

impl World<'_> {
    pub(super) fn send(&mut self, node: usize) {
        if self.calls.is_empty() {
            return;
        }
        let mut calls = std::mem::take(&mut self.calls);
        for call in calls.take() {
            self.depart(node, call);
        }
        self.calls = calls;
    }

    fn depart(&mut self, node: usize, call: Call) {
        self.ledger.called(node);
        let flight = Flight {
            call,
            node,
            life: self.processes[node].life,
            deadline_us: self.now_us + self.scenario.network.time_out_us,
            is_going: true,
            is_due: false,
            is_told: false,
            reply: Reply::Failed,
            ran_us: 0,
        };
        let place = self.flights.add(flight);
        let reach_us = self.now_us + self.way_us();
        if self.is_lost(node, self.scenario.network.lost_calls_ppm) {
            self.ledger.faults().lost_calls += 1;
            self.flights.at(place).is_going = false;
            self.arrange_giving_up(place);
            return;
        }
        self.queue_reach(place, reach_us);
    }

    fn queue_reach(&mut self, place: Place, reach_us: u64) {
        if reach_us >= self.flights.at(place).deadline_us {
            self.arrange_giving_up(place);
        }
        self.queue.at(reach_us, Event::Reach(place));
    }

    fn way_us(&mut self) -> u64 {
        let network = &self.scenario.network;
        let tail = if network.jitter_us == 0 { 0 } else { exponential(&mut self.dice) };
        network.one_way_us + stretched(network.jitter_us, tail)
    }

    fn is_lost(&mut self, node: usize, ppm: u64) -> bool {
        let lost = ppm > 0 && self.dice.below(1_000_000) < ppm;
        lost || self.processes[node].is_cut
    }

    fn arrange_giving_up(&mut self, place: Place) {
        let flight = self.flights.at(place);
        if !std::mem::replace(&mut flight.is_due, true) {
            self.queue.at(flight.deadline_us.max(self.now_us), Event::GiveUp(place));
        }
    }

    pub(super) fn reach(&mut self, place: Place) {
        match self.trouble {
            Some(StoreTrouble { kind: StoreSickness::Paused, to_us, .. }) => {
                return self.queue_reach(place, to_us);
            }
            Some(_) => self.ledger.faults().refused += 1,
            None => {
                let shown_us = self.scenario.store.clock().shows_us(self.now_us);
                let flight = self.flights.at(place);
                flight.reply = self.store.run(&flight.call, shown_us);
                flight.ran_us = self.now_us;
                self.ledger.faults().ran_late += u64::from(flight.is_told);
            }
        }
        let flight = self.flights.at(place);
        flight.is_going = false;
        match (flight.is_told, flight.is_due) {
            (true, _) => self.flights.end(place),
            (false, true) => {}
            (false, false) => self.answer(place),
        }
    }

    fn answer(&mut self, place: Place) {
        let Flight { node, deadline_us, reply, .. } = *self.flights.at(place);
        let back_us = self.now_us + self.way_us();
        let is_lost = self.is_lost(node, self.scenario.network.lost_answers_ppm);
        self.ledger.faults().lost_answers += u64::from(is_lost && reply != Reply::Failed);
        if is_lost || back_us > deadline_us {
            self.arrange_giving_up(place);
        } else {
            self.queue.at(back_us, Event::Back(place));
        }
    }

    pub(super) fn come_back(&mut self, place: Place) {
        let flight = *self.flights.at(place);
        self.flights.end(place);
        self.hear(flight, flight.reply);
    }

    pub(super) fn give_up(&mut self, place: Place) {
        let flight = self.flights.at(place);
        flight.is_told = true;
        let flight = *flight;
        if !flight.is_going {
            self.flights.end(place);
        }
        self.hear(flight, Reply::Failed);
    }

    fn hear(&mut self, flight: Flight, reply: Reply) {
        if self.processes[flight.node].life != flight.life {
            self.ledger.faults().unheard += 1;
            return;
        }
        let what = Held::Reply { id: flight.call.id, reply, ran_us: flight.ran_us };
        self.deliver(flight.node, what);
    }
}
