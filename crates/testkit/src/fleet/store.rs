//! Owns [`Store`]: the one state that a fleet shares, decided by core's own functions.

use std::collections::BTreeMap;

use tollkeeper_core::{
    Algorithm, Amended, Change, Drawn, Lend, Lent, Loans, Outcome, Quota, Settled, State, Ticket,
    drawn,
};

use super::apportioned::{Demands, Part};
use super::node::{Call, Op, Reply};

const DONE: Amended = Amended::Done { forgiven: 0 };

/// Which state: the slot, and the algorithm, as in every store.
type Key = (u16, Algorithm);

/// States and reservations. Time comes with each call.
#[derive(Debug, Default)]
pub(super) struct Store {
    states: BTreeMap<Key, State>,
    reservations: BTreeMap<(Key, u128), Reservation>,
    loans: BTreeMap<Key, Loans>,
    demands: BTreeMap<Key, Demands>,
}

#[derive(Debug)]
struct Reservation {
    units: u64,
    charged_at_us: u64,
    expires_us: u64,
    settled: bool,
}

impl Store {
    /// Runs a call in one step.
    pub(super) fn run(&mut self, call: &Call, now_us: u64) -> Reply {
        let mut target = Target {
            key: (call.slot, call.quota.algorithm()),
            quota: &call.quota,
            now_us,
            store: self,
        };
        match call.op {
            Op::Decide { cost, ticket } => {
                Reply::Decided { outcome: target.decide(cost, ticket), now_us }
            }
            Op::Amend(change) => Reply::Amended(target.amend(change)),
            Op::Apportion(part) => Reply::Amended(target.apportion(&part)),
        }
    }
}

/// The state that a call names.
struct Target<'a> {
    key: Key,
    quota: &'a Quota,
    now_us: u64,
    store: &'a mut Store,
}

impl Target<'_> {
    fn state(&mut self) -> &mut State {
        let (quota, now_us) = (self.quota, self.now_us);
        self.store.states.entry(self.key).or_insert_with(|| State::fresh(quota, now_us))
    }

    /// The state, if there is one that is not as new.
    fn live(&mut self) -> Option<&mut State> {
        let (quota, now_us) = (self.quota, self.now_us);
        let state = self.store.states.get_mut(&self.key)?;
        (state.reset_after_us(quota, now_us) > 0).then_some(state)
    }

    fn decide(&mut self, cost: u64, ticket: Option<Ticket>) -> Outcome {
        let (quota, now_us) = (self.quota, self.now_us);
        let permit = ticket.map_or(0, |ticket| ticket.id);
        let step = self.state().step(quota, cost, permit, now_us);
        if let Some(Ticket { id, reserve_for_us: Some(life_us) }) = ticket
            && step.admission.is_yes()
            && cost > 0
        {
            let expires_us = now_us.saturating_add(life_us);
            let charge =
                Reservation { units: cost, charged_at_us: now_us, expires_us, settled: false };
            self.store.reservations.insert((self.key, id), charge);
        }
        Outcome::of_step(quota, &step, false)
    }

    /// Every change there is. A new one is a new arm.
    fn amend(&mut self, change: Change) -> Amended {
        match change {
            Change::Refund { units, charged_at_us } => self.refund(units, charged_at_us),
            Change::Settle { id, actual } => self.settle(id, actual),
            Change::Release { id } => self.release(id),
            Change::Renew { id } => self.renew(id),
            Change::LeaveAtMost { units } => self.leave_at_most(units),
            Change::Draw { most, least } => self.draw(most, least),
            Change::Lend(lend) => self.lend(&lend),
            Change::Spend { units } => self.spend(units),
            _ => Amended::Unknown,
        }
    }

    fn refund(&mut self, units: u64, charged_at_us: Option<u64>) -> Amended {
        let (quota, now_us) = (self.quota, self.now_us);
        if units == 0 || matches!(quota, Quota::Concurrency(_)) {
            return Amended::Unknown;
        }
        let Some(state) = self.live() else { return Amended::Unknown };
        state.refund(quota, units, charged_at_us, now_us);
        DONE
    }

    fn settle(&mut self, id: u128, actual: u64) -> Amended {
        let Some(held) = self.store.reservations.get_mut(&(self.key, id)) else {
            return Amended::Unknown;
        };
        if held.expires_us <= self.now_us {
            return Amended::Unknown;
        }
        if std::mem::replace(&mut held.settled, true) {
            return Amended::Repeated;
        }
        let (units, charged_at_us) = (held.units, held.charged_at_us);
        let forgiven = if actual <= units {
            self.refund(units - actual, Some(charged_at_us));
            0
        } else {
            self.overcharge(actual - units).forgiven().unwrap_or(0)
        };
        let age_us = self.now_us.saturating_sub(charged_at_us);
        Amended::Settled(Settled { forgiven, reserved: units, age_us })
    }

    fn overcharge(&mut self, units: u64) -> Amended {
        let (quota, now_us) = (self.quota, self.now_us);
        Amended::Done { forgiven: self.state().overcharge(quota, units, now_us) }
    }

    fn leave_at_most(&mut self, units: u64) -> Amended {
        let (quota, now_us) = (self.quota, self.now_us);
        if matches!(quota, Quota::Concurrency(_)) {
            return Amended::Unknown;
        }
        match self.state().remaining(quota, now_us) {
            left if left <= units => DONE,
            left => self.overcharge(left - units),
        }
    }

    fn draw(&mut self, most: u64, least: u64) -> Amended {
        let (quota, now_us) = (self.quota, self.now_us);
        let left = self.state().remaining(quota, now_us);
        self.spend(drawn(left, most, least))
    }

    fn lend(&mut self, lend: &Lend) -> Amended {
        let (quota, now_us, key) = (self.quota, self.now_us, self.key);
        if quota.bucket().is_none() {
            return Amended::Unknown;
        }
        let loans = self.store.loans.entry(key);
        let mut loans = *loans.or_insert_with(|| Loans::new(lend.period_us, now_us));
        loans.pass(lend.period_us, now_us);
        let unspent = loans.take_back(&lend.back);
        let room = lend.most_out.saturating_sub(loans.out());
        if unspent > 0 {
            self.refund(unspent, None);
        }
        let left = self.state().remaining(quota, now_us).min(room);
        let Amended::Drawn(drawn) = self.spend(drawn(left, lend.most, lend.least)) else {
            return Amended::Unknown;
        };
        let life_us = loans.lend(drawn.units, now_us);
        self.store.loans.insert(key, loans);
        Amended::Lent(Lent { drawn, turn: loans.turn, life_us })
    }

    fn spend(&mut self, units: u64) -> Amended {
        let (quota, at_us) = (self.quota, self.now_us);
        if matches!(quota, Quota::Concurrency(_)) {
            return Amended::Unknown;
        }
        let state = self.state();
        let forgiven = if units > 0 { state.overcharge(quota, units, at_us) } else { 0 };
        if units == 0 {
            state.anchor(quota, at_us);
        }
        let left = state.remaining(quota, at_us);
        let reset_after_us = state.reset_after_us(quota, at_us);
        Amended::Drawn(Drawn { units: units - forgiven, left, reset_after_us, at_us })
    }

    fn apportion(&mut self, part: &Part) -> Amended {
        let (quota, now_us) = (self.quota, self.now_us);
        let left = self.state().remaining(quota, now_us);
        let demands = self.store.demands.entry(self.key).or_default();
        let units = demands.part(quota, part, left, now_us);
        self.spend(units)
    }

    fn release(&mut self, id: u128) -> Amended {
        let now_us = self.now_us;
        let Some(State::Leases(leases)) = self.live() else { return Amended::Unknown };
        if leases.release(id, now_us) { DONE } else { Amended::Unknown }
    }

    fn renew(&mut self, id: u128) -> Amended {
        let (quota, now_us) = (self.quota, self.now_us);
        let (Some(State::Leases(leases)), Quota::Concurrency(in_flight)) = (self.live(), quota)
        else {
            return Amended::Unknown;
        };
        if leases.renew(in_flight, id, now_us) { DONE } else { Amended::Unknown }
    }
}

#[cfg(test)]
mod tests;
