//! Owns [`Loans`]: how many units of a bucket processes have in hand, so that these are never too many.
//!
//! A unit that is lent counts as out until it is heard that it was spent or is not wanted, or until the
//! process must have dropped it. So what is spent in an interval was lent in it or was out when it began;
//! a bucket that is smaller by what may be out admits no more than the limit in any interval.
//!
//! Units are counted by turns, each of a period, and not by who has them: all that were lent in one turn
//! end together, [`TURNS`] turns after it began. While anything is out turns never go back: a clock that does
//! lets units live longer here, and nobody spend what is not counted.

use crate::store::Drawn;

/// Units that were lent in so many turns, the current one among them, may still be spent.
pub const TURNS: usize = 4;

/// What a process asks for, and what it says of what it got before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lend {
    /// How many units are wanted.
    pub most: u64,
    /// How many there should be at least, if there are so many.
    pub least: u64,
    /// How many may be out, in whichever hands.
    pub most_out: u64,
    /// How long a turn is.
    pub period_us: u64,
    /// Of which turns something has become.
    pub back: [Back; TURNS],
}

/// What has become of units that were lent in a turn, since it was last told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Back {
    /// Which turn, as it was told.
    pub turn: u64,
    /// How many were spent.
    pub spent: u64,
    /// How many are not wanted: they will not be spent.
    pub unspent: u64,
}

/// Units that were lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// How many, and how the bucket is now.
    pub drawn: Drawn,
    /// In which turn.
    pub turn: u64,
    /// For how long they may be spent.
    pub life_us: u64,
}

/// The units of one bucket that are out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loans {
    /// How long a turn is, and which one it is.
    pub period_us: u64,
    /// See `period_us`.
    pub turn: u64,
    /// When it began.
    pub since_us: u64,
    /// What was lent in it and is out, and in each turn before.
    pub out: [u64; TURNS],
}

impl Loans {
    /// Nothing is out.
    #[must_use]
    pub fn new(period_us: u64, now_us: u64) -> Self {
        let period_us = period_us.max(1);
        Self { period_us, turn: now_us / period_us, since_us: now_us, out: [0; TURNS] }
    }

    /// Time has passed: what was lent in turns that are over for good has ended.
    ///
    /// Of turns of another length the longer counts while anything is out: nobody holds units for longer
    /// than that.
    pub fn pass(&mut self, period_us: u64, now_us: u64) {
        let turns = now_us.saturating_sub(self.since_us) / self.period_us;
        let gone = usize::try_from(turns).unwrap_or(TURNS).min(TURNS);
        self.out.copy_within(..TURNS - gone, gone);
        self.out[..gone].fill(0);
        self.turn = self.turn.saturating_add(turns);
        // Time that went back has not passed.
        self.since_us = now_us.min(self.since_us + turns * self.period_us);
        if self.out() == 0 {
            // As if it had been forgotten, which may as well be.
            *self = Self::new(period_us, now_us);
        }
        self.period_us = self.period_us.max(period_us);
    }

    /// How many units are out.
    #[must_use]
    pub fn out(&self) -> u64 {
        self.out.iter().fold(0, |sum: u64, units| sum.saturating_add(*units))
    }

    /// Units are out no longer; how many of them come back to the bucket. Of a turn that is over none do,
    /// though they were not spent: their place among those that may be out is somebody else's since.
    pub fn take_back(&mut self, back: &[Back]) -> u64 {
        let mut unspent = 0;
        for back in back {
            let age = self.turn.checked_sub(back.turn).and_then(|age| usize::try_from(age).ok());
            let Some(out) = age.and_then(|age| self.out.get_mut(age)) else { continue };
            *out = out.saturating_sub(back.spent);
            let comes_back = back.unspent.min(*out);
            *out -= comes_back;
            unspent += comes_back;
        }
        unspent
    }

    /// Units are lent. For how long, at `now_us`.
    pub fn lend(&mut self, units: u64, now_us: u64) -> u64 {
        self.out[0] = self.out[0].saturating_add(units);
        self.expires_us().saturating_sub(now_us)
    }

    /// When all that can be out by now has ended.
    #[must_use]
    pub fn expires_us(&self) -> u64 {
        self.since_us.saturating_add(self.period_us.saturating_mul(TURNS as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_US: u64 = 100;

    fn at(now_us: u64) -> Loans {
        Loans::new(PERIOD_US, now_us)
    }

    #[test]
    fn what_is_lent_is_out_until_its_turns_are_over() {
        let mut loans = at(1_000);
        assert_eq!((loans.turn, loans.lend(7, 1_030)), (10, 370));
        loans.pass(PERIOD_US, 1_399);
        assert_eq!((loans.turn, loans.out()), (13, 7));
        assert_eq!(loans.lend(5, 1_399), 301, "to the end of its own turns");
        loans.pass(PERIOD_US, 1_400);
        assert_eq!((loans.turn, loans.out()), (14, 5));
        loans.pass(PERIOD_US, 1_000_050);
        assert_eq!((loans.turn, loans.out()), (10_000, 0));
        assert_eq!(loans.lend(1, 1_000_050), 400, "where nothing is out a turn begins anew");
    }

    #[test]
    fn what_was_spent_or_is_not_wanted_is_out_no_longer() {
        let mut loans = at(1_000);
        loans.lend(7, 1_000);
        loans.pass(PERIOD_US, 1_250);
        loans.lend(9, 1_250);
        let of = |turn, spent, unspent| Back { turn, spent, unspent };
        assert_eq!(loans.take_back(&[of(10, 3, 2)]), 2);
        assert_eq!(loans.out, [9, 0, 2, 0]);
        let twice = [of(12, 4, 3), of(12, 1, u64::MAX)];
        assert_eq!(loans.take_back(&twice), 4, "never more than was lent");
        assert_eq!(loans.out, [0, 0, 2, 0]);
        for turn in [0, 6, 8, 9, 13, u64::MAX] {
            assert_eq!(loans.take_back(&[of(turn, 1, 1)]), 0, "a turn that is over, or never was");
        }
        assert_eq!(loans.take_back(&[of(10, u64::MAX, u64::MAX)]), 0, "all were spent");
        assert_eq!(loans.out(), 0);
    }

    #[test]
    fn a_clock_that_goes_back_lets_units_live_longer_and_turns_go_on() {
        let mut loans = at(1_000);
        loans.lend(7, 1_000);
        loans.pass(PERIOD_US, 1_150);
        loans.pass(PERIOD_US, 20);
        assert_eq!((loans.turn, loans.out, loans.since_us), (11, [0, 7, 0, 0], 20));
        loans.pass(PERIOD_US, 319);
        assert_eq!((loans.turn, loans.out()), (13, 7));
        loans.pass(PERIOD_US, 320);
        assert_eq!((loans.turn, loans.out()), (3, 0), "as new");
    }

    #[test]
    fn longer_turns_count_at_once_and_shorter_ones_when_nothing_is_out() {
        let mut loans = at(1_000);
        loans.lend(7, 1_000);
        loans.pass(10, 1_010);
        assert_eq!(loans.period_us, PERIOD_US);
        loans.pass(300, 1_020);
        assert_eq!((loans.period_us, loans.expires_us()), (300, 2_200));
        loans.pass(10, 2_199);
        assert_eq!((loans.period_us, loans.out()), (300, 7));
        loans.pass(10, 2_200);
        assert_eq!((loans.period_us, loans.out(), loans.expires_us()), (10, 0, 2_240));
        loans.pass(0, 2_300);
        assert_eq!(loans.period_us, 1);
    }

    #[test]
    fn nothing_overflows() {
        let mut loans = Loans::new(u64::MAX, u64::MAX);
        loans.lend(u64::MAX, u64::MAX);
        loans.lend(u64::MAX, 0);
        assert_eq!((loans.out(), loans.expires_us()), (u64::MAX, u64::MAX));
        loans.pass(1, 0);
        loans.pass(u64::MAX, u64::MAX);
        let most = Back { turn: loans.turn, spent: u64::MAX, unspent: u64::MAX };
        assert_eq!(loans.take_back(&[most; TURNS]), 0);
        let all = Back { spent: 0, ..most };
        loans.lend(u64::MAX, 0);
        assert_eq!(loans.take_back(&[all; TURNS]), u64::MAX);
    }
}
