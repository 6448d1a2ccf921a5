//! What changes after the decision: refunds, settled reservations, released and renewed permits.

use tollkeeper_core::{Amended, Amendment, Change, Clock, Quota, State};

use crate::room::{Room, RoomMaker};
use crate::settings::Settings;
use crate::shard::{KeyEntry, Names, Shard};
use crate::stats::Counters;
use crate::table::{Table, now_us};

/// Applies one amendment in one atomic step.
pub(crate) fn amend(
    table: &Table,
    counters: &Counters,
    settings: &Settings,
    clock: &impl Clock,
    amendment: &Amendment<'_>,
) -> Amended {
    let hash = table.hash(amendment.limit, amendment.key);
    let mut shard = table.lock_of(hash);
    let now_us = now_us(clock, &mut shard);
    let rooms = RoomMaker::new(table, counters, settings, now_us);
    let mut target = Target { rooms, shard: &mut shard, hash, amendment, now_us };
    match amendment.change {
        Change::Refund { units, charged_at_us } => target.refund(units, charged_at_us),
        Change::Settle { id, actual } => target.settle(id, actual),
        Change::Release { id } => target.release(id),
        Change::Renew { id } => target.renew(id),
        Change::LeaveAtMost { units } => target.leave_at_most(units),
        _ => Amended::Unknown,
    }
}

const DONE: Amended = Amended::Done { forgiven: 0 };

/// The state that an amendment names.
struct Target<'a> {
    rooms: RoomMaker<'a>,
    shard: &'a mut Shard,
    hash: u64,
    amendment: &'a Amendment<'a>,
    now_us: u64,
}

impl Target<'_> {
    fn find(&self) -> Option<usize> {
        let Amendment { limit, quota, key, .. } = *self.amendment;
        let is_it = |entry: &KeyEntry| entry.names.are(limit, quota.algorithm(), key);
        self.shard.keys.find(self.hash, is_it)
    }

    /// Changes the state if there is one that has not expired, and if `change` says that it did.
    fn change<T>(
        &mut self,
        change: impl FnOnce(&mut State, &Quota, u64) -> Option<T>,
    ) -> Option<T> {
        let at = self.find()?;
        let entry = self.shard.keys.get_mut(at)?;
        if entry.expires_us <= self.now_us {
            return None;
        }
        let changed = change(&mut entry.state, self.amendment.quota, self.now_us)?;
        entry.written(self.amendment.quota, self.now_us);
        Some(changed)
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
        let found = self.shard.reservations.find(self.hash, |reservation| {
            reservation.id == id && reservation.names.are(limit, quota.algorithm(), key)
        });
        let found = found.and_then(|at| self.shard.reservations.get_mut(at));
        let Some(reservation) = found else { return Amended::Unknown };
        if reservation.expires_us <= self.now_us {
            return Amended::Unknown;
        }
        if std::mem::replace(&mut reservation.settled, true) {
            return Amended::Repeated;
        }
        let (units, charged_at_us) = (reservation.units, reservation.charged_at_us);
        if actual <= units {
            self.give_back(units - actual, Some(charged_at_us));
            return DONE;
        }
        Amended::Done { forgiven: self.overcharge(actual - units) }
    }

    /// Charges `units` whether they fit or not; a state that was forgotten is begun anew.
    fn overcharge(&mut self, units: u64) -> u64 {
        let quota = self.amendment.quota;
        let changed =
            self.change(|state, quota, now_us| Some(state.overcharge(quota, units, now_us)));
        if let Some(forgiven) = changed {
            return forgiven;
        }
        // It has expired, or it was never there or evicted.
        if self.find().is_none() {
            if self.rooms.take_key(self.shard, &[self.hash]) != Room::Yes {
                return units;
            }
            let Amendment { limit, key, .. } = *self.amendment;
            let names = Names::new(limit, quota.algorithm(), key);
            self.shard.keys.insert(KeyEntry::fresh(self.hash, names, quota, self.now_us));
        }
        let Some(entry) = self.find().and_then(|at| self.shard.keys.get_mut(at)) else {
            return units;
        };
        entry.state = State::fresh(quota, self.now_us);
        let forgiven = entry.state.overcharge(quota, units, self.now_us);
        entry.written(quota, self.now_us);
        forgiven
    }

    fn leave_at_most(&mut self, units: u64) -> Amended {
        let quota = self.amendment.quota;
        if matches!(quota, Quota::Concurrency(_)) {
            return Amended::Unknown;
        }
        let entry = self.find().and_then(|at| self.shard.keys.get_mut(at));
        let left = entry
            .filter(|entry| entry.expires_us > self.now_us)
            .map_or(quota.limit(), |entry| entry.state.remaining(quota, self.now_us));
        if left <= units {
            return DONE;
        }
        Amended::Done { forgiven: self.overcharge(left - units) }
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
