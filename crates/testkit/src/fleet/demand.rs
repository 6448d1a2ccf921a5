//! Owns [`Demand`]: how much is asked of each node, and [`Arrivals`]: when.
//!
//! Whole numbers only, so that a seed gives the same requests on every machine. What a node does
//! with them changes none.

use tollkeeper_core::{Bucket, Quota};

use crate::dice::Dice;

/// What is asked of the whole fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Units asked for, in percent of what the limit lets through in the long run.
    pub percent: u64,
    /// Who is asked how often.
    pub spread: Spread,
    /// Requests cost from 1 to this, each as often.
    pub most_cost: u64,
    /// Whether requests come in bursts; each node has its own beat.
    pub bursts: Option<Bursts>,
}

/// How requests are spread over nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// To each as many.
    Even,
    /// The second gets half of what the first gets, the third a third.
    Zipf,
}

/// Requests come for a while, then none come for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// How long they come.
    pub on_us: u64,
    /// How long they do not.
    pub off_us: u64,
}

/// The requests of one node, without end.
#[derive(Debug)]
pub(super) struct Arrivals {
    dice: Dice,
    mean_ns: u64,
    /// Time in which requests come, which is all time unless there are bursts.
    busy_ns: u64,
    bursts: Bursts,
    /// When its beat begins.
    shift_us: u64,
    most_cost: u64,
}

impl Arrivals {
    /// What the nth of `nodes` is asked.
    pub(super) fn new(seed: u64, demand: &Demand, quota: &Quota, nth: usize, nodes: usize) -> Self {
        let mut dice = Dice::new(seed ^ (nth as u64 + 1).wrapping_mul(0xd6e8_feb8_6659_fd93));
        let bursts = demand.bursts.unwrap_or(Bursts { on_us: 1, off_us: 0 });
        let beat_us = bursts.on_us + bursts.off_us;
        let mean_ns = mean_ns(demand, quota, nth, nodes) * u128::from(bursts.on_us);
        Self {
            shift_us: dice.below(beat_us),
            mean_ns: u64::try_from(mean_ns / u128::from(beat_us)).unwrap_or(u64::MAX).max(1),
            busy_ns: 0,
            bursts,
            most_cost: demand.most_cost.max(1),
            dice,
        }
    }

    /// When the next one comes, and what it costs. Never before the one before it.
    pub(super) fn next(&mut self) -> (u64, u64) {
        let gap_ns = stretched(self.mean_ns, exponential(&mut self.dice));
        self.busy_ns = self.busy_ns.saturating_add(gap_ns);
        let Bursts { on_us, off_us } = self.bursts;
        let busy_us = self.busy_ns / 1_000;
        let quiet_us = (busy_us / on_us).saturating_mul(off_us);
        let cost = if self.most_cost == 1 { 1 } else { self.dice.between(1, self.most_cost) };
        (busy_us.saturating_add(quiet_us).saturating_add(self.shift_us), cost)
    }
}

/// The mean time between two requests to a node, if they came evenly.
fn mean_ns(demand: &Demand, quota: &Quota, nth: usize, nodes: usize) -> u128 {
    let weight = |nth: usize| match demand.spread {
        Spread::Even => 1,
        Spread::Zipf => 1_000_000 / (nth as u128 + 1),
    };
    let whole: u128 = (0..nodes).map(weight).sum();
    let (units, per_us) = rate(quota);
    // Twice the mean cost is the least and the most together.
    let per_ns = u128::from(per_us) * 1_000 * 100 * whole * (u128::from(demand.most_cost) + 1);
    per_ns / (2 * u128::from(units) * u128::from(demand.percent.max(1)) * weight(nth)).max(1)
}

/// What a limit lets through in the long run: units, and in how long.
fn rate(quota: &Quota) -> (u64, u64) {
    let of = |bucket: &Bucket| (bucket.drain(), bucket.unit());
    match quota {
        Quota::TokenBucket(bucket) | Quota::Gcra(bucket) => of(bucket),
        Quota::LeakingBucket(leak) => of(leak.bucket()),
        Quota::FixedWindow(window)
        | Quota::SlidingWindowLog(window)
        | Quota::SlidingWindowCounter(window) => (window.max_requests(), window.size_us()),
        Quota::Concurrency(permits) => (permits.max_in_flight(), permits.lease_us()),
        _ => (1, 1_000_000),
    }
}

/// `mean` times a number with 32 binary places.
pub(super) fn stretched(mean: u64, by: u64) -> u64 {
    u64::try_from((u128::from(mean) * u128::from(by)) >> 32).unwrap_or(u64::MAX)
}

/// A number of mean 1, exponentially distributed, with 32 binary places.
///
/// Von Neumann's way, which only compares: a uniform number is the fraction with just the right
/// chance if the run of falling numbers that it begins has an odd length. Otherwise it is one more.
pub(super) fn exponential(dice: &mut Dice) -> u64 {
    let mut whole = 0;
    loop {
        let fraction = dice.roll() >> 32;
        let (mut last, mut is_odd) = (fraction, true);
        loop {
            let next = dice.roll() >> 32;
            if next >= last {
                break;
            }
            (last, is_odd) = (next, !is_odd);
        }
        if is_odd {
            return (whole << 32) | fraction;
        }
        whole += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollkeeper_core::Rate;

    const SECOND_US: u64 = 1_000_000;

    fn quota() -> Quota {
        Quota::token_bucket(10, Rate::new(1_000, SECOND_US).unwrap()).unwrap()
    }

    fn units_in(seconds: u64, demand: &Demand, nth: usize, nodes: usize) -> u64 {
        let mut arrivals = Arrivals::new(1, demand, &quota(), nth, nodes);
        let until = std::iter::from_fn(|| Some(arrivals.next()));
        until.take_while(|(at_us, _)| *at_us < seconds * SECOND_US).map(|(_, cost)| cost).sum()
    }

    const PLAIN: Demand = Demand { percent: 200, spread: Spread::Even, most_cost: 1, bursts: None };

    /// Within four standard deviations of a Poisson number (of requests that cost `most_cost`).
    fn is_near(units: u64, mean: u64, most_cost: u64) -> bool {
        units.abs_diff(mean).pow(2) <= 16 * mean * most_cost
    }

    #[test]
    fn the_exponential_has_its_mean_and_its_tail() {
        let mut dice = Dice::new(7);
        let drawn: Vec<u64> = (0..100_000).map(|_| exponential(&mut dice)).collect();
        let mean = drawn.iter().map(|one| u128::from(*one)).sum::<u128>() / 100_000;
        let one = 1u128 << 32;
        assert!(mean.abs_diff(one) < one / 100, "{mean}");
        // e^-3 of them are above 3.
        let tail = drawn.iter().filter(|one| **one > 3 << 32).count();
        assert!(tail.abs_diff(4_979) < 300, "{tail}");
    }

    #[test]
    fn the_whole_is_the_percentage_of_the_limit() {
        let each: Vec<u64> = (0..4).map(|nth| units_in(20, &PLAIN, nth, 4)).collect();
        assert!(each.iter().all(|units| is_near(*units, 10_000, 1)), "{each:?}");
        let dear = Demand { most_cost: 9, ..PLAIN };
        let units = units_in(20, &dear, 0, 4);
        assert!(is_near(units, 10_000, 9), "{units}");
    }

    #[test]
    fn zipf_halves_the_second() {
        let zipf = Demand { spread: Spread::Zipf, ..PLAIN };
        let (first, second) = (units_in(30, &zipf, 0, 2), units_in(30, &zipf, 1, 2));
        assert!(is_near(first, 40_000, 1) && is_near(second, 20_000, 1), "{first} {second}");
    }

    #[test]
    fn bursts_are_as_much_in_less_time() {
        let bursts = Bursts { on_us: 100_000, off_us: 300_000 };
        let bursty = Demand { bursts: Some(bursts), ..PLAIN };
        let mut arrivals = Arrivals::new(3, &bursty, &quota(), 0, 1);
        let mut count = 0;
        loop {
            let (at_us, _) = arrivals.next();
            if at_us >= 40 * SECOND_US {
                break;
            }
            assert!((at_us - arrivals.shift_us) % 400_000 < 100_000);
            count += 1;
        }
        // The beat begins somewhere in the first 0.4 s, and may end in a whole burst.
        assert!((78_400..=81_600).contains(&count), "{count}");
    }
}
