//! Numbers as header values. Many come again and again: a limit is always the same, and for a second
//! so is the moment of its reset. Each thread keeps those that it wrote twice, since to hand one on is
//! cheaper than to write it.

use std::cell::RefCell;

use http::HeaderValue;

/// How many a thread keeps.
const KEPT: usize = 64;

/// A number that was written, and its value if that was not the first time.
struct Kept {
    number: u64,
    value: Option<HeaderValue>,
}

thread_local! {
    static LAST: RefCell<[Kept; KEPT]> =
        const { RefCell::new([const { Kept { number: 0, value: None } }; KEPT]) };
}

/// A number as a header value.
pub(crate) fn number(number: u64) -> HeaderValue {
    // Where a thread ends it is written as any other.
    LAST.try_with(|last| of(&mut last.borrow_mut(), number)).unwrap_or_else(|_| written(number))
}

#[expect(clippy::cast_possible_truncation, reason = "any part of a number will do")]
fn of(last: &mut [Kept; KEPT], number: u64) -> HeaderValue {
    let kept = &mut last[number as usize % KEPT];
    if kept.number == number {
        return kept.value.get_or_insert_with(|| number.into()).clone();
    }
    *kept = Kept { number, value: None };
    written(number)
}

/// In one piece of memory, which is not made to be shared.
fn written(number: u64) -> HeaderValue {
    let mut digits = itoa::Buffer::new();
    HeaderValue::from_str(digits.format(number)).unwrap_or_else(|_| number.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_written_as_itself() {
        for turn in 0..3 {
            for nth in (0..1_000).chain([u64::MAX, u64::MAX - 64, 1_763_000_000 + turn]) {
                assert_eq!(number(nth), nth.to_string(), "{turn}");
                assert_eq!(number(nth), nth.to_string(), "{turn}");
            }
        }
    }
}
