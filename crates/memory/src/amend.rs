//! What changes after the decision: refunds, settled reservations, released and renewed permits.

use tollkeeper_core::{
    Amended, Amendment, Change, Clock, Drawn, Lend, Lent, Loans, Quota, Settled, State, drawn,
};

use crate::names::Names;
use crate::record::Record;
use crate::room::{Room, RoomMaker};
use crate::settings::Settings;
use crate::shard::{Id, Keys, Under};
use crate::stats::Counters;
use crate::table::{Early, Table};

/// Applies one amendment in one atomic step.
pub(crate) fn amend(
    table: &Table,
    counters: &Counters,
    settings: &Settings,
    clock: &impl Clock,
    amendment: &Amendment<'_>,
) -> Amended {
    let Amendment { limit, quota, key, .. } = *amendment;
    let id = table.common.id(limit, quota.algorithm(), key);
    if !id.fingerprint.is_possible() {
        return Amended::Unknown;
    }
    let mut shard = table.lock_of(id);
    let known = shard.find(id);
    let seen_us = shard.seen_us(known, &table.common);
    let now_us = Early::read(clock).now_us(clock, seen_us);
    let rooms = RoomMaker::new(table, counters, settings, now_us);
    let under = Under { common: &table.common, limit, quota, now_us };
    let mut target = Target { rooms, shard: &mut shard, id, amendment, under, now_us };
    match amendment.change {
        Change::Refund { units, charged_at_us } => target.refund(units, charged_at_us),
        Change::Settle { id, actual } => target.settle(id, actual),
        Change::Release { id } => target.release(id),
        Change::Renew { id } => target.renew(id),
        Change::LeaveAtMost { units } => target.leave_at_most(units),
        Change::Draw { most, least } => target.draw(most, least),
        Change::Lend(lend) => target.lend(&lend),
        Change::Spend { units } => target.spend(units),
        _ => Amended::Unknown,
    }
}

const DONE: Amended = Amended::Done { forgiven: 0 };

/// The state that an amendment names.
struct Target<'a, 'b> {
    rooms: RoomMaker<'a>,
    shard: &'a mut Keys<'b>,
    id: Id,
    amendment: &'a Amendment<'a>,
    under: Under<'a>,
    now_us: u64,
}

impl Target<'_, '_> {
    /// Where the state is, if there is one that has not expired.
    fn live(&mut self) -> Option<usize> {
        let at = self.shard.find(self.id)?;
        (self.shard.expires_us(at, self.under.common) > self.now_us).then_some(at)
    }

    /// Changes the state if there is one that has not expired, and if `change` says that it did.
    fn change<T>(
        &mut self,
        change: impl FnOnce(&mut State, &Quota, u64) -> Option<T>,
    ) -> Option<T> {
        let at = self.live()?;
        let Under { quota, now_us, .. } = self.under;
        let changed = self.shard.work(at, self.under, |state| {
            let changed = change(state, quota, now_us);
            let written = changed.is_some();
            (changed, written)
        });
        changed.flatten()
    }

    fn refund(&mut self, units: u64, charged_at_us: Option<u64>) -> Amended {
        if units == 0 || matches!(self.amendment.quota, Quota::Concurrency(_)) {
            return Amended::Unknown;
        }
        self.give_back(units, charged_at_us).map_or(Amended::Unknown, |()| DONE)
    }

    fn give_back(&mut self, units: u64, charged_at_us: Option<u64>) -> Option<()> {
        self.change(|state, quota, now_us| {
            state.refund(quota, units, charged_at_us, now_us);
            Some(())
        })
    }

    fn settle(&mut self, id: u128, actual: u64) -> Amended {
        let Amendment { limit, quota, key, .. } = *self.amendment;
        let records = self.shard.records();
        let found = records.find(Record::hash_of(id), |record| {
            record.is_of(id) && record.names.are(limit, quota.algorithm(), key)
        });
        let found = found.and_then(|at| records.get_mut(at)?.reservation_mut(id));
        let Some(reservation) = found else { return Amended::Unknown };
        if reservation.expires_us <= self.now_us {
            return Amended::Unknown;
        }
        if std::mem::replace(&mut reservation.settled, true) {
            return Amended::Repeated;
        }
        let (units, charged_at_us) = (reservation.units, reservation.charged_at_us);
        let forgiven = if actual <= units {
            self.give_back(units - actual, Some(charged_at_us));
            0
        } else {
            self.overcharge(actual - units)
        };
        let age_us = self.now_us.saturating_sub(charged_at_us);
        Amended::Settled(Settled { forgiven, reserved: units, age_us })
    }

    /// Charges `units` whether they fit or not; a state that was forgotten is begun anew.
    fn overcharge(&mut self, units: u64) -> u64 {
        let Under { quota, now_us, .. } = self.under;
        let overcharge = |state: &mut State| state.overcharge(quota, units, now_us);
        if let Some(at) = self.shard.find(self.id) {
            let forgiven = self.shard.work(at, self.under, |state| (overcharge(state), true));
            return forgiven.unwrap_or(units);
        }
        // It was never there, or it was evicted.
        if self.rooms.take_key(self.shard, &[self.id.fingerprint]) != Room::Yes {
            return units;
        }
        let mut state = State::fresh(quota, now_us);
        let forgiven = overcharge(&mut state);
        self.shard.insert(self.id, self.amendment.key, state, self.under);
        forgiven
    }

    fn leave_at_most(&mut self, units: u64) -> Amended {
        if matches!(self.under.quota, Quota::Concurrency(_)) {
            return Amended::Unknown;
        }
        let (left, _) = self.left();
        if left <= units {
            return DONE;
        }
        Amended::Done { forgiven: self.overcharge(left - units) }
    }

    /// What is left, and the time until the state is as new.
    fn left(&mut self) -> (u64, u64) {
        let Under { quota, now_us, .. } = self.under;
        let numbers = self.live().and_then(|at| {
            self.shard.work(at, self.under, |state| {
                let numbers = (state.remaining(quota, now_us), state.reset_after_us(quota, now_us));
                (numbers, false)
            })
        });
        numbers.unwrap_or((quota.limit(), 0))
    }

    fn draw(&mut self, most: u64, least: u64) -> Amended {
        let units = drawn(self.left().0, most, least);
        self.spend(units)
    }

    fn lend(&mut self, lend: &Lend) -> Amended {
        if self.under.quota.bucket().is_none() {
            return Amended::Unknown;
        }
        let now_us = self.now_us;
        // Where it cannot be counted nothing is lent.
        let (unspent, room) = self.loans(lend.period_us).map_or((0, 0), |loans| {
            loans.pass(lend.period_us, now_us);
            let unspent = loans.take_back(&lend.back);
            (unspent, lend.most_out.saturating_sub(loans.out()))
        });
        if unspent > 0 {
            self.give_back(unspent, None);
        }
        let left = self.left().0.min(room);
        let Amended::Drawn(drawn) = self.spend(drawn(left, lend.most, lend.least)) else {
            return Amended::Unknown;
        };
        let (mut turn, mut life_us) = (0, 0);
        if let Some(loans) = self.loans(lend.period_us) {
            (turn, life_us) = (loans.turn, loans.lend(drawn.units, now_us));
        }
        Amended::Lent(Lent { drawn, turn, life_us })
    }

    /// What of the state is out, if there is a place to write it down.
    fn loans(&mut self, period_us: u64) -> Option<&mut Loans> {
        let Amendment { limit, quota, key, .. } = *self.amendment;
        let fingerprint = self.id.fingerprint;
        let hash = Record::hash_of_loans(fingerprint);
        let known = self.shard.records().find(hash, |record| record.is_lent_of(fingerprint));
        if let Some(at) = known {
            return self.shard.records().get_mut(at)?.loans_mut();
        }
        if !self.rooms.take_records(1) {
            return None;
        }
        let names = Names::new(limit, quota.algorithm(), key);
        let loans = Loans::new(period_us, self.now_us);
        self.shard.records().insert(Record::lent(fingerprint, names, loans)).loans_mut()
    }

    fn spend(&mut self, units: u64) -> Amended {
        if matches!(self.under.quota, Quota::Concurrency(_)) {
            return Amended::Unknown;
        }
        let forgiven = if units > 0 {
            self.overcharge(units)
        } else {
            // Or who asks in vain would wait for a clock that stepped back to catch up.
            self.change(|state, quota, now_us| state.anchor(quota, now_us).then_some(()));
            0
        };
        let (left, reset_after_us) = self.left();
        let at_us = self.now_us;
        Amended::Drawn(Drawn { units: units - forgiven, left, reset_after_us, at_us })
    }

    fn release(&mut self, id: u128) -> Amended {
        let released = self.change(|state, _, now_us| match state {
            State::Leases(leases) => leases.release(id, now_us).then_some(()),
            _ => None,
        });
        released.map_or(Amended::Unknown, |()| DONE)
    }

    fn renew(&mut self, id: u128) -> Amended {
        let renewed = self.change(|state, quota, now_us| match (state, quota) {
            (State::Leases(leases), Quota::Concurrency(in_flight)) => {
                leases.renew(in_flight, id, now_us).then_some(())
            }
            _ => None,
        });
        renewed.map_or(Amended::Unknown, |()| DONE)
    }
}
