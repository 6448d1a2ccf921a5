//! Owns [`Anything`]: reads a JSON value in which no field comes twice, however deep. A map would
//! silently keep the last, and whoever looked at the body before us might have gone by the first.
//!
//! [`Given`] is the same where a text is the most likely, which is then not copied. Two bytes of a
//! body can be a value of thirty and more, so of one body only so many are kept.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Number, Value};

use super::problem::echo;

/// The most values of one body, the largest batch's too.
pub(super) const MAX_VALUES: usize = 128 * 1024;

/// The most values of a list that are kept: no call takes a longer one. The rest is counted.
pub(super) const MAX_LIST: usize = 1000;

/// How many values of a body can still be kept.
pub(super) struct Budget(Cell<usize>);

impl Budget {
    pub(super) fn of_a_body() -> Self {
        Self(Cell::new(MAX_VALUES))
    }

    fn take_one<E: Error>(&self) -> Result<(), E> {
        let left = self.0.get().checked_sub(1);
        self.0.set(left.ok_or_else(|| E::custom(format!("it has more than {MAX_VALUES} values")))?);
        Ok(())
    }
}

/// What a field holds.
#[derive(Debug)]
pub(super) enum Given<'b> {
    Text(Cow<'b, str>),
    List(Box<List>),
    Other(Box<Value>),
}

/// A list that a field holds.
#[derive(Debug)]
pub(super) struct List {
    /// Its first values.
    pub(super) kept: Vec<Value>,
    /// How many it has.
    pub(super) count: usize,
}

impl From<Value> for Given<'_> {
    fn from(value: Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text.into()),
            Value::Array(kept) => Self::List(Box::new(List { count: kept.len(), kept })),
            other => Self::Other(Box::new(other)),
        }
    }
}

impl From<Given<'_>> for Value {
    fn from(given: Given<'_>) -> Self {
        match given {
            Given::Text(text) => Self::String(text.into_owned()),
            // More of it than anybody is shown.
            Given::List(list) => Self::Array(list.kept),
            Given::Other(value) => *value,
        }
    }
}

/// Reads what a field holds.
pub(super) struct Giving<'c>(pub(super) &'c Budget);

impl<'de> DeserializeSeed<'de> for Giving<'_> {
    type Value = Given<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Given<'de>, D::Error> {
        deserializer.deserialize_any(TextFirst(self.0))
    }
}

/// The name of a field.
pub(super) struct Name<'b>(pub(super) Cow<'b, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_str(TextFirst(&Budget::of_a_body()))? {
            Given::Text(name) => Ok(Self(name)),
            _ => Err(D::Error::custom("a name is a text")),
        }
    }
}

struct TextFirst<'c>(&'c Budget);

impl<'de> Visitor<'de> for TextFirst<'_> {
    type Value = Given<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Anything(self.0).expecting(f)
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Given<'de>, E> {
        Ok(Given::Text(value.into()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Given<'de>, E> {
        Ok(Given::Text(value.to_owned().into()))
    }

    fn visit_unit<E: Error>(self) -> Result<Given<'de>, E> {
        Anything(self.0).visit_unit().map(Given::from)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Given<'de>, E> {
        Anything(self.0).visit_bool(value).map(Given::from)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Given<'de>, E> {
        Anything(self.0).visit_u64(value).map(Given::from)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Given<'de>, E> {
        Anything(self.0).visit_i64(value).map(Given::from)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Given<'de>, E> {
        Anything(self.0).visit_f64(value).map(Given::from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Given<'de>, A::Error> {
        let mut kept = Vec::new();
        while kept.len() < MAX_LIST {
            let Some(value) = list.next_element_seed(Anything(self.0))? else {
                return Ok(Value::Array(kept).into());
            };
            kept.push(value);
        }
        let mut count = kept.len();
        while list.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(Given::List(Box::new(List { kept, count })))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Given<'de>, A::Error> {
        Anything(self.0).visit_map(map).map(Given::from)
    }
}

/// Reads any value.
#[derive(Clone, Copy)]
struct Anything<'c>(&'c Budget);

impl<'de> DeserializeSeed<'de> for Anything<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.0.take_one()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Anything<'_> {
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
        while let Some(value) = list.next_element_seed(self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some((name, value)) = map.next_entry_seed(PhantomData::<String>, self)? {
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
