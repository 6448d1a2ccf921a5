//! Owns [`Identity`]: what the app itself knows of a request, and no client can say.

use tollkeeper_policy::RequestView;

use crate::request::HttpRequest;

/// What the app has verified: who the user is, which plan they have.
///
/// ```
/// use tollkeeper_tower::Identity;
/// let identity = Identity::user("alice").with("plan", "pro");
/// assert_eq!(identity.get("user"), Some("alice"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    attributes: Vec<(String, String)>,
}

impl Identity {
    /// Somebody of whom nothing is known.
    #[must_use]
    pub fn unknown() -> Self {
        Self::default()
    }

    /// A user, which is the attribute `user`.
    #[must_use]
    pub fn user(name: impl Into<String>) -> Self {
        Self::default().with("user", name)
    }

    /// The same with a further attribute, which a rule finds as `attribute:NAME`.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }

    /// The value of an attribute.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A request, with what the app knows of it.
pub(crate) struct Identified<'a> {
    pub(crate) request: HttpRequest<'a>,
    pub(crate) identity: &'a Identity,
}

impl RequestView for Identified<'_> {
    fn method(&self) -> Option<&str> {
        self.request.method()
    }

    fn path(&self) -> Option<&str> {
        self.request.path()
    }

    fn query(&self) -> Option<&str> {
        self.request.query()
    }

    fn host(&self) -> Option<&str> {
        self.request.host()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.request.header(name)
    }

    fn header_line(&self, name: &str, nth: usize) -> Option<&[u8]> {
        self.request.header_line(name, nth)
    }

    fn ip(&self) -> Option<std::net::IpAddr> {
        self.request.ip()
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        self.identity.get(name)
    }

    fn route(&self) -> Option<&str> {
        self.request.route()
    }

    fn is_trusted(&self) -> bool {
        self.request.is_trusted()
    }
}
