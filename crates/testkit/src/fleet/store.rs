//! Owns [`Store`]: the one state that a fleet shares, decided by core's own functions.

use std::collections::BTreeMap;

use tollkeeper_core::{
    Algorithm, Amended, Change, Drawn, Outcome, Quota, Settled, State, Ticket, drawn,
};

use super::node::{Call, Op, Reply};

const DONE: Amended = Amended::Done { forgiven: 0 };

/// Which state: the slot, and the algorithm, as in every store.
type Key = (u16, Algorithm);

/// States and reservations. Time comes with each call.
#[derive(Debug, Default)]
pub(super) struct Store {
    states: BTreeMap<Key, State>,
    reservations: BTreeMap<(Key, u128), Reservation>,
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

    fn spend(&mut self, units: u64) -> Amended {
        let (quota, at_us) = (self.quota, self.now_us);
        if matches!(quota, Quota::Concurrency(_)) {
            return Amended::Unknown;
        }
        let state = self.state();
        let forgiven = if units > 0 { state.overcharge(quota, units, at_us) } else { 0 };
        let left = state.remaining(quota, at_us);
        let reset_after_us = state.reset_after_us(quota, at_us);
        Amended::Drawn(Drawn { units: units - forgiven, left, reset_after_us, at_us })
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
mod tests {
    use super::*;
    use crate::case::{Action, Case, quota};
    use crate::fleet::Calls;
    use crate::model::Settled;
    use crate::random::{Plot, random_case};

    fn run(store: &mut Store, quota: Quota, op: Op, now_us: u64) -> Reply {
        let mut calls = Calls::default();
        calls.send(3, quota, op);
        let call = calls.take().next().unwrap();
        store.run(&call, now_us)
    }

    /// Plays a case of one limit; says how often a change took effect.
    fn play(case: &Case) -> usize {
        let mut store = Store::default();
        let quota = quota(&case.limits[0].spec).unwrap();
        let mut done = 0;
        for step in &case.steps {
            let (op, expect) = match step.action {
                Action::Check { cost, id, reserve_us, ref expect } => {
                    let ticket = Ticket { id: id.into(), reserve_for_us: reserve_us };
                    let op = Op::Decide { cost, ticket: Some(ticket) };
                    let Reply::Decided { outcome, now_us } = run(&mut store, quota, op, step.at_us)
                    else {
                        panic!("{}: not decided", case.name);
                    };
                    let numbers = &expect.numbers;
                    assert_eq!(now_us, step.at_us);
                    assert_eq!(
                        (outcome.allowed, outcome.remaining, outcome.retry_after_us),
                        (numbers.allowed, numbers.remaining, numbers.retry_after_us),
                        "{}: {step:?}",
                        case.name
                    );
                    continue;
                }
                Action::Reset => {
                    store = Store::default();
                    continue;
                }
                Action::Refund { units, charged_at_us } => {
                    run(
                        &mut store,
                        quota,
                        Op::Amend(Change::Refund { units, charged_at_us }),
                        step.at_us,
                    );
                    continue;
                }
                Action::Settle { id, actual, expect } => {
                    (Change::Settle { id: id.into(), actual }, expect)
                }
                Action::Release { id, expect } => {
                    (Change::Release { id: id.into() }, settled(expect))
                }
                Action::Renew { id, expect } => (Change::Renew { id: id.into() }, settled(expect)),
                Action::Change { .. } => return done,
            };
            let came = match run(&mut store, quota, Op::Amend(op), step.at_us) {
                Reply::Amended(amended) if amended.forgiven().is_some() => Settled::Done,
                Reply::Amended(Amended::Repeated) => Settled::Repeated,
                _ => Settled::Unknown,
            };
            assert_eq!(came, expect, "{}: {step:?}", case.name);
            done += usize::from(came == Settled::Done);
        }
        done
    }

    fn settled(done: bool) -> Settled {
        if done { Settled::Done } else { Settled::Unknown }
    }

    #[test]
    fn it_decides_and_amends_as_the_model() {
        let mut done = 0;
        for algorithm in 0..7 {
            for seed in 0..100 {
                let case = random_case(seed, Plot::AfterTheFact, algorithm, 40);
                let alone = case.limits.len() == 1 && !case.limits[0].shadow;
                done += if alone { play(&case) } else { 0 };
            }
        }
        assert!(done > 100, "{done}");
    }

    #[test]
    fn a_slot_knows_nothing_of_another() {
        let quota = Quota::fixed_window(1, 1_000_000).unwrap();
        let mut store = Store::default();
        let mut calls = Calls::default();
        for slot in [0, 1, 0] {
            calls.send(slot, quota, Op::Decide { cost: 1, ticket: None });
        }
        let allowed = calls.take().map(|call| match store.run(&call, 5) {
            Reply::Decided { outcome, .. } => outcome.allowed,
            _ => false,
        });
        assert_eq!(allowed.collect::<Vec<_>>(), [true, true, false]);
    }

    #[test]
    fn what_is_left_can_be_lowered() {
        let quota = Quota::fixed_window(10, 1_000_000).unwrap();
        let mut store = Store::default();
        let lower = Op::Amend(Change::LeaveAtMost { units: 4 });
        assert_eq!(run(&mut store, quota, lower, 5), Reply::Amended(DONE));
        let look = Op::Decide { cost: 0, ticket: None };
        let Reply::Decided { outcome, .. } = run(&mut store, quota, look, 5) else {
            panic!("not decided");
        };
        assert_eq!(outcome.remaining, 4);
    }
}
