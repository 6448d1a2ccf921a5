//! Owns [`Otherwise`]: a process that leases as [`Leasing`](crate::node::Leasing) does, but for what it
//! asks of the store and how it keeps what it gets, which is a [`Way`].

use std::collections::VecDeque;

use tollkeeper_core::{Amended, Drawn, LeakMode, Quota, Rate};
use tollkeeper_hybrid::plan::Draw;
use tollkeeper_testkit::fleet::{Ask, AskId, CallId, Calls, Node, Op, Reply, Seat, Telling, Told};

use crate::calling::{Chance, UnderWay};
use crate::node::period_us;
use crate::wanting::{DRAWS, Wanting, whole};

/// A store that gave no answer is asked again after so long at most.
const LOST_US: u64 = 1_000_000;

/// Another way to ask for units, and to keep them.
pub(crate) trait Way {
    fn new(seat: &Seat) -> Self;

    /// The limit, as the store has it.
    fn stored(&self) -> Quota;

    /// What can be spent now.
    fn left(&self, now_us: u64) -> u64;

    /// What is here, whether or not it can be spent now.
    fn held(&self, now_us: u64) -> u64 {
        self.left(now_us)
    }

    /// Whether the store had too little for all, so that it need not be asked again soon.
    fn is_short(&self, drawn: &Drawn, most: u64) -> bool {
        drawn.units < most
    }

    /// Takes what can be.
    fn spend(&mut self, cost: u64, now_us: u64);

    /// Whether the next units are due where there are too few for all, however many are left.
    fn is_due(&self) -> bool;

    /// How long it waits until it asks again where there were too few. `chance` is any number.
    fn pause_us(&self, chance: u32) -> u64;

    /// What the store is asked; `demand` is what came in a period, on average.
    fn ask(&mut self, draw: Draw, demand: u64, now_us: u64) -> Op;

    /// Units have come.
    fn granted(&mut self, drawn: &Drawn, is_short: bool, sent_us: u64, now_us: u64);

    /// What the store is told if nobody wants what is here, which is given up.
    fn rest(&mut self, now_us: u64) -> Option<Op>;
}

enum For {
    Draw(Draw, u64),
    Request(AskId),
    Rest,
}

/// A process with one key.
pub(crate) struct Otherwise<W> {
    way: W,
    wants: Wanting,
    period_us: u64,
    is_asking: bool,
    is_short: bool,
    is_lost: bool,
    next_us: u64,
    under_way: UnderWay<For>,
    waiting: VecDeque<Ask>,
    wake_us: u64,
    chance: Chance,
}

impl<W: Way> Otherwise<W> {
    pub(crate) fn new(seat: &Seat) -> Self {
        let period_us = period_us(&seat.quota, seat.nodes);
        Self {
            way: W::new(seat),
            wants: Wanting::new(period_us, seat.now_us),
            period_us,
            is_asking: false,
            is_short: false,
            is_lost: false,
            next_us: seat.now_us,
            under_way: UnderWay::none(),
            waiting: VecDeque::new(),
            wake_us: seat.now_us + period_us,
            chance: Chance::of(seat),
        }
    }

    /// Decides a request by what is here. `None` if it waits.
    fn decide(&mut self, cost: u64, now_us: u64, calls: &mut Calls) -> Option<bool> {
        let left = self.way.left(now_us);
        if cost <= left {
            self.way.spend(cost, now_us);
            self.wants.spend(cost);
            let is_due = self.is_short && self.way.is_due();
            if is_due || self.wants.is_low(left - cost) {
                self.draw(1, now_us, calls);
            }
            return Some(true);
        }
        self.draw(cost, now_us, calls);
        let waits = self.is_asking && !self.is_short && !self.is_lost;
        (!waits).then_some(false)
    }

    fn draw(&mut self, least: u64, now_us: u64, calls: &mut Calls) {
        if self.is_asking || now_us < self.next_us {
            return;
        }
        if !self.wants.may_call(0.0, now_us) {
            self.next_us = now_us + self.wants.wait_us();
            return;
        }
        self.is_asking = true;
        let wanted = if self.is_lost { 0 } else { self.wants.wanted(now_us) };
        let most = wanted.saturating_sub(self.way.held(now_us)).max(least);
        let draw = Draw { most, least };
        let demand = whole(self.wants.average());
        let op = self.way.ask(draw, demand, now_us);
        self.under_way.add(calls.send(0, self.way.stored(), op), For::Draw(draw, now_us));
    }

    /// The store decides, while the key is not busy.
    fn leave_it(&mut self, ask: Ask, calls: &mut Calls) -> Told {
        let op = Op::Decide { cost: ask.cost, ticket: None };
        self.under_way.add(calls.send(0, self.way.stored(), op), For::Request(ask.id));
        Told::Waits
    }

    fn came(&mut self, drawn: &Drawn, draw: Draw, sent_us: u64, now_us: u64) {
        (self.is_asking, self.is_lost) = (false, false);
        self.wants.answered(sent_us, now_us);
        self.is_short = self.way.is_short(drawn, draw.most);
        if self.is_short {
            self.next_us = now_us + self.way.pause_us(self.chance.next());
        }
        self.way.granted(drawn, self.is_short, sent_us, now_us);
    }

    fn failed(&mut self, now_us: u64) {
        (self.is_asking, self.is_lost) = (false, true);
        self.wants.failed();
        self.next_us = now_us + about(self.period_us.min(LOST_US), 4, self.chance.next());
    }

    /// Who waited is decided by what is here now.
    fn tell(&mut self, now_us: u64, calls: &mut Calls, told: &mut Vec<Telling>) {
        for ask in std::mem::take(&mut self.waiting) {
            match self.decide(ask.cost, now_us, calls) {
                Some(admitted) => told.push(Telling { id: ask.id, admitted }),
                None => self.waiting.push_back(ask),
            }
        }
    }
}

impl<W: Way> Node for Otherwise<W> {
    fn ask(&mut self, now_us: u64, ask: Ask, calls: &mut Calls) -> Told {
        self.wants.see(ask.cost, now_us);
        let was_busy = self.wants.is_busy;
        if !was_busy {
            if !self.wants.is_pressed() && self.wants.may_call(DRAWS, now_us) {
                return self.leave_it(ask, calls);
            }
            self.wants.is_busy = true;
        }
        match self.decide(ask.cost, now_us, calls) {
            Some(true) => Told::Admitted,
            // Nobody knows here what the store has left: it has decided the ones before.
            Some(false) if !was_busy && self.wants.may_call(0.0, now_us) => {
                self.leave_it(ask, calls)
            }
            Some(false) => Told::Denied,
            None => {
                self.waiting.push_back(ask);
                Told::Waits
            }
        }
    }

    fn answered(
        &mut self,
        now_us: u64,
        call: CallId,
        reply: Reply,
        calls: &mut Calls,
        told: &mut Vec<Telling>,
    ) {
        match (self.under_way.end(call), reply) {
            (For::Draw(draw, sent_us), Reply::Amended(Amended::Drawn(drawn))) => {
                self.came(&drawn, draw, sent_us, now_us);
                self.tell(now_us, calls, told);
            }
            (For::Draw(..), _) => {
                self.failed(now_us);
                self.tell(now_us, calls, told);
            }
            (For::Request(id), Reply::Decided { outcome, .. }) => {
                told.push(Telling { id, admitted: outcome.allowed });
            }
            (For::Request(id), _) => told.push(Telling { id, admitted: false }),
            (For::Rest, _) => {}
        }
    }

    fn wake_us(&self) -> Option<u64> {
        Some(self.wake_us)
    }

    fn wake(&mut self, now_us: u64, calls: &mut Calls, _: &mut Vec<Telling>) {
        self.wake_us = now_us + self.period_us / 2;
        let is_still = self.wants.pass(now_us);
        if self.is_asking {
            return;
        }
        if self.wants.is_quiet(now_us)
            && self.way.held(now_us) > 0
            && self.wants.may_call(DRAWS, now_us)
            && let Some(op) = self.way.rest(now_us)
        {
            self.under_way.add(calls.send(0, self.way.stored(), op), For::Rest);
        }
        if is_still && self.way.held(now_us) == 0 {
            (self.wants.is_busy, self.is_short, self.next_us) = (false, false, now_us);
        }
    }

    fn leave(&mut self, now_us: u64, calls: &mut Calls) {
        if let Some(op) = self.way.rest(now_us) {
            calls.send(0, self.way.stored(), op);
        }
    }
}

/// The bucket without what flows in while units live.
pub(crate) fn without(quota: &Quota, life_us: u64) -> Quota {
    let bucket = quota.bucket().unwrap();
    let rate = Rate::new(bucket.drain(), bucket.unit()).unwrap();
    let capacity = bucket.capacity() - (bucket.drain() * life_us).div_ceil(bucket.unit());
    match quota {
        Quota::Gcra(_) => Quota::gcra(capacity, rate),
        Quota::LeakingBucket(_) => Quota::leaking_bucket(capacity, rate, LeakMode::Meter, None),
        _ => Quota::token_bucket(capacity, rate),
    }
    .unwrap()
}

/// `us`, and up to one part in `parts` of it more or less.
pub(crate) fn about(us: u64, parts: u64, chance: u32) -> u64 {
    let most = u128::from(2 * us / parts) * u128::from(chance) / u128::from(u32::MAX);
    us - us / parts + u64::try_from(most).unwrap()
}

/// Who a process is: another after each crash.
pub(crate) fn name(seat: &Seat) -> u64 {
    u64::try_from(seat.nth).unwrap() << 32 | u64::from(seat.life)
}
