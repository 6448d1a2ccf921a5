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
//! Of a limit with fewer units than there are processes nobody has a part: the store hands out all of
//! it. There nothing is known of the parts that were, so nobody may have one while anybody asks the
//! store, whoever hears what number when. The store therefore keeps the most that there were lately,
//! too: it falls by one in [`HOLD_US`] or more, and rises at once ([`note`]). By that number,
//!
//! - who hears that a limit is smaller asks the store for it [`HEARD_US`] later, when everybody has
//!   heard so, and takes it to have been empty until then;
//! - who hears that a limit is large enough has a part [`SETTLED_US`] later: a smaller number than
//!   before could rise again between two calls of somebody who has not heard it, but not twice.
//!   Where there is one unit more than processes, it was large enough for [`HOLD_US`] already.
//!
//! It is a pure function of numbers, as [`Lease`](crate::lease::Lease) is. Times are of one clock
//! that only goes forward.

mod runs;

use tollkeeper_core::{Quota, QuotaError, Rate};

use runs::Runs;

/// How often a process renews its permit.
pub const BEAT_US: u64 = 1_000_000;

/// For how long what was heard counts.
pub const HEARD_US: u64 = 3_000_000;

/// For how long a permit lasts: longer than what was heard counts, by any clock.
pub const PERMIT_US: u64 = 4_000_000;

/// How long the store keeps the most that there were, at least, and each number below.
pub const HOLD_US: u64 = 4_000_000;

/// How long a limit was large enough before anybody has a part of it again: longer than two times
/// what was heard counts, and by so much that what the store was asked last is over.
pub const SETTLED_US: u64 = HEARD_US + PERMIT_US;

/// More processes than ever share a limit.
pub const MOST: u64 = 1_000_000;

/// The units of the note for each process. What is noted leaves a part of one over: one is whole.
const UNITS_EACH: u64 = 2;

/// What the store keeps the most by that there were.
pub fn note() -> Result<Quota, QuotaError> {
    Quota::token_bucket(UNITS_EACH * MOST, Rate::new(1, HOLD_US)?)
}

/// The most that there were lately, by what is left of the note.
#[must_use]
pub fn noted(left: u64) -> u64 {
    (UNITS_EACH * MOST).saturating_sub(left).div_ceil(UNITS_EACH)
}

/// What is to be left of the note when there are so many.
#[must_use]
pub fn left_of_note(nodes: u64) -> u64 {
    UNITS_EACH * MOST.saturating_sub(nodes)
}

/// What one process knows of the others.
#[derive(Clone, Debug, Default)]
pub struct Count {
    /// When it began to count.
    began_us: u64,
    heard: Option<Heard>,
    /// The most that there were lately, since it counts without a break.
    most: Runs,
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    nodes: u64,
    /// The most that there were lately.
    most: u64,
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
    /// Nobody has: the store hands out what has flown in since.
    Store {
        /// When nobody had one any more.
        from_us: u64,
    },
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
    /// Since when there can be parts of the limit that is asked for: then it had nothing, either.
    pub parted_us: u64,
}

impl Standing {
    /// Whether as much was heard as by `other`, whichever limit is asked for.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Self { parted_us: other.parted_us, ..*self } == *other
    }

    /// Whether this was heard later than `other`, by the same count.
    pub(crate) fn is_after(&self, other: &Self) -> bool {
        let is_counted = self.is_counted && other.is_counted;
        is_counted && (self.since_us, self.from_us) > (other.since_us, other.from_us)
    }
}

impl Count {
    /// So many hold a permit, this process among them, by a call of `sent_us`; lately there were as
    /// many as `most`. `is_new` says that the store did not know it before.
    pub fn heard(&mut self, nodes: u64, most: u64, is_new: bool, sent_us: u64, now_us: u64) {
        let nodes = nodes.max(1);
        let most = most.max(nodes);
        let counts = |heard: &Heard| now_us < heard.sent_us.saturating_add(HEARD_US);
        let before = self.heard.filter(counts);
        if before.is_none() {
            self.most = Runs::default();
        }
        let begins_us = now_us.saturating_add(HEARD_US);
        self.heard = Some(match before {
            Some(before) => {
                let firm_until_us = if is_new { begins_us } else { before.firm_until_us };
                let is_firm = now_us < firm_until_us;
                let nodes = if is_firm { nodes.max(before.nodes) } else { nodes };
                let most = if is_firm { most.max(before.most) } else { most };
                let from_us = if nodes == before.nodes { before.from_us } else { now_us };
                // Who was forgotten before it served is as new as when it came.
                let is_waiting = is_new && now_us < before.since_us;
                let since_us = if is_waiting { begins_us } else { before.since_us };
                Heard { nodes, most, from_us, sent_us, since_us, firm_until_us }
            }
            None => {
                let (since_us, firm_until_us) = (begins_us, begins_us);
                Heard { nodes, most, from_us: begins_us, sent_us, since_us, firm_until_us }
            }
        });
        if let Some(heard) = self.heard {
            self.most.heard(heard.most, now_us);
        }
    }

    /// It begins to count.
    pub fn begin(&mut self, now_us: u64) {
        self.began_us = now_us;
    }

    /// Whether it has a part of a limit of so many units, or who hands it out.
    #[must_use]
    pub fn place_of(&self, limit: u64, now_us: u64) -> Place {
        let Place::Serves(standing) = self.place(now_us) else { return self.place(now_us) };
        let since_us = |bound| self.most.within_since_us(bound);
        let ample_us = limit.checked_sub(1).and_then(since_us).map(|us| us + HEARD_US);
        let settled_us = since_us(limit).map(|us| us + SETTLED_US);
        if let Some(parted_us) = ample_us.into_iter().chain(settled_us).min() {
            let serves = Place::Serves(Standing { parted_us, ..standing });
            return until(parted_us, now_us).map_or(serves, |us| Place::Waits { us });
        }
        let Some(above_us) = self.most.above_since_us(limit) else { return Place::Lost };
        let from_us = above_us + HEARD_US;
        until(from_us, now_us).map_or(Place::Store { from_us }, |us| Place::Waits { us })
    }

    /// Whether it has a part of what is large enough.
    #[must_use]
    pub fn place(&self, now_us: u64) -> Place {
        let until = |end_us| until(end_us, now_us);
        match self.heard {
            None => until(self.began_us.saturating_add(HEARD_US))
                .map_or(Place::Lost, |us| Place::Waits { us }),
            Some(heard) if until(heard.sent_us.saturating_add(HEARD_US)).is_none() => Place::Lost,
            Some(Heard { nodes, from_us, since_us, .. }) => {
                let parted_us = 0;
                let serves = Standing { nodes, is_counted: true, from_us, since_us, parted_us };
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

/// How long it is until then, if it is not over.
fn until(end_us: u64, now_us: u64) -> Option<u64> {
    end_us.checked_sub(now_us).filter(|us| *us > 0)
}

#[cfg(test)]
mod tests;
