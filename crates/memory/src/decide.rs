//! One request, decided under its locks: look at every limit, then charge all or none.

use smallvec::SmallVec;
use tollkeeper_core::{
    Admission, Answer, Check, Clock, Outcome, Request, State, StoreError, Ticket,
};

use crate::room::{Room, RoomMaker};
use crate::settings::Settings;
use crate::shard::{KeyEntry, Names, Reservation, Shard};
use crate::stats::Counters;
use crate::table::{Locked, Table, now_us};

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

/// What one limit says, and whether it is to be written.
#[derive(Clone, Copy, Debug)]
struct Look {
    hash: u64,
    at: Option<usize>,
    admission: Admission,
    room: Room,
}

/// Decides `request`; `touched` is how many entries of others the call looked at.
pub(crate) fn decide(
    table: &Table,
    counters: &Counters,
    settings: &Settings,
    clock: &impl Clock,
    request: &Request<'_>,
    touched: &mut usize,
) -> Result<Answer, StoreError> {
    let checks = request.checks();
    if let [check] = checks
        && let Some(Checked { now_us, charged, outcome }) =
            decide_known(table, counters, settings, clock, check, request.ticket(), touched)
    {
        return Ok(Answer::one(now_us, charged, outcome));
    }
    let mut locked = table.lock_all(checks);
    // Under the locks, so that the readings that a key sees never step back by themselves.
    let now_us = locked.now_us(clock);
    let mut rooms = RoomMaker::new(table, counters, settings, now_us);

    let mut sweep_due = false;
    for at in 0..checks.len() {
        sweep_due |= rooms.sweep_own(locked.shard(locked.hashes[at]));
    }
    let mut looks: SmallVec<[Look; 4]> = SmallVec::new();
    for (at, check) in checks.iter().enumerate() {
        let hash = locked.hashes[at];
        looks.push(look(locked.shard(hash), hash, check, now_us));
    }
    let denied = |looks: &[Look]| {
        checks.iter().zip(looks).any(|(check, look)| !check.shadow && !look.admission.is_yes())
    };
    if !denied(&looks) {
        make_room(&mut rooms, &mut locked, request, &mut looks)?;
    }
    if rooms.moved {
        for (check, look) in checks.iter().zip(&mut looks) {
            look.at = find(locked.shard(look.hash), look.hash, check);
        }
    }
    let admitted = !denied(&looks);

    let mut charged = false;
    let mut outcomes: SmallVec<[Outcome; 4]> = SmallVec::new();
    for (check, look) in checks.iter().zip(&looks) {
        let shard = locked.shard(look.hash);
        let charge = admitted && check.cost > 0 && look.admission.is_yes();
        let outcome = if charge && look.room == Room::Yes {
            charged = true;
            write(shard, look, check, request.ticket(), now_us)
        } else {
            leave(shard, look, check, now_us)
        };
        outcomes.push(outcome);
    }
    drop(locked);
    if sweep_due {
        rooms.sweep_next();
    }
    *touched = rooms.budget.spent();
    Ok(Answer::new(now_us, charged, outcomes))
}

/// The short way for what is asked most: one limit, of a key that is known. `None` for anything
/// else, with nothing changed.
#[inline]
pub(crate) fn decide_known(
    table: &Table,
    counters: &Counters,
    settings: &Settings,
    clock: &impl Clock,
    check: &Check<'_>,
    ticket: Option<Ticket>,
    touched: &mut usize,
) -> Option<Checked> {
    if ticket.is_some_and(|ticket| ticket.reserve_for_us.is_some()) {
        return None;
    }
    let hash = table.hash(check.limit, check.key);
    let mut shard = table.lock_of(hash);
    let at = find(&shard, hash, check)?;
    let now_us = now_us(clock, &mut shard);
    let entry = shard.keys.get_mut(at)?;
    if entry.expires_us <= now_us {
        entry.state = State::fresh(check.quota, now_us);
    }
    let id = ticket.map_or(0, |ticket| ticket.id);
    let step = entry.state.step(check.quota, check.cost, id, now_us);
    if step.written {
        entry.expires_us = now_us + step.reset_after_us;
    }
    let outcome = Outcome::of_step(check.quota, &step, check.shadow);
    let charged = check.cost > 0 && outcome.allowed;
    let mut rooms = RoomMaker::new(table, counters, settings, now_us);
    let sweep_due = rooms.sweep_own(&mut shard);
    drop(shard);
    if sweep_due {
        rooms.sweep_next();
    }
    *touched = rooms.budget.spent();
    Some(Checked { now_us, charged, outcome })
}

#[inline]
fn find(shard: &Shard, hash: u64, check: &Check<'_>) -> Option<usize> {
    let algorithm = check.quota.algorithm();
    shard.keys.find(hash, |entry| entry.names.are(check.limit, algorithm, check.key))
}

fn look(shard: &Shard, hash: u64, check: &Check<'_>, now_us: u64) -> Look {
    let at = find(shard, hash, check);
    let admission = match at.and_then(|at| shard.keys.get(at)) {
        Some(entry) if entry.expires_us > now_us => {
            entry.state.admit(check.quota, check.cost, now_us)
        }
        _ => State::fresh(check.quota, now_us).admit(check.quota, check.cost, now_us),
    };
    Look { hash, at, admission, room: Room::Yes }
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
    let own = locked.hashes.clone();
    for (check, look) in request.checks().iter().zip(looks.iter_mut()) {
        if check.cost == 0 || !look.admission.is_yes() {
            continue;
        }
        if look.at.is_some() {
            reserved += 1;
            continue;
        }
        look.room = rooms.take_key(locked.shard(look.hash), &own);
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
    let reserves = request.ticket().is_some_and(|ticket| ticket.reserve_for_us.is_some());
    let full = reserves && !denied && !rooms.take_reservations(reserved);
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

/// Charges one limit.
fn write(
    shard: &mut Shard,
    look: &Look,
    check: &Check<'_>,
    ticket: Option<Ticket>,
    now_us: u64,
) -> Outcome {
    let id = ticket.map_or(0, |ticket| ticket.id);
    let names = || Names::new(check.limit, check.quota.algorithm(), check.key);
    let known = look.at.filter(|at| shard.keys.get(*at).is_some());
    let entry = match known.and_then(|at| shard.keys.get_mut(at)) {
        Some(entry) => entry,
        None => shard.keys.insert(KeyEntry::fresh(look.hash, names(), check.quota, now_us)),
    };
    let outcome = entry.charge(check, look.admission, id, now_us);
    if let Some(Ticket { id, reserve_for_us: Some(life_us) }) = ticket {
        shard.reservations.insert(Reservation {
            id,
            hash: look.hash,
            names: names(),
            units: check.cost,
            charged_at_us: now_us,
            expires_us: now_us + life_us,
            settled: false,
        });
    }
    outcome
}

/// Charges nothing; ties the state to a clock that stepped back, unless this is only a look.
fn leave(shard: &mut Shard, look: &Look, check: &Check<'_>, now_us: u64) -> Outcome {
    let found = look.at.and_then(|at| shard.keys.get_mut(at));
    match found.filter(|entry| entry.expires_us > now_us) {
        Some(entry) => entry.leave(check, look.admission, now_us),
        None => {
            let state = State::fresh(check.quota, now_us);
            Outcome::new(check.quota, &state, look.admission, check.shadow, now_us)
        }
    }
}
