//! Owns [`Synced`]: what one process does about one key of which it tells the store now and then what
//! it admitted.
//!
//! Between two reports it admits by what the store had left at the last one and what flows in since.
//! Others do so at the same time, and none knows of the others before the next report. Of what is
//! scarce, each therefore takes the part that it had lately; of what is not, all but what the others
//! are expected to take. What is too much all the same becomes debt in the store, and until it is
//! paid back nobody is admitted. What the store said counts for two periods.
//!
//! A key of which nothing is known is asked for by a draw, which is exact.
//!
//! It is a pure function of numbers, as [`Lease`](crate::lease::Lease) is.

use tollkeeper_core::{Change, Drawn, Quota};

use crate::plan::{Draw, Spent, Step, Told, about, whole};

/// What the store said counts for so many periods.
const LIFE: u64 = 2;

/// What does not change while a key is decided so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How often the store is told.
    pub period_us: u64,
    /// What it decides by: the limit, or that of one part.
    pub quota: Quota,
    /// Over how many of its keys this one is split.
    pub parts: u8,
}

/// What to tell the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Of which part.
    pub part: u8,
    /// What was admitted.
    pub units: u64,
    /// The part that is spent from now on, if it is another: the store is asked what it has left.
    pub next: Option<u8>,
}

/// What the store said of a part, and when it was asked.
#[derive(Clone, Copy, Debug)]
struct Known {
    drawn: Drawn,
    part: u8,
    sent_us: u64,
}

/// What is known of a key.
#[derive(Clone, Debug)]
pub struct Synced {
    known: Option<Known>,
    /// The part of which it is known.
    part: u8,
    /// The part that was last told of something.
    told_part: u8,
    /// How far from the one that is known the next one is: one, and further where the ones between gave no answer.
    step: u8,
    /// Admitted since then.
    spent: u64,
    /// Admitted before, and on its way to the store.
    under_way: u64,
    /// Admitted before, and told by calls without an answer since the store last said anything.
    lost: u64,
    /// Charged already, and not admitted yet, or not after all: it is the next one's.
    prepaid: u64,
    /// When the first of it was charged, by the store's clock, and of which part.
    prepaid_at_us: u64,
    prepaid_part: u8,
    /// How much of it nobody had taken at the last look.
    unwanted: u64,
    /// The part of what all admit that is admitted here.
    mine: f64,
    /// What the others admit in a microsecond.
    others: f64,
    is_asking: bool,
    /// Whether the store gave no answer when it was last asked.
    is_lost: bool,
    /// When the store may be asked again.
    next_us: u64,
    /// When somebody came last.
    asked_us: u64,
}

impl Synced {
    /// A key that is asked for the first time. `chance` is any number.
    #[must_use]
    pub fn new(terms: &Terms, now_us: u64, chance: u32) -> Self {
        Self {
            known: None,
            part: u8::try_from(chance % u32::from(terms.parts.max(1))).unwrap_or(0),
            told_part: 0,
            step: 1,
            spent: 0,
            under_way: 0,
            lost: 0,
            prepaid: 0,
            prepaid_at_us: 0,
            prepaid_part: 0,
            unwanted: 0,
            mine: 1.0,
            others: 0.0,
            is_asking: false,
            is_lost: false,
            next_us: now_us,
            asked_us: now_us,
        }
    }

    /// Decides a request of `cost`.
    #[inline]
    pub fn ask(&mut self, terms: &Terms, cost: u64, now_us: u64) -> Step {
        self.asked_us = now_us;
        if let Some(spent) = self.spend(terms, cost, now_us) {
            return Step { told: Told::Admitted(spent), draw: None };
        }
        if self.current(terms, now_us).is_some() {
            let retry_after_us = self.retry_after_us(terms, cost, now_us);
            return Step { told: Told::Denied { retry_after_us }, draw: None };
        }
        if self.is_asking {
            return Step { told: Told::Waits, draw: None };
        }
        if now_us < self.next_us {
            return Step { told: Told::Lost, draw: None };
        }
        self.is_asking = true;
        Step { told: Told::Waits, draw: Some(Draw { most: cost, least: cost }) }
    }

    /// Decides one that waited.
    pub fn again(&mut self, terms: &Terms, cost: u64, now_us: u64) -> Step {
        let told = match self.spend(terms, cost, now_us) {
            Some(spent) => Told::Admitted(spent),
            None if self.is_lost => Told::Lost,
            // It was begun anew meanwhile, or the answer took so long that it counts no more.
            None if self.current(terms, now_us).is_none() => Told::Store,
            None => Told::Denied { retry_after_us: self.retry_after_us(terms, cost, now_us) },
        };
        Step { told, draw: None }
    }

    /// Takes `cost`, if that much may be admitted.
    #[inline]
    pub fn spend(&mut self, terms: &Terms, cost: u64, now_us: u64) -> Option<Spent> {
        // What was drawn is the store's own decision, however old. A look is to see something.
        if cost > self.prepaid || cost == 0 {
            self.current(terms, now_us)?;
        }
        let left = self.left(terms, now_us).checked_sub(cost)?;
        let of_prepaid = cost.min(self.prepaid);
        self.prepaid -= of_prepaid;
        self.unwanted = self.unwanted.min(self.prepaid);
        self.spent += cost - of_prepaid;
        Some(Spent { prepaid: of_prepaid, ..Spent::now(left) })
    }

    /// Gives back what was spent; says how much of it is the store's to give back, which was told.
    pub fn refund(&mut self, units: u64) -> u64 {
        let here = units.min(self.spent);
        self.spent -= here;
        units - here
    }

    /// Puts back what was spent, because the request was not admitted after all. What was charged for it is
    /// for others.
    pub fn put_back(&mut self, cost: u64, spent: Spent) {
        let prepaid = spent.prepaid.min(cost);
        let told = self.refund(cost - prepaid);
        self.prepay(told);
        self.prepaid = self.prepaid.saturating_add(prepaid);
    }

    /// So much is charged and not admitted.
    fn prepay(&mut self, units: u64) {
        if self.prepaid == 0 && units > 0 {
            self.prepaid_at_us = self.known.map_or(0, |known| known.drawn.at_us);
            self.prepaid_part = self.told_part;
        }
        self.prepaid = self.prepaid.saturating_add(units);
    }

    /// Takes out what was charged and has not been wanted since the last look: it is to be given back, of which
    /// part.
    pub fn unwanted(&mut self) -> Option<(u8, Change)> {
        // What was admitted since is as good as told.
        let of_spent = self.prepaid.min(self.spent);
        self.prepaid -= of_spent;
        self.spent -= of_spent;
        let units = self.prepaid.min(self.unwanted);
        self.prepaid -= units;
        self.unwanted = self.prepaid;
        let refund = Change::Refund { units, charged_at_us: Some(self.prepaid_at_us) };
        (units > 0).then_some((self.prepaid_part, refund))
    }

    /// What may be admitted.
    #[must_use]
    #[inline]
    pub fn left(&self, terms: &Terms, now_us: u64) -> u64 {
        let Some(known) = self.current(terms, now_us) else { return self.prepaid };
        self.budget(terms, known, now_us).saturating_sub(self.gone()) + self.prepaid
    }

    /// Admitted of what the store last said.
    #[inline]
    fn gone(&self) -> u64 {
        self.spent.saturating_add(self.under_way).saturating_add(self.lost)
    }

    /// When it may be worth to come again.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn retry_after_us(&self, terms: &Terms, cost: u64, now_us: u64) -> u64 {
        let Some(known) = self.current(terms, now_us) else { return terms.period_us };
        let us = match terms.quota.bucket() {
            Some(bucket) => {
                let gone = self.gone().saturating_add(cost) as f64;
                let lacking =
                    gone / self.mine.max(f64::MIN_POSITIVE) - level(terms, &known, now_us);
                let us = lacking * bucket.unit() as f64 / bucket.drain() as f64;
                // When more is known, that counts.
                whole(us).min(terms.period_us)
            }
            None if matches!(terms.quota, Quota::FixedWindow(_)) => {
                let ends_us = known.sent_us.saturating_add(known.drawn.reset_after_us);
                ends_us.saturating_sub(now_us)
            }
            None => terms.period_us,
        };
        us.max(1)
    }

    /// What the store said, if it still counts.
    #[inline]
    fn current(&self, terms: &Terms, now_us: u64) -> Option<Known> {
        let known = self.known?;
        let mut life_us = terms.period_us * LIFE;
        if matches!(terms.quota, Quota::FixedWindow(_)) {
            life_us = life_us.min(known.drawn.reset_after_us);
        }
        (now_us.saturating_sub(known.sent_us) < life_us).then_some(known)
    }

    /// What all of what there is may be admitted here, since the store was asked.
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn budget(&self, terms: &Terms, known: Known, now_us: u64) -> u64 {
        let all = level(terms, &known, now_us);
        let elapsed_us = now_us.saturating_sub(known.sent_us) + terms.period_us;
        let unwanted = all - self.others * elapsed_us as f64;
        let mine = unwanted.max(all * self.mine).min(all);
        if mine > 0.0 { floor(mine) } else { 0 }
    }

    /// What to tell the store now, if anything.
    pub fn report(&mut self, terms: &Terms, now_us: u64) -> Option<Report> {
        let is_wanted = now_us.saturating_sub(self.asked_us) < terms.period_us;
        if self.is_asking || now_us < self.next_us || (self.spent == 0 && !is_wanted) {
            return None;
        }
        self.is_asking = true;
        self.told_part = self.part;
        self.under_way = std::mem::take(&mut self.spent);
        let next = (terms.parts > 1).then(|| self.after(terms, self.step));
        Some(Report { part: self.part, units: self.under_way, next })
    }

    /// The part that is so far from this one.
    fn after(&self, terms: &Terms, step: u8) -> u8 {
        let part = (u16::from(self.part) + u16::from(step)) % u16::from(terms.parts.max(1));
        u8::try_from(part).unwrap_or(0)
    }

    /// The store was told, by a call of `sent_us`. It says what it has left of the part, and of the
    /// next. Where that gives no answer, this part is gone on with, and the one after it is asked for then.
    pub fn reported(&mut self, terms: &Terms, told: &Drawn, next: Option<&Drawn>, sent_us: u64) {
        (self.is_asking, self.is_lost) = (false, false);
        let now = Known { drawn: *told, part: self.part, sent_us };
        if let Some(before) = self.current(terms, sent_us).filter(|it| it.part == self.part) {
            self.compare(terms, before, now);
        }
        (self.under_way, self.lost) = (0, 0);
        if next.is_some() {
            (self.part, self.step) = (self.after(terms, self.step), 1);
        } else if terms.parts > 1 {
            self.step = self.step % (terms.parts - 1) + 1;
        }
        self.known =
            Some(next.map_or(now, |next| Known { drawn: *next, part: self.part, sent_us }));
    }

    /// Units were drawn, by a call of `sent_us`.
    pub fn drew(&mut self, drawn: &Drawn, sent_us: u64) {
        (self.is_asking, self.is_lost) = (false, false);
        (self.lost, self.told_part) = (0, self.part);
        self.known = Some(Known { drawn: *drawn, part: self.part, sent_us });
        self.prepay(drawn.units);
    }

    /// The part that is asked for.
    #[must_use]
    pub fn part(&self) -> u8 {
        self.part
    }

    /// Learns from two answers who admits how much.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn compare(&mut self, terms: &Terms, before: Known, now: Known) {
        let elapsed_us = now.sent_us.saturating_sub(before.sent_us);
        if elapsed_us == 0 {
            return;
        }
        let mine = self.under_way as f64;
        let expected = level(terms, &before, now.sent_us) - mine;
        let others = (expected - level(terms, &now, now.sent_us)).max(0.0);
        self.others = f64::midpoint(self.others, others / elapsed_us as f64);
        if mine + others > 0.0 {
            self.mine = f64::midpoint(self.mine, mine / (mine + others));
        }
    }

    /// The call came to nothing. If it surely did not run, what it told is told again: the next part, since
    /// this one's server may be away for long.
    pub fn failed(&mut self, terms: &Terms, may_have_run: bool, now_us: u64, chance: u32) {
        (self.is_asking, self.is_lost) = (false, true);
        (self.part, self.step) = (self.after(terms, 1), 1);
        let untold = std::mem::take(&mut self.under_way);
        match may_have_run {
            true => self.lost = self.lost.saturating_add(untold),
            false => self.spent += untold,
        }
        self.next_us = now_us.saturating_add(about(terms.period_us, chance));
    }

    /// Whether nothing would be lost by forgetting the key.
    #[must_use]
    pub fn is_idle(&self, terms: &Terms, now_us: u64) -> bool {
        let is_old = now_us.saturating_sub(self.asked_us) >= LIFE * terms.period_us;
        !self.is_asking && self.spent == 0 && self.prepaid == 0 && is_old
    }

    /// Whether what the store said still counts.
    #[must_use]
    pub fn is_known(&self, terms: &Terms, now_us: u64) -> bool {
        self.current(terms, now_us).is_some()
    }

    /// Whether the store gave no answer when it was last asked.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }
}

/// What the store would have left now if nobody had come since; less than nothing if it is in debt.
#[inline]
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn level(terms: &Terms, known: &Known, now_us: u64) -> f64 {
    let Some(bucket) = terms.quota.bucket() else { return known.drawn.left as f64 };
    let full_us = known.drawn.reset_after_us.saturating_sub(now_us.saturating_sub(known.sent_us));
    bucket.capacity() as f64 - full_us as f64 * bucket.drain() as f64 / bucket.unit() as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn floor(number: f64) -> u64 {
    number.floor() as u64
}

#[cfg(test)]
mod tests {
    use tollkeeper_core::Rate;

    use super::*;

    /// What had been admitted was admitted once more by the same old number.
    #[test]
    fn what_was_told_without_an_answer_is_not_there_to_be_spent_again() {
        let quota = Quota::token_bucket(100, Rate::new(1, 3_600_000_000).unwrap()).unwrap();
        let terms = Terms { period_us: 100_000, quota, parts: 1 };
        let drawn = Drawn { units: 0, left: 100, reset_after_us: 0, at_us: 0 };
        for may_have_run in [true, false] {
            let mut synced = Synced::new(&terms, 0, 0);
            synced.drew(&drawn, 0);
            assert!(matches!(synced.ask(&terms, 60, 40_000).told, Told::Admitted(_)));
            assert_eq!(synced.report(&terms, 50_000).map(|report| report.units), Some(60));
            synced.failed(&terms, may_have_run, 50_000, 0);
            assert_eq!(synced.left(&terms, 50_000), 40, "ran perhaps: {may_have_run}");
            let again = synced.report(&terms, 130_000).map(|report| report.units);
            assert_eq!(again, Some(if may_have_run { 0 } else { 60 }), "it is not told twice");
            synced.reported(&terms, &Drawn { at_us: 130_000, ..drawn }, None, 130_000);
            assert_eq!(synced.left(&terms, 130_000), 100, "what the store says counts");
        }
    }

    /// They were lost: each request that another limit denied was charged.
    #[test]
    fn what_was_drawn_or_told_for_a_request_that_did_not_go_is_the_next_ones_or_given_back() {
        let quota = Quota::fixed_window(100, 3_600_000_000).unwrap();
        let terms = Terms { period_us: 100_000, quota, parts: 1 };
        let drawn = Drawn { units: 3, left: 97, reset_after_us: 3_600_000_000, at_us: 7 };
        let mut synced = Synced::new(&terms, 0, 0);
        synced.drew(&drawn, 0);
        assert_eq!(synced.unwanted(), None, "somebody waits for it");
        let spent = synced.spend(&terms, 3, 1_000).unwrap();
        synced.put_back(3, spent);
        assert_eq!(synced.left(&terms, 1_000), 100);
        assert!(synced.spend(&terms, 1, 2_000).is_some());
        assert_eq!(synced.unwanted(), None, "the next look tells");
        assert!(!synced.is_idle(&terms, 900_000));
        let refund = Change::Refund { units: 2, charged_at_us: Some(7) };
        assert_eq!((synced.unwanted(), synced.unwanted()), (Some((0, refund)), None));
        assert!(synced.is_idle(&terms, 900_000));
        // It was told meanwhile.
        synced.drew(&Drawn { units: 0, at_us: 20, ..drawn }, 900_000);
        let spent = synced.spend(&terms, 5, 900_000).unwrap();
        assert_eq!(synced.report(&terms, 950_000).map(|report| report.units), Some(5));
        synced.reported(&terms, &Drawn { units: 5, at_us: 30, ..drawn }, None, 950_000);
        synced.put_back(5, spent);
        assert!(synced.spend(&terms, 2, 960_000).is_some());
        assert_eq!(synced.unwanted(), None);
        let refund = Change::Refund { units: 3, charged_at_us: Some(30) };
        assert_eq!(synced.unwanted(), Some((0, refund)));
    }
}
