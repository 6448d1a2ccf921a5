//! Owns [`MethodBits`]: the methods of a rule, such that one is found by a single bit.

/// The methods that have a bit of their own, from the lowest.
const KNOWN: [&str; 9] =
    ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT"];

/// The bit of every other method.
const OTHER: u16 = 1 << KNOWN.len();

/// Some methods, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MethodBits(u16);

/// Whether a method is one of those of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IsOne {
    Yes,
    No,
    /// Their names have to be compared.
    Perhaps,
}

impl MethodBits {
    /// The bit of a method. Upper and lower case make no difference.
    pub(crate) fn of(method: &str) -> Self {
        let known = KNOWN.iter().position(|known| known.eq_ignore_ascii_case(method));
        Self(known.map_or(OTHER, |place| 1 << place))
    }

    /// The bits of these methods.
    pub(crate) fn of_all(methods: &[Box<str>]) -> Self {
        methods.iter().fold(Self::default(), |all, method| Self(all.0 | Self::of(method).0))
    }

    /// Whether there are none of them, which stands for every one.
    pub(crate) fn is_any(self) -> bool {
        self.0 == 0
    }

    /// Whether one of these, or of all where there are none, is the one with this bit.
    pub(crate) fn has(self, one: Self) -> IsOne {
        match self.0 & one.0 {
            _ if self.is_any() => IsOne::Yes,
            0 => IsOne::No,
            OTHER => IsOne::Perhaps,
            _ => IsOne::Yes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_one_of_them_or_not() {
        let none = MethodBits::default();
        assert_eq!(none.has(MethodBits::of("GET")), IsOne::Yes, "none stands for every one");
        assert_eq!(none.has(none), IsOne::Yes);
        let some = MethodBits::of_all(&["GET".into(), "PURGE".into()]);
        for (method, is_one) in [
            ("GET", IsOne::Yes),
            ("get", IsOne::Yes),
            ("PURGE", IsOne::Perhaps),
            ("LINK", IsOne::Perhaps),
            ("", IsOne::Perhaps),
            ("HEAD", IsOne::No),
        ] {
            assert_eq!(some.has(MethodBits::of(method)), is_one, "{method}");
        }
        assert_eq!(some.has(none), IsOne::No, "a request without a method");
        assert_eq!(MethodBits::of_all(&["GET".into()]).has(MethodBits::of("LINK")), IsOne::No);
    }
}
