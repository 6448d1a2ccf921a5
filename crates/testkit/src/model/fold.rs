//! From each limit's own numbers to the answer for the request.

use super::{Answer, Numbers};

/// One limit's numbers and whether it only watches.
pub(super) struct Said {
    pub(super) numbers: Numbers,
    pub(super) shadow: bool,
}

/// Whether a request that got these admissions is admitted: every limit that enforces must admit it.
pub(super) fn is_admitted(limits: impl IntoIterator<Item = (bool, bool)>) -> bool {
    limits.into_iter().all(|(admits, shadow)| admits || shadow)
}

/// The answer. There is at least one limit.
pub(super) fn fold(said: Vec<Said>) -> Answer {
    let allowed = is_admitted(said.iter().map(|one| (one.numbers.allowed, one.shadow)));
    let enforcing: Vec<usize> = (0..said.len()).filter(|&at| !said[at].shadow).collect();
    let binding = if allowed {
        let candidates =
            if enforcing.is_empty() { (0..said.len()).collect() } else { enforcing.clone() };
        first_best(candidates.into_iter(), |a, b| is_scarcer(&said[a].numbers, &said[b].numbers))
    } else {
        let denying = enforcing.iter().filter(|&&at| !said[at].numbers.allowed);
        first_best(denying.copied(), |a, b| is_longer(&said[a].numbers, &said[b].numbers))
    };
    let longest_delay_us = enforcing.iter().map(|&at| said[at].numbers.delay_us).max();
    let bound = &said[binding].numbers;
    let folded = if allowed {
        Numbers {
            allowed,
            retry_after_us: Some(0),
            delay_us: longest_delay_us.unwrap_or(0),
            ..bound.clone()
        }
    } else {
        Numbers { allowed, delay_us: 0, ..bound.clone() }
    };
    Answer { allowed, binding, folded, limits: said.into_iter().map(|one| one.numbers).collect() }
}

/// The first of the indices that no other is better than.
fn first_best(
    mut indices: impl Iterator<Item = usize>,
    is_better: impl Fn(usize, usize) -> bool,
) -> usize {
    let first = indices.next().unwrap_or(0);
    indices.fold(first, |best, at| if is_better(at, best) { at } else { best })
}

/// Whether `a` is to be retried later than `b`; "never" is longest.
fn is_longer(a: &Numbers, b: &Numbers) -> bool {
    match (a.retry_after_us, b.retry_after_us) {
        (None, Some(_)) => true,
        (Some(a_us), Some(b_us)) => a_us > b_us,
        (_, None) => false,
    }
}

/// Whether `a` has a smaller part of its limit left than `b`.
fn is_scarcer(a: &Numbers, b: &Numbers) -> bool {
    u128::from(a.remaining) * u128::from(b.limit) < u128::from(b.remaining) * u128::from(a.limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(allowed: bool, remaining: u64, limit: u64, retry_after_us: Option<u64>) -> Said {
        let numbers = Numbers {
            allowed,
            limit,
            remaining,
            retry_after_us,
            reset_after_us: 9,
            delay_us: if allowed { remaining } else { 0 },
        };
        Said { numbers, shadow: false }
    }

    fn shadow(one: Said) -> Said {
        Said { shadow: true, ..one }
    }

    #[test]
    fn the_scarcest_binds_and_ties_go_to_the_first() {
        let answer = fold(vec![
            said(true, 5, 10, Some(0)),
            said(true, 2, 5, Some(0)),
            said(true, 40, 100, Some(0)),
        ]);
        assert_eq!((answer.allowed, answer.binding), (true, 1));
        assert_eq!(answer.folded.delay_us, 40);
        assert_eq!((answer.folded.limit, answer.folded.remaining), (5, 2));
    }

    #[test]
    fn the_longest_denial_binds_and_never_is_longest() {
        let deny = |retry| said(false, 0, 10, retry);
        let admit = said(true, 0, 10, Some(0));
        assert_eq!(fold(vec![admit, deny(Some(3)), deny(Some(3))]).binding, 1);
        assert_eq!(fold(vec![deny(Some(3)), deny(Some(4))]).binding, 1);
        let never = fold(vec![deny(Some(3)), deny(None), deny(None), deny(Some(4))]);
        assert_eq!((never.binding, never.folded.retry_after_us), (1, None));
    }

    #[test]
    fn a_shadow_neither_denies_nor_binds() {
        let answer = fold(vec![
            shadow(said(false, 0, 10, Some(7))),
            said(true, 9, 10, Some(0)),
            shadow(said(true, 20, 100, Some(0))),
        ]);
        assert_eq!((answer.allowed, answer.binding), (true, 1));
        assert_eq!(answer.folded.delay_us, 9);
    }

    #[test]
    fn shadows_alone_admit() {
        let answer =
            fold(vec![shadow(said(true, 9, 10, Some(0))), shadow(said(false, 1, 10, Some(7)))]);
        assert_eq!((answer.allowed, answer.binding), (true, 1));
        assert!(answer.folded.allowed);
        assert_eq!(answer.folded.retry_after_us, Some(0));
        assert_eq!(answer.folded.delay_us, 0);
    }
}
