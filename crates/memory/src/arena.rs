//! Owns [`Arena`]: the memory of all groups of a store, in one piece.
//!
//! It is asked for when the store is made, as large as it can ever be needed, and zeroed by the system
//! as it is written to, page by page. So what is not used costs addresses and no memory, no group ever
//! moves, and a group is found by its number alone.
//!
//! Where all pages of 2 MB are in use, one large page is asked for in their place: otherwise a decision waits
//! for the system's tables that say where its line is, and then for the line. The system gives it when it has
//! the time. To be given it at the first touch would take that call milliseconds on a machine that has to find
//! the memory, and would cost a table that is used in part what it does not use.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::group::{BYTES, Group, Line};

mod large_pages;

/// Words of a group.
const WORDS: usize = BYTES / size_of::<AtomicU64>();

/// Groups of a page, and pages that a large one stands for.
pub(crate) const PAGE: usize = 4096 / BYTES;
const PAGES: usize = 512;

/// Words of a large page.
const LARGE: usize = PAGES * PAGE * WORDS;

pub(crate) struct Arena {
    words: Box<[AtomicU64]>,
    /// The first word that begins a group: an allocation need not begin with a line or a large page.
    first: usize,
    /// Of what could be a large page, how many pages are in use.
    used: Box<[AtomicU32]>,
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Arena of {} words", self.words.len())
    }
}

impl Arena {
    /// For so many groups, all of them empty; `None` if the system does not give that much. It may count what
    /// is asked for as if it were used.
    pub(crate) fn new(groups: usize) -> Option<Self> {
        let words = groups.checked_mul(WORDS)?;
        let large = words / LARGE;
        let align = if large > 0 { LARGE } else { WORDS };
        let words: Box<[AtomicU64]> =
            bytemuck::try_zeroed_slice_box(words.checked_add(align)?).ok()?;
        let first = words.as_ptr().align_offset(align * size_of::<AtomicU64>()).min(align);
        Some(Self { words, first, used: (0..large).map(|_| AtomicU32::new(0)).collect() })
    }

    /// A page is in use, and stays so. Each is told once.
    pub(crate) fn use_page(&self, page: usize) {
        let nth = page / PAGES;
        let Some(used) = self.used.get(nth) else { return };
        if used.fetch_add(1, Ordering::Relaxed) as usize + 1 == PAGES {
            let first = self.first + nth * LARGE;
            self.words.get(first..first + LARGE).into_iter().for_each(large_pages::ask_for);
        }
    }

    /// How many pages are in use, of those that belong to a large one.
    #[cfg(test)]
    pub(crate) fn used_pages(&self) -> u32 {
        self.used.iter().map(|used| used.load(Ordering::Relaxed)).sum()
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
            let arena = Arena::new(groups).unwrap();
            assert_eq!(arena.words[arena.first..].as_ptr().align_offset(BYTES), 0);
            assert!((0..groups).all(|number| !arena.group(number).unwrap().is_taken(0)));
            assert!(arena.group(groups + arena.words.len() / WORDS).is_none());
        }
    }

    #[test]
    fn what_no_system_gives_is_not_there() {
        assert!(
            [1 << 53, usize::MAX / WORDS, usize::MAX]
                .into_iter()
                .all(|groups| Arena::new(groups).is_none())
        );
    }

    /// Whether large pages have been asked for where this word lies.
    #[cfg(target_os = "linux")]
    fn is_asked_for(word: &AtomicU64) -> bool {
        let at = std::ptr::from_ref(word).addr();
        let mappings = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_here = false;
        for line in mappings.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let range =
                range.map(|(from, to)| [from, to].map(|end| usize::from_str_radix(end, 16)));
            if let Some([Ok(from), Ok(to)]) = range {
                is_here = (from..to).contains(&at);
            }
            if is_here && line.starts_with("VmFlags:") {
                return line.ends_with(" hg") || line.contains(" hg ");
            }
        }
        false
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn large_pages_are_asked_for_where_every_page_is_in_use() {
        let has_them = std::fs::exists("/sys/kernel/mm/transparent_hugepage").unwrap();
        let arena = Arena::new(5 * PAGES * PAGE / 2).unwrap();
        let asked = || [0, 1, 2].map(|nth| is_asked_for(&arena.words[arena.first + nth * LARGE]));
        (1..2 * PAGES).for_each(|page| arena.use_page(page));
        assert_eq!(asked(), [false, has_them, false]);
        arena.use_page(0);
        assert_eq!(asked(), [has_them, has_them, false]);
        // What is left is too small for one.
        (2 * PAGES..5 * PAGES / 2).for_each(|page| arena.use_page(page));
        assert_eq!(asked(), [has_them, has_them, false]);
        let groups = 5 * PAGES * PAGE / 2;
        assert!((0..groups).all(|number| !arena.group(number).unwrap().is_taken(0)));
    }
}
