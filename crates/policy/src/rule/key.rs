//! Owns [`KeyPart`] and [`WhenMissing`]: who is counted together.

use std::fmt;
use std::str::FromStr;

use compact_str::CompactString;

use super::names;
use crate::limits::MAX_KEY_PARTS;
use crate::nearest::nearest;
use crate::refused::{FieldError, Refused};

/// What a part of a key looks like.
pub(crate) const EXPECTED: &str = "`ip`, `header:NAME`, `cookie:NAME`, `query:NAME`, `route`, \
                                   `method`, `host`, `user` or `attribute:NAME`";

/// What requests are told apart by.
///
/// ```
/// use tollkeeper_policy::KeyPart;
///
/// assert_eq!("header:X-Api-Key".parse(), Ok(KeyPart::Header("x-api-key".into())));
/// assert_eq!("user".parse(), Ok(KeyPart::Attribute("user".into())));
/// let error = "hedaer:x-api-key".parse::<KeyPart>().unwrap_err();
/// assert_eq!(error.help(), Some("did you mean `header:x-api-key`?"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyPart {
    /// `ip`: the client's address; of an IPv6 address the network that it is in.
    Ip,
    /// `header:NAME`: a header, its name in lower case. Of several the first.
    Header(CompactString),
    /// `cookie:NAME`: a cookie. Of several the first.
    Cookie(CompactString),
    /// `query:NAME`: a parameter of the query, decoded. Of several the first.
    Query(CompactString),
    /// `route`: the app's own name of the route, else the pattern of the rule that matched.
    Route,
    /// `method`, in upper case.
    Method,
    /// `host`, in lower case and without its port.
    Host,
    /// `attribute:NAME`, or `user` for `attribute:user`: what the app says of the request.
    Attribute(CompactString),
}

impl KeyPart {
    pub(crate) fn read(text: &str) -> Result<Self, Refused> {
        let (word, name) = match text.split_once(':') {
            Some((word, name)) => (word, Some(name)),
            None => (text, None),
        };
        Ok(match (word, name) {
            ("ip", None) => Self::Ip,
            ("route", None) => Self::Route,
            ("method", None) => Self::Method,
            ("host", None) => Self::Host,
            ("user", None) => Self::Attribute("user".into()),
            ("header", Some(name)) => Self::Header(names::header(name)?.into()),
            ("cookie", Some(name)) => Self::Cookie(names::cookie(name)?.into()),
            ("query", Some(name)) => Self::Query(names::parameter(name)?.into()),
            ("attribute", Some(name)) => Self::Attribute(names::attribute(name)?.into()),
            _ => return Err(unknown(text, word, name)),
        })
    }

    /// What messages call it.
    pub(crate) fn described(&self) -> String {
        match self {
            Self::Ip => "the client's address".into(),
            Self::Header(name) => format!("header {name}"),
            Self::Cookie(name) => format!("cookie {name}"),
            Self::Query(name) => format!("query parameter {name}"),
            Self::Route => "the route".into(),
            Self::Method => "the method".into(),
            Self::Host => "the host".into(),
            Self::Attribute(name) => format!("attribute {name}"),
        }
    }
}

fn unknown(text: &str, word: &str, name: Option<&str>) -> Refused {
    const BARE: [&str; 5] = ["ip", "route", "method", "host", "user"];
    const NAMED: [&str; 4] = ["header", "cookie", "query", "attribute"];
    let refuse = |reason: &str| Refused::new(reason, EXPECTED);
    if NAMED.contains(&word) {
        return refuse(", which has no name").help(format!("write `{word}:NAME`"));
    }
    if let (true, Some(name)) = (BARE.contains(&word), name) {
        return refuse(&format!(", and `{word}` takes no name"))
            .help(format!("write `{word}`, or `attribute:{name}` for what the app says"));
    }
    let near = match name {
        Some(_) => nearest(word, NAMED.into_iter()),
        None => nearest(word, BARE.into_iter()),
    };
    let refused = refuse(", which is not known");
    match (near, name) {
        (Some(near), Some(name)) => refused.help(format!("did you mean `{near}:{name}`?")),
        (Some(near), None) => refused.help(format!("did you mean `{near}`?")),
        (None, _) if matches!(word, "path" | "url" | "uri") => refused
            .help("`route` is what the app or the rule calls the path: a path of its own for each request would be a counter of its own"),
        (None, None) if names::header(text).is_ok() => {
            refused.help(format!("a header is `header:{text}`, what the app says is `attribute:{text}`"))
        }
        _ => refused,
    }
}

/// Refuses a key of parts that are too many or the same.
pub(crate) fn add(parts: &mut Vec<KeyPart>, text: &str) -> Result<(), Refused> {
    let part = KeyPart::read(text)?;
    if parts.contains(&part) {
        return Err(Refused::new(", which stands here twice", "each part once"));
    }
    if parts.len() == MAX_KEY_PARTS {
        let expected = format!("at most {MAX_KEY_PARTS} parts");
        return Err(Refused::new(", which is one too many", expected));
    }
    parts.push(part);
    Ok(())
}

impl FromStr for KeyPart {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::read(text).map_err(|refused| refused.of("key", text))
    }
}

impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip => f.write_str("ip"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Cookie(name) => write!(f, "cookie:{name}"),
            Self::Query(name) => write!(f, "query:{name}"),
            Self::Route => f.write_str("route"),
            Self::Method => f.write_str("method"),
            Self::Host => f.write_str("host"),
            Self::Attribute(name) => write!(f, "attribute:{name}"),
        }
    }
}

/// What happens to a request that lacks a part of a rule's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WhenMissing {
    /// The rule does not apply to it.
    #[default]
    Skip,
    /// The rule denies it.
    Deny,
    /// All that lack the part are counted together, apart from every value that it can have.
    Anonymous,
}

impl WhenMissing {
    /// All of them, in the order in which messages name them.
    pub const ALL: [Self; 3] = [Self::Skip, Self::Deny, Self::Anonymous];

    /// The word for it in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Deny => "deny",
            Self::Anonymous => "anonymous",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}
