//! Owns [`Exempt`]: to whom a rule does not apply.

use std::net::IpAddr;

use tollkeeper_core::Secret;

use crate::limits::{MAX_EXEMPT_KEYS, MAX_VALUE_BYTES};
use crate::networks::Networks;
use crate::refused::{FieldError, Refused};

/// To whom a rule does not apply: addresses, and keys.
///
/// A key of one part is compared with the value of that part: `exempt.keys: [alice]` is for
/// `key: user` and the user `alice`. A key of several parts is compared as a whole, the way it is
/// counted: `alice|/search`.
///
/// ```
/// use tollkeeper_policy::{Exempt, Networks};
///
/// let exempt = Exempt::nobody().ips(Networks::parse(["10.0.0.0/8"])?).key("alice")?;
/// assert_eq!(exempt.keys().len(), 1);
/// # Ok::<(), tollkeeper_policy::FieldError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exempt {
    ips: Networks,
    /// In order.
    keys: Vec<Secret>,
}

impl Exempt {
    /// The rule applies to everybody.
    #[must_use]
    pub const fn nobody() -> Self {
        Self { ips: Networks::none(), keys: Vec::new() }
    }

    /// The same with these addresses.
    #[must_use]
    pub fn ips(mut self, ips: Networks) -> Self {
        self.ips = ips;
        self
    }

    /// The same with one key more.
    pub fn key(mut self, key: &str) -> Result<Self, FieldError> {
        self.add_key(key).map_err(|refused| refused.of("keys", key))?;
        Ok(self)
    }

    pub(crate) fn add_key(&mut self, key: &str) -> Result<(), Refused> {
        if !(1..=MAX_VALUE_BYTES).contains(&key.len()) {
            let expected = format!("a key of 1 to {MAX_VALUE_BYTES} bytes");
            return Err(Refused::new(", which cannot be a key", expected));
        }
        if self.keys.len() == MAX_EXEMPT_KEYS {
            let expected = format!("at most {MAX_EXEMPT_KEYS} keys");
            return Err(Refused::new(", which is one too many", expected));
        }
        match self.find(key) {
            Ok(_) => Err(Refused::new(", which stands here twice", "each key once")),
            Err(at) => {
                self.keys.insert(at, Secret::new(key));
                Ok(())
            }
        }
    }

    /// The addresses.
    #[must_use]
    pub fn networks(&self) -> &Networks {
        &self.ips
    }

    /// The keys, in alphabetical order. They are hidden from `Debug`, since they may come from
    /// variables.
    #[must_use]
    pub fn keys(&self) -> &[Secret] {
        &self.keys
    }

    pub(crate) fn has_ip(&self, ip: impl FnOnce() -> Option<IpAddr>) -> bool {
        !self.ips.is_empty() && ip().is_some_and(|ip| self.ips.contains(ip))
    }

    pub(crate) fn has_key(&self, key: &str) -> bool {
        !self.keys.is_empty() && self.find(key).is_ok()
    }

    fn find(&self, key: &str) -> Result<usize, usize> {
        self.keys.binary_search_by(|known| known.expose().cmp(key))
    }
}
