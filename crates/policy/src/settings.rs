//! Owns the settings beside the rules: where state is kept, what happens while it cannot be
//! reached, where the service listens, who its clients are and what they are told.

use std::path::PathBuf;

use tollkeeper_core::{Colocate, WhenFull};

use crate::limits::{
    DEFAULT_CONNECTIONS, DEFAULT_DENIED_CACHE_US, DEFAULT_MAX_KEYS, DEFAULT_NODES, DEFAULT_PREFIX,
    DEFAULT_TIMEOUT_US, MAX_CONNECTIONS, MAX_DENIED_CACHE_US, MAX_KEYS, MAX_PREFIX_BYTES,
    MAX_SHARING_NODES, MAX_TIMEOUT_US, MIN_TIMEOUT_US,
};
use crate::store_url::StoreUrl;

mod answers;
mod doors;

pub use answers::{ClientIp, HeaderStyle};
pub(crate) use answers::{check_token, is_token};
pub(crate) use doors::EXPECTED_UPSTREAM;
pub use doors::{GatewaySettings, Listen, Tls, Upstream};

/// Where state is kept, how it is reached, and what happens when it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// The store.
    pub url: StoreUrl,
    /// The most keys held in memory; beside a server, by the local limiter of
    /// [`OnFailure::Static`].
    pub max_keys: usize,
    /// What happens to a new key when that many are held.
    pub when_full: WhenFull,
    /// Whether the text of every key is kept in memory, so that all of them can be shown.
    pub names: bool,
    /// How long a decision may wait for a server. No effect in memory.
    pub timeout_us: u64,
    /// What is decided while a server gives no answer; a rule can say otherwise. No effect in
    /// memory.
    pub on_failure: OnFailure,
    /// How long a denial is at most told again without the server being asked; 0 for never. No
    /// effect in memory.
    pub denied_cache_us: u64,
    /// Whether checks that wait at the same moment go to a server together. No effect in memory.
    pub merge: bool,
    /// How many connections are held to a server; at least 1. No effect in memory.
    pub connections: usize,
    /// How many processes share the limits, so that each has its part of them while the server
    /// gives no answer; at least 1. No effect in memory.
    pub nodes: u64,
    /// Whether processes count each other through the server, instead. They do where a rule is
    /// shared by as many as there are. No effect in memory.
    pub count_nodes: bool,
    /// What every key on a server begins with. No effect in memory.
    pub prefix: String,
    /// Which keys' states lie together where a store spreads them. No effect on one server.
    pub colocate: Colocate,
    /// A PEM file of certificate authorities that are trusted instead of the system's. No effect
    /// unless the server is reached through TLS; a file that has it with another server is refused.
    pub ca: Option<PathBuf>,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            url: StoreUrl::Memory,
            max_keys: DEFAULT_MAX_KEYS,
            when_full: WhenFull::default(),
            names: true,
            timeout_us: DEFAULT_TIMEOUT_US,
            on_failure: OnFailure::default(),
            denied_cache_us: DEFAULT_DENIED_CACHE_US,
            merge: true,
            connections: DEFAULT_CONNECTIONS,
            nodes: DEFAULT_NODES,
            count_nodes: false,
            prefix: DEFAULT_PREFIX.to_owned(),
            colocate: Colocate::default(),
            ca: None,
        }
    }
}

/// A setting that is out of its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is {value}; expected {expected}")]
pub struct SettingError {
    field: &'static str,
    value: String,
    expected: String,
}

impl SettingError {
    fn new(field: &'static str, value: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { field, value: value.into(), expected: expected.into() }
    }
}

impl StoreSettings {
    /// Refuses what the file would refuse.
    pub(crate) fn check(&self) -> Result<(), SettingError> {
        let within = |field, value: u64, least: u64, most: u64, unit: &str| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            let expected = format!("{least} to {most}{unit}");
            Err(SettingError { field, value: format!("{value}{unit}"), expected })
        };
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        within("max_keys", count(self.max_keys), 1, MAX_KEYS, "")?;
        within("timeout", self.timeout_us, MIN_TIMEOUT_US, MAX_TIMEOUT_US, " µs")?;
        within("denied_cache", self.denied_cache_us, 0, MAX_DENIED_CACHE_US, " µs")?;
        within("connections", count(self.connections), 1, MAX_CONNECTIONS, "")?;
        within("nodes", self.nodes, 1, MAX_SHARING_NODES, "")?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        let fits = (1..=MAX_PREFIX_BYTES).contains(&self.prefix.len());
        if fits && self.prefix.bytes().all(plain) {
            return Ok(());
        }
        let expected = format!("1 to {MAX_PREFIX_BYTES} letters, digits, `-`, `_`, `.` or `:`");
        let value = format!("{:?}", self.prefix.chars().take(64).collect::<String>());
        Err(SettingError { field: "prefix", value, expected })
    }
}

/// What is decided while the store gives no answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFailure {
    /// Everything is admitted.
    Open,
    /// Everything is denied.
    Closed,
    /// A limiter in this process decides, by this process's part of each limit.
    #[default]
    Static,
}

impl OnFailure {
    /// All of them, in the order in which messages name them.
    pub const ALL: [Self; 3] = [Self::Open, Self::Closed, Self::Static];

    /// The word for it in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Static => "static",
        }
    }

    /// The one with that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_made_in_code_have_the_bounds_of_the_file() {
        let good = StoreSettings::default;
        assert_eq!(good().check(), Ok(()));
        let long = "p".repeat(MAX_PREFIX_BYTES + 1);
        for (bad, said) in [
            (StoreSettings { timeout_us: 999, ..good() }, "`timeout` is 999 µs; expected 1000 to"),
            (StoreSettings { timeout_us: MAX_TIMEOUT_US + 1, ..good() }, "`timeout`"),
            (
                StoreSettings { denied_cache_us: MAX_DENIED_CACHE_US + 1, ..good() },
                "`denied_cache`",
            ),
            (StoreSettings { connections: 0, ..good() }, "`connections` is 0; expected 1 to 64"),
            (StoreSettings { nodes: 0, ..good() }, "`nodes`"),
            (StoreSettings { max_keys: 0, ..good() }, "`max_keys`"),
            (StoreSettings { prefix: String::new(), ..good() }, "`prefix` is \"\""),
            (StoreSettings { prefix: "a b".into(), ..good() }, "`prefix` is \"a b\""),
            (StoreSettings { prefix: long, ..good() }, "`prefix`"),
        ] {
            let error = bad.check().unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
