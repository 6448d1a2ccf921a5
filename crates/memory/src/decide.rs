//! One request, decided under its locks: look at every limit, then charge all or none.

use smallvec::SmallVec;
use tollkeeper_core::{
    Admission, Answer, Check, Clock, Outcome, Request, State, StoreError, Ticket,
};

use crate::fingerprint::Fingerprint;
use crate::group::Held;
use crate::names::Names;
use crate::packed::{Stepped, Taken};
use crate::record::{Record, Reservation};
use crate::room::{Room, RoomMaker};
use crate::shard::{Id, Keys, Under};
use crate::store::MemoryStore;
use crate::table::{Early, Locked};
use crate::turn;

/// What one limit decided by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The store's time of the decision.
    pub now_us: u64,
    /// Whether anything was taken.
    pub charged: bool,
    /// The limit's numbers.
    pub outcome: Outcome,
}

impl Checked {
    #[inline]
    fn answer(self) -> Answer {
        Answer::one(self.now_us, self.charged, self.outcome)
    }
}

/// What one limit says, and whether it is to be written.
#[derive(Clone, Copy, Debug)]
struct Look {
    id: Id,
    known: bool,
    admission: Admission,
    room: Room,
}

impl<C: Clock> MemoryStore<C> {
    fn under<'b>(&'b self, check: &Check<'b>, now_us: u64) -> Under<'b> {
        Under { common: &self.table.common, limit: check.limit, quota: check.quota, now_us }
    }

    fn rooms(&self, now_us: u64) -> RoomMaker<'_> {
        RoomMaker::new(&self.table, &self.counters, &self.settings, now_us)
    }

    /// Decides `request`; `touched` is how many entries of others the call looked at.
    pub(crate) fn decide_request(
        &self,
        clock: &impl Clock,
        request: &Request<'_>,
        touched: &mut usize,
    ) -> Result<Answer, StoreError> {
        let [check] = request.checks() else { return self.decide_all(clock, request, touched) };
        if is_reservation(request) {
            return self.decide_all(clock, request, touched);
        }
        let early = Early::read(clock);
        let id = self.table.id(check);
        // In both ways written down where it is to be, and not before.
        match self.take_known(clock, early, id, check) {
            Ok(checked) => Ok(checked.answer()),
            Err(held) => self.decide_otherwise(clock, early, held, id, request, touched),
        }
    }

    #[inline(never)]
    fn decide_otherwise(
        &self,
        clock: &impl Clock,
        early: Early,
        held: Option<Held<'_>>,
        id: Id,
        request: &Request<'_>,
        touched: &mut usize,
    ) -> Result<Answer, StoreError> {
        let [check] = request.checks() else { return self.decide_all(clock, request, touched) };
        let stepped = held.and_then(|held| self.step_known(clock, early, held, check));
        if let Some(checked) = stepped {
            return Ok(checked.answer());
        }
        if !id.fingerprint.is_possible() {
            return Err(too_long());
        }
        let ticket = request.ticket();
        Ok(self.decide_locked(clock, early, id, check, ticket, touched).answer())
    }

    /// Decides one limit that may be no request.
    #[inline(always)]
    pub(crate) fn check(
        &self,
        clock: &impl Clock,
        check: &Check<'_>,
    ) -> Result<Checked, StoreError> {
        let early = Early::read(clock);
        let id = self.table.id(check);
        match self.take_known(clock, early, id, check) {
            Ok(checked) => Ok(checked),
            // With a check of its own, part by part, so that this one need not be written down.
            Err(held) => self.check_otherwise(clock, early, held, id, Check { ..*check }),
        }
    }

    #[inline(never)]
    fn check_otherwise(
        &self,
        clock: &impl Clock,
        early: Early,
        held: Option<Held<'_>>,
        id: Id,
        check: Check<'_>,
    ) -> Result<Checked, StoreError> {
        // What is known was a request.
        let stepped = held.and_then(|held| self.step_known(clock, early, held, &check));
        if let Some(checked) = stepped {
            return Ok(checked);
        }
        match Request::new([check], None) {
            Ok(_) => Ok(self.decide_locked(clock, early, id, &check, None, &mut 0)),
            Err(error) => Err(StoreError::did_not_run(error.to_string())),
        }
    }

    /// The short way for what is asked most: a bucket or windows of a known key, in their own unit, have what
    /// is asked for. If it is not so, nothing was done; the state is still locked if it was found.
    ///
    /// All of its result is made of numbers that are in registers: had any part of it been written
    /// down before, it would be read again before it has arrived.
    #[inline(always)]
    fn take_known<'a>(
        &'a self,
        clock: &impl Clock,
        early: Early,
        id: Id,
        check: &Check<'_>,
    ) -> Result<Checked, Option<Held<'a>>> {
        let Some(held) = self.table.hold(id) else { return Err(None) };
        let now_us = |seen_us| early.now_us(clock, seen_us);
        let packed = held.state();
        let unit = self.table.common.rows.unit(packed.row());
        let Some(Taken { packed, now_us, limit, remaining, reset_after_us }) =
            unit.and_then(|unit| packed.take(check.quota, unit, check.cost, now_us))
        else {
            return Err(Some(held));
        };
        held.set_state(packed);
        drop(held);
        if turn::is_due() {
            self.sweep_next(now_us);
        }
        let outcome = Outcome {
            allowed: true,
            shadow: check.shadow,
            limit,
            remaining,
            retry_after_us: Some(0),
            reset_after_us,
            delay_us: 0,
            here: false,
        };
        Ok(Checked { now_us, charged: true, outcome })
    }

    /// A known key whose state is in its line, in the quota's own unit; `None` if it is not.
    #[inline(always)]
    fn step_known(
        &self,
        clock: &impl Clock,
        early: Early,
        held: Held<'_>,
        check: &Check<'_>,
    ) -> Option<Checked> {
        let packed = held.state();
        let unit = self.table.common.rows.unit(packed.row())?;
        let now_us = |seen_us| early.now_us(clock, seen_us);
        let Stepped { step, packed, now_us } =
            packed.step(check.quota, unit, check.cost, now_us)?;
        if step.written {
            held.set_state(packed);
        }
        drop(held);
        if turn::is_due() {
            self.sweep_next(now_us);
        }
        let outcome = Outcome::of_step(check.quota, &step, check.shadow);
        Some(Checked { now_us, charged: step.written && outcome.allowed, outcome })
    }

    /// Sweeps the shard whose turn it is.
    #[cold]
    #[inline(never)]
    fn sweep_next(&self, now_us: u64) {
        turn::found(self.rooms(now_us).sweep_next());
    }

    /// One limit under its shard's mutex: of a key that is not known yet, or whose state is not in
    /// its line.
    #[inline(never)]
    fn decide_locked(
        &self,
        clock: &impl Clock,
        early: Early,
        id: Id,
        check: &Check<'_>,
        ticket: Option<Ticket>,
        touched: &mut usize,
    ) -> Checked {
        let permit = ticket.map_or(0, |ticket| ticket.id);
        let mut shard = self.table.lock_of(id);
        let known = shard.find(id);
        let seen_us = shard.seen_us(known, &self.table.common);
        let now_us = early.now_us(clock, seen_us);
        let mut rooms = self.rooms(now_us);
        let step =
            known.and_then(|at| shard.step(at, self.under(check, now_us), check.cost, permit));
        let (charged, outcome) = match step {
            Some(step) => {
                let outcome = Outcome::of_step(check.quota, &step, check.shadow);
                (check.cost > 0 && outcome.allowed, outcome)
            }
            None => self.take_new(&mut shard, &mut rooms, id, check, permit, now_us),
        };
        if turn::is_due() {
            let found = rooms.sweep(&mut shard);
            drop(shard);
            turn::found(rooms.sweep_next() || found);
        }
        *touched = rooms.budget.spent();
        Checked { now_us, charged, outcome }
    }

    /// Takes a place for a new key, and charges it.
    fn take_new(
        &self,
        shard: &mut Keys<'_>,
        rooms: &mut RoomMaker<'_>,
        id: Id,
        check: &Check<'_>,
        permit: u128,
        now_us: u64,
    ) -> (bool, Outcome) {
        let mut state = State::fresh(check.quota, now_us);
        let mut admission = state.admit(check.quota, check.cost, now_us);
        let outcome = |state: &State, admission| {
            Outcome::new(check.quota, state, admission, check.shadow, now_us)
        };
        if check.cost == 0 || !admission.is_yes() {
            return (false, outcome(&state, admission));
        }
        match rooms.take_key(shard, &[id.fingerprint]) {
            Room::Yes => {
                state.charge(check.quota, check.cost, permit, now_us);
                let outcome = outcome(&state, admission);
                shard.insert(id, check.key, state, self.under(check, now_us));
                return (true, outcome);
            }
            Room::Denied { retry_after_us } if !check.shadow => {
                admission = Admission::after(retry_after_us);
            }
            _ => {}
        }
        (false, outcome(&state, admission))
    }

    #[inline(never)]
    fn decide_all(
        &self,
        clock: &impl Clock,
        request: &Request<'_>,
        touched: &mut usize,
    ) -> Result<Answer, StoreError> {
        let checks = request.checks();
        let mut locked = self.table.lock_all(checks);
        if locked.ids.iter().any(|id| !id.fingerprint.is_possible()) {
            return Err(too_long());
        }
        // Under the locks, so that the readings that a key sees never step back by themselves.
        let now_us = locked.now_us(clock);
        let mut rooms = self.rooms(now_us);

        if is_reservation(request) {
            rooms.sweep_for_new(&mut locked);
        }
        let due = (0..checks.len()).find(|_| turn::is_due());
        if let Some(at) = due {
            turn::found(rooms.sweep(locked.shard(locked.ids[at])));
        }
        let mut looks: SmallVec<[Look; 4]> = SmallVec::new();
        for (at, check) in checks.iter().enumerate() {
            let id = locked.ids[at];
            looks.push(self.look(locked.shard(id), id, check, now_us));
        }
        let denied = |looks: &[Look]| {
            checks.iter().zip(looks).any(|(check, look)| !check.shadow && !look.admission.is_yes())
        };
        if !denied(&looks) {
            make_room(&mut rooms, &mut locked, request, &mut looks)?;
        }
        let admitted = !denied(&looks);

        let mut charged = false;
        let mut outcomes: SmallVec<[Outcome; 4]> = SmallVec::new();
        for (check, look) in checks.iter().zip(&looks) {
            let shard = locked.shard(look.id);
            let charge = admitted && check.cost > 0 && look.admission.is_yes();
            let outcome = if charge && look.room == Room::Yes {
                charged = true;
                self.write(shard, look, check, request.ticket(), now_us)
            } else {
                self.leave(shard, look, check, now_us)
            };
            outcomes.push(outcome);
        }
        drop(locked);
        if due.is_some() {
            rooms.sweep_next();
        }
        *touched = rooms.budget.spent();
        Ok(Answer::new(now_us, charged, outcomes))
    }

    fn look(&self, shard: &mut Keys<'_>, id: Id, check: &Check<'_>, now_us: u64) -> Look {
        let known = shard.find(id);
        let admit = |state: &State| state.admit(check.quota, check.cost, now_us);
        let admission = known.and_then(|at| {
            shard.work(at, self.under(check, now_us), |state| (admit(state), false))
        });
        let admission = admission.unwrap_or_else(|| admit(&State::fresh(check.quota, now_us)));
        Look { id, known: known.is_some(), admission, room: Room::Yes }
    }

    /// Charges one limit.
    fn write(
        &self,
        shard: &mut Keys<'_>,
        look: &Look,
        check: &Check<'_>,
        ticket: Option<Ticket>,
        now_us: u64,
    ) -> Outcome {
        let permit = ticket.map_or(0, |ticket| ticket.id);
        let under = self.under(check, now_us);
        let charge = |state: &mut State| {
            state.charge(check.quota, check.cost, permit, now_us);
            Outcome::new(check.quota, state, look.admission, check.shadow, now_us)
        };
        if let Some(Ticket { id, reserve_for_us: Some(life_us) }) = ticket {
            let names = Names::new(check.limit, check.quota.algorithm(), check.key);
            let expires_us = now_us + life_us;
            let (units, charged_at_us, settled) = (check.cost, now_us, false);
            let reservation = Reservation { units, charged_at_us, expires_us, settled };
            shard.records().insert(Record::reserved(id, names, reservation));
        }
        // Where it was has changed if another made room.
        let known = shard.find(look.id);
        let outcome = known.and_then(|at| shard.work(at, under, |state| (charge(state), true)));
        outcome.unwrap_or_else(|| {
            let mut state = State::fresh(check.quota, now_us);
            let outcome = charge(&mut state);
            shard.insert(look.id, check.key, state, under);
            outcome
        })
    }

    /// Charges nothing; ties the state to a clock that stepped back, unless this is only a look.
    fn leave(&self, shard: &mut Keys<'_>, look: &Look, check: &Check<'_>, now_us: u64) -> Outcome {
        let outcome =
            |state: &State| Outcome::new(check.quota, state, look.admission, check.shadow, now_us);
        let left = shard.find(look.id).and_then(|at| {
            shard.work(at, self.under(check, now_us), |state| {
                let written = check.cost > 0 && state.anchor(check.quota, now_us);
                (outcome(state), written)
            })
        });
        left.unwrap_or_else(|| outcome(&State::fresh(check.quota, now_us)))
    }
}

/// What nobody would find again is not kept.
#[cold]
fn too_long() -> StoreError {
    StoreError::did_not_run("a limit's name or key is longer than any that is kept")
}

#[inline]
fn is_reservation(request: &Request<'_>) -> bool {
    request.ticket().is_some_and(|ticket| ticket.reserve_for_us.is_some())
}

/// Takes a place for every new key, and for every reservation. Leaves no place taken if the
/// request is denied for want of one.
fn make_room(
    rooms: &mut RoomMaker<'_>,
    locked: &mut Locked<'_>,
    request: &Request<'_>,
    looks: &mut [Look],
) -> Result<(), StoreError> {
    let mut taken = 0;
    let mut reserved = 0;
    let mut denied = false;
    let own: SmallVec<[Fingerprint; 4]> = locked.ids.iter().map(|id| id.fingerprint).collect();
    for (check, look) in request.checks().iter().zip(looks.iter_mut()) {
        if check.cost == 0 || !look.admission.is_yes() {
            continue;
        }
        if look.known {
            reserved += 1;
            continue;
        }
        look.room = rooms.take_key(locked.shard(look.id), &own);
        match look.room {
            Room::Yes => {
                taken += 1;
                reserved += 1;
            }
            Room::Untracked => {}
            Room::Denied { .. } if check.shadow => look.room = Room::Untracked,
            Room::Denied { retry_after_us } => {
                look.admission = Admission::after(retry_after_us);
                denied = true;
            }
        }
    }
    let full = is_reservation(request) && !denied && !rooms.take_records(reserved);
    if denied || full {
        rooms.give_back_keys(taken);
    }
    if full {
        let most = rooms.settings.max_keys;
        return Err(StoreError::did_not_run(format!(
            "all {most} places for reservations are taken"
        )));
    }
    Ok(())
}
