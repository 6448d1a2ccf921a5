//! Owns [`Policy::meet`]: which rules a request meets, and with which key, cost and tier.
//!
//! Rules are found through an index, so that what a request costs depends on the rules that it
//! meets and hardly on how many there are. Matching itself allocates nothing for usual paths.

use compact_str::CompactString;
use smallvec::SmallVec;
use tollkeeper_core::Check;

use crate::policy::Policy;
use crate::request::RequestView;

mod apply;
mod candidates;
mod explain;
mod facts;
mod index;
mod key;
#[cfg(test)]
mod tests;
mod trie;

pub use explain::Explained;
pub(crate) use index::Index;

use apply::{Outcome, apply};
use facts::Facts;
use index::{Effort, Entries};

/// What a request meets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meeting {
    /// The rules that apply to it, in the order of the file.
    pub met: SmallVec<[Met; 4]>,
    /// The rules that deny it outright, since it lacks a part of their key, in the order of the
    /// file.
    pub denied: SmallVec<[Denied; 1]>,
}

/// A rule that applies to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Met {
    /// The rule's place among [`Policy::rules`].
    pub rule: usize,
    /// The tier that the request has, for [`Rule::limits_of`](crate::Rule::limits_of).
    pub tier: Option<usize>,
    /// Who is counted.
    pub key: CompactString,
    /// How many units the request takes.
    pub cost: u64,
}

/// A rule that denies a request outright.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The rule's place among [`Policy::rules`].
    pub rule: usize,
    /// The place of the part that is missing among the [parts of its key](crate::Rule::key).
    pub part: usize,
    /// Whether the rule only counts what it would deny.
    pub shadow: bool,
}

impl Meeting {
    /// The first rule that denies the request outright and is not a shadow.
    #[must_use]
    pub fn denial(&self) -> Option<&Denied> {
        self.denied.iter().find(|denied| !denied.shadow)
    }

    /// Whether no rule applies to the request.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.met.is_empty() && self.denied.is_empty()
    }
}

impl Policy {
    /// Which rules a request meets.
    ///
    /// ```
    /// use tollkeeper_policy::{Attributes, Policy};
    ///
    /// let file = "
    /// rules:
    ///   per-ip: { key: ip, limit: 1000/min }
    ///   per-key:
    ///     match: { path: /api/**, methods: [GET] }
    ///     key: [header:x-api-key, route]
    ///     limits: [20/s, 5000/day]
    ///   uploads: { match: { path: /upload }, limit: 5/min }
    /// ";
    /// let policy = Policy::parse(file, &|_| None)?;
    /// let request = Attributes::from_pairs([
    ///     ("method", "GET"),
    ///     ("path", "/api/x"),
    ///     ("ip", "2001:db8:1:2:3::4"),
    ///     ("header.x-api-key", "k|1"),
    /// ])?;
    /// let meeting = policy.meet(&request);
    /// let keys: Vec<_> = meeting.met.iter().map(|met| (met.rule, met.key.as_str())).collect();
    /// assert_eq!(keys, [(0, "2001:db8:1:2::/64"), (1, r"k\|1|/api/**")]);
    /// let limits: Vec<_> = policy.checks(&meeting).map(|check| check.limit).collect();
    /// assert_eq!(limits, ["per-ip", "per-key/1s", "per-key/1d"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn meet<R: RequestView + ?Sized>(&self, request: &R) -> Meeting {
        let mut meeting = Meeting::default();
        self.meet_into(request, &mut meeting);
        meeting
    }

    /// Adds to `meeting`, which should be empty, what a request meets. A meeting is large: this is
    /// [`meet`](Self::meet) for whoever wants it written where it is to stay.
    #[inline]
    pub fn meet_into<R: RequestView + ?Sized>(&self, request: &R, meeting: &mut Meeting) {
        self.meet_counted(request, meeting, &mut Effort::default());
    }

    #[inline]
    fn meet_counted<R: RequestView + ?Sized>(
        &self,
        request: &R,
        meeting: &mut Meeting,
        effort: &mut Effort,
    ) {
        let facts = Facts::new(request, self.client_ip().ipv6_prefix);
        let mut entries = Entries::new();
        for found in self.index().candidates(&facts, effort, &mut entries) {
            let number = found.rule();
            let Some(rule) = self.rules().get(number) else { continue };
            match apply(rule, found.pattern(), &facts) {
                Outcome::Applies { tier, key, cost } => {
                    meeting.met.push(Met { rule: number, tier, key, cost });
                }
                Outcome::Denies { part } => {
                    let shadow = rule.is_shadow();
                    meeting.denied.push(Denied { rule: number, part, shadow });
                }
                Outcome::Not(_) => {}
            }
        }
    }

    /// The checks of what a request meets: every limit of every rule, in the order of the file. A
    /// [denial](Meeting::denial) is no check.
    pub fn checks<'m>(&'m self, meeting: &'m Meeting) -> impl Iterator<Item = Check<'m>> {
        meeting.met.iter().flat_map(|met| {
            let rule = self.rules().get(met.rule);
            let limits = rule.into_iter().flat_map(|rule| {
                rule.limits_of(met.tier).iter().map(|limit| (limit, rule.is_shadow()))
            });
            limits.map(|(limit, shadow)| Check {
                limit: limit.name(),
                quota: limit.quota(),
                key: &met.key,
                cost: met.cost,
                shadow,
                consistency: limit.consistency(),
            })
        })
    }
}
