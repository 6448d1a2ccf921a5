//! Owns [`Fingerprint`]: a state's identity in two numbers of 63 bits, instead of its names.
//!
//! **The hash.** In the field of the prime p = 2^61 − 1, the names become pairs of numbers m₀, m₁, …
//! below p, and each half of the fingerprint is Σ (m₂ᵢ + k₂ᵢ) · (m₂ᵢ₊₁ + k₂ᵢ₊₁), where each k is drawn
//! at random when the store is made, for each half apart. Most names are two pairs, one of the limit
//! and one of the key, so that a half is two multiplications of 64 bits, of which only one has to wait
//! for the key. Numbers are below 2^60 and so are keys: no sum of the two needs to be reduced. The first
//! of two factors is kept times 8: so the upper word of a product is what there is above p, and no bits have to
//! be moved between words. The result is not reduced all the way either: the same names always come to
//! the same number, and names that come to the same number are equal modulo p.
//!
//! **Why it is an identity.** Names are told apart by their pairs: a pair holds at most 14 bytes, how
//! many they are, whether they are of a limit or of a key, and the algorithm. For two different
//! names the chance that one half is the same is:
//! - Equally many pairs: in some pair one number differs, say m₀ from m₀′. Whatever the other keys
//!   are, the difference of the sums is linear in k₁ with the factor m₀ − m₀′, which is not 0 modulo
//!   p. So it is 0 for at most one k₁ of 2^60: a chance of 2^−60.
//! - One has more pairs: its last product would have to be one certain number. Either its first
//!   factor is 0, or there is at most one value for the second: a chance of 2^−59.
//!
//! The keys of the halves are independent. So two names collide with a chance below 2^−118, whoever
//! chose them, and among ten million keys some two with less than 2^−71. That is proven for whoever does
//! not know the keys, and nobody can learn them: no fingerprint leaves the store, in no answer, log or
//! metric. What can show through is how long a call takes, hence where an entry lies; so its place goes
//! by a mix of both halves ([`Fingerprint::place`]), each of which is a secret, and not by the bits of
//! either.
//!
//! Keys come from the standard library's `RandomState`: SipHash under a key of the system's
//! randomness, asked for one number after the other.

use std::hash::{BuildHasher, RandomState};

use tollkeeper_core::Algorithm;
use tollkeeper_core::limits::{MAX_KEY_BYTES, MAX_NAME_BYTES, MAX_PART_BYTES};

/// Bits of p = 2^61 − 1.
const BITS: u32 = 61;

/// Set in every fingerprint, so that none is zero.
const TAKEN: u64 = 1 << 63;

/// Bytes of text in a pair, and in each of its numbers.
const PAIR: usize = 2 * WORD;
const WORD: usize = 7;
const WORD_BITS: u32 = 56;
const _: () = assert!(8 * WORD == WORD_BITS as usize);

/// By so many bits is a number times 8, which in a word with one of 7 bytes leaves so much space.
const TIMES_8: u32 = u64::BITS - BITS;
const SPACE: u32 = u64::BITS - WORD_BITS - TIMES_8;

/// The longest key: that of a part.
const MOST_KEY_BYTES: usize = MAX_KEY_BYTES + MAX_PART_BYTES;

/// The most pairs of a name.
const PAIRS: usize = MAX_NAME_BYTES.div_ceil(PAIR) + MOST_KEY_BYTES.div_ceil(PAIR);

/// What the pairs of a key are marked with. Those of a limit are marked with the algorithm.
const OF_KEY: u64 = 8;

/// What stands for a limit, an algorithm and a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    low: u64,
    high: u64,
}

impl Fingerprint {
    /// A bit of the first word that no fingerprint has.
    pub(crate) const SPARE: u64 = 1;

    /// That of names too long for any state.
    const NOBODY: Self = Self { low: u64::MAX, high: u64::MAX };

    /// Whether any state can have it.
    pub(crate) fn is_possible(self) -> bool {
        self != Self::NOBODY
    }

    /// Whether it stands for anything; the default does not.
    #[inline]
    pub(crate) fn is_some(self) -> bool {
        self.high != 0
    }

    /// Of two numbers below 2^63.
    #[inline]
    fn new([one, other]: [u64; 2]) -> Self {
        Self { low: one << 1, high: other | TAKEN }
    }

    /// Where an entry lies: all bits of this number are as good as random.
    #[inline]
    pub(crate) fn place(self) -> u64 {
        let [low, high] = halves(u128::from(self.low >> 1) * u128::from(self.high & !TAKEN));
        low ^ high
    }

    #[inline]
    pub(crate) fn of_words([low, high]: [u64; 2]) -> Self {
        Self { low, high }
    }

    #[inline]
    pub(crate) fn words(self) -> [u64; 2] {
        [self.low, self.high]
    }
}

/// The random keys of one store.
pub(crate) struct Fingerprinter {
    /// For each pair the two keys of one half, and of the other; the first of two times 8.
    keys: [[[u64; 2]; 2]; PAIRS],
}

impl std::fmt::Debug for Fingerprinter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fingerprinter")
    }
}

impl Fingerprinter {
    pub(crate) fn new(random: &RandomState) -> Self {
        let mut asked = 0u64;
        let mut draw = || {
            asked += 1;
            random.hash_one(asked)
        };
        let mut keys = || [draw() >> 4 << TIMES_8, draw() >> 4];
        Self { keys: std::array::from_fn(|_| [keys(), keys()]) }
    }

    /// The fingerprint of a state. Always inline: where the limit's name is known, so is its pair.
    #[inline(always)]
    pub(crate) fn of(&self, limit: &str, algorithm: Algorithm, key: &str) -> Fingerprint {
        let (limit, key, algorithm) = (limit.as_bytes(), key.as_bytes(), number(algorithm));
        if limit.len() > PAIR || key.len() > PAIR {
            return self.of_long(limit, algorithm, key);
        }
        let (limit, key) = (pair(limit, algorithm), pair(key, OF_KEY));
        let [first, second, ..] = &self.keys;
        let half = |half: usize| product(limit, first[half]) + product(key, second[half]);
        Fingerprint::new([half(0), half(1)].map(reduced))
    }

    #[inline(never)]
    fn of_long(&self, limit: &[u8], algorithm: u64, key: &[u8]) -> Fingerprint {
        if limit.len() > MAX_NAME_BYTES || key.len() > MOST_KEY_BYTES {
            return Fingerprint::NOBODY;
        }
        let limit = limit.chunks(PAIR).map(|text| pair(text, algorithm));
        let key = key.chunks(PAIR).map(|text| pair(text, OF_KEY));
        let mut sums = [0; 2];
        // There are keys for each pair.
        for (pair, keys) in limit.chain(key).zip(&self.keys) {
            for (sum, keys) in sums.iter_mut().zip(keys) {
                *sum = folded(*sum) + product(pair, *keys);
            }
        }
        Fingerprint::new(sums.map(reduced))
    }
}

/// From 0 to 6.
#[inline]
fn number(algorithm: Algorithm) -> u64 {
    (algorithm as u64).min(Algorithm::ALL.len() as u64 - 1)
}

/// Up to 14 bytes, filled up with zeros, with their number and mark: two numbers below 2^60, the first
/// of them times 8.
#[inline]
fn pair(text: &[u8], mark: u64) -> [u64; 2] {
    let length = text.len();
    let (first, last) = if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        let last = u64::from_le_bytes(*last) >> (8 * (PAIR + 1).saturating_sub(length));
        (u64::from_le_bytes(*first) << (u64::BITS - WORD_BITS) >> SPACE, last)
    } else if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        // What overlaps is the same in both.
        let last = u64::from(u32::from_le_bytes(*last)) << (8 * (length - 4));
        ((u64::from(u32::from_le_bytes(*first)) | last) << TIMES_8, 0)
    } else if let (Some(first), Some(last)) = (text.first(), text.last()) {
        let byte = |at: usize, byte: u8| u64::from(byte) << (8 * at);
        let middle = byte(length / 2, text[length / 2]);
        ((byte(0, *first) | middle | byte(length - 1, *last)) << TIMES_8, 0)
    } else {
        (0, 0)
    };
    [first | (length as u64) << (WORD_BITS + TIMES_8), last | mark << WORD_BITS]
}

/// Times 8, and below 2^125.
#[inline]
fn product([one, other]: [u64; 2], keys: [u64; 2]) -> u128 {
    u128::from(one + keys[0]) * u128::from(other + keys[1])
}

/// The same modulo p, and below 2^126: two products stay as they are.
#[inline]
fn folded(sum: u128) -> u128 {
    if sum >> 126 == 0 { sum } else { u128::from(reduced(sum)) << TIMES_8 }
}

/// An eighth of a sum below 3 · 2^125, modulo p: below 2^63.
#[inline]
fn reduced(sum: u128) -> u64 {
    let [low, high] = halves(sum);
    (low >> TIMES_8) + high
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the halves of a number")]
fn halves(number: u128) -> [u64; 2] {
    [number as u64, (number >> 64) as u64]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const P: u64 = (1 << BITS) - 1;

    /// One bit after the other.
    fn slowly_multiplied(one: u64, other: u64) -> u64 {
        let mut sum = 0;
        for bit in (0..64).rev() {
            sum = 2 * sum % P;
            if other >> bit & 1 == 1 {
                sum = (sum + one % P) % P;
            }
        }
        sum
    }

    /// Numbers below 2^60: some at random, and those at the edges.
    fn numbers() -> Vec<u64> {
        let mut random = 1u64;
        let mut numbers: Vec<u64> = (0..100)
            .map(|_| {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                random >> 4
            })
            .collect();
        for bit in [0, 1, 30, 31, 32, 57, 58, 59] {
            numbers.extend([1 << bit, (1 << bit) - 1, (1 << 60) - (1 << bit)]);
        }
        numbers
    }

    #[test]
    fn sums_of_products_are_those_of_the_field_in_63_bits() {
        let least = product([0, 0], [8, 1]);
        let most =
            product([8 * ((1 << 60) - 1), (1 << 60) - 1], [8 * ((1 << 60) - 1), (1 << 60) - 1]);
        assert!(most >> 124 == 1 && folded(2 * most) == 2 * most && reduced(3 * most) >> 63 == 0);
        for &one in &numbers() {
            for &other in &numbers() {
                let slowly = slowly_multiplied(2 * one + 1, other + 7);
                let quickly = product([8 * one, other], [8 * (one + 1), 7]);
                assert_eq!(reduced(quickly) % P, slowly, "{one} · {other}");
                for beside in [least, most, 2 * most, folded(3 * most), folded(2 * most + least)] {
                    assert!(beside >> 126 == 0);
                    let sum = quickly + beside;
                    assert!(reduced(sum) >> 63 == 0);
                    let modulo = |number: u128| u64::try_from(number / 8 % u128::from(P)).unwrap();
                    assert_eq!(reduced(sum) % P, (slowly + modulo(beside)) % P);
                    assert_eq!(modulo(folded(sum)), modulo(sum));
                }
            }
        }
    }

    fn pairs(limit: &str, algorithm: Algorithm, key: &str) -> Vec<[u64; 2]> {
        let limit = limit.as_bytes().chunks(PAIR).map(|text| pair(text, number(algorithm)));
        limit.chain(key.as_bytes().chunks(PAIR).map(|text| pair(text, OF_KEY))).collect()
    }

    /// The names that pairs were made of.
    fn read(pairs: &[[u64; 2]]) -> (String, Option<u64>, String) {
        let (mut limit, mut algorithm, mut key) = (Vec::new(), None, Vec::new());
        for [first, last] in pairs {
            let (first, last) = (first / 8, *last);
            let length = usize::try_from(first >> WORD_BITS).unwrap();
            let word = |number: u64| number.to_le_bytes()[..WORD].to_vec();
            let mut text = [word(first), word(last)].concat();
            assert!(text[length..].iter().all(|&byte| byte == 0));
            text.truncate(length);
            match last >> WORD_BITS {
                OF_KEY => key.extend(text),
                mark => {
                    algorithm = Some(mark);
                    limit.extend(text);
                }
            }
        }
        (String::from_utf8(limit).unwrap(), algorithm, String::from_utf8(key).unwrap())
    }

    #[test]
    fn pairs_can_be_read_back_and_are_below_2_pow_60() {
        let text: String =
            ('!'..='~').chain('\u{10fff0}'..='\u{10fffd}').cycle().take(1100).collect();
        let cut = |length: usize| {
            let end = (0..=length).rev().find(|end| text.is_char_boundary(*end)).unwrap();
            &text[..end]
        };
        for (limit, algorithm) in (1..=MAX_NAME_BYTES).map(cut).zip(Algorithm::ALL.iter().cycle()) {
            for length in (1..50).chain([64, 100, 500, MAX_KEY_BYTES]) {
                let pairs = pairs(limit, *algorithm, cut(length));
                let is_in_range =
                    |[one, other]: &[u64; 2]| one % 8 == 0 && (one / 8).max(*other) < 1 << 60;
                assert!(pairs.iter().all(is_in_range));
                assert!(pairs.len() <= PAIRS);
                let names = (limit.to_owned(), Some(number(*algorithm)), cut(length).to_owned());
                assert_eq!(read(&pairs), names);
            }
        }
        let numbers: HashSet<u64> = Algorithm::ALL.map(number).into();
        assert_eq!(numbers, (0..7).collect());
    }

    #[test]
    fn the_short_way_and_the_long_way_agree() {
        let hasher = Fingerprinter::new(&RandomState::new());
        let text = "0123456789abcdef";
        for limit in 1..=16 {
            for key in 1..=16 {
                let (limit, key) = (&text[..limit], &text[..key]);
                let long =
                    hasher.of_long(limit.as_bytes(), number(Algorithm::Gcra), key.as_bytes());
                assert_eq!(hasher.of(limit, Algorithm::Gcra, key), long);
            }
        }
    }

    #[test]
    fn names_that_are_alike_have_fingerprints_that_are_not() {
        let hasher = Fingerprinter::new(&RandomState::new());
        let mut seen = HashSet::new();
        let mut fresh = |limit: &str, algorithm, key: &str| {
            let fingerprint = hasher.of(limit, algorithm, key);
            assert!(seen.insert(fingerprint.words()), "{limit} {algorithm} {key}");
        };
        for nth in 0..200_000 {
            fresh("api", Algorithm::Gcra, &format!("user:{nth}"));
        }
        // The same text, cut in two at every place.
        let text = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        for at in 1..text.len() {
            for algorithm in Algorithm::ALL {
                fresh(&text[..at], algorithm, &text[at..]);
                fresh(&text[..at], algorithm, &text[..at]);
            }
        }
        for length in 1..MAX_KEY_BYTES {
            fresh("zeros", Algorithm::Gcra, &"\0".repeat(length));
        }
    }

    #[test]
    fn places_are_spread_evenly() {
        let hasher = Fingerprinter::new(&RandomState::new());
        const BINS: usize = 1024;
        const EACH: u64 = 100;
        for shift in [0, 27, 54] {
            let mut bins = [0u64; BINS];
            for nth in 0..EACH * BINS as u64 {
                let place = hasher.of("api", Algorithm::Gcra, &format!("user:{nth}")).place();
                bins[usize::try_from(place >> shift).unwrap() % BINS] += 1;
            }
            // χ² of 1023 degrees of freedom: 1023 ± 45, and seven deviations once in 10^11 runs.
            let off = |&bin: &u64| bin.abs_diff(EACH).pow(2);
            let chi = bins.iter().map(off).sum::<u64>() / EACH;
            assert!((700..1350).contains(&chi), "{chi}");
        }
    }

    #[test]
    fn another_store_has_other_fingerprints() {
        let of = || Fingerprinter::new(&RandomState::new()).of("api", Algorithm::Gcra, "a");
        assert_ne!(of(), of());
        assert!(of().is_some() && !Fingerprint::default().is_some());
    }

    #[test]
    fn names_longer_than_any_state_has_are_nobodys() {
        let hasher = Fingerprinter::new(&RandomState::new());
        let of = |limit: usize, key: usize| {
            hasher.of(&"l".repeat(limit), Algorithm::Concurrency, &"k".repeat(key))
        };
        assert!(of(MAX_NAME_BYTES, MOST_KEY_BYTES).is_possible());
        assert!(!of(MAX_NAME_BYTES + 1, 1).is_possible());
        assert!(!of(1, MOST_KEY_BYTES + 1).is_possible());
    }
}
