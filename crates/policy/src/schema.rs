//! The JSON Schema of the file, made from the tables that the reader follows.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tollkeeper_core::{Algorithm, MAX_SHARDS};

use crate::fields::{Field, Kind, Shape, TOP, TextsForm};
use crate::limits::{
    MAX_COST, MAX_LIMITS, MAX_RULE_NAME_BYTES, MAX_RULES, MAX_TIER_BYTES, MAX_TIERS,
};

/// A URL that names a server by its host.
const SERVER: &str =
    r"^rediss?://([^\s/?#]*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?(/[0-9]*)?\??$";

/// A URL that names a server by its socket.
const SOCKET: &str = r"^redis\+unix:///[^\s?#]*[^\s?#/](\?((db|user|pass)=[^\s&#]*(&|$))*)?$";

/// A URL that names sentinels, and the master that they watch.
const SENTINELS: &str = r"^rediss?\+sentinel://([^\s/?#]*@)?[^\s/?#@]+/[A-Za-z0-9._-]+(/[0-9]*)?(\?((sentinel_user|sentinel_password)=[^\s&#]*(&|$))*)?$";

/// A URL that names nodes of a cluster.
const CLUSTER: &str = r"^rediss?\+cluster://([^\s/?#]*@)?[^\s/?#@]+/?0?\??$";

/// The JSON Schema (draft 2020-12) of the policy file, as indented JSON.
///
/// ```
/// assert!(tollkeeper_policy::schema().contains("https://json-schema.org/draft/2020-12/schema"));
/// ```
#[must_use]
pub fn schema() -> String {
    let mut root = shape(&TOP);
    if let Value::Object(root) = &mut root {
        let dialect = "https://json-schema.org/draft/2020-12/schema";
        root.insert("$schema".into(), dialect.into());
        root.insert("title".into(), "Tollkeeper policy".into());
    }
    format!("{root:#}\n")
}

fn shape(shape: &Shape) -> Value {
    let fields = shape.fields.iter();
    let properties: Map<String, Value> =
        fields.clone().map(|field| (field.name.to_owned(), property(field))).collect();
    let required: Vec<&str> =
        fields.filter(|field| field.required).map(|field| field.name).collect();
    json!({
        "type": "object",
        "description": shape.doc,
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn property(field: &Field) -> Value {
    let mut value = kind(&field.kind);
    if let Value::Object(value) = &mut value {
        value.insert("description".into(), field.doc.into());
    }
    value
}

fn kind(kind: &Kind) -> Value {
    let number = json!({ "type": "number", "exclusiveMinimum": 0 });
    let text = json!({ "type": "string", "minLength": 1 });
    match kind {
        Kind::Count { max } => json!({ "anyOf": whole(1, *max) }),
        Kind::Number { min, max } => json!({ "anyOf": whole(*min, *max) }),
        Kind::Rate => json!({ "anyOf": [number, text] }),
        Kind::Duration => json!({ "anyOf": [{ "type": "number", "minimum": 0 }, text] }),
        Kind::DurationWithin { min_us, max_us } => {
            let seconds = |us: &u64| json!(Duration::from_micros(*us).as_secs_f64());
            json!({ "anyOf": [
                { "type": "number", "minimum": seconds(min_us), "maximum": seconds(max_us) },
                text,
            ] })
        }
        Kind::Flag => json!({ "anyOf": [
            { "type": "boolean" },
            { "enum": ["true", "false"] },
            variable(),
        ] }),
        Kind::Word(words) => json!({ "anyOf": [{ "enum": words }, variable()] }),
        Kind::Text(form) => json!({ "anyOf": [
            { "type": "string", "pattern": form.pattern },
            variable(),
        ] }),
        Kind::Texts(form) => json!({ "anyOf": [one(form), {
            "type": "array",
            "items": one(form),
            "minItems": form.min,
            "maxItems": form.max,
        }] }),
        Kind::Pairs(form) => json!({
            "type": "object",
            "minProperties": form.min,
            "maxProperties": form.max,
            "additionalProperties": one(form),
        }),
        Kind::Algorithm => {
            json!({ "anyOf": [{ "enum": Algorithm::ALL.map(Algorithm::name) }, variable()] })
        }
        Kind::Limit => text,
        Kind::Limits => limits(),
        Kind::TierLimits => tiers(),
        Kind::CountOr(inner) => {
            let mut either = whole(1, MAX_COST);
            either.push(shape(inner));
            json!({ "anyOf": either })
        }
        Kind::StoreUrl => {
            let pattern = |pattern: &str| json!({ "type": "string", "pattern": pattern });
            let servers = json!([pattern(SERVER), pattern(SOCKET), pattern(SENTINELS), variable()]);
            let list = json!({
                "type": "array",
                "items": { "anyOf": servers.clone() },
                "minItems": 1,
                "maxItems": MAX_SHARDS,
                "uniqueItems": true,
            });
            json!({ "anyOf": [
                { "const": "memory://" },
                { "anyOf": servers },
                pattern(CLUSTER),
                list,
            ] })
        }
        Kind::Upstream => json!({ "anyOf": [
            { "type": "string", "pattern": "^http://[^\\s/?#@]+/?$" },
            variable(),
        ] }),
        Kind::Address => text,
        Kind::Map(inner) => shape(inner),
        Kind::Rules(inner) => rules(inner),
    }
}

/// A whole number, as one or as a text.
fn whole(min: u64, max: u64) -> Vec<Value> {
    let digits = if min == 0 { "^(0|[1-9][0-9]*)$" } else { "^[1-9][0-9]*$" };
    vec![
        json!({ "type": "integer", "minimum": min, "maximum": max }),
        json!({ "type": "string", "pattern": digits }),
        variable(),
    ]
}

/// One text of a list.
fn one(form: &TextsForm) -> Value {
    let mut either = vec![json!({ "type": "string", "pattern": form.pattern }), variable()];
    if form.numbers {
        either.push(json!({ "type": "integer" }));
    }
    json!({ "anyOf": either })
}

fn tiers() -> Value {
    json!({
        "type": "object",
        "minProperties": 1,
        "maxProperties": MAX_TIERS,
        "propertyNames": { "minLength": 1, "maxLength": MAX_TIER_BYTES },
        "additionalProperties": { "anyOf": [{ "type": "string", "minLength": 1 }, limits()] },
    })
}

fn rules(rule: &Shape) -> Value {
    json!({
        "type": "object",
        "minProperties": 1,
        "maxProperties": MAX_RULES,
        "propertyNames": {
            "pattern": format!("^[A-Za-z0-9_.-]{{1,{MAX_RULE_NAME_BYTES}}}$"),
            "not": { "const": "inline" },
        },
        "additionalProperties": shape(rule),
    })
}

fn limits() -> Value {
    json!({
        "type": "array",
        "items": { "type": "string", "minLength": 1 },
        "minItems": 1,
        "maxItems": MAX_LIMITS,
    })
}

/// A text that a variable completes, of which no more can be said before it is expanded.
fn variable() -> Value {
    json!({ "type": "string", "pattern": "\\$\\{" })
}
