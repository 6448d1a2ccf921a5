//! Owns where the service listens, and what stands behind its gateway.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use crate::limits::{DEFAULT_CONNECT_US, DEFAULT_SILENCE_US, DEFAULT_TUNNEL_US, MAX_HOST_BYTES};
use crate::refused::{FieldError, Refused};

/// What an upstream looks like.
pub(crate) const EXPECTED_UPSTREAM: &str = "a URL such as `http://127.0.0.1:3000`";

/// Where the service listens. A door without an address stays closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The HTTP API.
    pub http: Option<SocketAddr>,
    /// Admin calls; without it they are answered at `http`.
    pub admin: Option<SocketAddr>,
    /// The reverse proxy before the [upstream](crate::Policy::upstream).
    pub gateway: Option<SocketAddr>,
}

impl Listen {
    /// Every door closed.
    pub const CLOSED: Self = Self { http: None, admin: None, gateway: None };
}

impl Default for Listen {
    /// The HTTP API, for this machine alone.
    fn default() -> Self {
        Self { http: Some((Ipv4Addr::LOCALHOST, 8080).into()), ..Self::CLOSED }
    }
}

/// How long the gateway waits before it gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewaySettings {
    /// For a connection to the app.
    pub connect_timeout_us: u64,
    /// For the next bytes of a request or of its answer.
    pub timeout_us: u64,
    /// For the next bytes of a connection that became a WebSocket.
    pub tunnel_timeout_us: u64,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            connect_timeout_us: DEFAULT_CONNECT_US,
            timeout_us: DEFAULT_SILENCE_US,
            tunnel_timeout_us: DEFAULT_TUNNEL_US,
        }
    }
}

/// What the doors show to clients that come by TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// A PEM file of the certificate and those that lead to its authority.
    pub certificate: PathBuf,
    /// A PEM file of its private key.
    pub key: PathBuf,
}

/// The app behind the gateway.
///
/// ```
/// use tollkeeper_policy::Upstream;
///
/// let upstream: Upstream = "http://[::1]:3000".parse()?;
/// assert_eq!((upstream.host(), upstream.port()), ("::1", 3000));
/// assert_eq!(upstream.authority(), "[::1]:3000");
/// assert!("https://app".parse::<Upstream>().is_err());
/// # Ok::<(), tollkeeper_policy::FieldError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    host: Box<str>,
    port: u16,
}

impl Upstream {
    /// A name or an address; an IPv6 address without its brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port; never 0.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The host and the port, as a URL has them.
    #[must_use]
    pub fn authority(&self) -> String {
        let Self { host, port } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// Whether a request to it would come to who listens at `address`, as far as the names tell.
    pub(crate) fn is_at(&self, address: SocketAddr) -> bool {
        let ip = match &*self.host {
            "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
            host => host.parse::<IpAddr>().ok(),
        };
        let reaches =
            |ip: IpAddr| ip == address.ip() || (address.ip().is_unspecified() && ip.is_loopback());
        self.port == address.port() && ip.is_some_and(reaches)
    }

    /// What is not told is the URL: there may be a password in it by mistake.
    pub(crate) fn read(text: &str) -> Result<Self, Refused> {
        let refuse = |reason: &str| Refused::new(reason, EXPECTED_UPSTREAM);
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(refuse(", which has no `://` in it")
                .help("write the scheme too, as in `http://127.0.0.1:3000`"));
        };
        match scheme {
            "http" => {}
            "https" => return Err(refuse(", which is not supported by this version")),
            _ => return Err(refuse(", which does not begin with `http://`")),
        }
        let place = rest.strip_suffix('/').unwrap_or(rest);
        if place.contains('@') {
            return Err(refuse(", which has a user in it"));
        }
        if place.contains(['/', '?', '#']) {
            return Err(refuse(", which has a path in it")
                .help("the path of a request is passed on as it is: leave it out"));
        }
        let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, after)) => (host, Some(after.strip_prefix(':').unwrap_or(after))),
            None => match place.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            },
        };
        let port = port.map_or(Ok(80), str::parse).unwrap_or(0);
        if port == 0 {
            return Err(refuse(", whose port is none"));
        }
        let is_v6 = place.starts_with('[') && host.parse::<Ipv6Addr>().is_ok();
        if !is_v6 && !is_name(host) {
            return Err(refuse(", whose host cannot be one"));
        }
        Ok(Self { host: host.into(), port })
    }
}

fn is_name(host: &str) -> bool {
    let usual = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(usual);
    let labels = host.strip_suffix('.').unwrap_or(host);
    host.len() <= MAX_HOST_BYTES && labels.split('.').all(is_label)
}

impl FromStr for Upstream {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::read(text).map_err(|refused| refused.of("upstream", text))
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority())
    }
}
