//! Owns [`Strict`]: a JSON value in which no field comes twice, however deep. A map would silently
//! keep the last, and whoever looked at the body before us might have gone by the first.
//!
//! [`Given`] is the same where a text is the most likely, which is then not copied.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::problem::echo;

/// A value that was read strictly.
#[derive(Debug)]
pub(super) struct Strict(pub(super) Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Anything).map(Self)
    }
}

/// What a field holds.
#[derive(Debug)]
pub(super) enum Given<'b> {
    Text(Cow<'b, str>),
    Other(Box<Value>),
}

impl From<Value> for Given<'_> {
    fn from(value: Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text.into()),
            other => Self::Other(Box::new(other)),
        }
    }
}

impl From<Given<'_>> for Value {
    fn from(given: Given<'_>) -> Self {
        match given {
            Given::Text(text) => Self::String(text.into_owned()),
            Given::Other(value) => *value,
        }
    }
}

impl<'de> Deserialize<'de> for Given<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextFirst)
    }
}

/// The name of a field.
pub(super) struct Name<'b>(pub(super) Cow<'b, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_str(TextFirst)? {
            Given::Text(name) => Ok(Self(name)),
            Given::Other(_) => Err(D::Error::custom("a name is a text")),
        }
    }
}

struct TextFirst;

impl<'de> Visitor<'de> for TextFirst {
    type Value = Given<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Anything.expecting(f)
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Given<'de>, E> {
        Ok(Given::Text(value.into()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Given<'de>, E> {
        Ok(Given::Text(value.to_owned().into()))
    }

    fn visit_unit<E: Error>(self) -> Result<Given<'de>, E> {
        Anything.visit_unit().map(Given::from)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Given<'de>, E> {
        Anything.visit_bool(value).map(Given::from)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Given<'de>, E> {
        Anything.visit_u64(value).map(Given::from)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Given<'de>, E> {
        Anything.visit_i64(value).map(Given::from)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Given<'de>, E> {
        Anything.visit_f64(value).map(Given::from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Given<'de>, A::Error> {
        Anything.visit_seq(list).map(Given::from)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Given<'de>, A::Error> {
        Anything.visit_map(map).map(Given::from)
    }
}

struct Anything;

impl<'de> Visitor<'de> for Anything {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some((name, Strict(value))) = map.next_entry::<String, Strict>()? {
            if fields.contains_key(&name) {
                return Err(twice(&name));
            }
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

/// The complaint about a field that comes twice.
pub(super) fn twice<E: Error>(name: &str) -> E {
    E::custom(format!("the field {} comes twice", echo(name)))
}
