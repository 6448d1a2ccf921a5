//! One key under a list of limits: all or nothing, and what may follow a charge.

use std::collections::BTreeMap;
use std::mem::discriminant;

use super::bucket::Bucket;
use super::concurrency::Concurrency;
use super::fold::{Said, fold, is_admitted};
use super::log::Log;
use super::slot::{Meter, Slot};
use super::window::Windows;
use super::{Answer, Limit, Settled, Spec};

/// One key's (identity's) state under a list of limits.
#[derive(Debug)]
pub struct Model {
    members: Vec<Member>,
    /// The id of the last check that named none; counted downwards, away from the ids that callers choose.
    last_own_id: u128,
}

/// One of the limits, with what belongs to it.
#[derive(Debug)]
struct Member {
    limit: Limit,
    meter: Box<dyn Meter>,
    /// Every reservation ever made, by its id.
    reservations: BTreeMap<u128, Reservation>,
}

/// What a reservation's record says.
#[derive(Debug)]
struct Reservation {
    units: u64,
    charged_at_us: u64,
    /// The record counts as absent from this moment on.
    expires_us: u64,
    settled: bool,
}

/// An empty meter for a specification.
fn meter(spec: &Spec) -> Box<dyn Meter> {
    fn boxed<M: Meter + 'static>(meter: Option<M>) -> Option<Box<dyn Meter>> {
        meter.map(|meter| Box::new(meter) as Box<dyn Meter>)
    }
    boxed(Slot::<Bucket>::new(spec))
        .or_else(|| boxed(Slot::<Windows>::new(spec)))
        .or_else(|| boxed(Slot::<Log>::new(spec)))
        .or_else(|| boxed(Slot::<Concurrency>::new(spec)))
        .unwrap_or_else(|| unreachable!("every specification has an algorithm"))
}

impl Model {
    /// A key that nobody has charged yet.
    ///
    /// # Panics
    ///
    /// If there is no limit.
    #[must_use]
    pub fn new(limits: Vec<Limit>) -> Self {
        assert!(!limits.is_empty(), "a model needs at least one limit");
        let members = limits.into_iter().map(|limit| Member {
            meter: meter(&limit.spec),
            limit,
            reservations: BTreeMap::new(),
        });
        Self { members: members.collect(), last_own_id: u128::MAX }
    }

    /// An all-or-nothing check, without a reservation and with an id nobody else has.
    pub fn check(&mut self, now_us: u64, cost: u64) -> Answer {
        self.last_own_id -= 1;
        self.check_as(now_us, cost, self.last_own_id, None)
    }

    /// An all-or-nothing check. `id` names the permit (concurrency) and, with `reserve_ttl_us`, the reservation.
    pub fn check_as(
        &mut self,
        now_us: u64,
        cost: u64,
        id: u128,
        reserve_ttl_us: Option<u64>,
    ) -> Answer {
        let admissions = self
            .members
            .iter()
            .map(|member| (member.meter.admits(now_us, cost), member.limit.shadow));
        let admitted = is_admitted(admissions);

        let mut said = Vec::new();
        for member in &mut self.members {
            let numbers = if admitted && member.meter.admits(now_us, cost) {
                if let Some(ttl_us) = reserve_ttl_us.filter(|_| cost > 0) {
                    let reservation = Reservation {
                        units: cost,
                        charged_at_us: now_us,
                        expires_us: now_us + ttl_us,
                        settled: false,
                    };
                    member.reservations.insert(id, reservation);
                }
                member.meter.charge(now_us, cost, id)
            } else {
                let numbers = member.meter.uncharged(now_us, cost);
                // Cost 0 is a look and writes nothing at all.
                if cost > 0 {
                    member.meter.re_anchor(now_us);
                }
                numbers
            };
            said.push(Said { numbers, shadow: member.limit.shadow });
        }
        fold(said)
    }

    /// Gives units back to every limit: those of the charge made at `charged_at_us`, or any.
    pub fn refund(&mut self, now_us: u64, units: u64, charged_at_us: Option<u64>) {
        for member in &mut self.members {
            member.meter.refund(now_us, units, charged_at_us);
        }
    }

    /// Brings a reservation to what the work really cost, in every limit that it was charged to; 0 cancels it.
    pub fn settle(&mut self, now_us: u64, id: u128, actual: u64) -> Settled {
        let each: Vec<Settled> =
            self.members.iter_mut().map(|member| member.settle(now_us, id, actual)).collect();
        [Settled::Done, Settled::Repeated]
            .into_iter()
            .find(|outcome| each.contains(outcome))
            .unwrap_or(Settled::Unknown)
    }

    /// Ends a permit; whether any limit held it.
    pub fn release(&mut self, now_us: u64, id: u128) -> bool {
        let mut held = false;
        for member in &mut self.members {
            held |= member.meter.release(now_us, id);
        }
        held
    }

    /// Lets a permit expire a lease time from now; whether any limit held it.
    pub fn renew(&mut self, now_us: u64, id: u128) -> bool {
        let mut held = false;
        for member in &mut self.members {
            held |= member.meter.renew(now_us, id);
        }
        held
    }

    /// Forgets the key: its usage and its reservations.
    pub fn reset(&mut self) {
        for member in &mut self.members {
            member.meter.reset();
            member.reservations.clear();
        }
    }

    /// The latest moment, no later than `now_us`, from which on something counts as absent.
    ///
    /// A store may have thrown it away by then, so a clock that steps back behind this moment can show a difference
    /// that the contract allows.
    #[must_use]
    pub fn forgotten_at_us(&self, now_us: u64) -> Option<u64> {
        let states = self.members.iter().filter_map(|member| member.meter.forgotten_at_us(now_us));
        let records = self.members.iter().flat_map(|member| member.reservations.values());
        let records = records.map(|record| record.expires_us).filter(|&at_us| at_us <= now_us);
        states.chain(records).max()
    }

    /// Replaces limit `index` by another spec of the same algorithm; usage survives.
    ///
    /// # Panics
    ///
    /// If there is no such limit, or the algorithm is another.
    pub fn reconfigure(&mut self, index: usize, spec: Spec) {
        let member = &mut self.members[index];
        assert_eq!(
            discriminant(&member.limit.spec),
            discriminant(&spec),
            "the algorithm is part of the key: another one starts afresh"
        );
        member.meter.reconfigure(&spec);
        member.limit.spec = spec;
    }
}

impl Member {
    /// Settles this limit's part of a reservation.
    fn settle(&mut self, now_us: u64, id: u128, actual: u64) -> Settled {
        let live =
            self.reservations.get_mut(&id).filter(|reservation| reservation.expires_us > now_us);
        match live {
            None => Settled::Unknown,
            Some(reservation) if reservation.settled => Settled::Repeated,
            Some(reservation) => {
                reservation.settled = true;
                self.meter.settle(now_us, reservation.units, actual, reservation.charged_at_us);
                Settled::Done
            }
        }
    }
}
