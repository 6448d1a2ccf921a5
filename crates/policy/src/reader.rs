//! Reads the tree into raw shapes, field by field as the tables say.
//!
//! It reports what is unknown, missing or of the wrong kind, and goes on with the rest.

use crate::error::{Fault, Problems, Span, one_of, quoted};
use crate::fields::{Field, Kind, Shape, TOP};
use crate::limits::MAX_RULES;
use crate::nearest::nearest;
use crate::raw::{Raw, RawField, RawLimit, RawMap, RawRule};
use crate::yaml::{Entry, Node, Value};

mod list;
mod scalar;

/// The whole file. `None` if it is not a map.
pub(crate) fn read(root: &Node, problems: &mut Problems) -> Option<RawMap> {
    let mut reader = Reader { problems };
    match &root.value {
        Value::Map(entries) => Some(reader.map("the file", Span::FILE, entries, &TOP)),
        Value::Unreadable => None,
        _ => {
            let fault = Fault::new("the file is not a map")
                .expected("fields such as `rules:`")
                .help("begin with `rules: { api: { limit: 100/min } }`");
            reader.problems.add(root.span, fault);
            None
        }
    }
}

struct Reader<'p> {
    problems: &'p mut Problems,
}

impl Reader<'_> {
    /// The known fields of a map; `name` is what messages call it.
    fn map(&mut self, name: &str, at: Span, entries: &[Entry], shape: &'static Shape) -> RawMap {
        let mut map = RawMap::default();
        let mut meant = Vec::new();
        let mut follows_url = false;
        for entry in entries {
            if self.problems.is_full() {
                break;
            }
            match shape.field(&entry.key) {
                Some(field) => map.fields.push(self.field(field, entry)),
                None if shape.later.contains(&&*entry.key) => {
                    let message = format!("`{}` is not supported by this version", entry.key);
                    let fault = Fault::new(message).expected(one_of(shape.names()));
                    self.problems.add(entry.key_span, fault);
                }
                None => {
                    map.has_unknown = true;
                    // What YAML makes of a URL with a comma inside brackets.
                    match follows_url && is_null(entry) {
                        true => self.rest_of_url(entry),
                        false => meant.extend(self.unknown(entry, shape)),
                    }
                }
            }
            follows_url = follows_url || may_be_url(entry);
        }
        for field in shape.fields.iter().filter(|field| field.required) {
            // A misspelt field was reported already; that it is missing would be said twice.
            if map.field(field.name).is_none() && !meant.contains(&field.name) {
                let fault = Fault::new(format!("{name} has no `{}`", field.name))
                    .help(format!("a whole one is `{}`", shape.example));
                self.problems.add(at, fault);
            }
        }
        map
    }

    /// Reports a field that no version has; returns the one that was meant.
    fn unknown(&mut self, entry: &Entry, shape: &'static Shape) -> Option<&'static str> {
        let near = nearest(&entry.key, shape.names());
        let message = match shape.fields.iter().any(|field| field.secret) && is_null(entry) {
            // It may be the secret itself.
            true => "a field here has no value".to_owned(),
            false => format!("unknown field {}", quoted(&entry.key)),
        };
        let mut fault = Fault::new(message).expected(one_of(shape.names()));
        fault.help = near.map(|near| format!("did you mean `{near}`?"));
        self.problems.add(entry.key_span, fault);
        near
    }

    /// Reports what follows a comma in a URL. It is not quoted: it may be part of a password.
    fn rest_of_url(&mut self, entry: &Entry) {
        let fault = Fault::new("a field without a value follows a URL")
            .help("put the URL in quotes if there is a comma in it");
        self.problems.add(entry.key_span, fault);
    }

    fn field(&mut self, field: &'static Field, entry: &Entry) -> RawField {
        let veiled: Entry;
        let entry = match &entry.value.value {
            Value::Scalar(scalar) if field.secret => {
                let value = Node { value: Value::Scalar(scalar.veiled()), ..entry.value };
                veiled = Entry { key: entry.key.clone(), key_span: entry.key_span, value };
                &veiled
            }
            _ => entry,
        };
        let node = &entry.value;
        let scalar = match &node.value {
            Value::Scalar(scalar) if scalar.is_null() => {
                let fault = Fault::new(format!("`{}` has no value", field.name))
                    .expected(field.kind.expected());
                self.problems.add(entry.key_span, fault);
                return RawField::new(field, entry, None);
            }
            Value::Scalar(scalar) => Some(scalar.clone()),
            _ => None,
        };
        let value = self.value(field, entry);
        RawField { scalar, ..RawField::new(field, entry, value) }
    }

    fn value(&mut self, field: &'static Field, entry: &Entry) -> Option<Raw> {
        let node = &entry.value;
        let read = match (&field.kind, &node.value) {
            (_, Value::Unreadable) => return None,
            (Kind::Map(shape), Value::Map(entries)) => {
                let name = format!("`{}`", field.name);
                return Some(Raw::Map(self.map(&name, entry.key_span, entries, shape)));
            }
            (Kind::Rules(shape), Value::Map(entries)) => {
                return self.rules(entry, entries, shape);
            }
            (Kind::CountOr(shape), Value::Map(entries)) => {
                let name = format!("`{}`", field.name);
                return Some(Raw::Map(self.map(&name, entry.key_span, entries, shape)));
            }
            (Kind::Limits, Value::List(items)) => {
                let limits = self.limits("`limits`", entry.key_span, items);
                return limits.map(Raw::Limits);
            }
            (Kind::TierLimits, Value::Map(entries)) => return self.tiers(entry, entries),
            (Kind::StoreUrl, Value::List(items)) => return self.store_urls(entry, items),
            (Kind::Texts(form), Value::List(items)) => {
                return self.texts(field.name, form, entry, items);
            }
            (Kind::Pairs(form), Value::Map(entries)) => {
                return self.pairs(field.name, form, entry, entries);
            }
            (Kind::Limit, Value::Scalar(scalar)) => {
                scalar::limit("`limit` is", scalar).map(|short| {
                    Raw::Limits(vec![RawLimit { short, span: node.span, scalar: scalar.clone() }])
                })
            }
            (kind, Value::Scalar(scalar)) => {
                scalar::value(&format!("`{}` is", field.name), kind, scalar, node.span)
            }
            (kind, _) => Err(wrong_kind(field.name, kind, node)),
        };
        read.map_err(|fault| self.problems.add(node.span, fault)).ok()
    }

    fn rules(&mut self, entry: &Entry, entries: &[Entry], shape: &'static Shape) -> Option<Raw> {
        if entries.is_empty() || entries.len() > MAX_RULES {
            let message = match entries.len() {
                0 => "no rules: `rules` is empty".to_owned(),
                count => format!("`rules` has {count} rules"),
            };
            let fault = Fault::new(message)
                .expected(format!("1 to {MAX_RULES} rules"))
                .help(format!("a whole rule is `{}`", shape.example));
            self.problems.add(entry.key_span, fault);
            return None;
        }
        let rules = entries.iter().map(|rule| RawRule {
            name: rule.key.clone(),
            name_span: rule.key_span,
            map: self.rule(rule, shape),
        });
        Some(Raw::Rules(rules.collect()))
    }

    fn rule(&mut self, rule: &Entry, shape: &'static Shape) -> Option<RawMap> {
        let name = format!("rule {}", quoted(&rule.key));
        let fault = match &rule.value.value {
            Value::Map(entries) => return Some(self.map(&name, rule.key_span, entries, shape)),
            Value::Unreadable => return None,
            Value::Scalar(scalar) if scalar.is_null() => Fault::new(format!("{name} has no value")),
            Value::Scalar(scalar) => Fault::new(format!("{name} is {}", scalar.quoted())),
            Value::List(_) => Fault::new(format!("{name} is a list")),
        };
        let fault =
            fault.expected("a map of fields").help(format!("a whole rule is `{}`", shape.example));
        self.problems.add(rule.key_span, fault);
        None
    }
}

impl RawField {
    fn new(field: &'static Field, entry: &Entry, value: Option<Raw>) -> Self {
        Self {
            name: field.name,
            key_span: entry.key_span,
            span: entry.value.span,
            scalar: None,
            value,
        }
    }
}

fn may_be_url(entry: &Entry) -> bool {
    match &entry.value.value {
        Value::Scalar(scalar) => scalar.text().contains("://"),
        // It may be one with a `${` that is no variable.
        Value::Unreadable => true,
        Value::Map(_) | Value::List(_) => false,
    }
}

fn is_null(entry: &Entry) -> bool {
    matches!(&entry.value.value, Value::Scalar(scalar) if scalar.is_null())
}

/// The fault of a list or map where a single value belongs, or the other way round.
fn wrong_kind(field: &str, kind: &Kind, node: &Node) -> Fault {
    let is = match &node.value {
        Value::Scalar(scalar) => scalar.quoted(),
        Value::Map(_) => "a map".into(),
        Value::List(_) | Value::Unreadable => "a list".into(),
    };
    let mut fault = Fault::new(format!("`{field}` is {is}")).expected(kind.expected());
    fault.help = match (kind, &node.value) {
        (Kind::Limit, Value::List(_)) => Some("several limits stand under `limits`".into()),
        _ => None,
    };
    fault
}
