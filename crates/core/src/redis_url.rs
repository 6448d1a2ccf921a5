//! Owns [`RedisUrl`]: where a Redis or Valkey server is, or several that are one store, and who we
//! are to them.
//!
//! A user or a password is in no `Debug` output and in no place that is shown.

use std::fmt;
use std::path::PathBuf;

/// The port of a URL that names none.
const DEFAULT_PORT: u16 = 6379;

/// A server that speaks Redis's protocol, and who we are to it.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    /// Where it is.
    pub address: RedisAddress,
    /// The user; `None` for the server's default one. Never empty.
    pub user: Option<String>,
    /// The password, never empty; `None` beside a user means that the user needs none.
    pub password: Option<Secret>,
    /// Which of its databases.
    pub database: u16,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisAddress {
    /// A host and a port.
    Tcp {
        /// A name or an address; an IPv6 address without its brackets.
        host: String,
        /// The port; never 0.
        port: u16,
        /// Whether the connection is encrypted, and the server's certificate checked.
        tls: bool,
    },
    /// A socket in the file system.
    Unix {
        /// Where it is; absolute.
        path: PathBuf,
    },
    /// Whichever server sentinels call the master.
    Sentinel {
        /// The sentinels; never none.
        sentinels: Vec<HostPort>,
        /// What they call the master; never empty.
        master: String,
        /// Who we are to the sentinels, where they ask for it.
        user: Option<Secret>,
        /// The sentinels' password.
        password: Option<Secret>,
        /// Whether all connections are encrypted, those to the sentinels too.
        tls: bool,
    },
    /// The nodes of a cluster.
    Cluster {
        /// Some of them, who know the others; never none.
        nodes: Vec<HostPort>,
        /// Whether all connections are encrypted.
        tls: bool,
    },
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// A name or an address; an IPv6 address without its brackets.
    pub host: String,
    /// The port; never 0.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl RedisUrl {
    /// Where the server is, for people: `127.0.0.1:6379`, `[::1]:6379/2`, `/run/redis.sock`,
    /// `mymaster/2 of h1:26379,h2:26379`, `the cluster of a:7000,b:7000`. A database other than 0
    /// is told too, a user or a password never.
    #[must_use]
    pub fn place(&self) -> String {
        let database = |mark: &str| match self.database {
            0 => String::new(),
            database => format!("{mark}{database}"),
        };
        match &self.address {
            RedisAddress::Tcp { host, port, .. } => {
                let place = HostPort { host: host.clone(), port: *port };
                format!("{place}{}", database("/"))
            }
            RedisAddress::Unix { path } => format!("{}{}", path.display(), database("?db=")),
            RedisAddress::Sentinel { sentinels, master, .. } => {
                format!("{master}{} of {}", database("/"), listed(sentinels))
            }
            RedisAddress::Cluster { nodes, .. } => format!("the cluster of {}", listed(nodes)),
        }
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        match self.address {
            RedisAddress::Tcp { tls, .. }
            | RedisAddress::Sentinel { tls, .. }
            | RedisAddress::Cluster { tls, .. } => tls,
            RedisAddress::Unix { .. } => false,
        }
    }
}

/// The places, whatever order they were written in: by its place a store is known again.
fn listed(places: &[HostPort]) -> String {
    let mut places: Vec<String> = places.iter().map(ToString::to_string).collect();
    places.sort_unstable();
    places.join(",")
}

impl Default for RedisUrl {
    /// `redis://127.0.0.1:6379`
    fn default() -> Self {
        let address =
            RedisAddress::Tcp { host: "127.0.0.1".to_owned(), port: DEFAULT_PORT, tls: false };
        Self { address, user: None, password: None, database: 0 }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisUrl")
            .field("address", &self.address)
            .field("user", &self.user.as_ref().map(|_| format_args!("***")))
            .field("password", &self.password)
            .field("database", &self.database)
            .finish()
    }
}

/// A text that is not to be seen: its `Debug` output is `***`, and it has no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one that needs it. Not for messages.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
