//! Numbers as header values. Most come again and again: a limit is always the same, and for a second
//! so is the moment of its reset. Each thread keeps those that it wrote last, since to hand one on
//! is cheaper than to write it.

use std::cell::RefCell;

use http::HeaderValue;

/// How many a thread keeps.
const KEPT: usize = 64;

thread_local! {
    static LAST: RefCell<[Option<(u64, HeaderValue)>; KEPT]> =
        const { RefCell::new([const { None }; KEPT]) };
}

/// A number as a header value.
pub(crate) fn number(number: u64) -> HeaderValue {
    // Where a thread ends it is written as any other.
    LAST.try_with(|last| of(&mut last.borrow_mut(), number)).unwrap_or_else(|_| number.into())
}

#[expect(clippy::cast_possible_truncation, reason = "any part of a number will do")]
fn of(last: &mut [Option<(u64, HeaderValue)>; KEPT], number: u64) -> HeaderValue {
    let place = &mut last[number as usize % KEPT];
    match place {
        Some((known, value)) if *known == number => value.clone(),
        _ => place.insert((number, number.into())).1.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_written_as_itself() {
        for turn in 0..3 {
            for nth in (0..1_000).chain([u64::MAX, u64::MAX - 64, 1_763_000_000 + turn]) {
                assert_eq!(number(nth), nth.to_string(), "{turn}");
            }
        }
    }
}
