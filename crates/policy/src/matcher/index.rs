//! Owns [`Index`]: finds the few rules that a request can meet among all of them.
//!
//! A rule with paths stands in a trie of their segments, every other one beside it. Where many
//! rules stand in one place, their hosts and headers tell them apart.

use std::fmt;

use ahash::RandomState;
use smallvec::SmallVec;

use super::candidates::Candidates;
use super::facts::Facts;
use super::trie::Trie;
use crate::request::RequestView;
use crate::request::path::{Canonical, Segments, canonical, split, without_query};
use crate::rule::Rule;

/// The pattern of a rule that has none.
const NO_PATTERN: u32 = u32::MAX;

/// A rule that a request can meet, and by which of its paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    rule: u32,
    pattern: u32,
}

impl Entry {
    /// The rule's place in the policy.
    pub(super) fn rule(self) -> usize {
        self.rule as usize
    }

    /// The place of the path that matched among those of the rule, if it has any.
    pub(super) fn pattern(self) -> Option<usize> {
        (self.pattern != NO_PATTERN).then_some(self.pattern as usize)
    }
}

/// Rules, each once and in the order of the file.
pub(super) type Entries = SmallVec<[Entry; 16]>;

/// What it took to find the rules of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Effort {
    /// Nodes of the trie that were looked at.
    pub(super) nodes: usize,
    /// Rules that were tried.
    pub(super) rules: usize,
}

/// All rules, by what tells them apart.
#[derive(Clone, Default)]
pub(crate) struct Index {
    paths: Trie,
    anywhere: Candidates,
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What it holds is in the rules, some of it hidden.
        f.write_str("Index")
    }
}

impl Index {
    pub(crate) fn new(rules: &[Rule]) -> Self {
        let hasher = RandomState::new();
        let mut index = Self { paths: Trie::new(hasher.clone()), anywhere: Candidates::default() };
        for (number, rule) in (0..).zip(rules) {
            let entry = |pattern| Entry { rule: number, pattern };
            if rule.match_().paths().is_empty() {
                index.anywhere.add(entry(NO_PATTERN), rule, &hasher);
            }
            for (place, path) in (0..).zip(rule.match_().paths()) {
                index.paths.at(path).add(entry(place), rule, &hasher);
            }
        }
        index
    }

    /// The rules that a request can meet: their path is the request's, and so are their host or
    /// a header as far as these were used to find them.
    ///
    /// They are written to `entries`, unless they are the same for every request.
    pub(super) fn candidates<'e, R: RequestView + ?Sized>(
        &'e self,
        facts: &Facts<'_, R>,
        effort: &mut Effort,
        entries: &'e mut Entries,
    ) -> &'e [Entry] {
        if let Some(all) = self.anywhere.all().filter(|_| self.paths.is_empty()) {
            effort.rules = all.len();
            return all;
        }
        self.anywhere.collect(facts, entries);
        self.walk(facts.request, effort, |found| found.collect(facts, entries));
        effort.rules = entries.len();
        in_order(entries);
        entries
    }

    /// The rules with paths that a request's path is one of.
    pub(super) fn by_path<R: RequestView + ?Sized>(&self, facts: &Facts<'_, R>) -> Entries {
        let mut entries = Entries::new();
        let mut effort = Effort::default();
        self.walk(facts.request, &mut effort, |found| found.collect_all(&mut entries));
        in_order(&mut entries);
        entries
    }

    fn walk<R: RequestView + ?Sized>(
        &self,
        request: &R,
        effort: &mut Effort,
        found: impl FnMut(&Candidates),
    ) {
        let Some(path) = request.path().filter(|_| !self.paths.is_empty()) else { return };
        let path = without_query(path);
        let decoded: Canonical;
        let path = match path.contains('%') {
            true => {
                decoded = canonical(path);
                &*decoded
            }
            false => path.as_bytes(),
        };
        let mut segments = Segments::new();
        let deep = split(path, &mut segments);
        effort.nodes = self.paths.walk(&segments, deep, found);
    }
}

/// Each rule once, by the first of its paths that matched.
fn in_order(entries: &mut Entries) {
    if entries.len() > 1 {
        entries.sort_unstable();
        entries.dedup_by_key(|entry| entry.rule);
    }
}
