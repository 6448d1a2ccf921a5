//! Owns [`Fingerprint`]: a state's identity in 126 bits, instead of its names.
//!
//! **The hash.** In the field of the prime p = 2^127 − 1, the names become blocks m₀, m₁, … below p
//! and the fingerprint is Σ (m₂ᵢ + k₂ᵢ) · (m₂ᵢ₊₁ + k₂ᵢ₊₁), where each k is drawn at random when the
//! store is made, and k₀ for each algorithm. Most names are two blocks, so that it is one
//! multiplication of 127 bits. Blocks are below 2^125 and keys below 2^126: no sum of the two needs
//! to be reduced. The result is not reduced all the way either: the same names always come to the
//! same number, and names that come to the same number are equal modulo p.
//!
//! **Why it is an identity.** Names are told apart by their algorithm and their blocks: a block holds
//! at most 15 bytes, how many they are, and whether they are of a limit or of a key. The last bit
//! is given up, so that two sums collide if their difference is 0, 1 or −1; the chance of each of
//! them is, for two different names:
//! - Another algorithm: whatever the other keys are, the difference is linear in one of the two k₀
//!   with the factor m₁ + k₁. Either that is 0, or one k₀ of 2^126 is left: a chance of 2^−125.
//! - Equally many pairs: in some pair one block differs, say m₀ from m₀′. Whatever the other keys
//!   are, the difference of the sums is linear in k₁ with the factor m₀ − m₀′, which is not 0 modulo
//!   p. So it is one certain number for at most one k₁ of 2^126: a chance of 2^−126.
//! - One has more pairs: its last product would have to be one certain number. Either its first
//!   factor is 0, or there is at most one value for the second: a chance of 2^−125.
//!
//! So two names collide with a chance below 2^−123, whoever chose them, and among ten million keys
//! some two with less than 2^−77. That is proven for whoever does not know the keys, and
//! nobody can learn them: no fingerprint leaves the store, in no answer, log or metric. What can
//! show through is how long a call takes, hence where an entry lies; so its place goes by a keyed
//! mix of the fingerprint ([`Fingerprinter::place`]) and not by its own bits.
//!
//! Keys come from the standard library's `RandomState`: SipHash under a key of the system's
//! randomness, asked for one number after the other.

use std::hash::{BuildHasher, RandomState};

use tollkeeper_core::Algorithm;
use tollkeeper_core::limits::{MAX_KEY_BYTES, MAX_NAME_BYTES, MAX_PART_BYTES};

/// 2^127 − 1.
const P: u128 = (1 << 127) - 1;

/// Set in every fingerprint, so that none is zero.
const TAKEN: u64 = 1 << 63;

/// Bytes of text in a block.
const BLOCK: usize = 15;

/// The longest key: that of a part.
const MOST_KEY_BYTES: usize = MAX_KEY_BYTES + MAX_PART_BYTES;

/// The most blocks of a name, made even.
const BLOCKS: usize =
    (MAX_NAME_BYTES.div_ceil(BLOCK) + MOST_KEY_BYTES.div_ceil(BLOCK)).next_multiple_of(2);

/// What a block is marked with.
const OF_LIMIT: u8 = 0;
const OF_KEY: u8 = 1;

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

    #[inline]
    fn new(sum: u128) -> Self {
        let [low, high] = halves(folded(sum));
        Self { low: low & !Self::SPARE, high: high | TAKEN }
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
    /// k₀ of each algorithm.
    first: [u128; Algorithm::ALL.len()],
    /// k₁, k₂, …
    keys: [u128; BLOCKS - 1],
    place: [u64; 2],
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
        let place = [draw(), draw()];
        let mut number = || whole(draw(), draw()) >> 2;
        let first = std::array::from_fn(|_| number());
        Self { first, keys: std::array::from_fn(|_| number()), place }
    }

    /// The fingerprint of a state. Always inline: where the limit's name is known, so is its block.
    #[inline(always)]
    pub(crate) fn of(&self, limit: &str, algorithm: Algorithm, key: &str) -> Fingerprint {
        let (limit, key) = (limit.as_bytes(), key.as_bytes());
        if limit.len() > BLOCK || key.len() > BLOCK {
            return self.of_long(limit, algorithm, key);
        }
        let [limit, key] = [block(limit, OF_LIMIT), block(key, OF_KEY)];
        Fingerprint::new(multiplied(limit + self.first[number(algorithm)], key + self.keys[0]))
    }

    #[inline(never)]
    fn of_long(&self, limit: &[u8], algorithm: Algorithm, key: &[u8]) -> Fingerprint {
        if limit.len() > MAX_NAME_BYTES || key.len() > MOST_KEY_BYTES {
            return Fingerprint::NOBODY;
        }
        let mut keys = std::iter::once(&self.first[number(algorithm)]).chain(&self.keys);
        // There is a key for each block.
        let mut factor = |block: u128| block + keys.next().copied().unwrap_or(0);
        let mut sum = 0;
        let mut first = None;
        let mut add = |block: u128| match first.take() {
            None => first = Some(factor(block)),
            Some(first) => sum = added(sum, multiplied(first, factor(block))),
        };
        each_block(limit, OF_LIMIT, &mut add);
        each_block(key, OF_KEY, &mut add);
        if let Some(first) = first {
            // No block is 0: this one is told from any other.
            sum = added(sum, multiplied(first, factor(0)));
        }
        Fingerprint::new(sum)
    }

    /// Where an entry lies: all bits of this number are as good as random.
    #[inline]
    pub(crate) fn place(&self, Fingerprint { low, high }: Fingerprint) -> u64 {
        let product = u128::from(low ^ self.place[0]) * u128::from(high ^ self.place[1]);
        let [low, high] = halves(product);
        low ^ high
    }
}

/// From 0 to 6.
#[inline]
fn number(algorithm: Algorithm) -> usize {
    (algorithm as usize).min(Algorithm::ALL.len() - 1)
}

fn each_block(mut text: &[u8], mark: u8, add: &mut impl FnMut(u128)) {
    while let Some(chunk) = text.first_chunk::<16>() {
        add(marked(u128::from_le_bytes(*chunk) & (u128::MAX >> 8), BLOCK, mark));
        text = &text[BLOCK..];
    }
    if !text.is_empty() {
        add(block(text, mark));
    }
}

/// Up to 15 bytes, filled up with zeros, with their number and mark.
#[inline]
fn block(text: &[u8], mark: u8) -> u128 {
    let length = text.len();
    let number = if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        let last = u64::from_le_bytes(*last) >> 8 >> (8 * (BLOCK.saturating_sub(length)));
        whole(u64::from_le_bytes(*first), last)
    } else if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        // What overlaps is the same in both.
        let last = u64::from(u32::from_le_bytes(*last)) << (8 * (length - 4));
        u128::from(u64::from(u32::from_le_bytes(*first)) | last)
    } else if let (Some(first), Some(last)) = (text.first(), text.last()) {
        let byte = |at: usize, byte: u8| u128::from(byte) << (8 * at);
        byte(0, *first) | byte(length / 2, text[length / 2]) | byte(length - 1, *last)
    } else {
        0
    };
    marked(number, length, mark)
}

#[inline]
fn marked(number: u128, length: usize, mark: u8) -> u128 {
    number | (length as u128) << 120 | u128::from(mark) << 124
}

/// A number up to 2·p without its highest bit, which counts as 1: the same modulo p, and at most p.
#[inline]
fn folded(number: u128) -> u128 {
    (number & P) + (number >> 127)
}

/// The sum of two numbers, modulo p.
#[inline]
fn added(one: u128, other: u128) -> u128 {
    // No sum of two numbers up to p passes 2·p, and what is folded from there is at most p.
    folded(one) + folded(other)
}

/// The product of two numbers up to p, modulo p; at most 2·p.
#[inline]
fn multiplied(one: u128, other: u128) -> u128 {
    let ([one_low, one_high], [low, high]) = (halves(one), halves(other));
    let times = |one: u64, other: u64| u128::from(one) * u128::from(other);
    // Words of 64 bits. The high halves are below 2^63, so that the middle stays below 2^128 − 2^64.
    let [least, upper] = halves(times(one_low, low));
    let middle = times(one_low, high) + times(one_high, low) + u128::from(upper);
    let [upper, above] = halves(middle);
    // What is above counts 2^128, which is 2, and the highest bit below it 2^127, which is 1.
    let most = times(one_high, high) + u128::from(above);
    2 * most + u128::from(upper >> 63) + (whole(least, upper) & P)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the halves of a number")]
fn halves(number: u128) -> [u64; 2] {
    [number as u64, (number >> 64) as u64]
}

#[inline]
fn whole(low: u64, high: u64) -> u128 {
    u128::from(low) | u128::from(high) << 64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// One bit after the other.
    fn slowly_multiplied(one: u128, other: u128) -> u128 {
        let modulo = |number: u128| number % P;
        let mut sum = 0;
        for bit in (0..128).rev() {
            sum = modulo(2 * sum);
            if other >> bit & 1 == 1 {
                sum = modulo(sum + modulo(one));
            }
        }
        sum
    }

    fn numbers() -> Vec<u128> {
        let mut random = 1u128;
        let mut numbers: Vec<u128> = (0..200)
            .map(|_| {
                random =
                    random.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(1);
                random & P
            })
            .collect();
        for bit in [0, 1, 31, 32, 62, 63, 64, 65, 125, 126] {
            numbers.extend([1 << bit, (1 << bit) - 1, P - (1 << bit), P - (1 << bit) + 1]);
        }
        numbers.extend([P, P - 1, P / 2, u128::from(u64::MAX), P ^ u128::from(u64::MAX)]);
        numbers
    }

    #[test]
    fn products_are_those_of_the_field() {
        for &one in &numbers() {
            for &other in &numbers() {
                let product = multiplied(one, other);
                assert_eq!(product % P, slowly_multiplied(one, other), "{one} · {other}");
                assert_eq!(folded(product) % P, product % P);
                assert_eq!(added(one, other) % P, (one % P + other % P) % P);
            }
        }
    }

    fn blocks(limit: &str, key: &str) -> Vec<u128> {
        let mut blocks = Vec::new();
        each_block(limit.as_bytes(), OF_LIMIT, &mut |block| blocks.push(block));
        each_block(key.as_bytes(), OF_KEY, &mut |block| blocks.push(block));
        blocks
    }

    /// The names that blocks were made of.
    fn read(blocks: &[u128]) -> (String, String) {
        let (mut limit, mut key) = (Vec::new(), Vec::new());
        for block in blocks {
            let bytes = block.to_le_bytes();
            let length = usize::from(bytes[15] & 15);
            assert!(bytes[length..15].iter().all(|&byte| byte == 0));
            match bytes[15] >> 4 {
                OF_LIMIT => limit.extend(&bytes[..length]),
                mark => {
                    assert_eq!(mark, OF_KEY);
                    key.extend(&bytes[..length]);
                }
            }
        }
        (String::from_utf8(limit).unwrap(), String::from_utf8(key).unwrap())
    }

    #[test]
    fn blocks_can_be_read_back_and_are_below_2_pow_125() {
        let text: String =
            ('!'..='~').chain('\u{10fff0}'..='\u{10fffd}').cycle().take(1100).collect();
        let cut = |length: usize| {
            let end = (0..=length).rev().find(|end| text.is_char_boundary(*end)).unwrap();
            &text[..end]
        };
        let mut seen = HashSet::new();
        for limit in (1..=MAX_NAME_BYTES).map(cut) {
            for length in (1..50).chain([64, 100, 500, MAX_KEY_BYTES]) {
                let blocks = blocks(limit, cut(length));
                assert!(blocks.iter().all(|block| (1..1 << 125).contains(block)));
                assert!(blocks.len() <= BLOCKS);
                let names = (limit.to_owned(), cut(length).to_owned());
                assert_eq!(read(&blocks), names);
                seen.insert(blocks);
            }
        }
        let numbers: HashSet<usize> = Algorithm::ALL.map(number).into();
        assert_eq!(numbers, (0..7).collect());
    }

    #[test]
    fn the_short_way_and_the_long_way_agree() {
        let hasher = Fingerprinter::new(&RandomState::new());
        let text = "0123456789abcdef";
        for limit in 1..=16 {
            for key in 1..=16 {
                let (limit, key) = (&text[..limit], &text[..key]);
                let long = hasher.of_long(limit.as_bytes(), Algorithm::Gcra, key.as_bytes());
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
                let place = hasher.place(hasher.of("api", Algorithm::Gcra, &format!("user:{nth}")));
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
