//! A process that has its part of a limit, as the simulator knows it.

use std::sync::Arc;

use tollkeeper_core::{Amended, Change, Check, Clock, ManualClock, Quota, Ticket};
use tollkeeper_hybrid::share::{BEAT_US, Count, PERMIT_US, Place};
use tollkeeper_hybrid::shares::Shares;
use tollkeeper_memory::Settings;
use tollkeeper_testkit::fleet::{Ask, CallId, Calls, Node, Op, Reply, Seat, Telling, Told};

const MOST: u64 = 1_000;

/// The permits lie beside the limit.
const PERMITS: u16 = 1;

enum For {
    Renew,
    /// To take a permit, or to look how many there are.
    Take {
        is_new: bool,
    },
}

/// A process with one key. What it cannot decide, it denies.
pub(crate) struct Sharing {
    count: Count,
    shares: Shares,
    clock: Arc<ManualClock>,
    quota: Quota,
    id: u128,
    under_way: Option<(CallId, For, u64)>,
    wake_us: u64,
}

fn permits() -> Quota {
    Quota::concurrency(MOST, PERMIT_US).unwrap()
}

impl Sharing {
    pub(crate) fn new(seat: &Seat) -> Self {
        let clock = Arc::new(ManualClock::at(seat.now_us));
        Self {
            count: Count::default(),
            shares: Shares::new(Settings::default(), Arc::clone(&clock) as Arc<dyn Clock>),
            clock,
            quota: seat.quota,
            id: u128::try_from(seat.nth).unwrap() << 32 | u128::from(seat.life),
            under_way: None,
            wake_us: seat.now_us,
        }
    }

    fn take(&mut self, cost: u64, is_new: bool, sent_us: u64, calls: &mut Calls) {
        let ticket = Some(Ticket { id: self.id, reserve_for_us: None });
        let call = calls.send(PERMITS, permits(), Op::Decide { cost, ticket });
        self.under_way = Some((call, For::Take { is_new }, sent_us));
    }
}

impl Node for Sharing {
    fn ask(&mut self, now_us: u64, ask: Ask, _: &mut Calls) -> Told {
        self.clock.set(now_us);
        let Place::Serves(standing) = self.count.place(now_us) else { return Told::Denied };
        let check = Check::new("api", &self.quota, "hot", ask.cost);
        match self.shares.take(&check, None, standing, now_us) {
            Ok(Some(outcome)) if outcome.allowed => Told::Admitted,
            _ => Told::Denied,
        }
    }

    fn answered(
        &mut self,
        now_us: u64,
        call: CallId,
        reply: Reply,
        calls: &mut Calls,
        _: &mut Vec<Telling>,
    ) {
        let Some((id, what, sent_us)) = self.under_way.take() else { return };
        if id != call {
            return;
        }
        match (what, reply) {
            (For::Renew, Reply::Amended(Amended::Done { .. })) => {
                self.take(0, false, sent_us, calls);
            }
            (For::Renew, Reply::Amended(_)) => self.take(1, true, sent_us, calls),
            (For::Take { is_new }, Reply::Decided { outcome, .. }) if outcome.allowed => {
                self.count.heard(MOST - outcome.remaining, is_new, sent_us, now_us);
                if let Place::Serves(standing) = self.count.place(now_us) {
                    self.shares.stand(standing, now_us);
                }
            }
            _ => {}
        }
    }

    fn wake_us(&self) -> Option<u64> {
        Some(self.wake_us)
    }

    fn wake(&mut self, now_us: u64, calls: &mut Calls, _: &mut Vec<Telling>) {
        let renew = Op::Amend(Change::Renew { id: self.id });
        let call = calls.send(PERMITS, permits(), renew);
        self.under_way = Some((call, For::Renew, now_us));
        self.wake_us = now_us + BEAT_US;
    }
}
