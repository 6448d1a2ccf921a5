//! Owns [`Runs`]: since when a number that changes has been above another, and since when it has not.
//!
//! Of each it keeps a staircase: whoever was above more has been so for less long. What it has no room
//! for it takes to be later than it was.

/// The most steps of a staircase.
const MOST_STEPS: usize = 32;

/// A number, and since when it has been as far without a break.
type Step = (u64, u64);

/// What a number was.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    /// It has been at least so much, from the least on.
    least: Vec<Step>,
    /// It has been at most so much, from the greatest on.
    most: Vec<Step>,
}

impl Runs {
    /// It is `number` from `now_us` on.
    pub(super) fn heard(&mut self, number: u64, now_us: u64) {
        climb(&mut self.least, number, now_us, |step| step > number);
        climb(&mut self.most, number, now_us, |step| step < number);
    }

    /// Since when it has been above `bound`, if it is.
    pub(super) fn above_since_us(&self, bound: u64) -> Option<u64> {
        self.least.iter().find(|(number, _)| *number > bound).map(|(_, since_us)| *since_us)
    }

    /// Since when it has been no more than `bound`, if it is not.
    pub(super) fn within_since_us(&self, bound: u64) -> Option<u64> {
        self.most.iter().find(|(number, _)| *number <= bound).map(|(_, since_us)| *since_us)
    }
}

/// Puts the number on top, in the place of those that it has fallen behind.
fn climb(steps: &mut Vec<Step>, number: u64, now_us: u64, is_beyond: impl Fn(u64) -> bool) {
    let mut since_us = now_us;
    while let Some((_, step_us)) = steps.pop_if(|(step, _)| is_beyond(*step)) {
        since_us = step_us;
    }
    if steps.last().is_some_and(|(step, _)| *step == number) {
        return;
    }
    if steps.len() == MOST_STEPS {
        // The one that the next followed soonest. The first is what nearly everybody asks for.
        let lasted_us = |nth: &usize| steps[nth + 1].1 - steps[*nth].1;
        let shortest = (1..MOST_STEPS - 1).min_by_key(lasted_us);
        if let Some(nth) = shortest {
            steps.remove(nth);
        }
    }
    steps.push((number, since_us));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(numbers: &[u64]) -> Runs {
        let mut runs = Runs::default();
        (1..).zip(numbers).for_each(|(second, number)| runs.heard(*number, second));
        runs
    }

    /// By looking at all of them.
    fn since(numbers: &[u64], is_it: impl Fn(u64) -> bool) -> Option<u64> {
        let last = numbers.iter().rev().take_while(|number| is_it(**number)).count();
        (last > 0).then(|| (numbers.len() - last + 1) as u64)
    }

    #[test]
    fn it_is_as_if_all_were_kept() {
        let mut chance = 7_u64;
        for length in 1..300 {
            let mut next = || {
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (chance >> 40) % 8
            };
            let numbers: Vec<u64> = (0..length % 20 + 1).map(|_| next()).collect();
            let runs = runs(&numbers);
            for bound in 0..9 {
                let (above, within) = (runs.above_since_us(bound), runs.within_since_us(bound));
                assert_eq!(above, since(&numbers, |number| number > bound), "{numbers:?}");
                assert_eq!(within, since(&numbers, |number| number <= bound), "{numbers:?}");
            }
        }
    }

    #[test]
    fn what_has_no_room_is_later_than_it_was() {
        let steps = MOST_STEPS as u64;
        let numbers: Vec<u64> = (1..=steps + 2).collect();
        let runs = runs(&numbers);
        assert_eq!((runs.least.len(), runs.most.len()), (MOST_STEPS, 1));
        assert_eq!(runs.above_since_us(0), Some(1));
        assert_eq!(runs.above_since_us(1), Some(4));
        assert_eq!(runs.above_since_us(steps + 1), Some(steps + 2));
    }
}
