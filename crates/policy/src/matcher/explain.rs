//! Owns [`Policy::explain`]: for every rule, whether a request meets it, and why or why not.
//!
//! It asks the same code that decides, so that it cannot say anything else.

use super::Met;
use super::apply::{Outcome, Why, apply};
use super::facts::Facts;
use crate::error::quoted;
use crate::policy::Policy;
use crate::request::RequestView;
use crate::rule::{Limit, Match, Rule, Source, Tier};

/// What a rule makes of a request, and why.
#[derive(Clone, Debug)]
pub struct Explained<'p> {
    /// The rule.
    pub rule: &'p Rule,
    /// What results if the rule applies.
    pub met: Option<Met>,
    /// Whether the rule denies the request outright, since it lacks a part of the key. A shadow
    /// only counts that.
    pub denied: bool,
    /// Why the rule applies, denies or does not apply, in one sentence without a full stop. The
    /// values that a rule compares with are not told, since they may come from variables.
    pub why: String,
    /// What else is worth knowing, each in one sentence: a header that does not count, for one.
    pub notes: Vec<String>,
}

impl<'p> Explained<'p> {
    /// Whether the rule applies to the request.
    #[must_use]
    pub fn applies(&self) -> bool {
        self.met.is_some()
    }

    /// The tier that the request has.
    #[must_use]
    pub fn tier(&self) -> Option<&'p Tier> {
        self.rule.tiers()?.list().get(self.met.as_ref()?.tier?)
    }

    /// The limits that count for the request; none if the rule does not apply.
    #[must_use]
    pub fn limits(&self) -> &'p [Limit] {
        self.met.as_ref().map_or(&[], |met| self.rule.limits_of(met.tier))
    }
}

impl Policy {
    /// What every rule makes of a request, in the order of the file.
    ///
    /// ```
    /// use tollkeeper_policy::{Attributes, Policy};
    ///
    /// let file = "rules: { api: { match: { path: /api/**, methods: [POST] }, limit: 100/min } }";
    /// let policy = Policy::parse(file, &|_| None)?;
    /// let why = |method, path| -> Result<_, tollkeeper_policy::AttributeError> {
    ///     let request = Attributes::from_pairs([("method", method), ("path", path)])?;
    ///     Ok(policy.explain(&request).remove(0).why)
    /// };
    /// assert_eq!(why("GET", "/api/x")?, "method is GET; the rule takes POST");
    /// assert_eq!(why("POST", "/x")?, "path /x does not match /api/**");
    /// assert_eq!(why("POST", "/api/x")?, "path /api/x matches /api/**, method is POST");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn explain<R: RequestView + ?Sized>(&self, request: &R) -> Vec<Explained<'_>> {
        let facts = Facts::new(request, self.client_ip().ipv6_prefix);
        let by_path = self.index().by_path(&facts);
        let of_rule = |(number, rule)| {
            let found = by_path.binary_search_by_key(&number, |entry| entry.rule()).ok();
            let pattern = found.and_then(|place| by_path.get(place)?.pattern());
            let outcome = match found.is_some() || rule_takes_every_path(rule) {
                true => apply(rule, pattern, &facts),
                false => Outcome::Not(Why::Path),
            };
            explained(number, rule, pattern, outcome, &facts)
        };
        self.rules().iter().enumerate().map(of_rule).collect()
    }
}

fn rule_takes_every_path(rule: &Rule) -> bool {
    rule.match_().paths().is_empty()
}

fn explained<'p, R: RequestView + ?Sized>(
    number: usize,
    rule: &'p Rule,
    pattern: Option<usize>,
    outcome: Outcome,
    facts: &Facts<'_, R>,
) -> Explained<'p> {
    let missing = |part: usize| {
        let part = rule.key().get(part).map(|part| part.described()).unwrap_or_default();
        format!("{part} is missing, which is a part of the key")
    };
    let (met, denied, why, notes) = match outcome {
        Outcome::Applies { tier, key, cost } => {
            let met = Met { rule: number, tier, key, cost };
            (Some(met), false, why_it_applies(rule.match_(), pattern, facts), notes(rule, facts))
        }
        Outcome::Denies { part } => {
            let word = if rule.is_shadow() { "would deny" } else { "denies" };
            let why = format!("{}: the rule {word} such requests", missing(part));
            (None, true, why, Vec::new())
        }
        Outcome::Not(Why::Missing(part)) => (None, false, missing(part), Vec::new()),
        Outcome::Not(why) => (None, false, why_not(rule.match_(), why, facts), Vec::new()),
    };
    Explained { rule, met, denied, why, notes }
}

fn why_not<R: RequestView + ?Sized>(match_: &Match, why: Why, facts: &Facts<'_, R>) -> String {
    let is = |what: &str, value: Option<&str>| match value {
        Some(value) => format!("{what} is {}", shown(value)),
        None => format!("the request has no {what}"),
    };
    match why {
        Why::Path => match facts.request.path() {
            Some(path) => format!("path {} does not match {}", shown(path), list(match_.paths())),
            None => format!("the request has no path; the rule takes {}", list(match_.paths())),
        },
        Why::Method => {
            let takes = list(match_.methods());
            format!("{}; the rule takes {takes}", is("method", facts.request.method()))
        }
        Why::Host => {
            format!("{}; the rule takes {}", is("host", facts.host()), list(match_.hosts()))
        }
        Why::Header(place) => {
            let name = match_.headers().get(place).map(|header| header.name()).unwrap_or_default();
            match facts.header(name) {
                Some(_) => format!("header {name} has another value than the rule takes"),
                None => format!("header {name} is missing"),
            }
        }
        Why::ExemptIp => {
            let ip = facts.ip().map(|ip| ip.to_string()).unwrap_or_default();
            format!("address {ip} is exempt")
        }
        Why::ExemptKey => "the key is exempt".into(),
        Why::Missing(_) => "a part of the key is missing".into(),
    }
}

fn why_it_applies<R: RequestView + ?Sized>(
    match_: &Match,
    pattern: Option<usize>,
    facts: &Facts<'_, R>,
) -> String {
    let mut reasons = Vec::new();
    if let Some(pattern) = pattern.and_then(|place| match_.paths().get(place)) {
        let path = shown(facts.request.path().unwrap_or_default());
        reasons.push(format!("path {path} matches {pattern}"));
    }
    if !match_.methods().is_empty() {
        let method = facts.request.method().unwrap_or_default();
        reasons.push(format!("method is {}", shown(method)));
    }
    if !match_.hosts().is_empty() {
        reasons.push(format!("host is {}", shown(facts.host().unwrap_or_default())));
    }
    for header in match_.headers() {
        let is = if header.value().is_some() { "has the value asked for" } else { "is there" };
        reasons.push(format!("header {} {is}", header.name()));
    }
    match reasons.is_empty() {
        true => "the rule takes every request".into(),
        false => reasons.join(", "),
    }
}

/// What a rule leaves out of account, although the request says it.
fn notes<R: RequestView + ?Sized>(rule: &Rule, facts: &Facts<'_, R>) -> Vec<String> {
    let ignored = |source: &Source, what: &str| match source {
        Source::Header(name) if facts.header(name).is_some() && !facts.request.is_trusted() => {
            Some(format!("header {name} sets no {what}: the request is not from a trusted proxy"))
        }
        _ => None,
    };
    let cost = rule.cost().source().and_then(|source| ignored(source, "cost"));
    let tier = rule.tiers().and_then(|tiers| ignored(tiers.by(), "tier"));
    let unknown = rule.tiers().and_then(|tiers| {
        let value = facts.told(tiers.by())?;
        let is = format!("{} is {}", tiers.by().described(), shown(value));
        tiers.position(value).is_none().then(|| format!("{is}, which is no tier of the rule"))
    });
    cost.into_iter().chain(tier).chain(unknown).collect()
}

/// A text of the request, cut if it is long, in which a terminal finds no command.
fn shown(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    quoted(&text).trim_matches('`').to_owned()
}

/// The first few of a list.
fn list<T: ToString>(items: &[T]) -> String {
    const SHOWN: usize = 5;
    let texts: Vec<String> = items.iter().take(SHOWN).map(ToString::to_string).collect();
    match items.len() {
        0..=SHOWN => texts.join(" or "),
        more => format!("{} or {} more", texts.join(", "), more - SHOWN),
    }
}
