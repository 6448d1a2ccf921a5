//! Owns [`Fields`]: the fields of a JSON object, taken out one by one by name and type, so that
//! every complaint names the field, its value, and what was expected.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use smallvec::SmallVec;
use tollkeeper_core::parse_duration_us;
use tollkeeper_policy::nearest;

use super::problem::{Problem, echo};
use super::strict::{Budget, Given, Giving, List, Name, twice};

/// The fields that have not been taken yet. Texts lie where they were read.
#[derive(Debug)]
pub(crate) struct Fields<'b> {
    left: SmallVec<[(Cow<'b, str>, Given<'b>); USUAL_FIELDS]>,
}

/// The fields of nearly every call.
const USUAL_FIELDS: usize = 4;

impl<'b> Fields<'b> {
    /// The fields of the object in a body.
    pub(crate) fn read(body: &'b [u8]) -> Result<Self, Problem> {
        if body.is_empty() {
            return Err(Problem::bad_request("the body is empty; expected a JSON object"));
        }
        serde_json::from_slice(body).map_err(|error| {
            let told = if error.is_data() { "cannot be used" } else { "is not valid JSON" };
            Problem::bad_request(format!("the body {told}: {error}"))
        })
    }

    /// The fields of a value inside another one, which is called `name`.
    pub(crate) fn of(name: &str, value: Value) -> Result<Self, Problem> {
        let given = |(name, value)| (Cow::Owned(name), Given::from(value));
        match value {
            Value::Object(map) => Ok(Self { left: map.into_iter().map(given).collect() }),
            other => Err(Problem::field(name, &other.to_string(), "an object")),
        }
    }

    fn take_given(&mut self, name: &str) -> Option<Given<'b>> {
        let at = self.left.iter().position(|(field, _)| field == name)?;
        // The others keep their order, so that the first that nobody knows is the one to be named.
        Some(self.left.remove(at).1)
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.take_given(name).map(Value::from)
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<Cow<'b, str>>, Problem> {
        match self.take_given(name) {
            None => Ok(None),
            Some(Given::Text(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(name, other, "a string")),
        }
    }

    pub(crate) fn list(&mut self, name: &str) -> Result<Option<List>, Problem> {
        match self.take_given(name) {
            None => Ok(None),
            Some(Given::List(list)) => Ok(Some(*list)),
            Some(other) => Err(wrong(name, other, "a list")),
        }
    }

    /// A whole number that is not negative.
    pub(crate) fn whole(&mut self, name: &str) -> Result<Option<u64>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let wrong = || {
            let expected = format!("a whole number from 0 to {}", u64::MAX);
            Problem::field(name, &value.to_string(), &expected)
        };
        value.as_u64().map(Some).ok_or_else(wrong)
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

    /// Complains about the first field that nobody took; `known` are those that somebody would.
    pub(crate) fn finish(self, known: &[&[&'static str]]) -> Result<(), Problem> {
        let Some((name, _)) = self.left.into_iter().next() else { return Ok(()) };
        let known = known.concat();
        let near = nearest(&name, known.iter().copied());
        let advice = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("expected one of `{}`", known.join("`, `")),
        };
        Err(Problem::bad_request(format!("unknown field {}; {advice}", echo(&name))))
    }
}

/// The complaint about a value of another kind than was expected.
fn wrong(name: &str, given: Given<'_>, expected: &str) -> Problem {
    Problem::field(name, &Value::from(given).to_string(), expected)
}

impl<'de> Deserialize<'de> for Fields<'de> {
    /// Refuses a field that comes twice, which a map would silently overwrite.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut left: SmallVec<[(Cow<'de, str>, Given<'de>); USUAL_FIELDS]> =
                    SmallVec::new();
                let budget = Budget::of_a_body();
                while left.len() < MAX_FIELDS {
                    let name = PhantomData::<Name<'de>>;
                    let entry = map.next_entry_seed(name, Giving(&budget))?;
                    let Some((Name(name), value)) = entry else {
                        return Ok(Fields { left });
                    };
                    if left.iter().any(|(field, _)| *field == name) {
                        return Err(twice(&name));
                    }
                    left.push((name, value));
                }
                // So many hold one that no call knows, and it will be named.
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Fields { left })
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// The most fields of an object that are kept: far more than any call knows.
const MAX_FIELDS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::strict::{MAX_LIST, MAX_VALUES};

    /// One of a batch was refused for the field that nobody knows, and alone for their number.
    #[test]
    fn of_too_many_fields_the_first_unknown_one_is_named_alone_as_in_a_batch() {
        let many: Vec<String> = (0..=MAX_FIELDS).map(|nth| format!("\"f{nth}\":1")).collect();
        for fields in [format!("\"key\":\"a\",{}", many.join(",")), many.join(",")] {
            let body = format!("{{{fields}}}");
            let mut alone = Fields::read(body.as_bytes()).unwrap();
            assert_eq!(alone.left.len(), MAX_FIELDS);
            let mut batched =
                Fields::of("checks[0]", serde_json::from_str(&body).unwrap()).unwrap();
            for read in [&mut alone, &mut batched] {
                read.text("key").unwrap();
            }
            let told = [alone, batched].map(|read| read.finish(&[&["key"]]).unwrap_err().to_json());
            assert_eq!(told[0], told[1]);
            assert!(told[0]["detail"].as_str().unwrap().contains("`f0`"), "{}", told[0]);
        }
        let broken = format!("{{{}", many.join(","));
        assert!(Fields::read(broken.as_bytes()).is_err());
    }

    /// Two bytes of a list were a value of 32, and all of them were kept to be counted.
    #[test]
    fn of_a_long_list_only_the_first_are_kept() {
        let zeros = "0,".repeat(2_000_000);
        let body = format!("{{\"checks\":[{zeros}0]}}");
        let list = Fields::read(body.as_bytes()).unwrap().list("checks").unwrap().unwrap();
        assert_eq!((list.kept.len(), list.count), (MAX_LIST, 2_000_001));
        assert!(list.kept.capacity() <= 2 * MAX_LIST);
        let broken = format!("{{\"checks\":[{zeros}");
        assert!(Fields::read(broken.as_bytes()).is_err());
    }

    /// Nor is there another place in a body where so many could be hidden.
    #[test]
    fn a_body_has_only_so_many_values_however_deep() {
        let told = |body: String| match Fields::read(body.as_bytes()) {
            Ok(_) => String::new(),
            Err(problem) => problem.to_json()["detail"].as_str().unwrap().to_owned(),
        };
        let zeros = |count| vec!["0"; count].join(",");
        let pairs: Vec<String> = (0..=MAX_VALUES).map(|nth| format!("\"{nth}\":0")).collect();
        for body in [
            format!("{{\"checks\":[[{}]]}}", zeros(MAX_VALUES)),
            format!("{{\"checks\":[{{\"key\":[{}]}}]}}", zeros(MAX_VALUES)),
            format!("{{\"attributes\":{{{}}}}}", pairs.join(",")),
            format!("{{\"a\":{{\"a\":[{0}]}},\"b\":{{\"a\":[{0}]}}}}", zeros(MAX_VALUES / 2)),
        ] {
            let told = told(body);
            assert!(told.contains("cannot be used: it has more than 131072 values"), "{told}");
        }
        assert_eq!(told(format!("{{\"checks\":[[{}]]}}", zeros(MAX_VALUES - 1))), "");
    }
}
