//! Owns [`Usual`]: the body of a check as nearly all are, read in one go.
//!
//! It knows what is right and nothing else. A body that is anything but usual, or wrong, is read
//! again by whoever can tell what is wrong with it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// The fields of a check, as they lie in its body.
#[derive(Debug, Default)]
pub(super) struct Usual<'b> {
    pub(super) rule: Option<&'b str>,
    pub(super) limit: Option<&'b str>,
    pub(super) algorithm: Option<&'b str>,
    pub(super) key: Option<&'b str>,
    pub(super) cost: Option<u64>,
}

impl<'b> Usual<'b> {
    pub(super) fn read(body: &'b [u8]) -> Option<Self> {
        // Of a text that is one as a whole, its pieces need no further look.
        serde_json::from_str(str::from_utf8(body).ok()?).ok()
    }
}

impl<'de> Deserialize<'de> for Usual<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Usual<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a check")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Usual<'de>, A::Error> {
        let mut read = Usual::default();
        while let Some(name) = map.next_key::<&'de str>()? {
            let again = match name {
                "rule" => read.rule.replace(map.next_value()?).is_some(),
                "key" => read.key.replace(map.next_value()?).is_some(),
                "cost" => read.cost.replace(map.next_value()?).is_some(),
                "limit" => read.limit.replace(map.next_value()?).is_some(),
                "algorithm" => read.algorithm.replace(map.next_value()?).is_some(),
                _ => true,
            };
            if again {
                return Err(A::Error::custom("unusual"));
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_usual_is_read_where_it_lies() {
        let body =
            br#" {"key":"alice", "limit":"10/s","cost":18446744073709551615,"algorithm":"gcra"} "#;
        let read = Usual::read(body).unwrap();
        assert_eq!((read.rule, read.limit, read.key), (None, Some("10/s"), Some("alice")));
        assert_eq!((read.algorithm, read.cost), (Some("gcra"), Some(u64::MAX)));
    }

    #[test]
    fn anything_else_is_left_to_who_can_tell_what_is_wrong() {
        for body in [
            "",
            "[]",
            "{\"key\":\"a\"} x",
            "{\"key\":null}",
            "{\"key\":1}",
            "{\"key\":\"\\u0061\"}",
            "{\"k\\u0065y\":\"a\"}",
            "{\"key\":\"a\",\"key\":\"a\"}",
            "{\"cost\":1,\"cost\":1}",
            "{\"cost\":1.0}",
            "{\"cost\":-1}",
            "{\"cost\":18446744073709551616}",
            "{\"attributes\":{}}",
            "{\"kee\":\"a\"}",
        ] {
            assert!(Usual::read(body.as_bytes()).is_none(), "{body}");
        }
        assert!(Usual::read(b"{\"key\":\"\xff\"}").is_none());
    }
}
