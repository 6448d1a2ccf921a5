//! The document that a service tells of itself, and what an answer must be to agree with it.

use serde_json::{Map, Value, json};

use crate::kit::{Reply, Service};

/// Headers that every HTTP answer may have, or that the document does not name by its own rules.
const PLAIN: [&str; 4] = ["content-type", "content-length", "date", "allow"];

/// One call of the document.
#[derive(Clone, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) path: &'a str,
    pub(crate) method: &'a str,
    pub(crate) told: &'a Value,
}

impl Call<'_> {
    pub(crate) fn id(&self) -> &str {
        self.told["operationId"].as_str().unwrap()
    }

    /// The examples of its body, by name.
    pub(crate) fn examples(&self) -> Map<String, Value> {
        let examples = &self.told["requestBody"]["content"]["application/json"]["examples"];
        examples.as_object().cloned().unwrap_or_default()
    }
}

pub(crate) struct Document {
    pub(crate) told: Value,
    /// The same, where no object may have a field that is not named.
    closed: Value,
}

impl Document {
    pub(crate) fn of(service: &Service) -> Self {
        let told = service.get("/openapi.json").json();
        let mut closed = told.clone();
        close(&mut closed);
        Self { told, closed }
    }

    pub(crate) fn calls(&self) -> Vec<Call<'_>> {
        let paths = self.told["paths"].as_object().unwrap();
        let calls = paths.iter().flat_map(|(path, item)| {
            let calls =
                item.as_object().unwrap().iter().filter(|(name, _)| *name != "x-any-method");
            calls.map(move |(method, told)| Call { path, method, told })
        });
        calls.collect()
    }

    pub(crate) fn call(&self, id: &str) -> Call<'_> {
        self.calls().into_iter().find(|call| call.id() == id).unwrap()
    }

    /// What a reference stands for.
    fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(to) => self.closed.pointer(to.strip_prefix('#').unwrap()).unwrap(),
            None => value,
        }
    }

    /// What is wrong with a value by its schema.
    pub(crate) fn errors(&self, schema: &Value, value: &Value) -> Vec<String> {
        let whole = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "allOf": [schema],
            "components": self.closed["components"],
        });
        let schema = jsonschema::options().should_validate_formats(true).build(&whole).unwrap();
        schema.iter_errors(value).map(|error| error.to_string()).collect()
    }

    /// Fails unless the answer is one of those that the document tells of the call; its status as
    /// the document names it.
    pub(crate) fn holds(&self, call: &Call<'_>, reply: &Reply) -> String {
        let name = format!("{} {} {}", call.method, call.path, reply.status);
        let pointer = format!("/paths/{}/{}", call.path.replace('/', "~1"), call.method);
        let responses = &self.closed.pointer(&pointer).unwrap()["responses"];
        let range = format!("{}XX", reply.status / 100);
        let exact = reply.status.to_string();
        let status = if responses[&exact].is_object() { exact } else { range };
        assert!(responses[&status].is_object(), "{name} is not told: {reply:?}");
        let response = self.resolve(&responses[&status]);
        self.body_holds(&name, response, reply);
        let told = response["headers"].as_object().cloned().unwrap_or_default();
        for (header, value) in &reply.headers {
            let schema = told.iter().find(|(known, _)| known.eq_ignore_ascii_case(header));
            let Some((_, schema)) = schema else {
                assert!(PLAIN.contains(&header.as_str()), "{name}: {header} is not told");
                continue;
            };
            let schema = &self.resolve(schema)["schema"];
            let value = match schema["type"] == "integer" {
                true => value.parse::<u64>().unwrap().into(),
                false => Value::from(value.as_str()),
            };
            let errors = self.errors(schema, &value);
            assert!(errors.is_empty(), "{name}: {header}: {errors:?}");
        }
        status
    }

    fn body_holds(&self, name: &str, response: &Value, reply: &Reply) {
        let Some(kind) = reply.header("content-type") else {
            assert!(reply.body.is_empty() && response["content"].is_null(), "{name}: {reply:?}");
            return;
        };
        let kind = kind.split(';').next().unwrap();
        let schema = &response["content"][kind]["schema"];
        assert!(schema.is_object(), "{name}: {kind} is not told: {reply:?}");
        let body =
            if kind.ends_with("json") { reply.json() } else { Value::from(reply.body.as_str()) };
        let errors = self.errors(schema, &body);
        assert!(errors.is_empty(), "{name}: {errors:?} in {reply:?}");
    }

    /// The names of the fields that a schema of a body has, in whichever of its forms.
    pub(crate) fn fields(&self, schema: &Value) -> Vec<String> {
        let schema = self.resolve(schema);
        match schema["oneOf"].as_array() {
            Some(forms) => forms.iter().flat_map(|form| self.fields(form)).collect(),
            None => schema["properties"].as_object().unwrap().keys().cloned().collect(),
        }
    }
}

fn close(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(close);
            if map.get("properties").is_some_and(Value::is_object) {
                map.entry("additionalProperties").or_insert(false.into());
            }
        }
        Value::Array(list) => list.iter_mut().for_each(close),
        _ => {}
    }
}
