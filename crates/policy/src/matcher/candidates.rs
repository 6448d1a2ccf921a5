//! Owns [`Candidates`]: rules that stand in one place, found by an exact host or header.

use ahash::RandomState;
use compact_str::CompactString;
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::facts::Facts;
use super::index::{Entries, Entry};
use crate::limits::MAX_HOST_BYTES;
use crate::request::RequestView;
use crate::rule::{HostPattern, Rule};

/// Rules by a text.
type Table = HashMap<CompactString, SmallVec<[Entry; 2]>, RandomState>;

/// Rules that stand in one place.
#[derive(Clone, Default)]
pub(super) struct Candidates {
    /// Those that are always tried.
    always: SmallVec<[Entry; 2]>,
    narrowed: Option<Box<Narrowed>>,
}

/// Those that are tried only if the request has something. A rule stands under one thing only.
#[derive(Clone)]
struct Narrowed {
    /// By what a [`HostPattern`] compares with.
    hosts: Table,
    headers: Vec<ByHeader>,
}

/// Those that ask for one header.
#[derive(Clone)]
struct ByHeader {
    name: Box<str>,
    /// With any value.
    any: Vec<Entry>,
    values: Table,
}

impl Candidates {
    pub(super) fn add(&mut self, entry: Entry, rule: &Rule, hasher: &RandomState) {
        let match_ = rule.match_();
        if match_.hosts().is_empty() && match_.headers().is_empty() {
            return self.always.push(entry);
        }
        let table = || Table::with_hasher(hasher.clone());
        let narrowed = self
            .narrowed
            .get_or_insert_with(|| Box::new(Narrowed { hosts: table(), headers: Vec::new() }));
        for host in match_.hosts() {
            narrowed.hosts.entry(host.suffix().into()).or_default().push(entry);
        }
        if !match_.hosts().is_empty() {
            return;
        }
        let exact = match_.headers().iter().find(|header| header.value().is_some());
        let Some(header) = exact.or(match_.headers().first()) else { return };
        let known = narrowed.headers.iter().position(|by| *by.name == *header.name());
        let at = known.unwrap_or(narrowed.headers.len());
        if known.is_none() {
            let name = header.name().into();
            narrowed.headers.push(ByHeader { name, any: Vec::new(), values: table() });
        }
        let Some(by) = narrowed.headers.get_mut(at) else { return };
        match header.value() {
            Some(value) => by.values.entry(value.expose().into()).or_default().push(entry),
            None => by.any.push(entry),
        }
    }

    /// All of them in the order of the file, if every request can meet every one.
    pub(super) fn all(&self) -> Option<&[Entry]> {
        self.narrowed.is_none().then_some(&self.always)
    }

    /// Adds those that the request can meet.
    pub(super) fn collect<R: RequestView + ?Sized>(&self, facts: &Facts<'_, R>, out: &mut Entries) {
        out.extend_from_slice(&self.always);
        let Some(narrowed) = &self.narrowed else { return };
        if let Some(host) = facts.host().filter(|_| !narrowed.hosts.is_empty()) {
            for text in HostPattern::that_match(host) {
                out.extend_from_slice(narrowed.hosts.get(text).map_or(&[], SmallVec::as_slice));
            }
        }
        for by in &narrowed.headers {
            let Some(value) = facts.header(&by.name) else { continue };
            out.extend_from_slice(&by.any);
            let known = str::from_utf8(value).ok().and_then(|value| by.values.get(value));
            out.extend_from_slice(known.map_or(&[], SmallVec::as_slice));
        }
    }

    /// Adds all of them.
    pub(super) fn collect_all(&self, out: &mut Entries) {
        out.extend_from_slice(&self.always);
        let Some(narrowed) = &self.narrowed else { return };
        out.extend(narrowed.hosts.values().flatten().copied());
        for by in &narrowed.headers {
            out.extend(by.any.iter().chain(by.values.values().flatten()).copied());
        }
    }
}

impl HostPattern {
    /// What the patterns compare with that match a host in its normal form.
    fn that_match(host: &str) -> impl Iterator<Item = &str> {
        // No pattern is longer: the dot of a wildcard comes before the longest host.
        let first = host.len().saturating_sub(MAX_HOST_BYTES + 1).max(1);
        let dots = host.bytes().enumerate().skip(first).filter(|(_, byte)| *byte == b'.');
        std::iter::once(host).chain(dots.filter_map(|(at, _)| host.get(at..)))
    }
}
