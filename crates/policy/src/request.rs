//! Owns [`RequestView`]: what the matcher asks of a request, whichever door it came through.

use std::net::IpAddr;

mod attributes;
pub(crate) mod path;
pub(crate) mod values;

pub use attributes::{AttributeError, Attributes};

/// A request, as far as rules look at it.
///
/// Every method says `None` unless it is written, so that a door says only what it knows. A rule
/// that asks for what nobody said does not match, and a part of a key that nobody said, or that is
/// empty, is missing.
///
/// ```
/// use tollkeeper_policy::{Policy, RequestView};
///
/// struct Get<'a>(&'a str);
///
/// impl RequestView for Get<'_> {
///     fn method(&self) -> Option<&str> {
///         Some("GET")
///     }
///
///     fn path(&self) -> Option<&str> {
///         Some(self.0)
///     }
/// }
///
/// let file = "rules: { api: { match: { path: /api/** }, limit: 100/min } }";
/// let policy = Policy::parse(file, &|_| None)?;
/// assert_eq!(policy.meet(&Get("/api/users/7")).met.len(), 1);
/// assert_eq!(policy.meet(&Get("/x/..//%61pi/")).met.len(), 1);
/// assert_eq!(policy.meet(&Get("/about")).met.len(), 0);
/// # Ok::<(), tollkeeper_policy::PolicyErrors>(())
/// ```
pub trait RequestView {
    /// The method. Upper and lower case make no difference.
    fn method(&self) -> Option<&str> {
        None
    }

    /// The path, as it came. What follows a `?` or a `#` is not looked at.
    ///
    /// So that nobody dodges a limit by a spelling that the app understands just as well, these are
    /// the same path to a rule:
    ///
    /// - empty segments count for nothing: `//api///x`, and a slash at the end;
    /// - `.` and `..` are resolved: `/api/./x`, `/y/../api/x`; what would leave the root stays there;
    /// - percent-encoding makes no difference: `/%61pi`, `/%2e%2e/api`, `/caf%c3%a9`.
    ///
    /// These are not: upper and lower case; and `%2F`, which is a character of its segment and
    /// never a separator, so that `/a%2Fb` is one segment.
    ///
    /// Of a path of more than [`MAX_PATH_SEGMENTS`](crate::limits::MAX_PATH_SEGMENTS) segments only
    /// that many are looked at: it matches every pattern that has a `**` and agrees with the path
    /// before it, and no other.
    fn path(&self) -> Option<&str> {
        None
    }

    /// The query, without its `?`.
    fn query(&self) -> Option<&str> {
        None
    }

    /// The host that was asked, with or without a port.
    fn host(&self) -> Option<&str> {
        None
    }

    /// A header by its name in lower case; of several the first.
    fn header(&self, name: &str) -> Option<&str> {
        let _ = name;
        None
    }

    /// The same as it came, which need not be text; of several lines of one name the `nth`, from 0.
    /// Rules ask for this: whoever has more than [`header`](Self::header) can say writes it too, or a
    /// byte that is no text, or a second line, would hide a header from them.
    fn header_line(&self, name: &str, nth: usize) -> Option<&[u8]> {
        if nth == 0 { self.header(name).map(str::as_bytes) } else { None }
    }

    /// The address of the client, once what trusted proxies say has been taken into account.
    fn ip(&self) -> Option<IpAddr> {
        None
    }

    /// Something that the app, and never the client, says of the request: its user, their plan.
    fn attribute(&self, name: &str) -> Option<&str> {
        let _ = name;
        None
    }

    /// What the app calls the route, such as `/users/{id}`.
    fn route(&self) -> Option<&str> {
        None
    }

    /// Whether headers that set a cost or a tier count: only in a request that comes from a trusted
    /// proxy, or that is told by the app itself.
    fn is_trusted(&self) -> bool {
        false
    }
}

impl<R: RequestView + ?Sized> RequestView for &R {
    fn method(&self) -> Option<&str> {
        (**self).method()
    }

    fn path(&self) -> Option<&str> {
        (**self).path()
    }

    fn query(&self) -> Option<&str> {
        (**self).query()
    }

    fn host(&self) -> Option<&str> {
        (**self).host()
    }

    fn header(&self, name: &str) -> Option<&str> {
        (**self).header(name)
    }

    fn header_line(&self, name: &str, nth: usize) -> Option<&[u8]> {
        (**self).header_line(name, nth)
    }

    fn ip(&self) -> Option<IpAddr> {
        (**self).ip()
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        (**self).attribute(name)
    }

    fn route(&self) -> Option<&str> {
        (**self).route()
    }

    fn is_trusted(&self) -> bool {
        (**self).is_trusted()
    }
}
