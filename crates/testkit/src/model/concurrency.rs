//! Concurrency: the leases held, each with its expiry.

use super::Spec;
use super::algorithm::Algorithm;

/// The parameters.
#[derive(Debug)]
pub(super) struct Concurrency {
    max: u64,
    lease_us: u64,
}

/// Units held under one permit. It is over when its expiry is not later than now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    id: u128,
    units: u64,
    expires_us: u64,
    /// The lease time it was granted or last renewed with.
    granted_us: u64,
}

impl Lease {
    /// Its expiry as seen at a moment: never later than a whole lease time from then.
    fn expires_seen_at_us(&self, now_us: u64) -> u64 {
        self.expires_us.min(now_us + self.granted_us)
    }
}

/// The units held.
fn held(leases: &[Lease]) -> u128 {
    leases.iter().map(|lease| u128::from(lease.units)).sum()
}

impl Algorithm for Concurrency {
    type State = Vec<Lease>;

    const ADJUSTABLE: bool = false;

    fn from_spec(spec: &Spec) -> Option<Self> {
        match spec {
            Spec::Concurrency { max, lease_us } => Some(Self { max: *max, lease_us: *lease_us }),
            _ => None,
        }
    }

    fn limit(&self) -> u64 {
        self.max
    }

    fn fresh(&self, _now_us: u64) -> Vec<Lease> {
        Vec::new()
    }

    fn seen_at(&self, state: &Vec<Lease>, now_us: u64) -> Vec<Lease> {
        let mut leases = Vec::new();
        for lease in state {
            let expires_us = lease.expires_seen_at_us(now_us);
            if expires_us > now_us {
                leases.push(Lease { expires_us, ..*lease });
            }
        }
        leases
    }

    fn is_stale(&self, state: &Vec<Lease>, now_us: u64) -> bool {
        state.iter().any(|lease| lease.expires_us > lease.expires_seen_at_us(now_us))
    }

    fn admits(&self, state: &Vec<Lease>, _now_us: u64, cost: u64) -> bool {
        held(state) + u128::from(cost) <= u128::from(self.max)
    }

    fn charge(&self, state: &mut Vec<Lease>, now_us: u64, cost: u64, id: u128) {
        state.push(Lease {
            id,
            units: cost,
            expires_us: now_us + self.lease_us,
            granted_us: self.lease_us,
        });
    }

    fn remaining(&self, state: &Vec<Lease>, _now_us: u64) -> u64 {
        let left = u128::from(self.max).saturating_sub(held(state));
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    fn reset_after_us(&self, state: &Vec<Lease>, now_us: u64) -> u64 {
        let last_us = state.iter().map(|lease| lease.expires_us).max();
        last_us.map_or(0, |last_us| last_us - now_us)
    }

    fn give_back(&self, _: &mut Vec<Lease>, _: u64, _: u64, _: Option<u64>) {}

    fn take_regardless(&self, _: &mut Vec<Lease>, _: u64, _: u64) {}

    fn release(&self, state: &mut Vec<Lease>, id: u128) -> bool {
        let before = state.len();
        state.retain(|lease| lease.id != id);
        state.len() < before
    }

    fn renew(&self, state: &mut Vec<Lease>, now_us: u64, id: u128) -> bool {
        let mut held = false;
        for lease in state.iter_mut().filter(|lease| lease.id == id) {
            lease.expires_us = now_us + self.lease_us;
            lease.granted_us = self.lease_us;
            held = true;
        }
        held
    }
}
