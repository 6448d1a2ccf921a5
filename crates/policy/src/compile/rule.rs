//! Turns a raw rule into a rule: which of its blocks and limits count.

use tollkeeper_core::{Algorithm, Quota, format_duration};

use super::matching::Applies;
use super::{quota, store, tiers};
use crate::error::{Fault, Problems, quoted};
use crate::fields::{Kind, RULE};
use crate::raw::{Raw, RawField, RawLimit, RawMap, RawRule};
use crate::rule::limit::label;
use crate::rule::{Rule, RuleError, check_name};

/// The rule, or `None` if something of it was refused and reported.
pub(super) fn rule(raw: &RawRule, nodes: Option<u64>, problems: &mut Problems) -> Option<Rule> {
    let name = check_name(&raw.name);
    if let Err(error) = &name {
        problems.add(raw.name_span, name_fault(&raw.name, error));
    }
    let map = raw.map.as_ref()?;
    let applies = Applies::read(map, problems);
    let (limits, algorithm) = Reading { raw, map, problems }.limits()?;
    name.ok()?;
    let quotas = limits.iter().map(|limit| (limit.label.clone(), limit.quota));
    match Rule::labelled(&*raw.name, quotas.collect()) {
        Ok(rule) => {
            let rule = applies.to(rule.shadow(map.flag("shadow").unwrap_or(false)));
            let rule = match store::on_failure(map) {
                Some(on_failure) => rule.with_on_failure(on_failure),
                None => rule,
            };
            let rule = tiers::add(rule, map, algorithm, problems)?;
            consistent(rule, map, nodes, problems)
        }
        Err(error) => {
            let (mut span, mut fault) = (raw.name_span, Fault::new(error.to_string()));
            if let RuleError::DuplicateLimit { second, .. } = error {
                span = limits[second].source.map_or(span, |limit| limit.span);
                fault = fault.help("remove one of them");
            }
            problems.add(span, fault);
            None
        }
    }
}

/// The rule, decided by whom the file says. `None` if that was refused and reported.
fn consistent(
    rule: Rule,
    map: &RawMap,
    nodes: Option<u64>,
    problems: &mut Problems,
) -> Option<Rule> {
    let field = map.field("consistency");
    let word = map.word("consistency").unwrap_or("exact");
    for (name, words) in [("period", &["lease", "sync"][..]), ("sub_shards", &["sync"])] {
        if let Some(field) = map.field(name).filter(|_| !words.contains(&word)) {
            let fault =
                Fault::new(format!("`{name}` is for `consistency: {}`", words.join("` or `")));
            problems.add(field.key_span, fault.help("remove it"));
            return None;
        }
    }
    let Some(field) = field else { return Some(rule) };
    let period_us = map.duration_us("period");
    let decided = match word {
        "lease" => rule.leasing(nodes.unwrap_or(1), period_us),
        "sync" => rule.syncing(period_us, map.count("sub_shards").unwrap_or(1)),
        "share" => rule.sharing(nodes),
        _ => return Some(rule),
    };
    match decided {
        Ok(rule) => Some(rule),
        // What is wrong tells of the numbers.
        Err(_) if map.has_secret() => {
            let text = format!("`consistency` is `{word}`, which does not suit the rule's limits");
            problems.add(field.span, Fault::new(text).help("use `consistency: exact`"));
            None
        }
        Err(error) => {
            let text = format!("`consistency` is `{word}`: {error}");
            let fault = match text.split_once("; expected ") {
                Some((message, expected)) => Fault::new(message).expected(expected),
                None => Fault::new(text),
            };
            problems.add(field.span, fault);
            None
        }
    }
}

fn name_fault(name: &str, error: &RuleError) -> Fault {
    let usual = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let text = error.to_string();
    let mut fault = match text.split_once("; expected ") {
        Some((message, expected)) => Fault::new(message).expected(expected),
        None => Fault::new(text),
    };
    let near = name.trim().replace(|c| !usual(c), "-");
    if near != name && check_name(&near).is_ok() {
        fault.help = Some(format!("write `{near}`"));
    }
    fault
}

/// A limit of the rule; `source` is its text where it has one line of its own.
struct Found<'r> {
    label: String,
    quota: Quota,
    source: Option<&'r RawLimit>,
}

/// A block that is present; its quota is `None` if it was refused.
struct Block<'r> {
    algorithm: Algorithm,
    field: &'r RawField,
    quota: Option<Quota>,
}

struct Reading<'r, 'p> {
    raw: &'r RawRule,
    map: &'r RawMap,
    problems: &'p mut Problems,
}

impl<'r> Reading<'r, '_> {
    /// The limits, and the algorithm that all of them, those of tiers too, are of.
    fn limits(mut self) -> Option<(Vec<Found<'r>>, Option<Algorithm>)> {
        // Every block is checked, whether or not it is the one that counts.
        let blocks = self.blocks();
        let named = self.map.field("algorithm");
        let algorithm = self.map.algorithm("algorithm");
        let short = self.short_field()?;
        let counts = match (named, algorithm, blocks.as_slice()) {
            (Some(_), None, _) => return None,
            (_, Some(algorithm), _) => Some(algorithm),
            (None, None, []) => None,
            (None, None, [block]) => Some(block.algorithm),
            (None, None, [_, second, ..]) => {
                let name = second.algorithm;
                let fault = Fault::new("the rule has several blocks, and no `algorithm`")
                    .help(format!("say which one counts, such as `algorithm: {name}`"));
                self.problems.add(second.field.key_span, fault);
                return None;
            }
        };
        let block = blocks.iter().find(|block| Some(block.algorithm) == counts);
        let limits = match (short, block) {
            (Some(short), Some(block)) => {
                let which = match self.algorithm_is_secret() {
                    true => "the block of the rule's algorithm".to_owned(),
                    false => format!("the block `{}`", block.field.name),
                };
                let message = format!("`{}` and {which} both say how much", short.name);
                let fault = Fault::new(message).help("remove one of them");
                self.problems.add(short.key_span, fault);
                None
            }
            (Some(short), None) => self.short_limits(short, counts),
            (None, Some(block)) => {
                let quota = block.quota?;
                Some(vec![Found { label: label(&quota), quota, source: None }])
            }
            (None, None) => {
                self.nothing_counts(counts);
                None
            }
        };
        Some((limits?, counts))
    }

    fn algorithm_is_secret(&self) -> bool {
        let field = self.map.field("algorithm");
        field.is_some_and(RawField::is_secret)
    }

    fn blocks(&mut self) -> Vec<Block<'r>> {
        let mut blocks = Vec::new();
        for algorithm in Algorithm::ALL {
            if let Some(field) = self.map.field(algorithm.name()) {
                let map = self.map.map(algorithm.name());
                blocks.push(Block {
                    algorithm,
                    field,
                    quota: map.and_then(|map| quota::block(algorithm, field, map, self.problems)),
                });
            }
        }
        blocks.sort_by_key(|block| block.field.key_span);
        blocks
    }

    /// `limit` or `limits`; the outer `None` if both are there.
    fn short_field(&mut self) -> Option<Option<&'r RawField>> {
        match (self.map.field("limit"), self.map.field("limits")) {
            (Some(one), Some(several)) => {
                let fault = Fault::new("the rule has both `limit` and `limits`")
                    .help("put every limit under `limits`");
                let later = one.key_span.max(several.key_span);
                self.problems.add(later, fault);
                None
            }
            (one, several) => Some(one.or(several)),
        }
    }

    fn short_limits(
        &mut self,
        field: &'r RawField,
        algorithm: Option<Algorithm>,
    ) -> Option<Vec<Found<'r>>> {
        let Some(Raw::Limits(limits)) = &field.value else {
            return None;
        };
        let secret = self.algorithm_is_secret();
        let subject = match field.name {
            "limits" => "`limits` has",
            _ => "`limit` is",
        };
        let mut found = Vec::new();
        for limit in limits {
            let quota = quota::short(subject, limit, algorithm, secret, self.problems);
            found.extend(quota.map(|quota| Found {
                label: format_duration(limit.short.period_us()),
                quota,
                source: Some(limit),
            }));
        }
        (found.len() == limits.len()).then_some(found)
    }

    fn nothing_counts(&mut self, algorithm: Option<Algorithm>) {
        if self.map.has_unknown {
            return;
        }
        let (Some(field), Some(algorithm)) = (self.map.field("algorithm"), algorithm) else {
            let fault = Fault::new(format!("rule {} has no limit", quoted(&self.raw.name)))
                .expected("`limit`, `limits` or the block of an algorithm")
                .help(format!("a whole rule is `{}`", RULE.example));
            self.problems.add(self.raw.name_span, fault);
            return;
        };
        let name = algorithm.name();
        let example = match RULE.field(name).map(|field| &field.kind) {
            Some(Kind::Map(shape)) => shape.example,
            _ => "{ … }",
        };
        let fault = match field.is_secret() {
            true => Fault::new(format!(
                "`algorithm` is {}, and the rule has no block of that name",
                field.quoted()
            )),
            false => {
                Fault::new(format!("`algorithm` is `{name}`, and the rule has no `{name}` block"))
                    .help(format!("add `{name}: {example}`, or a `limit` such as `limit: 100/min`"))
            }
        };
        self.problems.add(field.span, fault);
    }
}
