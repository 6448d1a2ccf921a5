//! Owns [`Arena`]: the memory of all groups of a store, in one piece.
//!
//! It is asked for when the store is made, as large as it can ever be needed, and zeroed by the system
//! as it is written to, page by page. So what is not used costs addresses and no memory, no group ever
//! moves, and a group is found by its number alone.

use std::sync::atomic::AtomicU64;

use crate::group::{BYTES, Group, Line};

/// Words of a group.
const WORDS: usize = BYTES / size_of::<AtomicU64>();

pub(crate) struct Arena {
    words: Box<[AtomicU64]>,
    /// The first word that begins a group: an allocation need not begin with a line.
    first: usize,
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Arena of {} words", self.words.len())
    }
}

impl Arena {
    /// For so many groups, all of them empty.
    pub(crate) fn new(groups: usize) -> Self {
        let words: Box<[AtomicU64]> = bytemuck::zeroed_slice_box((groups + 1) * WORDS);
        let first = words.as_ptr().align_offset(BYTES).min(WORDS);
        Self { words, first }
    }

    /// The line of a number, of which each group has two; `None` if there is none.
    #[inline]
    pub(crate) fn line(&self, number: usize) -> Option<Line<'_>> {
        let (lines, _) = self.words.get(self.first..)?.as_chunks();
        lines.get(number).map(Line::new)
    }

    /// The group of a number; `None` if there is none.
    #[inline]
    pub(crate) fn group(&self, number: usize) -> Option<Group<'_>> {
        Some(Group::new([self.line(2 * number)?, self.line(2 * number + 1)?]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_empty_and_begin_with_a_line() {
        for groups in [0, 1, 2, 7, 64, 1000, 100_000] {
            let arena = Arena::new(groups);
            assert_eq!(arena.words[arena.first..].as_ptr().align_offset(BYTES), 0);
            assert!((0..groups).all(|number| !arena.group(number).unwrap().is_taken(0)));
            assert!(arena.group(groups + 1).is_none());
        }
    }
}
