//! The keys, and the order in which they come: uniform, or as Zipf's law has it.
//!
//! A key is written down just before it is asked for, as a server does that has just read it: it is
//! in the cache, and nothing of the next request is in the processor yet.

use std::hint::black_box;

use tollkeeper_testkit::dice::Dice;

/// Keys like `user:12345`, and a long sequence of them.
pub(crate) struct Traffic {
    keys: u32,
    order: Vec<u32>,
}

impl Traffic {
    pub(crate) fn new(keys: usize, zipf: bool, calls: usize) -> Self {
        let mut dice = Dice::new(42);
        let order = if zipf {
            zipf_order(&mut dice, keys, calls)
        } else {
            (0..calls).map(|_| index(dice.below(keys as u64))).collect()
        };
        Self { keys: index(keys as u64), order }
    }

    /// The calls of one thread: the same sequence, begun at another place. How many were allowed.
    pub(crate) fn calls(&self, thread: usize, allows: impl Fn(&String) -> bool) -> usize {
        let start = self.order.len() / 2 * (thread % 2);
        let (tail, head) = (&self.order[start..], &self.order[..start]);
        ask_each(tail.iter().chain(head).copied(), allows)
    }

    pub(crate) fn keys(&self) -> u32 {
        self.keys
    }

    /// Every key once; how many were allowed.
    pub(crate) fn each_key(&self, allows: impl Fn(&String) -> bool) -> usize {
        ask_each(0..self.keys, allows)
    }
}

/// Writes each key down and asks for it.
fn ask_each(numbers: impl Iterator<Item = u32>, allows: impl Fn(&String) -> bool) -> usize {
    let mut key = String::with_capacity(16);
    let mut allowed = 0;
    for number in numbers {
        write_key(&mut key, number);
        allowed += usize::from(allows(black_box(&key)));
    }
    allowed
}

/// Faster than `write!`, so that what is measured is not this.
pub(crate) fn write_key(key: &mut String, number: u32) {
    let mut digits = [0; 10];
    let (mut rest, mut start) = (number, digits.len());
    loop {
        start -= 1;
        digits[start] = b'0' + u8::try_from(rest % 10).unwrap();
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    key.clear();
    key.push_str("user:");
    key.push_str(str::from_utf8(&digits[start..]).unwrap());
}

/// The nth key comes in proportion to 1/n. Which key is the nth is shuffled, so that popular ones
/// are not neighbours in memory.
fn zipf_order(dice: &mut Dice, keys: usize, calls: usize) -> Vec<u32> {
    let mut sum = 0.0;
    let cumulative: Vec<f64> = (1..=keys)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    let mut shuffled: Vec<u32> = (0..keys as u64).map(index).collect();
    for at in (1..keys).rev() {
        let other = index(dice.below(at as u64 + 1)) as usize;
        shuffled.swap(at, other);
    }
    (0..calls)
        .map(|_| {
            let point = dice.below(1 << 52) as f64 / (1u64 << 52) as f64 * sum;
            let rank = cumulative.partition_point(|&edge| edge < point);
            shuffled[rank.min(keys - 1)]
        })
        .collect()
}

fn index(number: u64) -> u32 {
    u32::try_from(number).unwrap()
}
