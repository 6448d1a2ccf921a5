//! Numbers as header values. Many come again and again: a limit is always the same, and for a second
//! so is the moment of its reset. Each thread keeps those that it wrote twice, since to hand one on is
//! cheaper than to write it.

use std::cell::RefCell;

use http::HeaderValue;

/// How many a thread keeps.
const KEPT: usize = 64;

/// A number that was written, and its value if that was not the first time.
pub(crate) struct Kept {
    number: u64,
    value: Option<HeaderValue>,
}

thread_local! {
    static LAST: RefCell<[Kept; KEPT]> =
        const { RefCell::new([const { Kept { number: 0, value: None } }; KEPT]) };
}

/// Writes numbers, each by [`Numbers::value`].
#[inline]
pub(crate) fn with_numbers(write: impl FnOnce(&mut Numbers<'_>)) {
    let mut write = Some(write);
    let kept = LAST.try_with(|last| {
        if let Some(write) = write.take() {
            write(&mut Numbers(Some(&mut last.borrow_mut())));
        }
    });
    // Where a thread ends they are written as any other.
    if let (Err(_), Some(write)) = (kept, write) {
        write(&mut Numbers(None));
    }
}

/// What a thread keeps.
pub(crate) struct Numbers<'k>(Option<&'k mut [Kept; KEPT]>);

impl Numbers<'_> {
    /// A number as a header value.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "any part of a number will do")]
    pub(crate) fn value(&mut self, number: u64) -> HeaderValue {
        let Some(last) = &mut self.0 else { return written(number) };
        let kept = &mut last[number as usize % KEPT];
        match &kept.value {
            Some(value) if kept.number == number => value.clone(),
            _ => kept.anew(number),
        }
    }
}

impl Kept {
    /// The value of a number whose value is not kept: from now on, if it comes for the second time.
    #[inline(never)]
    fn anew(&mut self, number: u64) -> HeaderValue {
        if self.number == number {
            return self.value.insert(number.into()).clone();
        }
        *self = Self { number, value: None };
        written(number)
    }
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
                with_numbers(|numbers| {
                    assert_eq!(numbers.value(nth), nth.to_string(), "{turn}");
                    assert_eq!(numbers.value(nth), nth.to_string(), "{turn}");
                });
            }
        }
    }
}
