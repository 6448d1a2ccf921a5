//! The keys, and the order in which they come: uniform, or as Zipf's law has it.

use tollkeeper_testkit::dice::Dice;

/// Keys like `user:12345`, and a long sequence of them.
pub(crate) struct Traffic {
    keys: Vec<String>,
    order: Vec<u32>,
}

impl Traffic {
    pub(crate) fn new(keys: usize, zipf: bool, calls: usize) -> Self {
        let mut dice = Dice::new(42);
        let names = (0..keys).map(|nth| format!("user:{nth}")).collect();
        let order = if zipf {
            zipf_order(&mut dice, keys, calls)
        } else {
            (0..calls).map(|_| index(dice.below(keys as u64))).collect()
        };
        Self { keys: names, order }
    }

    /// The calls of one thread: the same sequence, begun at another place.
    pub(crate) fn calls(&self, thread: usize) -> impl Iterator<Item = &String> {
        let start = self.order.len() / 2 * (thread % 2);
        let (tail, head) = (&self.order[start..], &self.order[..start]);
        tail.iter().chain(head).map(|&at| &self.keys[at as usize])
    }

    pub(crate) fn each_key(&self, mut visit: impl FnMut(&String)) {
        self.keys.iter().for_each(&mut visit);
    }
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
