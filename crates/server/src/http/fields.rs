//! Owns [`Fields`]: the fields of a JSON object, taken out one by one by name and type, so that
//! every complaint names the field, its value, and what was expected.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;
use tollkeeper_core::parse_duration_us;
use tollkeeper_policy::nearest;

use super::problem::{Problem, echo};
use super::strict::{Strict, twice};

/// The fields that have not been taken yet.
#[derive(Debug)]
pub(crate) struct Fields {
    left: Vec<(String, Value)>,
}

impl Fields {
    /// The fields of a value inside another one, which is called `name`.
    pub(crate) fn of(name: &str, value: Value) -> Result<Self, Problem> {
        match value {
            Value::Object(map) => Ok(Self { left: map.into_iter().collect() }),
            other => Err(Problem::field(name, &other.to_string(), "an object")),
        }
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.left.iter().position(|(field, _)| field == name)?;
        Some(self.left.swap_remove(at).1)
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(Problem::field(name, &other.to_string(), "a string")),
        }
    }

    /// A whole number that is not negative.
    pub(crate) fn whole(&mut self, name: &str) -> Result<Option<u64>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let expected = format!("a whole number from 0 to {}", u64::MAX);
        match value.as_u64() {
            Some(number) => Ok(Some(number)),
            None => Err(Problem::field(name, &value.to_string(), &expected)),
        }
    }

    /// A duration: a number of seconds, or a text such as `10m`.
    pub(crate) fn duration_us(&mut self, name: &str) -> Result<Option<u64>, Problem> {
        let text = match self.take(name) {
            None => return Ok(None),
            Some(Value::String(text)) => text,
            Some(Value::Number(number)) => number.to_string(),
            Some(other) => {
                return Err(Problem::field(name, &other.to_string(), "a duration such as 10m"));
            }
        };
        let read = parse_duration_us(&text);
        let wrong = |problem| Problem::field(name, &text, problem);
        read.map(Some).map_err(|error| wrong(error.expected()))
    }

    /// Complains about the first field that nobody took.
    pub(crate) fn finish(self, known: &[&str]) -> Result<(), Problem> {
        let Some((name, _)) = self.left.into_iter().next() else { return Ok(()) };
        let near = nearest(&name, known.iter().copied());
        let advice = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("expected one of `{}`", known.join("`, `")),
        };
        Err(Problem::bad_request(format!("unknown field {}; {advice}", echo(&name))))
    }
}

impl<'de> Deserialize<'de> for Fields {
    /// Refuses a field that comes twice, which a map would silently overwrite.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut left: Vec<(String, Value)> = Vec::new();
                while let Some((name, Strict(value))) = map.next_entry::<String, Strict>()? {
                    if left.iter().any(|(field, _)| *field == name) {
                        return Err(twice(&name));
                    }
                    if left.len() == MAX_FIELDS {
                        return Err(A::Error::custom("the object has too many fields"));
                    }
                    left.push((name, value));
                }
                Ok(Fields { left })
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// The most fields of an object: far more than any call knows.
const MAX_FIELDS: usize = 64;
