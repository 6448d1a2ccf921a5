//! Owns [`ClientIp`] and [`HeaderStyle`]: who a client is, and what answers tell it. Also what a
//! token of admin calls looks like.

use std::net::IpAddr;

use super::SettingError;
use crate::limits::{DEFAULT_IPV6_PREFIX, MAX_TOKEN_BYTES, MIN_TOKEN_BYTES};
use crate::networks::Networks;
use crate::store_url::Secret;

/// How the address of a client is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIp {
    /// Whose word on the client's address counts; nobody's if it is empty.
    pub trusted_proxies: Networks,
    /// How many bits of an IPv6 address tell clients apart: 1 to 128.
    pub ipv6_prefix: u8,
}

impl ClientIp {
    /// Whether the word of this peer counts.
    #[must_use]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted_proxies.contains(peer)
    }

    /// Refuses what the file would refuse.
    pub(crate) fn check(&self) -> Result<(), SettingError> {
        match self.ipv6_prefix {
            1..=128 => Ok(()),
            other => Err(SettingError::new("ipv6_prefix", other.to_string(), "1 to 128")),
        }
    }
}

impl Default for ClientIp {
    fn default() -> Self {
        Self { trusted_proxies: Networks::default(), ipv6_prefix: DEFAULT_IPV6_PREFIX }
    }
}

/// A set of headers that answers carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeaderStyle {
    /// `X-RateLimit-*`, with the reset as a time of the Unix clock.
    Legacy,
    /// `X-RateLimit-*`, with the reset as seconds to go.
    LegacyDelta,
    /// `RateLimit` and `RateLimit-Policy` of the IETF's draft.
    Ietf,
    /// `x-ratelimit-*-requests` and `x-ratelimit-*-tokens`.
    OpenAi,
}

impl HeaderStyle {
    /// All of them, in the order in which messages name them.
    pub const ALL: [Self; 4] = [Self::Legacy, Self::LegacyDelta, Self::Ietf, Self::OpenAi];

    /// What answers carry where the file does not say.
    pub const DEFAULT: [Self; 1] = [Self::Legacy];

    /// The word for it in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::LegacyDelta => "legacy-delta",
            Self::Ietf => "ietf",
            Self::OpenAi => "openai",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// Refuses styles that cannot stand together.
    pub(crate) fn check(styles: &[Self]) -> Result<(), SettingError> {
        let names = || styles.iter().map(|style| style.name()).collect::<Vec<_>>().join(", ");
        let twice = styles.iter().enumerate().any(|(at, style)| styles[..at].contains(style));
        match twice || [Self::Legacy, Self::LegacyDelta].iter().all(|style| styles.contains(style))
        {
            false => Ok(()),
            true => {
                let expected = "each one once, and `legacy` or `legacy-delta`";
                Err(SettingError::new("headers", format!("[{}]", names()), expected))
            }
        }
    }
}

/// Whether a text can be the token of admin calls: long enough, and such that a header can hold it.
pub(crate) fn is_token(text: &str) -> bool {
    let fits = (MIN_TOKEN_BYTES..=MAX_TOKEN_BYTES).contains(&text.len());
    fits && text.bytes().all(|b| b.is_ascii_graphic())
}

/// Refuses what the file would refuse. Nothing of the token is told.
pub(crate) fn check_token(token: &Secret) -> Result<(), SettingError> {
    match is_token(token.expose()) {
        true => Ok(()),
        false => {
            let expected =
                format!("{MIN_TOKEN_BYTES} to {MAX_TOKEN_BYTES} visible ASCII characters");
            Err(SettingError::new("token", "***", expected))
        }
    }
}
