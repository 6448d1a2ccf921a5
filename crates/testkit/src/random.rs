//! Makes random [`Case`]s whose expectations come from the [model](crate::model).
//!
//! Times are chosen to hurt: nothing passes, a microsecond passes, exactly the promised retry
//! passes or one microsecond less, a window's edge is met, the state has just become as new.

use crate::case::{Action, Case, Expect, LimitCase, Step};
use crate::dice::Dice;
use crate::model::{Answer, Limit, Model, RateSpec, Spec};

/// What may happen in a random case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plot {
    /// Requests only; time never steps back. What a trace can hold.
    Trace,
    /// Requests, refunds, reservations, permits, resets.
    AfterTheFact,
    /// The clock stands, jumps and steps back.
    Clock,
    /// Limits change mid-way.
    Reload,
    /// Everything at once.
    Everything,
}

impl Plot {
    /// Every plot.
    pub const ALL: [Self; 5] =
        [Self::Trace, Self::AfterTheFact, Self::Clock, Self::Reload, Self::Everything];

    /// A word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::AfterTheFact => "after the fact",
            Self::Clock => "clock",
            Self::Reload => "reload",
            Self::Everything => "everything",
        }
    }
}

const SECOND_US: u64 = 1_000_000;
const DAY_US: u64 = 86_400 * SECOND_US;

/// The algorithms by number, as [`random_spec`] counts them.
const ALGORITHMS: [&str; 7] = [
    "token_bucket",
    "gcra",
    "leaking_bucket",
    "fixed_window",
    "sliding_window_log",
    "sliding_window_counter",
    "concurrency",
];

fn at(algorithm: u64) -> usize {
    usize::try_from(algorithm).unwrap_or(0) % ALGORITHMS.len()
}

/// A random specification of the algorithm with this number, 0 to 6.
pub fn random_spec(dice: &mut Dice, algorithm: u64) -> Spec {
    let max = random_count(dice);
    let window_us = random_period_us(dice);
    match algorithm {
        0 => Spec::TokenBucket { capacity: max, rate: random_rate(dice) },
        1 => Spec::Gcra { capacity: max, rate: random_rate(dice) },
        2 => Spec::LeakingBucket {
            capacity: max,
            rate: random_rate(dice),
            shape: !dice.one_in(3),
            max_delay_us: dice.one_in(3).then(|| dice.between(0, 3 * SECOND_US)),
        },
        3 => Spec::FixedWindow { max, window_us },
        4 => Spec::SlidingWindowLog { max: max.min(50), window_us },
        5 if dice.one_in(4) => Spec::SlidingWindowCounter { max: 200_003, window_us: DAY_US },
        5 => Spec::SlidingWindowCounter { max, window_us },
        _ => Spec::Concurrency { max: max.min(50), lease_us: window_us },
    }
}

fn random_count(dice: &mut Dice) -> u64 {
    let most = dice.pick(&[1, 3, 10, 100, 1000]);
    dice.between(1, most)
}

fn random_period_us(dice: &mut Dice) -> u64 {
    match dice.below(6) {
        0 => dice.between(1, 20),
        1 => dice.between(1, 5) * SECOND_US,
        2 => dice.between(1, 90) * 60 * SECOND_US,
        3 => DAY_US,
        4 => dice.between(1, DAY_US),
        _ => SECOND_US,
    }
}

fn random_rate(dice: &mut Dice) -> RateSpec {
    let (count_numerator, count_denominator, period_us) = match dice.below(6) {
        0 => (7, 1, 13 * SECOND_US),
        1 => (25, 10, SECOND_US),
        2 => (30_000, 1, SECOND_US),
        3 => (dice.between(1, 1_000_000), 1, SECOND_US),
        4 => (dice.between(1, 100), 1, dice.between(1, 100) * SECOND_US),
        _ => (dice.between(1, 20), 1, dice.between(1, 20)),
    };
    RateSpec { count_numerator, count_denominator, period_us }
}

/// A random case. The same seed gives the same case for ever.
#[must_use]
pub fn random_case(seed: u64, plot: Plot, algorithm: u64, steps: usize) -> Case {
    let mut dice = Dice::new(seed);
    let count = if dice.one_in(3) { dice.between(2, 3) } else { 1 };
    let limits: Vec<LimitCase> = (0..count)
        .map(|nth| {
            let algorithm = if nth == 0 { algorithm } else { dice.below(7) };
            let spec = random_spec(&mut dice, algorithm);
            LimitCase { spec, shadow: dice.one_in(5) }
        })
        .collect();
    let mut story = Story::new(dice, plot, &limits);
    let steps = (0..steps).map(|_| story.step()).collect();
    let name = format!("{} {} {seed}", ALGORITHMS[at(algorithm)], plot.name());
    Case { name, limits, steps }
}

struct Story {
    dice: Dice,
    plot: Plot,
    specs: Vec<Spec>,
    model: Model,
    now_us: u64,
    /// The clock does not step back behind this: what was forgotten then may be gone.
    floor_us: u64,
    last: Option<Answer>,
    last_id: u64,
    charges: Vec<(u64, u64)>,
}

impl Story {
    fn new(mut dice: Dice, plot: Plot, limits: &[LimitCase]) -> Self {
        let now_us = 1_700_000_000 * SECOND_US + dice.below(2 * DAY_US);
        let limit = |case: &LimitCase| Limit { spec: case.spec.clone(), shadow: case.shadow };
        Self {
            dice,
            plot,
            specs: limits.iter().map(|case| case.spec.clone()).collect(),
            model: Model::new(limits.iter().map(limit).collect()),
            now_us,
            floor_us: now_us - DAY_US,
            last: None,
            last_id: 0,
            charges: Vec::new(),
        }
    }

    fn step(&mut self) -> Step {
        self.pass_time();
        let plot = self.plot;
        let amends = matches!(plot, Plot::AfterTheFact | Plot::Everything);
        let reloads = matches!(plot, Plot::Reload | Plot::Everything);
        let action = if amends && self.dice.one_in(3) {
            self.amend()
        } else if reloads && self.dice.one_in(5) {
            self.change()
        } else {
            self.check(amends)
        };
        if let Some(forgotten_us) = self.model.forgotten_at_us(self.now_us) {
            self.floor_us = self.floor_us.max(forgotten_us);
        }
        Step { at_us: self.now_us, action }
    }

    fn pass_time(&mut self) {
        let steps_back = matches!(self.plot, Plot::Clock | Plot::Everything);
        if steps_back && self.dice.one_in(5) {
            let most_us = self.dice.pick(&[10, SECOND_US, 100 * SECOND_US, DAY_US]);
            let back_us = self.dice.below(most_us);
            self.now_us = self.now_us.saturating_sub(back_us).max(self.floor_us);
            return;
        }
        let numbers = self.last.as_ref().map(|answer| answer.folded.clone());
        let retry_us = numbers.as_ref().and_then(|n| n.retry_after_us).filter(|us| *us > 0);
        let reset_us = numbers.as_ref().map_or(0, |n| n.reset_after_us);
        let pass_us = match self.dice.below(8) {
            0 | 1 => 0,
            2 => 1,
            3 | 4 => retry_us.unwrap_or(0),
            5 => retry_us.map_or(2, |us| us - 1),
            6 => (reset_us + self.dice.below(3)).saturating_sub(1),
            _ => self.dice.below(reset_us.max(2) * 2),
        };
        self.now_us += pass_us.min(100 * DAY_US);
    }

    fn check(&mut self, reserves: bool) -> Action {
        let cost = match self.dice.below(10) {
            0 => 0,
            1 => self.dice.between(2, 5),
            2 => self.last.as_ref().map_or(1, |answer| answer.folded.remaining),
            3 => self.last.as_ref().map_or(1, |answer| answer.folded.limit),
            4 => self.dice.pick(&[6, 1_000, 1_000_000_000_000]),
            _ => 1,
        };
        let holds = self.specs.iter().any(|spec| matches!(spec, Spec::Concurrency { .. }));
        let reserve_us = (reserves && !holds && self.dice.one_in(3))
            .then(|| self.dice.between(1, 600 * SECOND_US));
        self.last_id += 1;
        let id = self.last_id;
        let answer = self.model.check_as(self.now_us, cost, id.into(), reserve_us);
        if answer.allowed {
            self.charges.push((self.now_us, cost));
        }
        let limits = if self.specs.len() > 1 { answer.limits.clone() } else { Vec::new() };
        let expect = Expect { binding: answer.binding, numbers: answer.folded.clone(), limits };
        self.last = Some(answer);
        Action::Check { cost, id, reserve_us, expect }
    }

    fn amend(&mut self) -> Action {
        let id = self.dice.between(1, self.last_id.max(1) + 1);
        match self.dice.below(8) {
            0 => {
                self.model.reset();
                Action::Reset
            }
            1 | 2 => {
                let (at_us, cost) = match self.charges.len() {
                    0 => (self.now_us, 1),
                    _ => self.dice.pick(&self.charges),
                };
                let charged_at_us = (!self.dice.one_in(3)).then_some(at_us);
                let units = if self.dice.one_in(3) { self.dice.between(0, 5) } else { cost };
                self.model.refund(self.now_us, units, charged_at_us);
                Action::Refund { units, charged_at_us }
            }
            3 => Action::Release { id, expect: self.model.release(self.now_us, id.into()) },
            4 => Action::Renew { id, expect: self.model.renew(self.now_us, id.into()) },
            _ => {
                let actual = self.dice.pick(&[0, 1, 2, 5, 50, 5_000, 1_000_000_000_000]);
                let expect = self.model.settle(self.now_us, id.into(), actual);
                Action::Settle { id, actual, expect }
            }
        }
    }

    fn change(&mut self) -> Action {
        let index = usize::try_from(self.dice.below(self.specs.len() as u64)).unwrap_or(0);
        let algorithm = match &self.specs[index] {
            Spec::TokenBucket { .. } => 0,
            Spec::Gcra { .. } => 1,
            Spec::LeakingBucket { .. } => 2,
            Spec::FixedWindow { .. } => 3,
            Spec::SlidingWindowLog { .. } => 4,
            Spec::SlidingWindowCounter { .. } => 5,
            Spec::Concurrency { .. } => 6,
        };
        let spec = random_spec(&mut self.dice, algorithm);
        self.model.reconfigure(index, spec.clone());
        self.specs[index] = spec.clone();
        Action::Change { index, spec }
    }
}
