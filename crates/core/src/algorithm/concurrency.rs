//! Concurrency: at most L permits held at the same time. A permit ends when it is released, or at
//! its expiry unless it is renewed.

use std::collections::VecDeque;

use super::Admission;
use crate::quota::InFlight;

/// Units held under one permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who holds them.
    pub permit: u128,
    /// How many.
    pub units: u64,
    /// When they end by themselves.
    pub expires_us: u64,
    /// The lease time that they were granted or renewed with.
    pub lease_us: u64,
}

impl Lease {
    /// The expiry as seen at `now_us`: never further away than the lease time, so that a clock
    /// that stepped back locks nobody.
    fn ends_us(&self, now_us: u64) -> u64 {
        self.expires_us.min(now_us + self.lease_us)
    }
}

/// What a concurrency limit remembers: leases, the first to end first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    leases: VecDeque<Lease>,
    /// Of all of them, so that nobody has to count.
    units: u64,
    /// Whether they may differ in their lease time, after the limit's was changed.
    mixed: bool,
}

impl Leases {
    /// From leases in any order.
    #[must_use]
    pub fn new(mut leases: Vec<Lease>) -> Self {
        leases.sort_by_key(|lease| lease.expires_us);
        let units = leases.iter().map(|lease| lease.units).sum();
        let mixed = leases.windows(2).any(|pair| pair[0].lease_us != pair[1].lease_us);
        Self { leases: leases.into(), units, mixed }
    }

    /// The leases, the first to end first, those that have ended included.
    pub fn leases(&self) -> impl ExactSizeIterator<Item = &Lease> {
        self.leases.iter()
    }

    fn live(&self, now_us: u64) -> impl Iterator<Item = &Lease> {
        self.leases.iter().skip_while(move |lease| lease.expires_us <= now_us)
    }

    fn held(&self, now_us: u64) -> u64 {
        let ended = self.leases.iter().take_while(|lease| lease.expires_us <= now_us);
        self.units - ended.map(|lease| lease.units).sum::<u64>()
    }

    /// Whether a clock that stepped back has left a lease that ends too far away. Where all have one
    /// lease time, the last to end tells for all.
    fn is_ahead(&self, now_us: u64) -> bool {
        let ahead = |lease: &Lease| lease.expires_us > lease.ends_us(now_us);
        match self.mixed {
            true => self.leases.iter().any(ahead),
            false => self.leases.back().is_some_and(ahead),
        }
    }

    /// Whether `cost` more units may be held.
    #[must_use]
    pub fn admit(&self, in_flight: &InFlight, cost: u64, now_us: u64) -> Admission {
        if cost > in_flight.max_in_flight() {
            return Admission::NEVER;
        }
        let used = self.held(now_us) + cost;
        let Some(excess) = used.checked_sub(in_flight.max_in_flight()).filter(|e| *e > 0) else {
            return Admission::NOW;
        };
        Admission::after(self.nth_end_us(excess, now_us) - now_us)
    }

    /// When the `nth` unit to end does.
    fn nth_end_us(&self, nth: u64, now_us: u64) -> u64 {
        // Only a clock that stepped back can have put the ends out of order.
        if self.is_ahead(now_us) {
            let mut anchored = self.clone();
            anchored.anchor(now_us);
            return anchored.nth_end_us(nth, now_us);
        }
        let mut seen = 0;
        for lease in self.live(now_us) {
            seen += lease.units;
            if seen >= nth {
                return lease.expires_us;
            }
        }
        now_us
    }

    /// Holds `cost` units under `permit`.
    pub fn charge(&mut self, in_flight: &InFlight, cost: u64, permit: u128, now_us: u64) {
        while let Some(ended) = self.leases.pop_front_if(|lease| lease.expires_us <= now_us) {
            self.units -= ended.units;
        }
        self.anchor(now_us);
        let lease_us = in_flight.lease_us();
        self.insert(Lease { permit, units: cost, expires_us: now_us + lease_us, lease_us });
    }

    /// After a clock that stepped back: no lease ends later than one granted now would.
    /// Whether one did.
    pub fn anchor(&mut self, now_us: u64) -> bool {
        let ahead = self.is_ahead(now_us);
        if ahead {
            for lease in &mut self.leases {
                lease.expires_us = lease.ends_us(now_us);
            }
            self.leases.make_contiguous().sort_by_key(|lease| lease.expires_us);
        }
        ahead
    }

    /// Gives a permit back. Whether it was held.
    pub fn release(&mut self, permit: u128, now_us: u64) -> bool {
        let held = self.live(now_us).any(|lease| lease.permit == permit);
        if held {
            self.leases.retain(|lease| lease.permit != permit && lease.expires_us > now_us);
            self.units = self.leases.iter().map(|lease| lease.units).sum();
            self.anchor(now_us);
        }
        held
    }

    /// Lets a held permit last a whole lease from now. Whether it was held.
    pub fn renew(&mut self, in_flight: &InFlight, permit: u128, now_us: u64) -> bool {
        let held = self.live(now_us).filter(|lease| lease.permit == permit);
        let units = held.map(|lease| lease.units).sum();
        let was_held = self.release(permit, now_us);
        if was_held {
            self.charge(in_flight, units, permit, now_us);
        }
        was_held
    }

    /// Units that may still be held.
    #[must_use]
    pub fn remaining(&self, in_flight: &InFlight, now_us: u64) -> u64 {
        in_flight.max_in_flight().saturating_sub(self.held(now_us))
    }

    /// Until the last lease ends.
    #[must_use]
    pub fn reset_after_us(&self, now_us: u64) -> u64 {
        let last = match self.is_ahead(now_us) {
            true => self.leases.iter().map(|lease| lease.ends_us(now_us)).max(),
            false => self.leases.back().map(|lease| lease.expires_us),
        };
        last.map_or(0, |ends_us| ends_us.saturating_sub(now_us))
    }

    fn insert(&mut self, lease: Lease) {
        let same = self.leases.back().is_none_or(|last| last.lease_us == lease.lease_us);
        self.mixed = !self.leases.is_empty() && (self.mixed || !same);
        self.units += lease.units;
        let place = self.leases.partition_point(|other| other.expires_us <= lease.expires_us);
        self.leases.insert(place, lease);
    }
}
