//! Owns [`Match`]: which requests a rule is for.

use compact_str::CompactString;
use smallvec::SmallVec;
use tollkeeper_core::Secret;

use super::host::HostPattern;
use super::methods::MethodBits;
use super::names;
use super::path::PathPattern;
use crate::limits::{MAX_HEADERS, MAX_HOSTS, MAX_METHODS, MAX_PATHS, MAX_VALUE_BYTES};
use crate::refused::{FieldError, Refused};

/// The value that stands for every value of a header.
const ANY_VALUE: &str = "*";

/// Which requests a rule is for. All that is asked for must hold; of several paths, methods or
/// hosts, one must.
///
/// ```
/// use tollkeeper_policy::Match;
///
/// let match_ = Match::any()
///     .path("/api/**")?
///     .method("GET")?
///     .method("POST")?
///     .host("*.example.com")?
///     .header("x-internal", "*")?;
/// assert_eq!(match_.methods(), ["GET".into(), "POST".into()]);
/// assert!(!match_.is_any());
/// # Ok::<(), tollkeeper_policy::FieldError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    paths: Vec<PathPattern>,
    methods: Vec<Box<str>>,
    hosts: SmallVec<[HostPattern; 1]>,
    headers: SmallVec<[HeaderMatch; 1]>,
}

/// What a header of a request must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderMatch {
    name: CompactString,
    value: Option<Secret>,
}

impl HeaderMatch {
    /// The header's name, in lower case.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value that it must have; `None` if it only has to be there. It is hidden from `Debug`,
    /// since it may come from a variable.
    #[must_use]
    pub fn value(&self) -> Option<&Secret> {
        self.value.as_ref()
    }

    pub(crate) fn holds(&self, value: Option<&[u8]>) -> bool {
        match (&self.value, value) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(expected), Some(value)) => expected.expose().as_bytes() == value,
        }
    }
}

impl Match {
    /// Every request.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// The same for this path too; see [`PathPattern`]. The first call leaves out all others.
    pub fn path(mut self, pattern: &str) -> Result<Self, FieldError> {
        self.add_path(pattern).map_err(|refused| refused.of("path", pattern))?;
        Ok(self)
    }

    /// The same for this method too, in upper case. A request for `HEAD` is not one for `GET`.
    pub fn method(mut self, method: &str) -> Result<Self, FieldError> {
        self.add_method(method).map_err(|refused| refused.of("methods", method))?;
        Ok(self)
    }

    /// The same for this host too; see [`HostPattern`].
    pub fn host(mut self, host: &str) -> Result<Self, FieldError> {
        self.add_host(host).map_err(|refused| refused.of("host", host))?;
        Ok(self)
    }

    /// The same where a header is there and has this value, or any if it is `*`.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, FieldError> {
        let known = self.header_name(name);
        let added = known.and_then(|name| self.add_header(name, value));
        added.map_err(|refused| refused.of("headers", name))?;
        Ok(self)
    }

    pub(crate) fn add_path(&mut self, text: &str) -> Result<(), Refused> {
        add(&mut self.paths, PathPattern::read(text)?, MAX_PATHS, "paths")
    }

    pub(crate) fn add_method(&mut self, text: &str) -> Result<(), Refused> {
        add(&mut self.methods, names::method(text)?, MAX_METHODS, "methods")
    }

    pub(crate) fn add_host(&mut self, text: &str) -> Result<(), Refused> {
        add(&mut self.hosts, HostPattern::read(text)?, MAX_HOSTS, "hosts")
    }

    /// The name of a header that is not yet asked for.
    pub(crate) fn header_name(&self, name: &str) -> Result<CompactString, Refused> {
        let name = CompactString::from(names::header(name)?);
        match self.headers.iter().any(|header| header.name == name) {
            true => Err(Refused::new(", which stands here twice", "each header once")),
            false => Ok(name),
        }
    }

    pub(crate) fn add_header(&mut self, name: CompactString, value: &str) -> Result<(), Refused> {
        let value = match value {
            ANY_VALUE => None,
            _ => Some(header_value(value)?),
        };
        add(&mut self.headers, HeaderMatch { name, value }, MAX_HEADERS, "headers")
    }

    /// Whether it is for every request.
    #[must_use]
    pub fn is_any(&self) -> bool {
        let Self { paths, methods, hosts, headers } = self;
        paths.is_empty() && methods.is_empty() && hosts.is_empty() && headers.is_empty()
    }

    /// The paths; empty for every path.
    #[must_use]
    pub fn paths(&self) -> &[PathPattern] {
        &self.paths
    }

    /// The methods; empty for every method.
    #[must_use]
    pub fn methods(&self) -> &[Box<str>] {
        &self.methods
    }

    pub(crate) fn method_bits(&self) -> MethodBits {
        MethodBits::of_all(&self.methods)
    }

    /// The hosts; empty for every host.
    #[must_use]
    pub fn hosts(&self) -> &[HostPattern] {
        &self.hosts
    }

    /// The headers that must be there.
    #[must_use]
    pub fn headers(&self) -> &[HeaderMatch] {
        &self.headers
    }
}

/// A value that a header can have.
fn header_value(value: &str) -> Result<Secret, Refused> {
    let expected = format!("a value of 1 to {MAX_VALUE_BYTES} bytes, or `*` for any");
    match value {
        _ if value.len() > MAX_VALUE_BYTES => {
            Err(Refused::new(", which is too long for a header", expected))
        }
        _ if value.trim().is_empty()
            || value.trim() != value
            || value.contains(char::is_control) =>
        {
            Err(Refused::new(", which no header can have", expected))
        }
        _ => Ok(Secret::new(value)),
    }
}

/// Adds what is not yet there, up to `most`.
fn add<T: PartialEq>(
    list: &mut (impl Extend<T> + std::ops::Deref<Target = [T]>),
    item: T,
    most: usize,
    what: &str,
) -> Result<(), Refused> {
    if list.contains(&item) {
        return Err(Refused::new(", which stands here twice", "each one once"));
    }
    if list.len() == most {
        return Err(Refused::new(", which is one too many", format!("at most {most} {what}")));
    }
    list.extend([item]);
    Ok(())
}
