//! Owns the settings beside the rules: where state is kept, what happens while it cannot be
//! reached, and where the service listens.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use tollkeeper_core::WhenFull;

use crate::limits::{
    DEFAULT_CONNECTIONS, DEFAULT_MAX_KEYS, DEFAULT_NODES, DEFAULT_PREFIX, DEFAULT_TIMEOUT_US,
};
use crate::store_url::StoreUrl;

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
    /// How long a decision may wait for a server. No effect in memory.
    pub timeout_us: u64,
    /// What is decided while a server gives no answer; a rule can say otherwise. No effect in
    /// memory.
    pub on_failure: OnFailure,
    /// How many connections are held to a server; at least 1. No effect in memory.
    pub connections: usize,
    /// How many processes share the limits, so that each has its part of them while the server
    /// gives no answer; at least 1. No effect in memory.
    pub nodes: u64,
    /// What every key on a server begins with. No effect in memory.
    pub prefix: String,
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
            timeout_us: DEFAULT_TIMEOUT_US,
            on_failure: OnFailure::default(),
            connections: DEFAULT_CONNECTIONS,
            nodes: DEFAULT_NODES,
            prefix: DEFAULT_PREFIX.to_owned(),
            ca: None,
        }
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

/// Where the service listens. A door without an address stays closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The HTTP API.
    pub http: Option<SocketAddr>,
}

impl Default for Listen {
    fn default() -> Self {
        Self { http: Some((Ipv4Addr::LOCALHOST, 8080).into()) }
    }
}
