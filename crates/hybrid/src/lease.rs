//! Owns [`Lease`]: what one process does about one key whose units it takes in advance.
//!
//! Units are spent here, without a call, until they run out or their life ends. How many are taken
//! follows the demand. When the store had less than was wanted, everybody wants more than there is:
//! then it is asked once in a period, however many come, and who comes in between is denied here.
//!
//! Why nobody gets too much: the store counts units of a bucket as out until it hears that they were
//! spent or come back, or they have ended. Its bucket is smaller by what may be out. So what is spent in an
//! interval, out when it began or lent in it, fits the limit. A process that dies with units wastes them.
//! Units of a window end with the window, which counts them from the first.
//!
//! It is a pure function of numbers; who calls does the calls. Times are of one clock that only goes
//! forward, but for those that the store tells.

use tollkeeper_core::{Change, Drawn, Lend, Lent};

use crate::demand::{Count, Demand};
use crate::plan::{Draw, Spent, Step, Told, about, whole};
use budget::Budget;
use grants::{Grant, Grants};
use spells::Spells;

mod budget;
mod grants;
mod spells;
mod terms;

pub use terms::Terms;

/// A key is leased once so many requests come in a period, or are seen in an eighth of one, and until
/// hardly any do.
const PAYS: f64 = 4.0;
const PAYS_NO_MORE: f64 = 1.0;

/// Calls that only draws may make: the store is not asked for one request, and nothing is given back,
/// if fewer could be made after that.
const DRAWS: f64 = 4.0;

/// While too much is out in other hands, the store is asked so often in a period at most, and in a second: who
/// wants it has spent it soon, however slowly a limit fills.
const PAUSES: u64 = 8;

/// While all of it is, less often, and once in a period if few calls can be spared: that may last for four
/// periods, if they have crashed who have it, and calls are to be left when it ends.
const PAUSES_OF_NOTHING: u64 = 2;

/// What costs more than one part in so many of what may be out is the store's to decide, if it may have that
/// and could not lend it.
const LARGE: u64 = 8;

/// The longest time that a period is taken for where something else than demand is waited for: those who have
/// what is out, a store that gave no answer, or this process itself, which may have stood still.
const PATIENCE_US: u64 = 1_000_000;

/// What is known of a key.
#[derive(Clone, Debug)]
pub struct Lease {
    demand: Demand,
    spells: Spells,
    /// When somebody came last.
    asked_us: u64,
    grants: Grants,
    is_hot: bool,
    /// Whether the store had less than was wanted.
    is_short: bool,
    /// What the store had, and did not lend since too much was out.
    unlent: u64,
    /// Whether the store gave no answer when it was last asked.
    is_lost: bool,
    is_asking: bool,
    /// When the store may be asked again.
    next_us: u64,
    budget: Budget,
    /// When the store was last left to decide one request.
    left_us: Option<u64>,
    /// When a request came that had to wait for a call of its own, though the limit is exceeded.
    drawn_us: Option<u64>,
    /// Whether it is asked again.
    is_expected: bool,
    /// How long a call takes.
    trip_us: u64,
    /// When the store's window ends, if it has windows.
    window_ends_us: u64,
    /// Since when, and what has been spent: what the average does not know yet.
    spent: Count,
    spent_since_us: u64,
}

impl Lease {
    /// A key that is asked for the first time.
    #[must_use]
    pub fn new(terms: &Terms, now_us: u64) -> Self {
        Self {
            demand: Demand::new(now_us, terms.period_us / 4),
            spells: Spells::new(now_us),
            asked_us: now_us,
            grants: Grants::default(),
            is_hot: false,
            is_short: false,
            unlent: 0,
            is_lost: false,
            is_asking: false,
            next_us: now_us,
            budget: Budget::new(now_us),
            left_us: None,
            drawn_us: None,
            is_expected: false,
            trip_us: 0,
            window_ends_us: 0,
            spent: Count::ZERO,
            spent_since_us: now_us,
        }
    }

    /// Decides a request of `cost`.
    #[inline]
    pub fn ask(&mut self, terms: &Terms, cost: u64, now_us: u64) -> Step {
        let silence_us = now_us.saturating_sub(self.asked_us);
        self.asked_us = now_us;
        self.spells.see(cost, silence_us, now_us, terms.period_us);
        if self.demand.see(cost, now_us, terms.period_us / 8) {
            self.weigh(terms, now_us);
        }
        if self.is_hot {
            self.again(terms, cost, now_us)
        } else {
            self.ask_cold(terms, cost, now_us)
        }
    }

    /// Decides one that was counted before: it has waited.
    #[inline]
    pub fn again(&mut self, terms: &Terms, cost: u64, now_us: u64) -> Step {
        let Some(spent) = self.spend(cost, now_us) else {
            return self.empty(terms, cost, now_us);
        };
        let is_low = self.is_low(spent.left);
        let draw = if is_low { self.draw(terms, spent.left, 1, now_us) } else { None };
        Step { told: Told::Admitted(spent), draw }
    }

    /// Decides one of a key that was not busy: the store does, or the key is busy from here on.
    fn ask_cold(&mut self, terms: &Terms, cost: u64, now_us: u64) -> Step {
        let store = |draw| Step { told: Told::Store, draw };
        let awaited = self.spells.awaited(now_us, terms.period_us);
        let is_busy = self.demand.seen().requests.max(awaited.requests) >= PAYS;
        if !is_busy && self.budget.take(terms.period_us, DRAWS, now_us) {
            self.left_us = Some(now_us);
            return store(None);
        }
        self.is_hot = true;
        let step = self.again(terms, cost, now_us);
        // Nobody knows here what the store has left: it has decided the ones before.
        let is_unknown = matches!(step.told, Told::Denied { .. });
        match is_unknown && self.budget.take(terms.period_us, 0.0, now_us) {
            true => store(step.draw),
            false => step,
        }
    }

    /// Takes `cost` of what is here, of that which ends first.
    #[inline]
    pub fn spend(&mut self, cost: u64, now_us: u64) -> Option<Spent> {
        let spent = self.grants.spend(cost, now_us)?;
        self.spent = self.spent.with(1.0, cost);
        Some(spent)
    }

    /// Puts `cost` units back that were spent, because the request was not admitted after all. Those
    /// that would have ended since are lost, and those that the store was told of.
    pub fn put_back(&mut self, cost: u64, spent: Spent, now_us: u64) {
        self.spent = self.spent.with(-1.0, cost);
        if now_us < spent.ends_us {
            self.grants.put_back(cost, now_us);
        }
    }

    /// Takes a request back that was asked at `asked_us` and is asked again.
    pub fn unask(&mut self, cost: u64, asked_us: u64) {
        self.demand.unsee(cost);
        self.spells.unsee(cost);
        if self.left_us.take_if(|left_us| *left_us == asked_us).is_some() {
            self.budget.give_back();
        }
        self.is_expected |= self.drawn_us.take_if(|drawn_us| *drawn_us == asked_us).is_some();
    }

    /// What can be spent.
    #[must_use]
    #[inline]
    pub fn left(&self, now_us: u64) -> u64 {
        self.grants.left(now_us)
    }

    /// There is not enough here.
    fn empty(&mut self, terms: &Terms, cost: u64, now_us: u64) -> Step {
        if self.is_for_store(terms, cost) && self.budget.take(terms.period_us, 0.0, now_us) {
            (self.unlent, self.left_us) = (0, Some(now_us));
            return Step { told: Told::Store, draw: None };
        }
        let left = self.left(now_us);
        let draw = self.draw(terms, left, cost, now_us);
        if draw.is_some() {
            self.drawn_us = Some(now_us);
        }
        let told = match self.is_asking {
            // What is to be told without a store is not known here.
            _ if self.is_lost => Told::Lost,
            true if !self.is_short => Told::Waits,
            // Who came when he was told to waits for the answer. Nobody else who comes to a limit that is
            // exceeded is let wait for what others want as well.
            true if draw.is_some() || std::mem::take(&mut self.is_expected) => Told::Waits,
            _ => Told::Denied { retry_after_us: self.retry_after_us(terms, now_us) },
        };
        Step { told, draw }
    }

    /// Whether the store may have what cannot be lent: of what it decides itself nothing is out.
    fn is_for_store(&self, terms: &Terms, cost: u64) -> bool {
        let Some(most_out) = terms.most_out else { return false };
        let is_large = cost > most_out / LARGE;
        !self.is_lost && (cost > most_out || is_large && self.unlent >= cost)
    }

    /// When it may be worth to come again: when the store has answered, or may be asked again.
    #[must_use]
    pub fn retry_after_us(&self, terms: &Terms, now_us: u64) -> u64 {
        if self.is_asking {
            return self.trip_us.max(1);
        }
        let until_us = self.next_us.max(self.budget.next_us(terms.period_us));
        until_us.saturating_sub(now_us).max(1)
    }

    /// What to draw, if the store may be asked now.
    fn draw(&mut self, terms: &Terms, left: u64, least: u64, now_us: u64) -> Option<Draw> {
        if self.is_asking || now_us < self.next_us {
            return None;
        }
        if !self.budget.take(terms.period_us, 0.0, now_us) {
            self.next_us = self.budget.next_us(terms.period_us);
            return None;
        }
        self.is_asking = true;
        let wanted = match self.is_lost {
            // A store that gives no answer may draw all the same: then it is not much that is lost.
            true => 0,
            false => self.wanted(terms, now_us),
        };
        let most = wanted.saturating_sub(left).max(least).max(1);
        Some(Draw { most, least })
    }

    /// How many units are to be here: for a period, and for the time of two calls, and as many more
    /// as chance may bring.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn wanted(&self, terms: &Terms, now_us: u64) -> u64 {
        let larger = |one: Count, other: Count| if other.units > one.units { other } else { one };
        // What the average does not know yet: at what rate units came and were spent, of a time that is long
        // enough to tell. They may all have waited for a process that stood still; so it is a whole
        // period, if that is short, as long as more can be asked for later, and the shorter the fewer
        // calls are left; half as long where all comes back that is too much.
        let share = if terms.most_out.is_some() { 2.0 } else { 1.0 };
        let eighths = (self.budget.calls() / share).max(1.0);
        let long_us = whole(eighths * terms.period_us.min(PATIENCE_US) as f64 / 8.0);
        let at_rate = |count: Count, since_us: u64| {
            let elapsed_us = now_us.saturating_sub(since_us).max(long_us).max(1);
            count.at_least().times(terms.period_us as f64 / elapsed_us as f64)
        };
        let seen = self.demand.seen();
        let came = larger(seen, at_rate(seen, self.demand.since_us()));
        let spent = at_rate(self.spent, self.spent_since_us);
        let average = self.demand.in_us(terms.period_us);
        // Half of it: who asks for more than there is has to wait for a period.
        let awaited = self.spells.awaited(now_us, terms.period_us).times(0.5);
        let mut expected = larger(larger(average, spent), larger(came, awaited));
        if terms.most_out.is_none() && self.window_ends_us > now_us {
            // What is not spent when the window ends is lost.
            let rest_us = self.window_ends_us - now_us;
            let rest = (rest_us as f64 / terms.period_us as f64).clamp(0.25, 1.0);
            expected = expected.times(rest);
        }
        let trips = 2.0 * expected.units * self.trip_us as f64 / terms.period_us as f64;
        whole(expected.units + trips + expected.by_chance())
    }

    /// Whether it is time to draw more.
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn is_low(&self, left: u64) -> bool {
        !self.is_asking && (left as f64) < self.demand.in_us(2 * self.trip_us).units + 1.0
    }

    /// What the store is asked for a draw, and told with it: of all units that were spent but the last
    /// `untold`, which are not sure to be.
    pub fn change(&mut self, terms: &Terms, draw: Draw, untold: u64, now_us: u64) -> Change {
        let Draw { most, least } = draw;
        let Some(most_out) = terms.most_out else { return Change::Draw { most, least } };
        Change::Lend(Lend { back: self.grants.tell(untold, now_us), ..terms.lend(draw, most_out) })
    }

    /// Gives all units up that are here. `lend` tells the store of them, where another quota of the same state
    /// begins to draw: nobody has to wait for them to end.
    pub fn hand_over(&mut self, lend: &mut Lend, now_us: u64) {
        std::mem::take(&mut self.grants).hand_over(&mut lend.back, now_us);
    }

    /// Units have come, for a draw that was sent at `sent_us`. `chance` is any number.
    pub fn granted(
        &mut self,
        terms: &Terms,
        lent: &Lent,
        asked: Draw,
        sent_us: u64,
        now_us: u64,
        chance: u32,
    ) {
        (self.is_asking, self.is_lost) = (false, false);
        (self.drawn_us, self.is_expected) = (None, false);
        let trip_us = now_us.saturating_sub(sent_us);
        self.trip_us = if self.trip_us == 0 { trip_us } else { (self.trip_us * 7 + trip_us) / 8 };
        (self.spent, self.spent_since_us) = (Count::ZERO, now_us);
        let Lent { drawn: Drawn { units, left, at_us, .. }, turn, life_us } = *lent;
        // If it has more than it gave, too many were out: mostly here, and those are soon spent; or all in other
        // hands, if it has much and gave nothing.
        let is_less = units < asked.most;
        let is_little = if units > 0 { left <= units } else { left < asked.most.div_ceil(2) };
        self.is_short = is_less && is_little;
        self.unlent = if is_less { left } else { 0 };
        if self.is_short {
            self.next_us = now_us.saturating_add(about(terms.period_us, chance));
        } else if units == 0 || units < asked.most / 2 {
            // Too much is out in other hands: until some of it is spent, calls would bring little.
            let pauses = match units {
                0 if self.budget.calls() < DRAWS => 1,
                0 => PAUSES_OF_NOTHING,
                _ => PAUSES,
            };
            let pause_us = terms.period_us.min(PATIENCE_US) / pauses;
            self.next_us = now_us.saturating_add(about(pause_us, chance));
        }
        if terms.most_out.is_none() {
            self.window_ends_us = sent_us.saturating_add(life_us);
        }
        // Clocks do not run alike to the last.
        let ends_us = sent_us.saturating_add(life_us - life_us / 1000);
        self.grants.keep(Grant { units, spent: 0, ends_us, at_us, turn }, now_us);
    }

    /// The draw came to nothing, as far as is known. If it surely was not made, what it was to tell is
    /// still to be told.
    pub fn failed(&mut self, terms: &Terms, untold: Option<&Change>, now_us: u64, chance: u32) {
        (self.is_asking, self.is_lost) = (false, true);
        (self.drawn_us, self.is_expected) = (None, false);
        // What came to nothing is not to keep the next one from being made.
        self.budget.give_back();
        self.next_us = now_us.saturating_add(about(terms.period_us.min(PATIENCE_US), chance));
        if let Some(Change::Lend(lend)) = untold {
            self.grants.untell(&lend.back, now_us);
        }
    }

    /// Whether the key is worth leasing, by the demand of now.
    fn weigh(&mut self, terms: &Terms, now_us: u64) {
        let expected = self.demand.in_us(terms.period_us).requests;
        if expected >= PAYS {
            self.is_hot = true;
        } else if expected < PAYS_NO_MORE && !self.is_asking && self.left(now_us) == 0 {
            (self.is_hot, self.is_short) = (false, false);
            self.next_us = now_us;
        }
    }

    /// Looks after a key for which nobody may have come for a while: units that nobody wants are to
    /// be given back.
    pub fn rest(&mut self, terms: &Terms, now_us: u64) -> Option<Change> {
        let is_quiet = now_us.saturating_sub(self.asked_us) >= terms.period_us;
        self.demand.pass(now_us, terms.period_us / 8);
        let idle = if is_quiet && !self.is_asking { self.idle(terms, now_us) } else { None };
        self.weigh(terms, now_us);
        idle
    }

    /// Takes all units out, if there are any and a call may be made for them.
    fn idle(&mut self, terms: &Terms, now_us: u64) -> Option<Change> {
        let units = self.left(now_us);
        if units == 0 || !self.budget.take(terms.period_us, DRAWS, now_us) {
            return None;
        }
        let grants = std::mem::take(&mut self.grants);
        Some(match terms.most_out {
            Some(most_out) => {
                let back = grants.give_back(now_us);
                Change::Lend(Lend { back, ..terms.lend(Draw { most: 0, least: 0 }, most_out) })
            }
            None => Change::Refund { units, charged_at_us: grants.oldest_us(now_us) },
        })
    }

    /// Whether nothing would be lost by forgetting the key: one that is asked for anew may call as often as this.
    #[must_use]
    pub fn is_idle(&self, terms: &Terms, now_us: u64) -> bool {
        self.is_empty(now_us) && self.budget.is_full(terms.period_us, now_us)
    }

    /// Whether nothing but how often it came would be lost by forgetting a key that nobody asked for since.
    #[must_use]
    pub fn is_spare(&self, now_us: u64, since_us: u64) -> bool {
        self.is_empty(now_us) && self.asked_us < since_us
    }

    /// Whether it is not busy, and nothing is here or on its way.
    fn is_empty(&self, now_us: u64) -> bool {
        !self.is_asking && !self.is_hot && self.left(now_us) == 0
    }

    /// Whether the key is decided here, since it is busy.
    #[must_use]
    pub fn is_hot(&self) -> bool {
        self.is_hot
    }

    /// Whether the store gave no answer when it was last asked.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }
}

#[cfg(test)]
mod tests;
