//! Owns [`Facts`]: what is worked out of a request once, however many rules ask for it.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::net::IpAddr;

use crate::request::{RequestView, values};
use crate::rule::methods::{IsOne, MethodBits};
use crate::rule::{Rule, Source, host};

/// A request and what has been worked out of it.
pub(super) struct Facts<'r, R: ?Sized> {
    pub(super) request: &'r R,
    pub(super) ipv6_prefix: u8,
    method: OnceCell<MethodBits>,
    host: OnceCell<Option<Cow<'r, str>>>,
}

impl<'r, R: RequestView + ?Sized> Facts<'r, R> {
    pub(super) fn new(request: &'r R, ipv6_prefix: u8) -> Self {
        Self { request, ipv6_prefix, method: OnceCell::new(), host: OnceCell::new() }
    }

    /// Whether the method is one of a rule's.
    pub(super) fn has_method_of(&self, rule: &Rule) -> bool {
        let methods = rule.hot().methods;
        if methods.is_any() {
            return true;
        }
        let is_one = |method: &str| {
            rule.match_().methods().iter().any(|known| known.eq_ignore_ascii_case(method))
        };
        let own = || self.request.method().map_or(MethodBits::default(), MethodBits::of);
        match methods.has(*self.method.get_or_init(own)) {
            IsOne::Yes => true,
            IsOne::No => false,
            IsOne::Perhaps => self.request.method().is_some_and(is_one),
        }
    }

    /// The host in its normal form.
    pub(super) fn host(&self) -> Option<&str> {
        self.host.get_or_init(|| host::normal(self.request.host()?)).as_deref()
    }

    /// A header without the blanks around it, which are no part of it. It need not be text.
    pub(super) fn header(&self, name: &str) -> Option<&'r [u8]> {
        let mut value = self.request.header_line(name, 0)?;
        while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
            value = rest;
        }
        Some(value)
    }

    /// The first cookie of a name, whichever line it stands in: HTTP/2 has a line for each.
    pub(super) fn cookie(&self, name: &str) -> Option<Cow<'r, [u8]>> {
        let lines = (0..).map_while(|nth| self.request.header_line("cookie", nth));
        lines.into_iter().find_map(|line| values::cookie(line, name))
    }

    /// The client's address; an IPv4 one as such, however it is written.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        self.request.ip().map(|ip| ip.to_canonical())
    }

    /// What a source says, if it counts in this request.
    pub(super) fn told(&self, source: &Source) -> Option<&'r str> {
        match source {
            Source::Header(name) if self.request.is_trusted() => {
                self.header(name).and_then(|value| str::from_utf8(value).ok())
            }
            Source::Header(_) => None,
            Source::Attribute(name) => self.request.attribute(name),
        }
    }
}
