//! Owns [`Attributes`]: a request told in words, as the HTTP API takes it.

use std::net::IpAddr;

use super::{RequestView, path::without_query};
use crate::error::{quoted, visible};
use crate::limits::{MAX_ATTRIBUTE_BYTES, MAX_ATTRIBUTES, MAX_FIELD_NAME_BYTES};
use crate::nearest::nearest;
use crate::rule::names;

/// The names that are not attributes.
const NAMES: [&str; 6] = ["method", "path", "query", "host", "route", "ip"];

/// A request told in names and values.
///
/// | name | is |
/// | --- | --- |
/// | `method`, `path`, `query`, `host`, `route` | what it says; a `path` may bring its query along |
/// | `ip` | the client's address |
/// | `header.NAME` | a header; `header.cookie` holds the cookies |
/// | `attribute.NAME` | what the app says of the request |
/// | any other name without a dot | the same: `plan` is `attribute.plan` |
///
/// Whoever tells a request is the app itself, so it [is trusted](RequestView::is_trusted) unless
/// [`untrusted`](Self::untrusted) says otherwise.
///
/// ```
/// use tollkeeper_policy::{Attributes, RequestView};
///
/// let request = Attributes::from_pairs([
///     ("method", "GET"),
///     ("path", "/api/x?page=2"),
///     ("ip", "1.2.3.4"),
///     ("header.X-Api-Key", "k"),
///     ("plan", "pro"),
/// ])?;
/// assert_eq!(request.header("x-api-key"), Some("k"));
/// assert_eq!(request.query(), Some("page=2"));
/// assert_eq!(request.attribute("plan"), Some("pro"));
///
/// let error = Attributes::from_pairs([("ip", "1.2.3")]).unwrap_err();
/// assert_eq!(error.to_string(), "`ip` is `1.2.3`; expected an address such as 203.0.113.7");
/// # Ok::<(), tollkeeper_policy::AttributeError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    method: Option<Box<str>>,
    path: Option<Box<str>>,
    query: Option<Box<str>>,
    host: Option<Box<str>>,
    route: Option<Box<str>>,
    ip: Option<IpAddr>,
    headers: Vec<(Box<str>, Box<str>)>,
    attributes: Vec<(Box<str>, Box<str>)>,
    untrusted: bool,
}

impl Attributes {
    /// A request of which nothing is known yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A request of these names and values.
    pub fn from_pairs<N: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, AttributeError> {
        let mut request = Self::new();
        for (name, value) in pairs {
            request.set(name.as_ref(), value.as_ref())?;
        }
        Ok(request)
    }

    /// The same request with one thing more.
    pub fn with(mut self, name: &str, value: &str) -> Result<Self, AttributeError> {
        self.set(name, value)?;
        Ok(self)
    }

    /// The same request told by somebody whose headers set no cost and no tier.
    #[must_use]
    pub fn untrusted(mut self) -> Self {
        self.untrusted = true;
        self
    }

    /// Adds one thing. What is there already is not replaced: that is an error.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), AttributeError> {
        if value.len() > MAX_ATTRIBUTE_BYTES {
            let is = format!("has {} bytes", value.len());
            return Err(AttributeError::new(name, is, format!("at most {MAX_ATTRIBUTE_BYTES}")));
        }
        match name.split_once('.') {
            Some(("header", header)) => self.set_header(name, header, value),
            Some(("attribute", attribute)) => self.set_attribute(name, attribute, value),
            Some(_) => Err(unknown(name)),
            None if NAMES.contains(&name) => self.set_own(name, value),
            None => self.set_attribute(name, name, value),
        }
    }

    fn set_own(&mut self, name: &str, value: &str) -> Result<(), AttributeError> {
        let refuse = |expected: &str| {
            Err(AttributeError::new(name, format!("is {}", quoted(value)), expected))
        };
        if value.contains(char::is_control) {
            return refuse("a text without control characters");
        }
        let slot = match name {
            "ip" => {
                let Ok(ip) = value.parse() else {
                    return refuse("an address such as 203.0.113.7");
                };
                return put(&mut self.ip, name, ip);
            }
            "method" if names::method(&value.to_ascii_uppercase()).is_err() => {
                return refuse("a method such as GET");
            }
            "path" if !value.starts_with('/') && value != "*" => {
                return refuse("a path such as /api/x");
            }
            "method" => &mut self.method,
            "path" => &mut self.path,
            "query" => &mut self.query,
            "host" => &mut self.host,
            _ => &mut self.route,
        };
        put(slot, name, value.into())
    }

    fn set_header(&mut self, name: &str, header: &str, value: &str) -> Result<(), AttributeError> {
        let Ok(header) = names::header(header) else {
            return Err(AttributeError::new(
                name,
                "is no header",
                "header.NAME, as in header.x-api-key",
            ));
        };
        add(&mut self.headers, name, header, value)
    }

    fn set_attribute(
        &mut self,
        name: &str,
        attribute: &str,
        value: &str,
    ) -> Result<(), AttributeError> {
        let Ok(attribute) = names::attribute(attribute) else {
            let expected = "attribute.NAME, as in attribute.plan";
            return Err(AttributeError::new(name, "is no attribute", expected));
        };
        add(&mut self.attributes, name, attribute, value)
    }
}

fn put<T>(slot: &mut Option<T>, name: &str, value: T) -> Result<(), AttributeError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(twice(name)),
    }
}

fn add(
    list: &mut Vec<(Box<str>, Box<str>)>,
    name: &str,
    key: Box<str>,
    value: &str,
) -> Result<(), AttributeError> {
    if list.iter().any(|(known, _)| *known == key) {
        return Err(twice(name));
    }
    if list.len() == MAX_ATTRIBUTES {
        let expected = format!("at most {MAX_ATTRIBUTES} of its kind");
        return Err(AttributeError::new(name, "is one too many", expected));
    }
    list.push((key, value.into()));
    Ok(())
}

fn twice(name: &str) -> AttributeError {
    AttributeError::new(name, "is given twice", "each name once")
}

fn unknown(name: &str) -> AttributeError {
    let known = NAMES.map(|name| format!("`{name}`")).join(", ");
    let expected = format!("{known}, header.NAME or attribute.NAME");
    let mut error = AttributeError::new(name, "is not known", expected);
    let (kind, rest) = name.split_once('.').unwrap_or((name, ""));
    let near = nearest(kind, ["header", "headers", "attribute", "attributes"].into_iter());
    // A name that is too long is none, and not given back.
    if let Some(near) = near.filter(|_| rest.len() <= MAX_FIELD_NAME_BYTES) {
        error.suggestion = Some(visible(&format!("{}.{rest}", near.trim_end_matches('s'))));
    }
    error
}

impl RequestView for Attributes {
    fn method(&self) -> Option<&str> {
        self.method.as_deref()
    }

    fn path(&self) -> Option<&str> {
        self.path.as_deref().map(without_query)
    }

    fn query(&self) -> Option<&str> {
        let of_path = || self.path.as_deref()?.split_once('?');
        self.query.as_deref().or_else(|| of_path().map(|(_, query)| query))
    }

    fn host(&self) -> Option<&str> {
        self.host.as_deref().or_else(|| self.header("host"))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| **known == *name).map(|(_, value)| &**value)
    }

    fn ip(&self) -> Option<IpAddr> {
        self.ip
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| **known == *name).map(|(_, value)| &**value)
    }

    fn route(&self) -> Option<&str> {
        self.route.as_deref()
    }

    fn is_trusted(&self) -> bool {
        !self.untrusted
    }
}

/// What is wrong with a request that is told in names and values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` {is}; expected {expected}{}", self.advice())]
pub struct AttributeError {
    name: String,
    is: String,
    expected: String,
    suggestion: Option<String>,
}

impl AttributeError {
    fn new(name: &str, is: impl Into<String>, expected: impl Into<String>) -> Self {
        let name = visible(quoted(name).trim_matches('`'));
        Self { name, is: visible(&is.into()), expected: expected.into(), suggestion: None }
    }

    /// The name that is wrong, or whose value is; cut if it is long.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What would have been accepted.
    #[must_use]
    pub fn expected(&self) -> &str {
        &self.expected
    }

    /// The name that was probably meant.
    #[must_use]
    pub fn suggestion(&self) -> Option<&str> {
        self.suggestion.as_deref()
    }

    fn advice(&self) -> String {
        let near = self.suggestion.as_ref();
        near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
    }
}
