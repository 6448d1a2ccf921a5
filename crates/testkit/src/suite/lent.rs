//! Units that are lent: by a model that counts each batch by itself, and at the edges.

use tollkeeper_core::{
    Amended, Amendment, Back, Change, Consistency, Drawn, Filter, LeakMode, Lend, Lent, Quota,
    Rate, State, Store, StoreError, TURNS, drawn,
};

use super::{MINUTE_US, START_US, Verdict, ask, require, slow_quotas};
use crate::dice::Dice;
use crate::replay::Harness;

const PERIOD_US: u64 = 1_000_000;

/// Steps of a story.
const STEPS: usize = 60;

/// A bucket of each kind, of which something flows in while units are out.
fn buckets() -> Result<[Quota; 3], String> {
    let told = |error: tollkeeper_core::QuotaError| error.to_string();
    let rate = || Rate::new(7, PERIOD_US).map_err(|error| error.to_string());
    Ok([
        Quota::token_bucket(60, rate()?).map_err(told)?,
        Quota::gcra(60, rate()?).map_err(told)?,
        Quota::leaking_bucket(60, rate()?, LeakMode::Meter, None).map_err(told)?,
    ])
}

/// Units that were lent at once.
struct Batch {
    turn: u64,
    units: u64,
    /// How many periods they are old.
    age: u64,
}

/// What is out, batch by batch.
struct Model {
    state: State,
    period_us: u64,
    turn: u64,
    since_us: u64,
    batches: Vec<Batch>,
}

impl Model {
    fn pass(&mut self, period_us: u64, now_us: u64) {
        while now_us >= self.since_us + self.period_us {
            self.since_us += self.period_us;
            self.turn += 1;
            self.batches.iter_mut().for_each(|batch| batch.age += 1);
        }
        self.since_us = self.since_us.min(now_us);
        self.batches.retain(|batch| batch.age < TURNS as u64 && batch.units > 0);
        if self.batches.is_empty() {
            (self.period_us, self.turn, self.since_us) = (period_us, now_us / period_us, now_us);
        }
        self.period_us = self.period_us.max(period_us);
    }

    /// How many of these come back that are not wanted: none that nobody could have had any more.
    fn take_back(&mut self, back: &Back) -> u64 {
        let mut take = |mut owed: u64| {
            let mut all = 0;
            for batch in self.batches.iter_mut().filter(|batch| batch.turn == back.turn) {
                let taken = owed.min(batch.units);
                batch.units -= taken;
                owed -= taken;
                all += taken;
            }
            all
        };
        take(back.spent);
        take(back.unspent)
    }

    fn out(&self) -> u64 {
        self.batches.iter().map(|batch| batch.units).sum()
    }

    fn lend(&mut self, quota: &Quota, lend: &Lend, now_us: u64) -> Amended {
        self.pass(lend.period_us, now_us);
        let unspent = lend.back.iter().map(|back| self.take_back(back)).sum();
        let room = lend.most_out.saturating_sub(self.out());
        let state = &mut self.state;
        // What is as new counts as absent.
        if unspent > 0 && state.reset_after_us(quota, now_us) > 0 {
            state.refund(quota, unspent, None, now_us);
        }
        let wanted = drawn(state.remaining(quota, now_us).min(room), lend.most, lend.least);
        let taken = |state: &mut State| wanted - state.overcharge(quota, wanted, now_us);
        let units = if wanted > 0 { taken(state) } else { 0 };
        if units == 0 {
            state.anchor(quota, now_us);
        }
        let (left, reset_after_us) =
            (state.remaining(quota, now_us), state.reset_after_us(quota, now_us));
        let drawn = Drawn { units, left, reset_after_us, at_us: now_us };
        self.batches.push(Batch { turn: self.turn, units, age: 0 });
        let life_us = self.since_us + TURNS as u64 * self.period_us - now_us;
        Amended::Lent(Lent { drawn, turn: self.turn, life_us })
    }
}

/// Whatever is lent, told of and given back, by clocks that go forward and back: the model agrees.
pub(super) fn stories<H: Harness>(harness: &H, seeds: u64) -> Verdict {
    for (nth, quota) in buckets()?.iter().enumerate() {
        for seed in 0..seeds.max(1) {
            let key = format!("lent {nth} {seed}");
            story(harness, quota, &key, &mut Dice::new(seed))
                .map_err(|error| format!("{key}: {error}"))?;
        }
    }
    Ok(())
}

fn story<H: Harness>(harness: &H, quota: &Quota, key: &str, dice: &mut Dice) -> Verdict {
    let mut now_us = START_US;
    harness.clock().set(now_us);
    let mut model = Model {
        state: State::fresh(quota, now_us),
        period_us: PERIOD_US,
        turn: now_us / PERIOD_US,
        since_us: now_us,
        batches: Vec::new(),
    };
    let mut told = String::new();
    for _ in 0..STEPS {
        now_us = match dice.below(20) {
            0 => now_us - dice.below(3 * PERIOD_US),
            1 => now_us + dice.below(9 * PERIOD_US),
            2..8 => now_us,
            _ => now_us + dice.below(PERIOD_US),
        };
        harness.clock().set(now_us);
        let back = std::array::from_fn(|_| Back {
            turn: (model.turn + 1).saturating_sub(dice.below(6)),
            spent: dice.below(9),
            unspent: dice.pick(&[0, 0, 0, 5]),
        });
        let back = if dice.one_in(3) { [Back::default(); TURNS] } else { back };
        let lend = Lend {
            most: dice.below(30),
            least: dice.below(9),
            most_out: dice.pick(&[20, 20, 20, 30, 0]),
            period_us: dice.pick(&[PERIOD_US, PERIOD_US, PERIOD_US, PERIOD_US / 3, 2 * PERIOD_US]),
            back,
        };
        let expected = model.lend(quota, &lend, now_us);
        let lent = lent(harness, quota, key, lend).map_err(|error| error.to_string())?;
        told += &format!("{now_us}: {lend:?}: {lent:?}\n");
        require(lent == expected, || format!("{told}instead of {expected:?}"))?;
    }
    Ok(())
}

fn lent<H: Harness>(
    harness: &H,
    quota: &Quota,
    key: &str,
    lend: Lend,
) -> Result<Amended, StoreError> {
    let (change, consistency) = (Change::Lend(lend), Consistency::Exact);
    let amendment = Amendment { limit: "suite", quota, key, consistency, change };
    harness.block_on(harness.store().amend(&[amendment])).remove(0)
}

/// Who gives units back that have ended gives nothing back: they count as spent, and others may have been
/// lent as many since.
pub(super) fn what_has_ended_does_not_come_back<H: Harness>(harness: &H) -> Verdict {
    let quota = &slow_quotas(100)[0];
    for (ended_us, expected) in [(0_i64, 0), (8_000_000, 0), (-1, 25)] {
        let key = format!("ended {ended_us}");
        let lend = |most, back| {
            let lend = Lend { most, least: most, most_out: 40, period_us: PERIOD_US, back };
            match lent(harness, quota, &key, lend).map_err(|error| error.to_string())? {
                Amended::Lent(lent) => Ok(lent),
                other => Err(format!("{key}: {other:?}")),
            }
        };
        harness.clock().set(START_US);
        let mut back = [Back::default(); TURNS];
        let Lent { drawn, turn, life_us } = lend(40, back)?;
        require((drawn.units, drawn.left) == (40, 60), || format!("{key}: {drawn:?}"))?;
        harness.clock().set((START_US + life_us).saturating_add_signed(ended_us));
        // More than there are of the turn.
        back[0] = Back { turn, spent: 15, unspent: 20 };
        back[1] = Back { turn, spent: 0, unspent: 20 };
        let left = lend(0, back)?.drawn.left;
        require(left == 60 + expected, || format!("{key}: {left} left, not 60 and {expected}"))?;
    }
    Ok(())
}

/// However many ask, no more are out than may be; what comes back comes back whole; windows are not lent.
pub(super) fn never_too_many_are_out<H: Harness>(harness: &H) -> Verdict {
    for quota in slow_quotas(40) {
        harness.clock().set(START_US);
        let key = format!("out {}", quota.algorithm());
        let lend = |most, back| {
            let (least, most_out, period_us) = (1, 10, MINUTE_US);
            let lend = Lend { most, least, most_out, period_us, back };
            match lent(harness, &quota, &key, lend).map_err(|error| error.to_string())? {
                Amended::Lent(Lent { drawn, turn, .. }) => Ok(Some((drawn.units, turn))),
                Amended::Unknown => Ok(None),
                other => Err(format!("{key}: {other:?}")),
            }
        };
        let none = [Back::default(); TURNS];
        let Some((first, turn)) = lend(40, none)? else {
            require(quota.bucket().is_none(), || format!("{key}: is not lent"))?;
            continue;
        };
        let mut out = first;
        for _ in 0..9 {
            out += lend(40, none)?.map_or(0, |(units, _)| units);
        }
        require(out == 10, || format!("{key}: {out} are out"))?;
        let filter = Filter { key: Some(&key), ..Filter::default() };
        let seen = harness.block_on(harness.store().inspect(filter, 9));
        let seen: Vec<u64> =
            seen.map_err(|error| error.to_string())?.iter().map(|it| it.lent).collect();
        require(seen == [10], || format!("{key}: {seen:?} are seen to be out"))?;
        let mut back = none;
        back[0] = Back { turn, spent: 3, unspent: 7 };
        lend(0, back)?;
        let left = ask(harness, &quota, &key, 0)?.outcomes()[0].remaining;
        require(left == 37, || format!("{key}: {left} left of 40 after 3 were spent"))?;
        let again = lend(40, none)?;
        require(again.is_some_and(|(units, _)| units == 5), || format!("{key}: {again:?} again"))?;
        let forgotten = harness.block_on(harness.store().reset(filter));
        require(forgotten == Ok(1), || format!("{key}: {forgotten:?} forgotten"))?;
        lend(40, none)?;
        let anew = lend(40, none)?;
        require(anew.is_some_and(|(units, _)| units == 3), || format!("{key}: {anew:?} anew"))?;
    }
    Ok(())
}
