//! Owns [`Rows`]: what many states have in common (limit, algorithm and unit), kept once and named
//! by a small number.
//!
//! Rows are only ever added, and read without a lock. There is place for so many; a state that
//! finds none is kept whole instead, elsewhere. One rule, or all limits that come with requests together, cannot
//! take more than a quarter of it: whoever may choose limits takes none from others.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tollkeeper_core::{Algorithm, Bucket, Quota};

/// Places of the first level; each further one has twice as many.
const FIRST: usize = 64;
const LEVELS: usize = 8;

/// Places of a level that a row may lie in.
const TRIES: u32 = 4;

/// The unit that a state counts in, and what drains in a microsecond where something does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Unit {
    /// P of a bucket, W of a window.
    pub(crate) size: u64,
    /// R of a bucket.
    pub(crate) drain: u64,
}

impl Unit {
    /// The unit that states are written in under `quota`.
    #[inline]
    pub(crate) fn of(quota: &Quota) -> Self {
        let bucket = |bucket: &Bucket| Self { size: bucket.unit(), drain: bucket.drain() };
        match quota {
            Quota::TokenBucket(of) | Quota::Gcra(of) => bucket(of),
            Quota::LeakingBucket(leak) => bucket(leak.bucket()),
            Quota::FixedWindow(window) | Quota::SlidingWindowCounter(window) => {
                Self { size: window.size_us(), drain: 0 }
            }
            // Logs and leases count in nothing but time.
            _ => Self { size: 0, drain: 0 },
        }
    }
}

/// What many states have in common.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) unit: Unit,
    pub(crate) algorithm: Algorithm,
    pub(crate) limit: Box<str>,
}

impl Row {
    fn is(&self, limit: &str, algorithm: Algorithm, unit: Unit) -> bool {
        self.unit == unit && self.algorithm == algorithm && *self.limit == *limit
    }
}

/// The number of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowId(u16);

impl RowId {
    /// Bits that a number takes.
    pub(crate) const BITS: u32 = 14;

    /// What stands for no row.
    pub(crate) const NONE: Self = Self((1 << Self::BITS) - 1);

    #[inline]
    pub(crate) fn number(self) -> u64 {
        u64::from(self.0)
    }

    /// The row of a number, of which the lowest bits count.
    #[inline]
    pub(crate) fn from_number(number: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the mask leaves 14 bits")]
        Self((number & Self::NONE.number()) as u16)
    }
}

/// The number of rows that there is place for.
const PLACES: usize = FIRST * ((1 << LEVELS) - 1);
const _: () = assert!(PLACES < 1 << RowId::BITS);

/// The most rows of one family, give or take those that are made at the same moment.
const MOST_OF_FAMILY: usize = PLACES / 4;

/// What the limits of a rule have in common, and those that come with requests: their names up to a slash.
fn family(limit: &str) -> &str {
    limit.split_once('/').map_or(limit, |(family, _)| family)
}

type Level = Box<[OnceLock<Row>]>;

#[derive(Debug)]
pub(crate) struct Rows {
    /// The units of the first level, as far as it has rows: all that a decision needs of them.
    units: [[AtomicU64; 2]; FIRST],
    /// The first level lies here: hardly any store has more rows.
    first: [OnceLock<Row>; FIRST],
    levels: [OnceLock<Level>; LEVELS - 1],
    /// How many rows each family has. It is asked for when a row is made, and not else.
    families: Mutex<HashMap<Box<str>, usize>>,
    random: RandomState,
}

impl Rows {
    pub(crate) fn new(random: RandomState) -> Self {
        let units = [const { [const { AtomicU64::new(0) }; 2] }; FIRST];
        Self {
            units,
            first: [const { OnceLock::new() }; FIRST],
            levels: Default::default(),
            families: Mutex::default(),
            random,
        }
    }

    /// The unit of a row. To who holds no lock of a state of that row, parts of it may still seem to be
    /// 0; then it is the unit of no quota.
    #[inline]
    pub(crate) fn unit(&self, row: RowId) -> Option<Unit> {
        match self.units.get(usize::from(row.0)) {
            Some([size, drain]) => {
                let [size, drain] = [size, drain].map(|part| part.load(Ordering::Relaxed));
                Some(Unit { size, drain })
            }
            None => self.get(row).map(|row| row.unit),
        }
    }

    #[inline]
    pub(crate) fn get(&self, RowId(number): RowId) -> Option<&Row> {
        match self.first.get(usize::from(number)) {
            Some(row) => row.get(),
            None => self.get_beyond(usize::from(number)),
        }
    }

    #[cold]
    fn get_beyond(&self, number: usize) -> Option<&Row> {
        // The levels' first rows are 0, 64, 192, …: 64 less than 64, 128, 256, …
        let number = number + FIRST;
        let level = (number / FIRST).ilog2() as usize;
        self.level(level)?.get(number - (FIRST << level))?.get()
    }

    fn level(&self, level: usize) -> Option<&[OnceLock<Row>]> {
        match level.checked_sub(1) {
            None => Some(&self.first),
            Some(level) => self.levels.get(level)?.get().map(|rows| &**rows),
        }
    }

    /// The row of these, which may be `hint`; it is made if there is none; `None` if there is no place.
    pub(crate) fn find_from(
        &self,
        hint: RowId,
        limit: &str,
        algorithm: Algorithm,
        unit: Unit,
    ) -> Option<RowId> {
        match self.get(hint) {
            Some(row) if row.is(limit, algorithm, unit) => Some(hint),
            _ => self.find(limit, algorithm, unit),
        }
    }

    fn find(&self, limit: &str, algorithm: Algorithm, unit: Unit) -> Option<RowId> {
        let hash = self.random.hash_one((limit, algorithm, unit));
        let row = |number: usize| {
            // Once, so that nobody who decides loses the line that it is in.
            if let Some([size, drain]) = self.units.get(number) {
                size.store(unit.size, Ordering::Relaxed);
                drain.store(unit.drain, Ordering::Relaxed);
            }
            *self.families.lock().entry(family(limit).into()).or_default() += 1;
            Row { unit, algorithm, limit: limit.into() }
        };
        for level in 0..LEVELS {
            let size = FIRST << level;
            if let Some(rows) = level.checked_sub(1).and_then(|level| self.levels.get(level)) {
                rows.get_or_init(|| (0..size).map(|_| OnceLock::new()).collect());
            }
            let rows = self.level(level)?;
            for turn in 0..TRIES {
                let at = usize::try_from(hash.rotate_right(16 * turn) % size as u64);
                let at = at.unwrap_or(0);
                let number = size - FIRST + at;
                // If it were anywhere, it would not lie behind a free place.
                if rows[at].get().is_none() && self.is_full_of(family(limit)) {
                    return None;
                }
                if rows[at].get_or_init(|| row(number)).is(limit, algorithm, unit) {
                    return u16::try_from(number).ok().map(RowId);
                }
            }
        }
        None
    }

    fn is_full_of(&self, family: &str) -> bool {
        self.families.lock().get(family).is_some_and(|rows| *rows >= MOST_OF_FAMILY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: Unit = Unit { size: 1, drain: 2 };

    #[test]
    fn a_row_is_found_again_by_what_it_is_and_by_its_number() {
        let rows = Rows::new(RandomState::new());
        let name = |nth: u64| format!("limit {}", nth / 7);
        let find = |nth: u64| {
            let algorithm = Algorithm::ALL[usize::try_from(nth % 7).unwrap()];
            rows.find(&name(nth), algorithm, Unit { size: nth, ..UNIT })
        };
        let ids: Vec<RowId> = (0..5_000).map(|nth| find(nth).unwrap()).collect();
        for (nth, id) in (0..).zip(&ids) {
            assert_eq!(find(nth), Some(*id));
            let row = rows.get(*id).unwrap();
            assert_eq!((&*row.limit, row.unit.size), (&*name(nth), nth));
            assert_eq!(rows.unit(*id), Some(row.unit));
            assert_eq!(RowId::from_number(id.number() | !0 << RowId::BITS), *id);
        }
        assert_eq!((rows.get(RowId::NONE), rows.unit(RowId::NONE)), (None, None));
    }

    #[test]
    fn rows_are_bounded_and_the_first_ones_stay() {
        let rows = Rows::new(RandomState::new());
        let find =
            |size: u64| rows.find(&format!("api {size}"), Algorithm::Gcra, Unit { size, ..UNIT });
        let first = find(0);
        let found = (1..200_000).filter(|size| find(*size).is_some()).count();
        assert!((PLACES * 9 / 10..PLACES).contains(&found), "{found}");
        assert_eq!(find(0), first);
        assert_eq!(find(300_000), None);
    }

    /// Limits that came with requests could take them all, and the rules of a file that was read after that had
    /// none for ever.
    #[test]
    fn one_family_leaves_room_for_others() {
        let rows = Rows::new(RandomState::new());
        let find = |name: &str, size| rows.find(name, Algorithm::Gcra, Unit { size, ..UNIT });
        let inline = |size: u64| find(&format!("inline/{size}s"), size);
        let found: Vec<u64> = (0..60_000).filter(|size| inline(*size).is_some()).collect();
        assert_eq!(found.len(), MOST_OF_FAMILY);
        for nth in 0..200 {
            let (rule, several) = (format!("rule {nth}"), format!("several/{nth}"));
            assert!(find(&rule, nth).is_some() && find(&several, nth).is_some(), "{nth}");
        }
        assert!(found.into_iter().all(|size| inline(size).is_some()), "they are found again");
    }
}
