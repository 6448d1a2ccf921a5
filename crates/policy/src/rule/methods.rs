//! Owns [`Methods`]: the methods of a rule, such that one is found by a single bit.

use super::names;
use crate::limits::MAX_METHODS;
use crate::refused::Refused;

/// The methods that have a bit of their own, from the lowest.
const KNOWN: [&str; 9] =
    ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT"];

/// The bit of every other method.
const OTHER: u16 = 1 << KNOWN.len();

/// The methods of a rule; none for every method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Methods {
    bits: u16,
    names: Vec<Box<str>>,
}

impl Methods {
    pub(crate) fn names(&self) -> &[Box<str>] {
        &self.names
    }

    pub(crate) fn add(&mut self, name: &str) -> Result<(), Refused> {
        super::conditions::add(&mut self.names, names::method(name)?, MAX_METHODS, "methods")?;
        self.bits |= bit(name);
        Ok(())
    }

    /// Whether a method is one of them, of which the [bit](bit) is known.
    pub(crate) fn take(&self, method: Option<&str>, bit: u16) -> bool {
        match self.bits & bit {
            _ if self.bits == 0 => true,
            0 => false,
            OTHER => method.is_some_and(|method| {
                self.names.iter().any(|name| name.eq_ignore_ascii_case(method))
            }),
            _ => true,
        }
    }
}

/// The bit of a method. Upper and lower case make no difference.
pub(crate) fn bit(method: &str) -> u16 {
    let known = KNOWN.iter().position(|known| known.eq_ignore_ascii_case(method));
    known.map_or(OTHER, |place| 1 << place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_one_of_them_or_not() {
        let mut methods = Methods::default();
        let take = |methods: &Methods, method: &str| methods.take(Some(method), bit(method));
        assert!(take(&methods, "GET") && methods.take(None, 0), "none stands for every one");
        methods.add("GET").unwrap();
        methods.add("PURGE").unwrap();
        for (method, taken) in [
            ("GET", true),
            ("get", true),
            ("PURGE", true),
            ("purge", true),
            ("HEAD", false),
            ("LINK", false),
            ("", false),
        ] {
            assert_eq!(take(&methods, method), taken, "{method}");
        }
        assert!(!methods.take(None, 0));
    }
}
