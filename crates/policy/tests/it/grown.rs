//! The grown file: what it says of requests and of the service, in all its spellings.

use tollkeeper_core::{Algorithm, Secret};
use tollkeeper_policy::{
    ClientIp, GatewaySettings, HeaderStyle, KeyPart, Listen, Networks, Policy, Rule, Source,
    Status, Tls, WhenMissing,
};

/// The manual's, but for the doors and stores of a later version.
const GROWN: &str = include_str!("grown.yaml");

const TOKEN: &str = "0123456789abcdef";

fn parse(text: &str) -> Policy {
    let env = |name: &str| (name == "TOLLKEEPER_ADMIN_TOKEN").then(|| TOKEN.to_owned());
    Policy::parse(text, &env).unwrap_or_else(|errors| panic!("{}", errors.render("-", text)))
}

fn rule(lines: &str) -> Rule {
    parse(&format!("rules: {{ r: {{ limit: 5/s, {lines} }} }}")).rules()[0].clone()
}

#[test]
fn the_grown_file_of_the_manual() {
    let policy = parse(GROWN);
    assert_eq!(policy.listen().gateway, Some("127.0.0.1:8000".parse().unwrap()));
    assert_eq!(policy.upstream().unwrap().to_string(), "http://127.0.0.1:3000");
    assert_eq!(policy.admin_token().unwrap().expose(), TOKEN);
    assert!(policy.client_ip().trusts("10.1.2.3".parse().unwrap()));
    assert_eq!(policy.headers(), [HeaderStyle::Legacy, HeaderStyle::Ietf]);
    let [per_ip, per_key, expensive] = policy.rules() else { panic!("three rules") };
    assert_eq!((per_ip.key(), per_ip.match_().is_any()), (&[KeyPart::Ip][..], true));
    assert_eq!(per_key.match_().paths()[0].as_str(), "/api/**");
    assert_eq!(per_key.match_().methods(), ["GET".into(), "POST".into()]);
    assert_eq!(per_key.key(), [KeyPart::Header("x-api-key".into()), KeyPart::Route]);
    assert_eq!(per_key.cost().source(), Some(&Source::Header("x-cost".into())));
    assert_eq!((per_key.cost().bounds(), per_key.cost().default_cost()), (1..=100, 1));
    let tiers = per_key.tiers().unwrap();
    assert_eq!(tiers.by(), &Source::Attribute("plan".into()));
    assert_eq!((tiers.list()[0].name(), tiers.position("pro")), ("pro", Some(0)));
    let names: Vec<_> = tiers.list()[0].limits().iter().map(|limit| limit.name()).collect();
    assert_eq!(names, ["per-key/1s", "per-key/1d"]);
    assert!(per_key.refunds(500) && per_key.refunds(599) && !per_key.refunds(404));
    assert!(per_key.trusts_headers() && !per_ip.trusts_headers());
    assert!(expensive.is_shadow() && expensive.key().is_empty());
    assert_eq!(expensive.algorithm(), Algorithm::LeakingBucket);
}

#[test]
fn what_the_file_does_not_say() {
    let policy = parse("rules: { r: { limit: 1/s } }");
    assert_eq!(policy.client_ip(), &ClientIp::default());
    assert_eq!(policy.client_ip().ipv6_prefix, 64);
    assert!(!policy.client_ip().trusts("127.0.0.1".parse().unwrap()));
    assert_eq!(policy.headers(), [HeaderStyle::Legacy]);
    assert!(policy.admin_token().is_none() && policy.upstream().is_none());
    assert_eq!(policy.listen(), &Listen::default());
    assert!(policy.listen().admin.is_none() && policy.listen().gateway.is_none());
    let rule = &policy.rules()[0];
    assert!(rule.match_().is_any() && rule.key().is_empty() && rule.tiers().is_none());
    assert_eq!(rule.on_missing(), WhenMissing::Skip);
    assert_eq!((rule.cost().source(), rule.cost().bounds()), (None, 1..=1));
    assert!(rule.refund_on().is_empty() && !rule.refunds(500));
    assert!(rule.exempt().networks().is_empty() && rule.exempt().keys().is_empty());
}

#[test]
fn one_thing_or_a_list() {
    for path in ["path: /a", "path: [/a]", "path: \"/a\"", "path: ['/a']"] {
        assert_eq!(rule(&format!("match: {{ {path} }}")).match_().paths()[0].as_str(), "/a");
    }
    assert_eq!(rule("match: { methods: GET }").match_().methods().len(), 1);
    let hosts = rule("match: { host: [Example.com, \"*.Example.com\", \"[::1]\", 127.0.0.1] }");
    let hosts: Vec<_> = hosts.match_().hosts().iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["example.com", "*.example.com", "[::1]", "127.0.0.1"]);
    let of_rule = rule("match: { headers: { X-A: 1, x-b: \"*\" } }");
    let headers = of_rule.match_().headers();
    assert_eq!((headers[0].name(), headers[0].value().unwrap().expose()), ("x-a", "1"));
    assert_eq!((headers[1].name(), headers[1].value()), ("x-b", None));
    assert_eq!(rule("key: user").key(), rule("key: [attribute:user]").key());
    assert_eq!(rule("refund_on: [404, 5xx]").refund_on(), [Status::Code(404), Status::Class(5)]);
    assert_eq!(rule("refund_on: 4xx").refund_on(), [Status::Class(4)]);
    let exempt = rule("key: ip, exempt: { ips: 10.0.0.1, keys: b }");
    assert_eq!(exempt.exempt().networks(), &Networks::parse(["10.0.0.1"]).unwrap());
    assert_eq!(parse("headers: []\nrules: { r: { limit: 1/s } }").headers(), []);
    let policy = parse("headers: legacy-delta\nrules: { r: { limit: 1/s } }");
    assert_eq!(policy.headers(), [HeaderStyle::LegacyDelta]);
}

#[test]
fn limits_of_tiers_are_named_like_those_of_the_rule() {
    let names = |lines: &str| -> Vec<Vec<String>> {
        let policy = parse(&format!("rules: {{ r: {{ {lines} }} }}"));
        let rule = &policy.rules()[0];
        let tiers = rule.tiers().map_or(0, |tiers| tiers.list().len());
        let of = |tier| rule.limits_of(tier).iter().map(|limit| limit.name().to_owned()).collect();
        std::iter::once(None).chain((0..tiers).map(Some)).map(of).collect()
    };
    let tiers = "tiers: { by: attribute:plan, limits:";
    assert_eq!(names(&format!("limit: 1/s, {tiers} {{ pro: 9/min }} }}")), [["r"], ["r"]]);
    assert_eq!(
        names(&format!("limit: 1/min, {tiers} {{ pro: [2/min, 9/day], free: 1/s }} }}")),
        [vec!["r/1m"], vec!["r/1m", "r/1d"], vec!["r/1s"]]
    );
    assert_eq!(
        names(&format!(
            "fixed_window: {{ max_requests: 1, window_size: 60 }}, {tiers} {{ pro: [2/min, 9/h] }} }}"
        )),
        [vec!["r/1m"], vec!["r/1m", "r/1h"]]
    );
}

#[test]
fn a_tier_has_the_algorithm_of_its_rule() {
    for lines in [
        "algorithm: fixed_window, limit: 1/min",
        "fixed_window: { max_requests: 1, window_size: 60 }",
        "algorithm: fixed_window, fixed_window: { max_requests: 1, window_size: 60 }, gcra: { burst: 1, rate: 1 }",
    ] {
        let tiers = "tiers: { by: header:x-plan, limits: { pro: 9/min } }";
        let policy = parse(&format!("rules: {{ r: {{ {lines}, {tiers} }} }}"));
        let limit = &policy.rules()[0].limits_of(Some(0))[0];
        assert_eq!(limit.quota().algorithm(), Algorithm::FixedWindow);
        assert_eq!(limit.quota().limit(), 9);
    }
}

#[test]
fn doors_at_their_edges() {
    let policy = parse(
        "listen: { admin: \"127.0.0.1:0\", gateway: \"127.0.0.1:0\" }\nupstream: http://app/\nrules: { r: { limit: 1/s } }",
    );
    assert_eq!(policy.listen().http, None, "a door not named stays closed");
    let upstream = policy.upstream().unwrap();
    assert_eq!((upstream.host(), upstream.port()), ("app", 80));
    for url in [
        "http://",
        "http://a b",
        "http://a:0",
        "http://a:x",
        "http://a/b",
        "http://u:hunter2@a",
        "app:80",
        "ftp://a",
        "http://[::1",
        "http://[::g]",
        "http://a:70000",
        "http://a?b",
    ] {
        let text = format!(
            "listen: {{ gateway: \"127.0.0.1:1\" }}\nupstream: \"{url}\"\nrules: {{ r: {{ limit: 1/s }} }}"
        );
        let errors = Policy::parse(&text, &|_| None).unwrap_err();
        assert_eq!(errors.iter().count(), 1, "{url}: {errors}");
        assert!(!errors.render("f", &text).contains("hunter2"), "{url}");
    }
}

#[test]
fn settings_made_in_code_have_the_bounds_of_the_file() {
    let policy = || parse("rules: { r: { limit: 1/s } }");
    let client_ip = |ipv6_prefix| ClientIp { ipv6_prefix, ..ClientIp::default() };
    assert_eq!(policy().with_client_ip(client_ip(48)).unwrap().client_ip().ipv6_prefix, 48);
    for prefix in [0, 129] {
        let error = policy().with_client_ip(client_ip(prefix)).unwrap_err().to_string();
        assert_eq!(error, format!("`ipv6_prefix` is {prefix}; expected 1 to 128"));
    }
    let token = |length: usize| policy().with_admin_token(Secret::new("t".repeat(length)));
    assert_eq!(token(16).unwrap().admin_token().unwrap().expose().len(), 16);
    assert_eq!(
        token(15).unwrap_err().to_string(),
        "`token` is ***; expected 16 to 1024 visible ASCII characters"
    );
    assert!(token(1025).is_err());
    let headers = policy().with_headers([HeaderStyle::OpenAi, HeaderStyle::Legacy]).unwrap();
    assert_eq!(headers.headers(), [HeaderStyle::OpenAi, HeaderStyle::Legacy]);
    assert!(policy().with_headers([]).unwrap().headers().is_empty());
    for wrong in [[HeaderStyle::Legacy; 2], [HeaderStyle::LegacyDelta, HeaderStyle::Legacy]] {
        assert!(policy().with_headers(wrong).is_err());
    }
    let gateway = policy().with_gateway("[::1]:1".parse().unwrap(), "http://a".parse().unwrap());
    assert_eq!(gateway.upstream().unwrap().authority(), "a:80");
    assert_eq!(gateway.listen().gateway, Some("[::1]:1".parse().unwrap()));
}

#[test]
fn the_doors_have_a_certificate_and_patience() {
    let policy = |text: &str| {
        let text = format!("{text}\nrules: {{ r: {{ limit: 1/s }} }}");
        Policy::parse(&text, &|_| None).unwrap_or_else(|errors| panic!("{errors}"))
    };
    let silent = policy("listen: { gateway: \"127.0.0.1:8000\" }");
    assert!(silent.upstream().is_none() && silent.tls().is_none());
    let GatewaySettings { connect_timeout_us, timeout_us, tunnel_timeout_us } = *silent.gateway();
    assert_eq!(
        [connect_timeout_us, timeout_us, tunnel_timeout_us],
        [5_000_000, 60_000_000, 3_600_000_000]
    );
    let patient = policy(
        "listen: { gateway: \"127.0.0.1:8000\" }\n\
         gateway: { connect_timeout: 1ms, timeout: 2s, tunnel_timeout: 7d }",
    );
    let GatewaySettings { connect_timeout_us, timeout_us, tunnel_timeout_us } = *patient.gateway();
    assert_eq!(
        [connect_timeout_us, timeout_us, tunnel_timeout_us],
        [1_000, 2_000_000, 604_800_000_000]
    );
    let secure = policy("tls: { certificate: a.pem, key: b.pem }");
    let Tls { certificate, key } = secure.tls().unwrap();
    assert_eq!((certificate.to_str(), key.to_str()), (Some("a.pem"), Some("b.pem")));
}
