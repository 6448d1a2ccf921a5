//! Owns [`HostPattern`]: which hosts a rule is for.

use std::borrow::Cow;
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use compact_str::CompactString;

use crate::limits::MAX_HOST_BYTES;
use crate::refused::{FieldError, Refused};

/// What a host of a rule looks like.
pub(crate) const EXPECTED: &str = "a host such as `api.example.com` or `*.example.com`";

/// A host, or with `*.` before it every host below it.
///
/// `*.example.com` matches `api.example.com` and `eu.api.example.com`, and not `example.com`. Upper
/// and lower case, the port and a dot at the end make no difference.
///
/// ```
/// use tollkeeper_policy::HostPattern;
///
/// let pattern: HostPattern = "*.Example.com".parse()?;
/// assert_eq!(pattern.to_string(), "*.example.com");
/// assert!(pattern.matches("api.example.com:8443"));
/// assert!(!pattern.matches("example.com"));
/// # Ok::<(), tollkeeper_policy::FieldError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    /// In lower case; for a wildcard what follows its star, with the dot.
    text: CompactString,
}

impl HostPattern {
    /// Whether the host of a request is one of these.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        normal(host).is_some_and(|host| self.matches_normal(&host))
    }

    /// The same for a host that is in its normal form.
    pub(crate) fn matches_normal(&self, host: &str) -> bool {
        match self.is_wildcard() {
            true => host.len() > self.text.len() && host.ends_with(self.text.as_str()),
            false => host == self.text.as_str(),
        }
    }

    fn is_wildcard(&self) -> bool {
        self.text.starts_with('.')
    }

    /// The normal form of the host, or `.` and that of the one above every host that is meant.
    pub(crate) fn suffix(&self) -> &str {
        &self.text
    }

    pub(crate) fn read(text: &str) -> Result<Self, Refused> {
        let refuse = |reason: &str| Refused::new(reason, EXPECTED);
        if let Some((_, rest)) = text.split_once("://") {
            let near = rest.split(['/', ':']).next().unwrap_or_default();
            return Err(refuse(", which is a URL").help(format!("write `{near}`")));
        }
        if text == "*" {
            let refused = refuse(", which is every host");
            return Err(refused.help("leave `host` out for every host"));
        }
        let Some(host) = normal(text) else {
            return Err(refuse(", which is empty"));
        };
        if host.len() != text.trim_end_matches('.').len() {
            let refused = refuse(", which has a port");
            return Err(refused.help(format!("ports make no difference: write `{host}`")));
        }
        let name = host.strip_prefix("*.").unwrap_or(&host);
        if name.contains('*') {
            let refused = refuse(", in which a `*` is not the first label");
            return Err(refused.help("a `*` stands only at the beginning, as in `*.example.com`"));
        }
        if !name.is_ascii() {
            let refused = refuse(", which is not written in ASCII");
            return Err(
                refused.help("write it the way browsers send it, as in `xn--bcher-kva.example`")
            );
        }
        let usual = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(usual);
        let is_name = name.len() <= MAX_HOST_BYTES && name.split('.').all(is_label);
        let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let is_address = address.is_some_and(|text| text.parse::<Ipv6Addr>().is_ok());
        if !is_name && !is_address {
            return Err(refuse(", which cannot be a host"));
        }
        Ok(Self { text: host.strip_prefix('*').unwrap_or(&host).into() })
    }
}

/// A host in lower case, without its port and a dot at its end. `None` if nothing is left.
pub(crate) fn normal(host: &str) -> Option<Cow<'_, str>> {
    let host = match host.rfind(':') {
        // The colons of an address in brackets stand before its bracket.
        Some(at) if !host[at..].contains(']') => &host[..at],
        _ => host,
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    match host {
        "" => None,
        _ if host.bytes().any(|b| b.is_ascii_uppercase()) => Some(host.to_ascii_lowercase().into()),
        _ => Some(host.into()),
    }
}

impl FromStr for HostPattern {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::read(text).map_err(|refused| refused.of("host", text))
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.is_wildcard() { "*" } else { "" };
        write!(f, "{star}{}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_form_of_a_host() {
        for (host, expected) in [
            ("example.com", Some("example.com")),
            ("EXAMPLE.com:80", Some("example.com")),
            ("example.com.", Some("example.com")),
            ("example.com.:443", Some("example.com")),
            ("127.0.0.1:8080", Some("127.0.0.1")),
            ("[::1]:8080", Some("[::1]")),
            ("[2001:DB8::1]", Some("[2001:db8::1]")),
            ("", None),
            (".", None),
            (":80", None),
        ] {
            assert_eq!(normal(host).as_deref(), expected, "{host}");
        }
    }

    #[test]
    fn a_wildcard_is_for_what_is_below() {
        let pattern: HostPattern = "*.example.com".parse().unwrap();
        for (host, matches) in [
            ("a.example.com", true),
            ("a.b.example.com.", true),
            ("A.EXAMPLE.COM:1", true),
            ("example.com", false),
            (".example.com", false),
            ("badexample.com", false),
            ("example.com.evil.org", false),
        ] {
            assert_eq!(pattern.matches(host), matches, "{host}");
        }
    }
}
