//! Turns what a rule says of requests into the rule's own words: which ones it takes, who is
//! counted, what it costs, to whom it does not apply.

use crate::error::{Fault, Problems, quoted};
use crate::fields::{COST, EXEMPT};
use crate::limits::MAX_COST;
use crate::networks::{self, Networks};
use crate::raw::{RawField, RawMap, RawPair};
use crate::rule::{Cost, Exempt, KeyPart, Match, Rule, Source, Status, WhenMissing, key, status};

/// What a rule says of requests; the default for what is not there or was refused.
pub(super) struct Applies {
    match_: Match,
    key: Vec<KeyPart>,
    when_missing: WhenMissing,
    cost: Cost,
    refund_on: Vec<Status>,
    exempt: Exempt,
}

impl Applies {
    pub(super) fn read(map: &RawMap, problems: &mut Problems) -> Self {
        Self {
            match_: map.map("match").map(|map| match_(map, problems)).unwrap_or_default(),
            key: key_parts(map, problems),
            when_missing: when_missing(map, problems),
            cost: cost(map, problems).unwrap_or_default(),
            refund_on: statuses(map, problems),
            exempt: exempt(map, problems),
        }
    }

    pub(super) fn to(self, rule: Rule) -> Rule {
        rule.matching(self.match_)
            .keyed_by_parts(self.key)
            .when_missing(self.when_missing)
            .costing(self.cost)
            .refunding_statuses(self.refund_on)
            .exempting(self.exempt)
    }
}

fn match_(map: &RawMap, problems: &mut Problems) -> Match {
    let mut match_ = Match::any();
    if let Some(texts) = map.texts("path") {
        texts.read(problems, |text| match_.add_path(text));
    }
    if let Some(texts) = map.texts("methods") {
        texts.read(problems, |text| match_.add_method(text));
    }
    if let Some(texts) = map.texts("host") {
        texts.read(problems, |text| match_.add_host(text));
    }
    for pair in map.pairs("headers") {
        header(&mut match_, pair, problems);
    }
    match_
}

/// The name and the value are told apart, so that each is shown where it stands.
fn header(match_: &mut Match, pair: &RawPair, problems: &mut Problems) {
    let name = match match_.header_name(&pair.name) {
        Ok(name) => name,
        Err(refused) => {
            let message = format!("`headers` has {}{}", quoted(&pair.name), refused.reason);
            let fault = Fault::new(message).expected(refused.expected);
            return problems.add(pair.name_span, fault);
        }
    };
    if let Err(refused) = match_.add_header(name, pair.value.text()) {
        let subject = format!("{} is", quoted(&pair.name));
        problems.add(pair.span, refused.fault(&subject, &pair.value));
    }
}

fn key_parts(map: &RawMap, problems: &mut Problems) -> Vec<KeyPart> {
    let mut parts = Vec::new();
    if let Some(texts) = map.texts("key") {
        texts.read(problems, |text| key::add(&mut parts, text));
    }
    parts
}

fn when_missing(map: &RawMap, problems: &mut Problems) -> WhenMissing {
    if let Some(field) = map.field("when_missing") {
        needs_key(map, field, problems);
    }
    map.word("when_missing").and_then(WhenMissing::named).unwrap_or_default()
}

/// Reports what is said of keys in a rule without one.
fn needs_key(map: &RawMap, field: &RawField, problems: &mut Problems) {
    if map.field("key").is_none() && !map.has_unknown {
        let fault = Fault::new(format!("`{}` is given, and the rule has no `key`", field.name))
            .help("without a key all requests share one counter: add a `key` such as `key: ip`");
        problems.add(field.key_span, fault);
    }
}

fn statuses(map: &RawMap, problems: &mut Problems) -> Vec<Status> {
    let mut statuses = Vec::new();
    if let Some(texts) = map.texts("refund_on") {
        texts.read(problems, |text| status::add(&mut statuses, text));
    }
    statuses
}

fn exempt(map: &RawMap, problems: &mut Problems) -> Exempt {
    let Some(inner) = map.map("exempt") else {
        return Exempt::nobody();
    };
    if inner.fields.is_empty() && !inner.has_unknown {
        let at = map.field("exempt").map(|field| field.key_span);
        let fault =
            Fault::new("`exempt` is empty").expected(format!("a map such as `{}`", EXEMPT.example));
        at.into_iter().for_each(|at| problems.add(at, fault.clone()));
    }
    let ips = inner.texts("ips").map(|texts| texts.read(problems, networks::read));
    let mut exempt = Exempt::nobody().ips(Networks::new(ips.unwrap_or_default()));
    if let Some(field) = inner.field("keys") {
        needs_key(map, field, problems);
    }
    if let Some(texts) = inner.texts("keys") {
        texts.read(problems, |text| exempt.add_key(text));
    }
    exempt
}

fn cost(map: &RawMap, problems: &mut Problems) -> Option<Cost> {
    let field = map.field("cost")?;
    if let Some(cost) = map.count("cost") {
        return Cost::read_fixed(cost).ok();
    }
    let inner = map.map("cost")?;
    let source = source(field, inner, problems)?;
    let min = inner.count("min").unwrap_or(0);
    let max = inner.count("max").unwrap_or(MAX_COST);
    let default = inner.count("default");
    let mut refuse = |name: &str, reason: &str, expected: &str| {
        let at = inner.field(name).map_or(field.key_span, |field| field.span);
        let value = inner.field(name).map(RawField::quoted).unwrap_or_default();
        let fault = Fault::new(format!("`{name}` is {value}, which is {reason}"));
        problems.add(at, fault.expected(expected));
    };
    if max < min {
        refuse("max", "less than `min`", "at least `min`");
        return None;
    }
    if default.is_some_and(|default| !(min..=max).contains(&default)) {
        refuse("default", "not between `min` and `max`", "at least `min` and at most `max`");
        return None;
    }
    Cost::read(source, min, max, default.unwrap_or(1_u64.clamp(min, max))).ok()
}

/// Where the cost is found: one of the two places.
fn source(field: &RawField, map: &RawMap, problems: &mut Problems) -> Option<Source> {
    let (named, prefix) = match (map.field("header"), map.field("attribute")) {
        (Some(header), None) => (header, "header"),
        (None, Some(attribute)) => (attribute, "attribute"),
        (None, None) => {
            let fault = Fault::new("`cost` does not say where the cost is found")
                .expected("`header` or `attribute`")
                .help(format!("a whole one is `{}`", COST.example));
            if !map.has_unknown {
                problems.add(field.key_span, fault);
            }
            return None;
        }
        (Some(header), Some(attribute)) => {
            let fault =
                Fault::new("`cost` has both `header` and `attribute`").help("remove one of them");
            problems.add(header.key_span.max(attribute.key_span), fault);
            return None;
        }
    };
    let name = map.text(named.name)?;
    match Source::read(&format!("{prefix}:{name}")) {
        Ok(source) => Some(source),
        Err(refused) => {
            let subject = format!("`{prefix}` is");
            let fault = named.scalar.as_ref().map(|scalar| refused.fault(&subject, scalar));
            fault.into_iter().for_each(|fault| problems.add(named.span, fault));
            None
        }
    }
}
