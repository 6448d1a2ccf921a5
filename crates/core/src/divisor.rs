//! Owns [`Divisor`]: a number that many others are divided by. It is divided by once; from then on a
//! multiplication does, which takes a fraction of the time.
//!
//! Why that is exact for every x below 2^54: let d ≤ 2^s, and m = ceil(2^(54+s) / d). Then m · d is
//! 2^(54+s) + e with 0 ≤ e < d, so that x · m / 2^(54+s) is x/d and less than x · d / (d · 2^(54+s)) ≤ 2^−s
//! ≤ 1/d more. As x/d is at least 1/d below the next whole number, both have the same whole part. Larger
//! numbers are divided as ever.

use std::fmt;
use std::num::NonZeroU64;

/// Numbers of so many bits are divided by multiplying.
const BITS: u32 = 54;

/// What they are moved up by, to have the quotient in the upper word of the product.
const UP: u32 = u64::BITS - BITS;

/// A number from 1 on, ready to divide by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Divisor {
    number: NonZeroU64,
    /// m, and s.
    multiplier: u64,
    shift: u32,
}

impl Divisor {
    pub(crate) fn new(number: NonZeroU64) -> Self {
        let shift = u64::BITS - (number.get() - 1).leading_zeros();
        // Of a number above 2^54 there is nothing in a smaller one.
        let multiplier = match shift <= BITS {
            true => (1u128 << (BITS + shift)).div_ceil(number.get().into()),
            false => 0,
        };
        let multiplier = u64::try_from(multiplier).unwrap_or(0);
        Self { number, multiplier, shift: shift.min(BITS) }
    }

    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.number.get()
    }

    /// How often it goes into `x`.
    #[inline]
    pub(crate) fn divide(self, x: u64) -> u64 {
        if x >> BITS != 0 {
            return x / self.number;
        }
        let product = u128::from(x << UP) * u128::from(self.multiplier);
        (product >> u64::BITS) as u64 >> self.shift
    }

    /// The same, rounded up.
    #[inline]
    pub(crate) fn divide_up(self, x: u64) -> u64 {
        match x.checked_add(self.number() - 1) {
            Some(sum) => self.divide(sum),
            None => x.div_ceil(self.number()),
        }
    }
}

impl fmt::Debug for Divisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.number, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Powers of two, their neighbours, and numbers between them.
    fn numbers() -> Vec<u64> {
        let mut random = 1u64;
        let mut numbers = vec![u64::MAX, 3, 7, 10, 60_000_000, 86_400_000_000, 600_000_000];
        for bit in 0..u64::BITS {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let power = 1 << bit;
            numbers.extend([power - 1, power, power + 1, power | (random >> ((63 - bit) / 2))]);
            numbers.push(random >> (63 - bit));
        }
        numbers
    }

    #[test]
    fn it_divides_as_a_division_does() {
        for number in numbers().into_iter().filter_map(NonZeroU64::new) {
            let (divisor, number) = (Divisor::new(number), number.get());
            assert_eq!((divisor.number(), format!("{divisor:?}")), (number, number.to_string()));
            for x in numbers() {
                // Where the whole part changes is where it can go wrong.
                let edge = x - x % number;
                for x in [x, edge, edge.saturating_sub(1), edge.saturating_add(number - 1)] {
                    assert_eq!(divisor.divide(x), x / number, "{x} / {number}");
                    assert_eq!(divisor.divide_up(x), x.div_ceil(number), "{x} / {number}");
                }
            }
        }
    }
}
