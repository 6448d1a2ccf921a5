//! Owns [`Grants`]: the units of one key that are here, and what of them the store is still to be told.
//!
//! For each turn the store counts as out at least what is left here of it and what was spent untold. So
//! what was spent may take the place of what was put back, whichever turn it is of, but nothing that was
//! told can be had again.

use tollkeeper_core::{Back, TURNS};

use crate::plan::Spent;

/// Units that were taken in one turn, which end together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Grant {
    /// How many are left.
    pub(super) units: u64,
    /// How many were spent that the store was not told of.
    pub(super) spent: u64,
    /// When they end.
    pub(super) ends_us: u64,
    /// When they were taken, by the store's clock: the first of them.
    pub(super) at_us: u64,
    /// The turn: of the store's loans, or its window.
    pub(super) turn: u64,
}

impl Grant {
    /// Whether there is anything to spend or to tell.
    fn is_live(&self, now_us: u64) -> bool {
        self.ends_us > now_us && (self.units > 0 || self.spent > 0)
    }
}

/// All of a key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Grants {
    /// Those that end first come first.
    each: [Grant; TURNS],
    /// How many were put back that the store was about to be told of.
    late: u64,
}

impl Grants {
    /// What can be spent.
    #[inline]
    pub(super) fn left(&self, now_us: u64) -> u64 {
        let live = self.each.iter().filter(|grant| grant.ends_us > now_us);
        live.map(|grant| grant.units).sum()
    }

    /// Takes `cost`, of what ends first.
    #[inline]
    pub(super) fn spend(&mut self, cost: u64, now_us: u64) -> Option<Spent> {
        let left = self.left(now_us).checked_sub(cost)?;
        let mut spent = Spent::now(left);
        let mut owed = cost;
        for grant in self.each.iter_mut().filter(|grant| grant.ends_us > now_us) {
            let taken = owed.min(grant.units);
            if taken > 0 {
                spent.ends_us = spent.ends_us.min(grant.ends_us);
                spent.at_us = spent.at_us.min(grant.at_us);
            }
            grant.units -= taken;
            grant.spent += taken;
            owed -= taken;
        }
        Some(spent)
    }

    /// Puts back what was spent and not told, where it lasts longest; and what was told, if it turns out that the
    /// store was not.
    pub(super) fn put_back(&mut self, cost: u64, now_us: u64) {
        let mut owed = cost;
        for grant in self.each.iter_mut().rev().filter(|grant| grant.ends_us > now_us) {
            let back = owed.min(grant.spent);
            grant.units += back;
            grant.spent -= back;
            owed -= back;
        }
        self.late = self.late.saturating_add(owed);
    }

    /// What the store is to be told, which counts as told from here on, but for `untold` units: those may
    /// yet be put back.
    pub(super) fn tell(&mut self, untold: u64, now_us: u64) -> [Back; TURNS] {
        self.late = 0;
        let mut kept = untold;
        self.each.each_mut().map(|grant| {
            if grant.ends_us <= now_us {
                // The store has forgotten its turn, or begun to count anew and means another by that number.
                return Back::default();
            }
            let keeps = kept.min(grant.spent);
            kept -= keeps;
            let spent = std::mem::replace(&mut grant.spent, keeps) - keeps;
            Back { turn: grant.turn, spent, unspent: 0 }
        })
    }

    /// The store was not told.
    pub(super) fn untell(&mut self, back: &[Back; TURNS], now_us: u64) {
        for back in back {
            if let Some(grant) = self.each.iter_mut().find(|grant| grant.turn == back.turn) {
                grant.spent = grant.spent.saturating_add(back.spent);
            }
        }
        let late = std::mem::take(&mut self.late);
        self.put_back(late, now_us);
    }

    /// What the store is told if all is given back.
    pub(super) fn give_back(self, now_us: u64) -> [Back; TURNS] {
        self.each.map(|grant| match grant.is_live(now_us) {
            true => Back { turn: grant.turn, spent: grant.spent, unspent: grant.units },
            false => Back::default(),
        })
    }

    /// The same, with what the store is told anyway. It is told of so many turns; of another one there can be
    /// something only if a clock runs wrong: that ends by itself.
    pub(super) fn hand_over(self, told: &mut [Back; TURNS], now_us: u64) {
        for back in self.give_back(now_us).into_iter().filter(|back| *back != Back::default()) {
            let is_free = |told: &Back| (told.spent, told.unspent) == (0, 0);
            let place = told.iter().position(|it| it.turn == back.turn && !is_free(it));
            let Some(place) = place.or_else(|| told.iter().position(is_free)) else { continue };
            let before = if is_free(&told[place]) { Back::default() } else { told[place] };
            told[place] = Back {
                turn: back.turn,
                spent: before.spent.saturating_add(back.spent),
                unspent: before.unspent.saturating_add(back.unspent),
            };
        }
    }

    /// When the oldest of what is here was taken.
    pub(super) fn oldest_us(&self, now_us: u64) -> Option<u64> {
        let live = self.each.iter().filter(|grant| grant.is_live(now_us));
        live.map(|grant| grant.at_us).min()
    }

    pub(super) fn keep(&mut self, grant: Grant, now_us: u64) {
        if grant.units == 0 {
            return;
        }
        let ended = |grant: &Grant| !grant.is_live(now_us);
        self.each.iter_mut().filter(|old| ended(old)).for_each(|old| *old = Grant::default());
        match self.each.iter_mut().find(|old| old.turn == grant.turn && !ended(old)) {
            Some(same) => {
                same.units = same.units.saturating_add(grant.units);
                same.ends_us = same.ends_us.min(grant.ends_us);
            }
            // There are no more turns than places but if a clock runs wrong: then the first is lost.
            None => self.each[self.each.iter().position(ended).unwrap_or(0)] = grant,
        }
        self.each.sort_unstable_by_key(|grant| (ended(grant), grant.ends_us));
    }
}
