//! The policy file: whatever it says, it is read or refused, and what is read explains itself.

use std::net::{IpAddr, Ipv6Addr};

use tollkeeper_policy::{Policy, RequestView, Rule};

/// The value of the one variable. It is no value of any field, so whatever names it is refused.
const SECRET: &str = "zq9x7-hunter2";

/// Reads the bytes as a file. What is wrong with it has a place and can be shown; what is right
/// decides what it explains.
pub fn policy(bytes: &[u8]) {
    let env = |name: &str| (name == "V").then(|| SECRET.to_owned());
    let policy = match Policy::parse_bytes(bytes, &env) {
        Ok(policy) => policy,
        Err(errors) => {
            let text = String::from_utf8_lossy(bytes);
            let shown = errors.render("file", &text);
            assert!(!shown.is_empty());
            assert!(text.contains(SECRET) || !shown.contains(SECRET), "{shown}");
            assert!(errors.iter().all(|error| error.line > 0 && error.column > 0), "{errors}");
            assert_eq!(Policy::parse_bytes(bytes, &env).unwrap_err(), errors);
            return;
        }
    };
    assert!(!policy.rules().is_empty());
    for rule in policy.rules() {
        check_limits(&policy, rule);
        check_explained(&policy, &Guess::of(rule));
    }
    check_explained(&policy, &Unknown);
}

/// A limit is found by its name.
fn check_limits(policy: &Policy, rule: &Rule) {
    assert_eq!(policy.rule(rule.name()).unwrap().name(), rule.name());
    for limit in rule.limits() {
        assert_eq!(policy.quota(limit.name()), Some(limit.quota()), "{}", limit.name());
    }
}

/// What is explained is what is decided.
fn check_explained(policy: &Policy, request: &impl RequestView) {
    let meeting = policy.meet(request);
    let explained = policy.explain(request);
    assert_eq!(explained.len(), policy.rules().len());
    let met: Vec<_> = explained.iter().filter_map(|explained| explained.met.clone()).collect();
    assert_eq!(met, meeting.met.to_vec());
    for (place, explained) in explained.iter().enumerate() {
        let denied = meeting.denied.iter().any(|denied| denied.rule == place);
        assert_eq!(explained.denied, denied);
        assert!(!explained.why.is_empty());
    }
    let limits: usize = explained.iter().map(|explained| explained.limits().len()).sum();
    assert_eq!(policy.checks(&meeting).count(), limits);
}

/// A request of which nobody knows anything.
struct Unknown;

impl RequestView for Unknown {}

/// A request that a rule is likely to be for.
struct Guess<'p> {
    method: &'p str,
    path: &'p str,
    host: String,
    address: IpAddr,
}

impl<'p> Guess<'p> {
    fn of(rule: &'p Rule) -> Self {
        let match_ = rule.match_();
        Self {
            method: match_.methods().first().map_or("GET", |method| method),
            // A pattern is a path that it matches.
            path: match_.paths().first().map_or("/", |path| path.as_str()),
            host: match_.hosts().first().map_or("a.test".to_owned(), |host| host.to_string()),
            address: IpAddr::V6(Ipv6Addr::LOCALHOST),
        }
    }
}

impl RequestView for Guess<'_> {
    fn method(&self) -> Option<&str> {
        Some(self.method)
    }

    fn path(&self) -> Option<&str> {
        Some(self.path)
    }

    fn query(&self) -> Option<&str> {
        Some("x=1&y=%32")
    }

    fn host(&self) -> Option<&str> {
        Some(&self.host)
    }

    fn header(&self, name: &str) -> Option<&str> {
        (name.len() % 3 > 1).then_some(self.path)
    }

    fn ip(&self) -> Option<IpAddr> {
        Some(self.address)
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        (name.len() % 4 > 1).then_some("7")
    }

    fn is_trusted(&self) -> bool {
        true
    }
}
