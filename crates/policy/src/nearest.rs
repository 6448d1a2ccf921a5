//! Owns [`nearest`]: which known name was meant by one that is not known.

/// A name longer than this is not compared: it is no slip of the finger.
const MAX_CHARS: usize = 100;

/// The most letters that may differ.
const MOST: usize = 2;

/// More than any that is counted.
const FAR: usize = 1000;

/// A shorter beginning says too little to be completed.
const MIN_PREFIX: usize = 3;

/// The candidate that `name` was most likely meant to be.
///
/// At most two letters differ (one in a name of up to three letters), or one name is the beginning
/// of the other. The first of equally near candidates wins.
///
/// ```
/// use tollkeeper_policy::nearest;
///
/// let known = ["capacity", "refill_rate"];
/// assert_eq!(nearest("capcity", known.into_iter()), Some("capacity"));
/// assert_eq!(nearest("refill", known.into_iter()), Some("refill_rate"));
/// assert_eq!(nearest("window", known.into_iter()), None);
/// ```
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut chars = ['\0'; MAX_CHARS];
    let mut letters = name.chars();
    let mut length = 0;
    for (place, letter) in chars.iter_mut().zip(&mut letters) {
        (*place, length) = (letter, length + 1);
    }
    if length == 0 || letters.next().is_some() {
        return None;
    }
    let meant = &chars[..length];
    let most = if length <= 3 { 1 } else { MOST };
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in candidates {
        // Only a nearer one is looked for; one that merely begins alike is behind all of these.
        let bound = best.map_or(most, |(least, _)| most.min(least.saturating_sub(1)));
        let score = match within(meant, candidate, bound) {
            Some(0) => return Some(candidate),
            Some(near) => near,
            None if best.is_none() && begins(name, length, candidate) => most + 1,
            None => continue,
        };
        best = Some((score, candidate));
    }
    best.map(|(_, candidate)| candidate)
}

/// Whether one is the beginning of the other, `name` being of so many letters.
fn begins(name: &str, length: usize, candidate: &str) -> bool {
    length >= MIN_PREFIX && candidate.starts_with(name)
        || name.starts_with(candidate) && candidate.chars().nth(MIN_PREFIX - 1).is_some()
}

/// Letters to insert, remove or replace to get from `a` to `b`, if they are at most `bound`, which is
/// at most [`MOST`].
///
/// A way with so few stays so near to the diagonal, so only a band of the table is made, a letter of
/// `b` at a time, and the look ends where every way has become too long.
fn within(a: &[char], b: &str, bound: usize) -> Option<usize> {
    if b.chars().count().abs_diff(a.len()) > bound {
        return None;
    }
    let (a, b) = behind_the_same(a, b);
    // What it takes from the first `row + nth - bound` letters of `a` to the first `row` of `b`.
    let mut band = [FAR; 2 * MOST + 1];
    for (nth, cell) in band[bound..=2 * bound].iter_mut().enumerate() {
        *cell = nth;
    }
    let mut row = 0;
    for y in b.chars() {
        let mut before = FAR;
        let mut least = FAR;
        for nth in 0..=2 * bound {
            let inserted = if nth < 2 * bound { band[nth + 1] + 1 } else { FAR };
            let cell = match (row + 1 + nth).checked_sub(bound) {
                Some(0) => row + 1,
                Some(column) if column <= a.len() => {
                    let replaced = band[nth] + usize::from(a[column - 1] != y);
                    replaced.min(inserted).min(before + 1)
                }
                _ => FAR,
            };
            (band[nth], before, least) = (cell, cell, least.min(cell));
        }
        row += 1;
        if least > bound {
            return None;
        }
    }
    // Where the whole of `a` stands in the last row.
    let last = (a.len() + bound).checked_sub(row)?;
    band.get(last).copied().filter(|distance| *distance <= bound)
}

/// What is left of both behind the letters that both begin with, which change no distance.
fn behind_the_same<'a, 'b>(mut a: &'a [char], b: &'b str) -> (&'a [char], &'b str) {
    let mut letters = b.chars();
    let mut left = b;
    while let (Some((x, rest)), Some(y)) = (a.split_first(), letters.next()) {
        if *x != y {
            break;
        }
        (a, left) = (rest, letters.as_str());
    }
    (a, left)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The distance by the whole table.
    fn distance(a: &[char], b: &[char]) -> usize {
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, x) in a.iter().enumerate() {
            let mut diagonal = row[0];
            row[0] = i + 1;
            for (j, y) in b.iter().enumerate() {
                let replaced = diagonal + usize::from(x != y);
                diagonal = row[j + 1];
                row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
            }
        }
        row[b.len()]
    }

    /// What `nearest` was before it looked at a band of the table alone.
    fn plainly<'a>(name: &str, candidates: &'a [String]) -> Option<&'a str> {
        let name: Vec<char> = name.chars().collect();
        if name.is_empty() || name.len() > MAX_CHARS {
            return None;
        }
        let most = if name.len() <= 3 { 1 } else { 2 };
        let mut best: Option<(usize, &str)> = None;
        for candidate in candidates {
            let chars: Vec<char> = candidate.chars().collect();
            let shorter = name.len().min(chars.len());
            let score = match distance(&name, &chars) {
                near if near <= most => near,
                _ if shorter >= MIN_PREFIX && name[..shorter] == chars[..shorter] => most + 1,
                _ => continue,
            };
            if best.is_none_or(|(least, _)| score < least) {
                best = Some((score, candidate));
            }
        }
        best.map(|(_, candidate)| candidate)
    }

    /// Names of few letters, so that many are near to each other. Some letters are of several bytes.
    fn word() -> impl Strategy<Value = String> {
        "[abé𝄞]{0,9}"
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn within_a_bound_it_is_the_plain_distance(a in word(), b in word(), bound in 0..=MOST) {
            let letters: Vec<char> = a.chars().collect();
            let plain = distance(&letters, &b.chars().collect::<Vec<char>>());
            prop_assert_eq!(within(&letters, &b, bound), Some(plain).filter(|it| *it <= bound));
        }

        #[test]
        fn whoever_was_nearest_still_is(name in word(), known in vec(word(), 0..12)) {
            let found = nearest(&name, known.iter().map(String::as_str));
            prop_assert_eq!(found, plainly(&name, &known));
        }
    }

    /// Each unknown name in a batch cost a look at the whole table for every rule, and a copy of its
    /// name.
    #[test]
    fn a_look_through_many_names_allocates_nothing() {
        let known: Vec<String> = (0..5000).map(|nth| format!("rule-{nth}")).collect();
        let allocated = allocation_counter::measure(|| {
            assert_eq!(nearest("rule-no-such", known.iter().map(String::as_str)), None);
        });
        assert_eq!(allocated.count_total, 0);
    }

    #[test]
    fn distances() {
        let of = |a: &str, b: &str| {
            let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
            distance(&a, &b)
        };
        assert_eq!(of("", "abc"), 3);
        assert_eq!(of("limit", "limit"), 0);
        assert_eq!(of("lmit", "limit"), 1);
        assert_eq!(of("maxRequests", "max_requests"), 2);
        assert_eq!(of("kitten", "sitting"), 3);
    }

    #[test]
    fn the_nearest_wins_and_the_first_of_equals() {
        let pick = |name, known: &[&'static str]| nearest(name, known.iter().copied());
        assert_eq!(pick("limit", &["limits", "limit"]), Some("limit"));
        assert_eq!(pick("limi", &["limit", "limits"]), Some("limit"));
        assert_eq!(pick("max_req", &["max_requests"]), Some("max_requests"));
        assert_eq!(pick("ab", &["xy"]), None);
        assert_eq!(pick("", &["a"]), None);
        assert_eq!(pick(&"x".repeat(5000), &["x"]), None);
    }
}
