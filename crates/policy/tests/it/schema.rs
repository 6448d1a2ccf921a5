//! The schema and the reader know the same fields.

use serde_json::Value;
use tollkeeper_policy::{Policy, schema};

/// Every object of the schema, with the file that leads to it: `@` is where its fields stand.
fn objects() -> Vec<(Value, String)> {
    let root: Value = serde_json::from_str(&schema()).unwrap();
    let rules = root["properties"]["rules"]["additionalProperties"].clone();
    let mut found =
        vec![(root.clone(), "@".to_owned()), (rules.clone(), "rules: { r: { @ } }".to_owned())];
    for (parent, file) in [(root, "NAME: { @ }"), (rules, "rules: { r: { NAME: { @ } } }")] {
        for (name, field) in parent["properties"].as_object().unwrap() {
            let either = field["anyOf"].as_array().into_iter().flatten();
            for object in either.chain([field]).filter(|one| one["properties"].is_object()) {
                found.push((object.clone(), file.replace("NAME", name)));
            }
        }
    }
    found
}

fn messages(file: &str) -> String {
    Policy::parse(file, &|_| None).map_or_else(|errors| errors.to_string(), |_| String::new())
}

#[test]
fn there_is_an_object_for_each_map_of_the_file() {
    // The file, a rule, store, listen, gateway, tls, client_ip, admin, seven blocks, match, cost,
    // tiers, exempt.
    assert_eq!(objects().len(), 19);
}

#[test]
fn a_field_of_the_schema_is_read_and_no_other() {
    for (object, file) in objects() {
        assert_eq!(object["additionalProperties"], Value::Bool(false), "{file}");
        for name in object["properties"].as_object().unwrap().keys() {
            let text = file.replace('@', &format!("{name}: [[]]"));
            assert!(!messages(&text).contains("unknown field"), "{text}");
            assert!(!messages(&text).contains("not supported"), "{text}");
        }
        let text = file.replace('@', "nobody_knows_this: 1");
        assert!(messages(&text).contains("unknown field `nobody_knows_this`"), "{text}");
    }
}

#[test]
fn what_the_schema_requires_the_reader_misses() {
    for (object, file) in objects() {
        let empty = if file == "@" { "{}".to_owned() } else { file.replace('@', "") };
        let told = messages(&empty);
        let required = object["required"].as_array().unwrap();
        for name in object["properties"].as_object().unwrap().keys() {
            let missed = told.contains(&format!("has no `{name}`"));
            assert_eq!(missed, required.contains(&name.as_str().into()), "{empty}: {told}");
        }
    }
}

#[test]
fn every_field_is_described() {
    for (object, file) in objects() {
        assert!(object["description"].as_str().is_some_and(|doc| doc.len() > 10), "{file}");
        for (name, field) in object["properties"].as_object().unwrap() {
            assert!(field["description"].as_str().is_some_and(|doc| doc.len() > 10), "{name}");
        }
    }
}

#[test]
fn the_whole_of_it() {
    let mut settings = insta::Settings::clone_current();
    settings.set_omit_expression(true);
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!("schema", schema()));
}

#[test]
fn it_says_which_schema_it_is() {
    let root: Value = serde_json::from_str(&schema()).unwrap();
    assert_eq!(root["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(root["required"], serde_json::json!(["rules"]));
    let rules = &root["properties"]["rules"];
    assert_eq!(rules["maxProperties"], 10_000);
    assert_eq!(rules["additionalProperties"]["properties"]["limits"]["maxItems"], 16);
    assert!(schema().ends_with("}\n"));
}
