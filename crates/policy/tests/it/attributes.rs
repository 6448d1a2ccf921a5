//! Requests that are told in names and values.

use tollkeeper_policy::limits::{MAX_ATTRIBUTE_BYTES, MAX_ATTRIBUTES};
use tollkeeper_policy::{AttributeError, Attributes, RequestView};

fn read(pairs: &[(&str, &str)]) -> Result<Attributes, AttributeError> {
    Attributes::from_pairs(pairs.iter().copied())
}

fn refused(pairs: &[(&str, &str)]) -> String {
    read(pairs).unwrap_err().to_string()
}

#[test]
fn names_and_what_they_are() {
    let request = read(&[
        ("method", "GET"),
        ("path", "/api/x?a=1&b=2"),
        ("host", "example.com"),
        ("route", "/api/{id}"),
        ("ip", "::1"),
        ("header.X-Api-Key", "k"),
        ("header.x-empty", ""),
        ("attribute.plan", "pro"),
        ("attribute.method", "of the app"),
        ("user", "alice"),
        ("user-agent", "an attribute too"),
        ("attribute.a.b", "c"),
    ])
    .unwrap();
    assert_eq!(request.method(), Some("GET"));
    assert_eq!((request.path(), request.query()), (Some("/api/x"), Some("a=1&b=2")));
    assert_eq!((request.host(), request.route()), (Some("example.com"), Some("/api/{id}")));
    assert_eq!(request.ip(), Some("::1".parse().unwrap()));
    assert_eq!((request.header("x-api-key"), request.header("x-empty")), (Some("k"), Some("")));
    assert_eq!(request.attribute("plan"), Some("pro"));
    assert_eq!(request.attribute("method"), Some("of the app"));
    assert_eq!(request.attribute("user"), Some("alice"));
    assert_eq!(request.attribute("user-agent"), Some("an attribute too"));
    assert_eq!(request.attribute("a.b"), Some("c"));
    assert!(request.is_trusted() && !request.clone().untrusted().is_trusted());
    assert_eq!(request.header("plan"), None);

    let request = read(&[("path", "/x?a=1"), ("query", "b=2"), ("header.host", "h")]).unwrap();
    assert_eq!((request.query(), request.host()), (Some("b=2"), Some("h")));
    assert_eq!(Attributes::new(), read(&[]).unwrap());
}

#[test]
fn what_is_wrong_is_named() {
    for (pairs, told) in [
        (
            &[("ip", "1.2.3.4:80")][..],
            "`ip` is `1.2.3.4:80`; expected an address such as 203.0.113.7",
        ),
        (&[("path", "api")], "`path` is `api`; expected a path such as /api/x"),
        (&[("path", "")], "`path` is ``; expected a path such as /api/x"),
        (&[("method", "GE T")], "`method` is `GE T`; expected a method such as GET"),
        (&[("host", "a\nb")], "`host` is `a\\nb`; expected a text without control characters"),
        (
            &[("user", "a"), ("attribute.user", "b")],
            "`attribute.user` is given twice; expected each name once",
        ),
        (
            &[("header.X-A", "1"), ("header.x-a", "1")],
            "`header.x-a` is given twice; expected each name once",
        ),
        (&[("ip", "::1"), ("ip", "::1")], "`ip` is given twice; expected each name once"),
        (
            &[("header.", "1")],
            "`header.` is no header; expected header.NAME, as in header.x-api-key",
        ),
        (
            &[("header.a b", "1")],
            "`header.a b` is no header; expected header.NAME, as in header.x-api-key",
        ),
        (&[("", "1")], "`` is no attribute; expected attribute.NAME, as in attribute.plan"),
        (
            &[("headers.x-a", "1")],
            "`headers.x-a` is not known; expected `method`, `path`, `query`, `host`, `route`, `ip`, \
             header.NAME or attribute.NAME; did you mean `header.x-a`?",
        ),
    ] {
        assert_eq!(refused(pairs), told);
    }
    assert!(!refused(&[("cookie.a", "1")]).contains("did you mean"));
    let error = read(&[("attr.plan", "1")]).unwrap_err();
    assert_eq!(error.suggestion(), Some("attribute.plan"));
    assert_eq!(error.name(), "attr.plan");
    assert!(error.expected().starts_with("`method`"));
}

#[test]
fn bounds_at_their_edges() {
    let long = "v".repeat(MAX_ATTRIBUTE_BYTES);
    assert!(read(&[("user", &long)]).is_ok());
    assert_eq!(
        refused(&[("user", &format!("{long}v"))]),
        "`user` has 65537 bytes; expected at most 65536"
    );
    assert!(refused(&[(&"n".repeat(100_000), "v")]).len() < 300);
    // What was probably meant used to be given back whole, control characters and all.
    assert!(refused(&[(&format!("headers.{}", "n".repeat(100_000)), "v")]).len() < 300);
    assert!(!refused(&[("headers.\u{1b}[2J", "v")]).contains('\u{1b}'));
    let names: Vec<String> = (0..=MAX_ATTRIBUTES).map(|i| format!("n{i}")).collect();
    let pairs: Vec<_> = names.iter().map(|name| (name.as_str(), "v")).collect();
    assert!(read(&pairs[1..]).is_ok());
    assert_eq!(refused(&pairs), "`n256` is one too many; expected at most 256 of its kind");
}
