//! Owns [`nearest`]: which known name was meant by one that is not known.

/// A name longer than this is not compared: it is no slip of the finger.
const MAX_CHARS: usize = 100;

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
    let name: Vec<char> = name.chars().take(MAX_CHARS + 1).collect();
    if name.is_empty() || name.len() > MAX_CHARS {
        return None;
    }
    let most = if name.len() <= 3 { 1 } else { 2 };
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in candidates {
        let chars: Vec<char> = candidate.chars().collect();
        let distance = if chars.len().abs_diff(name.len()) <= most {
            distance(&name, &chars)
        } else {
            usize::MAX
        };
        let score = match distance {
            near if near <= most => near,
            _ if begins(&name, &chars) => most + 1,
            _ => continue,
        };
        if best.is_none_or(|(least, _)| score < least) {
            best = Some((score, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

fn begins(a: &[char], b: &[char]) -> bool {
    let shorter = a.len().min(b.len());
    shorter >= MIN_PREFIX && a[..shorter] == b[..shorter]
}

/// Letters to insert, remove or replace to get from `a` to `b`.
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

#[cfg(test)]
mod tests {
    use super::*;

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
