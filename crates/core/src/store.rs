//! Owns the [`Store`] trait: data in, decisions out, one atomic step for each request.
//!
//! A store that runs elsewhere cannot run a closure, and compare-and-swap verbs cost round trips;
//! so a call carries which algorithm, which quota, which cost, and the store decides.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;

use crate::algorithm::Algorithm;
use crate::alone::Alone;
use crate::check::{Check, Request};
use crate::consistency::Consistency;
use crate::decision::{Answer, Single};
use crate::lent::{Lend, Lent};
use crate::part::Part;
use crate::quota::Quota;
use crate::state::State;

/// Where state lives and decisions are taken.
pub trait Store: Send + Sync {
    /// Decides each request by itself: all of its limits or none. One result for each request,
    /// in order. All keys of a request lie in one [`Part`].
    fn decide(
        &self,
        requests: &[Request<'_>],
    ) -> impl Future<Output = Vec<Result<Answer, StoreError>>> + Send;

    /// Decides one request: the same as a list of one, without the list.
    fn decide_one(
        &self,
        request: &Request<'_>,
    ) -> impl Future<Output = Result<Answer, StoreError>> + Send {
        async move {
            let missing = || Err(StoreError::may_have_run("no answer came"));
            let answers = self.decide(std::slice::from_ref(request)).await;
            answers.into_iter().next().unwrap_or_else(missing)
        }
    }

    /// Decides one request without waiting, where the store can.
    fn decide_at_once(&self, request: &Request<'_>) -> Option<Result<Answer, StoreError>> {
        let _ = request;
        None
    }

    /// Decides a request of one limit without waiting and without its list, where the store has such
    /// a way: the same decision as [`decide_at_once`](Self::decide_at_once). Not for `concurrency`,
    /// whose permits need a name.
    fn check_at_once(&self, check: &Check<'_>) -> Option<Result<Single, StoreError>> {
        let _ = check;
        None
    }

    /// Decides what of a request this process may decide by itself, after the store gave no answer;
    /// the rest is its caller's to decide. If one of these limits denies, all of the request is told
    /// so. Asks nobody and does not wait.
    fn decide_alone<'a, 'r: 'a>(&'a self, request: &Request<'r>) -> Option<Alone<'a>> {
        let _ = request;
        None
    }

    /// Changes what was decided before. One result for each amendment, in order.
    fn amend(
        &self,
        amendments: &[Amendment<'_>],
    ) -> impl Future<Output = Vec<Result<Amended, StoreError>>> + Send;

    /// Forgets every state that `filter` names; how many there were.
    fn reset(&self, filter: Filter<'_>) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Shows at most `most` of the states that `filter` names.
    fn inspect(
        &self,
        filter: Filter<'_>,
        most: usize,
    ) -> impl Future<Output = Result<Vec<Entry>, StoreError>> + Send;

    /// Waits until it can be asked for the first time, or cannot. One that needs no opening is open.
    fn opened(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        async { Ok(()) }
    }

    /// Tells `hears` what is given back by anybody who shares the store, as far as the store learns
    /// of it. One that nobody else can use tells nothing.
    fn tell(&self, hears: Arc<dyn Hears>) {
        let _ = hears;
    }

    /// Calls that nobody asked for may take so long from here on, where it makes any.
    fn set_timeout(&self, timeout_us: u64) {
        let _ = timeout_us;
    }

    /// How many processes share it, if they count each other.
    fn nodes(&self) -> Option<u64> {
        None
    }

    /// What a limit that is decided here had left when that was last heard of, in thousandths of
    /// what it allows, with what has flown in since. Asks nobody.
    fn left_per_mille(&self, check: &Check<'_>) -> Option<u64> {
        let _ = check;
        None
    }

    /// Where the states of a key lie at this moment. A store that is one whole has one part.
    fn part(&self, key: &str) -> Part {
        let _ = key;
        Part::default()
    }

    /// How many servers the store has now; never fewer than before. Each fails by itself.
    fn shards(&self) -> usize {
        1
    }

    /// Whether any key lies on a server: one that has given all of its keys to others is still
    /// counted, but how it is concerns nobody.
    fn is_used(&self, shard: usize) -> bool {
        let _ = shard;
        true
    }

    /// What a server of the store is called, for people: where it is, without secrets.
    fn shard_name(&self, shard: usize) -> String {
        shard.to_string()
    }
}

/// Hears that states have become better than they were: a denial may not hold any longer.
pub trait Hears: Debug + Send + Sync {
    /// Something was given back to a state.
    fn given_back(&self, limit: &str, algorithm: Algorithm, key: &str);

    /// Anything may have been given back, or reset.
    fn anything(&self);
}

/// A change to one limit's state for one key, after the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amendment<'a> {
    /// The limit's name.
    pub limit: &'a str,
    /// Its quota now.
    pub quota: &'a Quota,
    /// Whose state.
    pub key: &'a str,
    /// Who decides it, where the store is shared.
    pub consistency: Consistency,
    /// What to change.
    pub change: Change,
}

/// What an [`Amendment`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// Gives back units of a request that should not have counted.
    Refund {
        /// How many.
        units: u64,
        /// When they were charged; without it all of them come back.
        charged_at_us: Option<u64>,
    },
    /// Ends a reservation: charges or gives back the difference to what it really cost.
    Settle {
        /// The reservation's ticket.
        id: u128,
        /// What it cost.
        actual: u64,
    },
    /// Gives a permit back.
    Release {
        /// The permit's ticket.
        id: u128,
    },
    /// Lets a permit last a whole lease from now.
    Renew {
        /// The permit's ticket.
        id: u128,
    },
    /// Takes as much as is left beyond so many units: another store has admitted that.
    LeaveAtMost {
        /// How many may be left.
        units: u64,
    },
    /// Takes units in advance, to be spent elsewhere: as [`drawn`](crate::drawn) says.
    Draw {
        /// How many are wanted.
        most: u64,
        /// How many there should be at least, if there are so many.
        least: u64,
    },
    /// Takes units of a bucket in advance as [`Draw`](Self::Draw) does, but no more than may be out, and
    /// hears what became of those that were: as [`Loans`](crate::Loans) says.
    Lend(Lend),
    /// Takes units that were spent elsewhere, whether they fit or not, up to one further limit.
    Spend {
        /// How many.
        units: u64,
    },
}

/// What became of an [`Amendment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Amended {
    /// It took effect.
    Done {
        /// Units beyond one further capacity of debt, which nobody pays.
        forgiven: u64,
    },
    /// A reservation has ended.
    Settled(Settled),
    /// Units were drawn or spent.
    Drawn(Drawn),
    /// Units were lent.
    Lent(Lent),
    /// It had taken effect before; nothing changed.
    Repeated,
    /// There is nothing of that name, or no longer; nothing changed.
    Unknown,
}

impl Amended {
    /// The units that nobody pays, if it took effect.
    #[must_use]
    pub fn forgiven(&self) -> Option<u64> {
        match self {
            Self::Done { forgiven } | Self::Settled(Settled { forgiven, .. }) => Some(*forgiven),
            _ => None,
        }
    }
}

/// A reservation that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Units beyond one further capacity of debt, which nobody pays.
    pub forgiven: u64,
    /// What it had charged.
    pub reserved: u64,
    /// How long ago, by the store's clock.
    pub age_us: u64,
}

/// What became of units that are spent elsewhere, and how the state is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// How many were taken.
    pub units: u64,
    /// How many are left for others.
    pub left: u64,
    /// Until the state is as new.
    pub reset_after_us: u64,
    /// The store's time of it.
    pub at_us: u64,
}

/// How many units a draw takes where `left` are left: half of them, so that others find some, but
/// no more than `most`. Where half is below `least`, it is that, if there are so many.
///
/// ```
/// use tollkeeper_core::drawn;
/// assert_eq!((drawn(100, 20, 1), drawn(30, 20, 1), drawn(1, 20, 1)), (20, 15, 1));
/// assert_eq!((drawn(10, 20, 7), drawn(10, 20, 11), drawn(0, 20, 1)), (7, 5, 0));
/// ```
#[must_use]
pub fn drawn(left: u64, most: u64, least: u64) -> u64 {
    let needed = if least <= left { least } else { 0 };
    left.div_ceil(2).max(needed).min(most)
}

/// Which states are meant: those that match everything that is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter<'a> {
    /// Limits of these names; all where it is `None`.
    pub limits: Option<&'a [&'a str]>,
    /// States of this key; of all keys where it is `None`.
    pub key: Option<&'a str>,
    /// Limits of which a key lies in parts, as [`split_key`] calls them: these are meant, too.
    pub split: &'a [&'a str],
}

impl Filter<'_> {
    /// Whether a state of `limit` and `key` is meant.
    #[must_use]
    pub fn matches(&self, limit: &str, key: &str) -> bool {
        let is_part = |wanted| self.split.contains(&limit) && is_part(wanted, key);
        self.limits.is_none_or(|limits| limits.contains(&limit))
            && self.key.is_none_or(|wanted| wanted == key || is_part(wanted))
    }
}

/// What a part of a key is called that is split.
#[must_use]
pub fn split_key(key: &str, part: u64) -> String {
    format!("{key}#{part}")
}

fn is_part(whole: &str, key: &str) -> bool {
    let part = key.strip_prefix(whole).and_then(|rest| rest.strip_prefix('#'));
    part.is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A stored state, with its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The limit's name.
    pub limit: String,
    /// Its algorithm. How much is allowed is not stored: it is the policy's to say.
    pub algorithm: Algorithm,
    /// Whose state.
    pub key: String,
    /// The state.
    pub state: State,
    /// Units that processes have leased of it, as far as the store has counted.
    pub lent: u64,
    /// How long it is still kept.
    pub ttl_us: u64,
}

/// Why a store gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    message: String,
    ran: Ran,
    about: About,
}

/// What a failed call tells about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum About {
    /// The store: it is not well, or too slow.
    Store,
    /// The way to it: there is none, and nothing was sent. To try again costs the store nothing.
    Way,
    /// What is stored for one key; the store itself is well.
    State,
    /// This process, which lacks what it would have decided by; the store was not asked.
    Process,
}

/// Whether a failed call can have changed anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ran {
    /// It surely did not run: it can be tried again.
    No,
    /// It may have run: trying again could charge twice.
    Perhaps,
}

impl StoreError {
    /// A call that surely did not run.
    #[must_use]
    pub fn did_not_run(message: impl Into<String>) -> Self {
        Self::unrun(message, About::Store)
    }

    /// A call that may have run.
    #[must_use]
    pub fn may_have_run(message: impl Into<String>) -> Self {
        Self { message: message.into(), ran: Ran::Perhaps, about: About::Store }
    }

    /// A call that was not sent, since there is no way to the store.
    #[must_use]
    pub fn unreached(message: impl Into<String>) -> Self {
        Self::unrun(message, About::Way)
    }

    /// A decision that this process was to take by itself, and cannot.
    #[must_use]
    pub fn undecided_here(message: impl Into<String>) -> Self {
        Self::unrun(message, About::Process)
    }

    /// A call that did not run because of what is stored for its key; the store itself is well.
    #[must_use]
    pub fn unusable_state(message: impl Into<String>) -> Self {
        Self::unrun(message, About::State)
    }

    fn unrun(message: impl Into<String>, about: About) -> Self {
        Self { message: message.into(), ran: Ran::No, about }
    }

    /// What it tells about.
    #[must_use]
    pub fn about(&self) -> About {
        self.about
    }

    /// Whether it is only about what is stored for one key.
    #[must_use]
    pub fn is_of_state(&self) -> bool {
        self.about == About::State
    }

    /// Whether the call can have changed anything.
    #[must_use]
    pub fn ran(&self) -> Ran {
        self.ran
    }
}

/// What a store of bounded size does with a key that it does not know and has no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Of a sample, the entry nearest to being as new makes room. What it had used is forgotten.
    #[default]
    Evict,
    /// The request is denied.
    Deny,
    /// The request is admitted and not remembered.
    Allow,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_meant_with_its_parts_where_it_is_split() {
        let filter = Filter { key: Some("a"), split: &["told"], ..Filter::default() };
        let meant = |limit, keys: [&str; 7]| keys.map(|key| filter.matches(limit, key));
        let keys = ["a", "a#3", "a#15", "a#", "a#b", "b#3", "a#3#0"];
        assert_eq!(meant("told", keys), [true, true, true, false, false, false, false]);
        assert_eq!(meant("other", keys), [true, false, false, false, false, false, false]);
        assert!(filter.matches("told", &split_key("a", 63)));
    }
}
