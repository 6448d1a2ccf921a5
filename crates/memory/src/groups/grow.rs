//! Growing without a pause. Each new entry has a little of it done: the entries of a few homes move to
//! where they belong among more groups.
//!
//! Homes are moved from the last one on, so that what moves goes behind all that did not. Whatever
//! lies in the groups of these homes is taken out, up to a group that nobody went past; then those
//! homes go by the new number, and everything is put in again.

use std::ops::Range;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::{Beside, Groups, LINES, NOTES};
use crate::arena::PAGE;
use crate::fingerprint::Fingerprint;
use crate::group::{Entry, WIDTH};

/// Groups that a table begins with: a page of memory has place for so many, whether they are used or not.
const FEWEST: usize = PAGE;

/// Homes that are moved at once. A fifth more groups have place for so many entries that two homes with
/// each of them would do.
pub(super) const STEP: usize = 32;

/// What a step moves, as a rule: with those that lie behind their home.
type Moved = SmallVec<[Entry; (STEP + 8) * WIDTH]>;

/// A table that is about to have more groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    from: usize,
    to: usize,
    /// How many homes have not been moved yet.
    left: usize,
}

impl Groups<'_> {
    /// Begins to grow, or goes on with it.
    #[cold]
    #[inline(never)]
    pub(super) fn grow<T>(&self, beside: &mut Beside<T>, place: impl Fn(Fingerprint) -> u64) {
        let Some(growth) = beside.growth.or_else(|| self.plan(beside)) else { return };
        let first = growth.left.saturating_sub(STEP);
        let (mut moved, mut notes) = (Moved::new(), Vec::new());
        self.take_out(beside, first..growth.left, &mut moved, &mut notes);
        beside.growth = (first > 0).then_some(Growth { left: first, ..growth });
        self.move_edge(beside, growth, first);
        if first == 0 {
            self.use_pages(growth);
        }
        let mut notes = notes.into_iter();
        for entry in &moved {
            let at = self.put(beside, *entry, place(entry.fingerprint));
            if let Some(note) = beside.note_mut(at) {
                *note = notes.next();
            }
        }
    }

    /// A fifth more groups, more or less, or as many again while they are few; `None` if there are as many as
    /// can be.
    fn plan<T>(&self, beside: &mut Beside<T>) -> Option<Growth> {
        let from = self.in_use();
        let to = match 2 * from <= self.few {
            true => (2 * from).max(FEWEST),
            // So the tables of a store grow at different times.
            false => from + from * (175 + beside.random(60)) / 1024 + 1,
        };
        (from < self.most).then_some(Growth { from, to: to.min(self.most), left: from })
    }

    /// It is done: what was added is in use.
    fn use_pages(&self, Growth { from, to, .. }: Growth) {
        let end = if to == self.most { to.div_ceil(PAGE) } else { to / PAGE };
        for page in from / PAGE..end {
            self.arena.use_page((page << self.bits) + self.number);
        }
    }

    /// Takes out what lies in these groups, and behind them up to a free place.
    fn take_out<T>(
        &self,
        beside: &mut Beside<T>,
        homes: Range<usize>,
        moved: &mut Moved,
        notes: &mut Vec<T>,
    ) {
        let mut number = homes.start;
        for nth in 1..=self.in_use() {
            let Some(group) = self.group(number) else { break };
            let is_full = group.is_full();
            self.lock(beside, number * WIDTH);
            for slot in (0..WIDTH).filter(|slot| group.is_taken(*slot)) {
                moved.push(group.entry(slot));
                group.set(slot, Entry::default());
                notes.extend(beside.take_note(number * WIDTH + slot));
            }
            if nth >= homes.len() && !is_full {
                break;
            }
            number = self.after(number);
        }
    }

    /// Homes from `first` on go by the new number, and the groups that they become are locked.
    fn move_edge<T>(&self, beside: &mut Beside<T>, Growth { from, to, .. }: Growth, first: usize) {
        let last = self.extent.edge.load(Ordering::Relaxed).wrapping_sub(1);
        // The first place whose home was `first`.
        let edge = if first == 0 { 0 } else { ((first as u128) << 64).div_ceil(from as u128) };
        let edge = u64::try_from(edge).unwrap_or(0);
        let lines = |groups| u32::try_from(LINES * groups).unwrap_or(u32::MAX);
        self.extent.before.store(lines(from), Ordering::Relaxed);
        self.extent.lines.store(lines(to), Ordering::Relaxed);
        self.extent.edge.store(edge, Ordering::Relaxed);
        beside.allot_notes(to);
        for number in self.home(edge)..=self.home(last) {
            self.lock(beside, number * WIDTH);
        }
    }
}

impl<T> Beside<T> {
    /// Places for the notes of so many groups.
    fn allot_notes(&mut self, groups: usize) {
        if !self.noted {
            return;
        }
        let places = groups * WIDTH;
        self.notes.resize_with(places.div_ceil(NOTES), Vec::new);
        for (nth, notes) in self.notes.iter_mut().enumerate() {
            let places = places - nth * NOTES;
            notes.resize_with(places.min(NOTES), || None);
        }
    }
}

#[cfg(test)]
mod tests;
