//! Owns [`Sketch`]: which keys come most often, in a table that does not grow. It is the SpaceSaving
//! algorithm (Metwally, Agrawal, El Abbadi, 2005) on counts that halve every ten seconds.
//!
//! A key that is new takes the place of the one with the smallest count, and inherits that count: it
//! may have come as often before, unseen. So of each key two bounds are known. Both are rounded down
//! when they halve, as the true count is, and so stay bounds of it.
//!
//! Time is weighed as counts are: what passed before the last halving counts half. A count over that
//! time is a rate, exact for steady traffic at any moment, and without a jump where counts halve.

use std::hash::{BuildHasher, RandomState};

/// Keys that are counted at once.
pub(crate) const MAX_HOT_KEYS: usize = 256;

/// How long it takes until a count is worth half.
pub(super) const HALF_LIFE_US: u64 = 10_000_000;

/// The shortest time that is taken for a rate: a moment after the start, any count would be a high one.
const LEAST_WINDOW_US: u64 = 1_000_000;

/// The keys that come most often, each with its rule.
#[derive(Debug)]
pub(super) struct Sketch {
    /// Keyed, and merely to compare one number for most keys instead of two texts.
    hasher: RandomState,
    places: Vec<Place>,
    names: Vec<Names>,
    /// When counts halved last, and the weighed time until then.
    halved_us: u64,
    before_us: u64,
    total: u64,
    missed: u64,
}

/// The numbers of a key, apart from its names: these are all looked at for every key.
#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u64,
    most: u64,
    least: u64,
    denied: u64,
}

/// Their room is used again for the next key, so that nothing is allocated once it is large enough.
#[derive(Debug)]
struct Names {
    rule: String,
    key: String,
}

/// What is known of a key: how often it came is from `least` to `most`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HotKey {
    pub(crate) rule: String,
    pub(crate) key: String,
    pub(crate) most: u64,
    pub(crate) least: u64,
    /// How many of `least` its rule refused.
    pub(crate) denied: u64,
}

impl Sketch {
    pub(super) fn new(now_us: u64) -> Self {
        Self {
            hasher: RandomState::new(),
            places: Vec::with_capacity(MAX_HOT_KEYS),
            names: Vec::with_capacity(MAX_HOT_KEYS),
            halved_us: now_us,
            before_us: 0,
            total: 0,
            missed: 0,
        }
    }

    /// Halves what has become old.
    pub(super) fn advance(&mut self, now_us: u64) {
        let halvings = now_us.saturating_sub(self.halved_us) / HALF_LIFE_US;
        if halvings == 0 {
            return;
        }
        self.halved_us += halvings * HALF_LIFE_US;
        // After so many there is nothing left of any count.
        let halvings = u32::try_from(halvings).unwrap_or(u32::MAX).min(u64::BITS);
        let halved = |count: u64| count.checked_shr(halvings).unwrap_or(0);
        for place in &mut self.places {
            let Place { hash, most, least, denied } = *place;
            *place =
                Place { hash, most: halved(most), least: halved(least), denied: halved(denied) };
        }
        (self.total, self.missed) = (halved(self.total), halved(self.missed));
        for _ in 0..halvings {
            self.before_us = (self.before_us + HALF_LIFE_US) / 2;
        }
    }

    /// Counts `weight` requests of a key.
    pub(super) fn add(&mut self, rule: &str, key: &str, weight: u64, refused: bool) {
        self.total = self.total.saturating_add(weight);
        let hash = self.hasher.hash_one((rule, key));
        let at = match self.find(hash, rule, key) {
            Found::Here(at) => at,
            Found::Smallest(at) if self.places.len() == MAX_HOT_KEYS => {
                self.take_over(at, hash, rule, key);
                at
            }
            Found::Smallest(_) => {
                self.places.push(Place { hash, most: 0, least: 0, denied: 0 });
                self.names.push(Names { rule: rule.to_owned(), key: key.to_owned() });
                self.places.len() - 1
            }
        };
        let place = &mut self.places[at];
        place.most = place.most.saturating_add(weight);
        place.least = place.least.saturating_add(weight);
        if refused {
            place.denied = place.denied.saturating_add(weight);
        }
    }

    fn find(&self, hash: u64, rule: &str, key: &str) -> Found {
        let (mut smallest, mut least_most) = (0, u64::MAX);
        for (at, place) in self.places.iter().enumerate() {
            if place.hash == hash && self.names[at].key == key && self.names[at].rule == rule {
                return Found::Here(at);
            }
            if place.most < least_most {
                (smallest, least_most) = (at, place.most);
            }
        }
        Found::Smallest(smallest)
    }

    fn take_over(&mut self, at: usize, hash: u64, rule: &str, key: &str) {
        let (place, names) = (&mut self.places[at], &mut self.names[at]);
        *place = Place { hash, most: place.most, least: 0, denied: 0 };
        for (text, new) in [(&mut names.rule, rule), (&mut names.key, key)] {
            text.clear();
            text.push_str(new);
        }
    }

    /// Somebody could not count `weight` requests.
    pub(super) fn miss(&mut self, weight: u64) {
        self.missed = self.missed.saturating_add(weight);
    }

    /// How many requests were counted, old ones for less.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// How many were not.
    pub(super) fn missed(&self) -> u64 {
        self.missed
    }

    /// The time over which a count is a rate.
    pub(super) fn window_us(&self, now_us: u64) -> u64 {
        (self.before_us + now_us.saturating_sub(self.halved_us)).max(LEAST_WINDOW_US)
    }

    /// Every key of which anything is left, or those of one rule, in no order.
    pub(super) fn keys(&self, rule: Option<&str>) -> Vec<HotKey> {
        let all = self.places.iter().zip(&self.names);
        let wanted = all
            .filter(|(place, names)| place.most > 0 && rule.is_none_or(|rule| names.rule == rule));
        let shown = wanted.map(|(place, names)| HotKey {
            rule: names.rule.clone(),
            key: names.key.clone(),
            most: place.most,
            least: place.least,
            denied: place.denied,
        });
        shown.collect()
    }
}

/// Where a key is, or the key whose place it would take.
#[derive(Debug)]
enum Found {
    Here(usize),
    Smallest(usize),
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fmt::Write;

    use tollkeeper_core::limits::MAX_KEY_BYTES;
    use tollkeeper_testkit::dice::Dice;

    use super::*;

    /// Every key counted for itself, by the same rule of halving.
    #[derive(Default)]
    struct Exact {
        counts: HashMap<String, (u64, u64)>,
        total: u64,
        halvings: u64,
    }

    impl Exact {
        fn advance(&mut self, now_us: u64) {
            while self.halvings < now_us / HALF_LIFE_US {
                self.halvings += 1;
                self.total /= 2;
                for (count, denied) in self.counts.values_mut() {
                    (*count, *denied) = (*count / 2, *denied / 2);
                }
            }
        }

        fn add(&mut self, key: &str, weight: u64, refused: bool) {
            let (count, denied) = self.counts.entry(key.to_owned()).or_default();
            *count += weight;
            *denied += if refused { weight } else { 0 };
            self.total += weight;
        }
    }

    /// One of 20 000 keys, the n-th of which comes about 1/n as often as the first.
    fn zipf(dice: &mut Dice) -> u64 {
        let steps = 20_000_f64.ln();
        let along = dice.below(1 << 30) as f64 / f64::from(1 << 30);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 on")]
        let nth = (along * steps).exp() as u64;
        nth
    }

    fn held_to(exact: &Exact, sketch: &Sketch) {
        let shown = sketch.keys(None);
        assert!(shown.len() <= MAX_HOT_KEYS);
        for hot in &shown {
            let (count, denied) = exact.counts[&hot.key];
            assert!(hot.least <= count && count <= hot.most, "{hot:?} came {count} times");
            assert!(hot.denied <= denied && hot.denied <= hot.least, "{hot:?}: {denied} denied");
            assert!(denied <= hot.denied + (hot.most - hot.least), "{hot:?}: {denied} denied");
        }
        let smallest = exact.total / MAX_HOT_KEYS as u64;
        for (key, (count, _)) in &exact.counts {
            let present = shown.iter().any(|hot| hot.key == *key);
            assert!(present || *count <= smallest, "{key} came {count} times and is not shown");
        }
        assert_eq!(sketch.total(), exact.total);
    }

    #[test]
    fn bounds_hold_and_no_frequent_key_is_missing_while_counts_halve() {
        for seed in 0..4 {
            let mut dice = Dice::new(seed);
            let (mut exact, mut sketch) = (Exact::default(), Sketch::new(0));
            let mut now_us = 0;
            for nth in 1..=40_000_u64 {
                now_us += dice.below(2_000);
                // Another thousand of keys every while: what was hot is not for ever.
                let key = format!("user:{}", zipf(&mut dice) + nth / 15_000 * 1_000);
                let (weight, refused) = (1 << dice.below(7), dice.one_in(3));
                exact.advance(now_us);
                sketch.advance(now_us);
                exact.add(&key, weight, refused);
                sketch.add("api", &key, weight, refused);
                if nth % 5_000 == 0 {
                    held_to(&exact, &sketch);
                }
            }
            assert!(exact.halvings >= 3 && exact.counts.len() > 10 * MAX_HOT_KEYS);
        }
    }

    #[test]
    fn a_steady_rate_is_told_as_it_is_at_any_moment() {
        let mut sketch = Sketch::new(50);
        for nth in 0..600 {
            let now_us = 50 + nth * 100_000;
            sketch.advance(now_us);
            let (window_us, count) = (sketch.window_us(now_us), sketch.total());
            if now_us >= LEAST_WINDOW_US + 50 {
                // 10 every 100 ms are 100 a second; what is rounded is at most a request a halving.
                let per_second = count as f64 * 1e6 / window_us as f64;
                assert!((99.0..=100.0).contains(&per_second), "{per_second} at {now_us}");
            }
            sketch.add("api", "k", 10, false);
        }
    }

    #[test]
    fn what_has_ended_is_forgotten_by_halves() {
        let mut sketch = Sketch::new(0);
        sketch.add("api", "old", 1_000, true);
        let counts = |sketch: &Sketch| sketch.keys(None).first().map(|hot| (hot.most, hot.denied));
        sketch.advance(HALF_LIFE_US - 1);
        assert_eq!(counts(&sketch), Some((1_000, 1_000)));
        sketch.advance(HALF_LIFE_US);
        assert_eq!(counts(&sketch), Some((500, 500)));
        sketch.advance(3 * HALF_LIFE_US);
        assert_eq!(counts(&sketch), Some((125, 125)));
        // A reading that is a little older changes nothing.
        sketch.advance(2 * HALF_LIFE_US);
        assert_eq!(counts(&sketch), Some((125, 125)));
        sketch.advance(9 * HALF_LIFE_US);
        assert_eq!((counts(&sketch), sketch.total()), (Some((1, 1)), 1));
        sketch.advance(10 * HALF_LIFE_US);
        assert_eq!((counts(&sketch), sketch.total()), (None, 0));
        sketch.add("api", "old", u64::MAX, false);
        sketch.add("api", "old", 1, false);
        sketch.advance(u64::MAX);
        assert_eq!(
            (counts(&sketch), sketch.window_us(u64::MAX)),
            (None, u64::MAX % HALF_LIFE_US + 9_999_999)
        );
    }

    #[test]
    fn a_million_keys_take_no_more_room_than_the_places() {
        let mut sketch = Sketch::new(0);
        let mut key = String::new();
        for nth in 0..1_000_000_u64 {
            key.clear();
            // Some are as long as keys may be.
            let width = if nth % 1_000 == 0 { MAX_KEY_BYTES } else { 7 };
            let _ = write!(key, "{nth:0width$}");
            sketch.add("api", &key, 1, false);
        }
        assert_eq!((sketch.places.len(), sketch.places.capacity()), (MAX_HOT_KEYS, MAX_HOT_KEYS));
        assert_eq!((sketch.names.len(), sketch.names.capacity()), (MAX_HOT_KEYS, MAX_HOT_KEYS));
        let room = |names: &Names| names.rule.capacity() + names.key.capacity();
        assert!(sketch.names.iter().all(|names| room(names) <= 2 * MAX_KEY_BYTES));
        // Nobody is hot among them, and the bounds say so.
        let least = sketch.keys(None).iter().map(|hot| hot.least).max();
        assert_eq!((least, sketch.total()), (Some(1), 1_000_000));
    }

    #[test]
    fn one_key_of_two_rules_is_two() {
        let mut sketch = Sketch::new(0);
        sketch.add("a", "bc", 1, false);
        sketch.add("ab", "c", 2, false);
        sketch.add("a", "bc", 4, true);
        let of = |rule| sketch.keys(Some(rule)).iter().map(|hot| hot.most).collect::<Vec<_>>();
        assert_eq!((of("a"), of("ab"), of("b")), (vec![5], vec![2], vec![]));
    }
}
