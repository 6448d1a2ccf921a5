//! Owns [`Count`]: how many processes there are, as one of them knows it, and whether it may serve.
//!
//! Each process holds a permit in the store for a few seconds and renews it each second; as many as
//! are held, there are. Whoever serves admits its part of the limit, one by the number it heard last.
//! For all together to admit no more than the limit, everybody who serves must be in the number of
//! everybody else who does:
//!
//! - A number counts for [`HEARD_US`] from when it was asked for. Who has not heard a newer one does
//!   not serve. Its permit lasts longer than that, so nobody forgets it while it still serves.
//! - Who is new does not serve for as long: by then all have heard a number with it, or do not
//!   serve. Who is forgotten meanwhile is new again.
//! - Who was forgotten while its number still counts, because the store lost everything, goes on by
//!   the larger of the old number and the new one, for as long.
//!
//! It is a pure function of numbers, as [`Lease`](crate::lease::Lease) is. Times are of one clock
//! that only goes forward.

/// How often a process renews its permit.
pub const BEAT_US: u64 = 1_000_000;

/// For how long what was heard counts.
pub const HEARD_US: u64 = 3_000_000;

/// For how long a permit lasts: longer than what was heard counts, by any clock.
pub const PERMIT_US: u64 = 4_000_000;

/// What one process knows of the others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// When it began to count.
    began_us: u64,
    heard: Option<Heard>,
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    nodes: u64,
    /// Since when it is so many.
    from_us: u64,
    /// When it was asked for.
    sent_us: u64,
    /// Since when it serves, or from when on.
    since_us: u64,
    /// Until when no smaller number counts.
    firm_until_us: u64,
}

/// Whether a process has a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It has.
    Serves(Standing),
    /// Not yet; the others have to hear of it first.
    Waits {
        /// For so long.
        us: u64,
    },
    /// The store does not tell.
    Lost,
}

/// The part that a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// It is one of so many.
    pub nodes: u64,
    /// Whether they were counted, or it was told how many there are.
    pub is_counted: bool,
    /// Since when it is one of so many.
    pub from_us: u64,
    /// Since when it has served without a break: then it had nothing.
    pub since_us: u64,
}

impl Standing {
    /// Whether this was heard later than `other`, by the same count.
    pub(crate) fn is_after(&self, other: &Self) -> bool {
        self.since_us == other.since_us && self.from_us > other.from_us
    }
}

impl Count {
    /// So many hold a permit, this process among them, by a call of `sent_us`. `is_new` says that
    /// the store did not know it before.
    pub fn heard(&mut self, nodes: u64, is_new: bool, sent_us: u64, now_us: u64) {
        let nodes = nodes.max(1);
        let counts = |heard: &Heard| now_us < heard.sent_us.saturating_add(HEARD_US);
        let before = self.heard.filter(counts);
        let begins_us = now_us.saturating_add(HEARD_US);
        self.heard = Some(match before {
            Some(before) => {
                let firm_until_us = if is_new { begins_us } else { before.firm_until_us };
                let nodes = if now_us < firm_until_us { nodes.max(before.nodes) } else { nodes };
                let from_us = if nodes == before.nodes { before.from_us } else { now_us };
                // Who was forgotten before it served is as new as when it came.
                let is_waiting = is_new && now_us < before.since_us;
                let since_us = if is_waiting { begins_us } else { before.since_us };
                Heard { nodes, from_us, sent_us, since_us, firm_until_us }
            }
            None => {
                let (since_us, firm_until_us) = (begins_us, begins_us);
                Heard { nodes, from_us: begins_us, sent_us, since_us, firm_until_us }
            }
        });
    }

    /// It begins to count.
    pub fn begin(&mut self, now_us: u64) {
        self.began_us = now_us;
    }

    /// Whether it has a part.
    #[must_use]
    pub fn place(&self, now_us: u64) -> Place {
        let until = |end_us: u64| end_us.checked_sub(now_us).filter(|us| *us > 0);
        match self.heard {
            None => until(self.began_us.saturating_add(HEARD_US))
                .map_or(Place::Lost, |us| Place::Waits { us }),
            Some(heard) if until(heard.sent_us.saturating_add(HEARD_US)).is_none() => Place::Lost,
            Some(Heard { nodes, from_us, since_us, .. }) => {
                let serves = Standing { nodes, is_counted: true, from_us, since_us };
                until(since_us).map_or(Place::Serves(serves), |us| Place::Waits { us })
            }
        }
    }

    /// How many there were when it last heard.
    #[must_use]
    pub fn nodes(&self) -> Option<u64> {
        self.heard.map(|heard| heard.nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;

    /// One that joined at the first second and serves since the fourth, one of two.
    fn serving() -> Count {
        let mut count = Count::default();
        for second in 1..=5 {
            count.heard(2, second == 1, second * SECOND_US, second * SECOND_US);
        }
        count
    }

    #[test]
    fn who_is_new_waits_until_all_have_heard() {
        let mut count = Count::default();
        count.begin(1_000);
        assert_eq!(count.place(1_000), Place::Waits { us: HEARD_US });
        assert_eq!(count.place(1_000 + HEARD_US), Place::Lost);
        count.heard(3, true, 1_000, 2_000);
        count.heard(4, false, SECOND_US, SECOND_US);
        count.heard(4, false, 2 * SECOND_US, 2 * SECOND_US);
        let since_us = 2_000 + HEARD_US;
        assert_eq!(count.place(since_us - 1), Place::Waits { us: 1 });
        let serves = Standing { nodes: 4, is_counted: true, from_us: SECOND_US, since_us };
        assert_eq!(count.place(since_us), Place::Serves(serves));
    }

    /// It served as soon as it would have, when others had not counted it yet.
    #[test]
    fn who_is_forgotten_while_it_waits_waits_anew() {
        let mut count = Count::default();
        count.heard(2, true, 0, 0);
        count.heard(1, true, 2 * SECOND_US, 2 * SECOND_US);
        count.heard(2, false, 3 * SECOND_US, 3 * SECOND_US);
        count.heard(2, false, 4 * SECOND_US, 4 * SECOND_US);
        assert_eq!(count.place(5 * SECOND_US - 1), Place::Waits { us: 1 });
        assert!(matches!(count.place(5 * SECOND_US), Place::Serves(_)));
    }

    #[test]
    fn who_hears_nothing_stops_and_begins_anew() {
        let mut count = serving();
        let stops_us = 5 * SECOND_US + HEARD_US;
        assert!(matches!(count.place(stops_us - 1), Place::Serves(_)));
        assert_eq!((count.place(stops_us), count.nodes()), (Place::Lost, Some(2)));
        count.heard(1, true, stops_us, stops_us);
        assert_eq!(count.place(stops_us), Place::Waits { us: HEARD_US });
        count.heard(1, false, stops_us + SECOND_US, stops_us + SECOND_US);
        let since_us = stops_us + HEARD_US;
        let serves = Standing { nodes: 1, is_counted: true, from_us: since_us, since_us };
        assert_eq!(count.place(since_us), Place::Serves(serves));
    }

    #[test]
    fn a_store_that_lost_everything_is_not_believed_at_once() {
        let mut count = serving();
        let nodes = |count: &Count, at_us| match count.place(at_us) {
            Place::Serves(standing) => Some(standing.nodes),
            _ => None,
        };
        count.heard(1, true, 6 * SECOND_US, 6 * SECOND_US);
        assert_eq!(nodes(&count, 6 * SECOND_US), Some(2));
        count.heard(1, false, 8 * SECOND_US, 8 * SECOND_US);
        assert_eq!(nodes(&count, 8 * SECOND_US), Some(2));
        count.heard(1, false, 9 * SECOND_US, 9 * SECOND_US);
        assert_eq!(nodes(&count, 9 * SECOND_US), Some(1));
    }
}
