//! Random rules and random requests, of few words so that they often meet.

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};
use tollkeeper_policy::RequestView;

/// A rule as the file has it.
#[derive(Clone, Debug)]
pub(crate) struct RuleSpec {
    pub(crate) paths: Vec<String>,
    pub(crate) methods: Vec<&'static str>,
    pub(crate) hosts: Vec<&'static str>,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) key: Vec<&'static str>,
    pub(crate) when_missing: &'static str,
    pub(crate) cost: CostSpec,
    pub(crate) tiers: Option<(&'static str, Vec<&'static str>)>,
    pub(crate) exempt_tens: bool,
    pub(crate) exempt_keys: Vec<String>,
    pub(crate) shadow: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum CostSpec {
    Fixed(u64),
    Told { by: &'static str, min: u64, max: u64, default: u64 },
}

/// A request, of which some is not known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) method: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) query: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) ip: Option<IpAddr>,
    pub(crate) attributes: Vec<(&'static str, &'static str)>,
    pub(crate) route: Option<String>,
    pub(crate) trusted: bool,
}

impl Told {
    pub(crate) fn header_of(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    pub(crate) fn attribute_of(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

impl RequestView for Told {
    fn method(&self) -> Option<&str> {
        self.method.as_deref()
    }

    fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.header_of(name)
    }

    fn ip(&self) -> Option<IpAddr> {
        self.ip
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        self.attribute_of(name)
    }

    fn route(&self) -> Option<&str> {
        self.route.as_deref()
    }

    fn is_trusted(&self) -> bool {
        self.trusted
    }
}

/// The file that has these rules: JSON, which is YAML too.
pub(crate) fn file(rules: &[RuleSpec], ipv6_prefix: u8) -> String {
    let named = rules.iter().enumerate().map(|(place, rule)| (format!("r{place}"), one(rule)));
    json!({
        "client_ip": { "ipv6_prefix": ipv6_prefix },
        "rules": Value::Object(named.collect()),
    })
    .to_string()
}

fn one(rule: &RuleSpec) -> Value {
    let mut map = Map::new();
    let mut match_ = Map::new();
    let lists = [
        ("methods", json!(rule.methods)),
        ("host", json!(rule.hosts)),
        ("path", json!(rule.paths)),
    ];
    for (name, list) in lists {
        if list.as_array().is_some_and(|list| !list.is_empty()) {
            match_.insert(name.into(), list);
        }
    }
    if !rule.headers.is_empty() {
        let pairs = rule.headers.iter().map(|(name, value)| ((*name).into(), json!(value)));
        match_.insert("headers".into(), Value::Object(pairs.collect()));
    }
    if !match_.is_empty() {
        map.insert("match".into(), match_.into());
    }
    let mut exempt = Map::new();
    if rule.exempt_tens {
        exempt.insert("ips".into(), json!("10.0.0.0/8"));
    }
    if !rule.key.is_empty() {
        map.insert("key".into(), json!(rule.key));
        map.insert("when_missing".into(), json!(rule.when_missing));
        if !rule.exempt_keys.is_empty() {
            exempt.insert("keys".into(), json!(rule.exempt_keys));
        }
    }
    if !exempt.is_empty() {
        map.insert("exempt".into(), exempt.into());
    }
    if let Some((by, tiers)) = &rule.tiers {
        let limits = tiers.iter().map(|tier| ((*tier).to_owned(), json!("9/s")));
        let limits = Value::Object(limits.collect());
        map.insert("tiers".into(), json!({ "by": by, "limits": limits }));
    }
    let cost = match rule.cost {
        CostSpec::Fixed(cost) => json!(cost),
        CostSpec::Told { by, min, max, default } => {
            let (kind, name) = by.split_once(':').unwrap_or_default();
            json!({ kind: name, "min": min, "max": max, "default": default })
        }
    };
    map.insert("cost".into(), cost);
    map.insert("shadow".into(), json!(rule.shadow));
    map.insert("limit".into(), json!("5/s"));
    map.into()
}

const STEPS: &[&str] = &["a", "b", "c", "*", "{x}", "**", "**", "**", "%61", "a%2fb", "é"];

const SEGMENTS: &[&str] = &[
    "a", "b", "c", "a", "b", "", ".", "..", "%61", "%2e%2e", "%2E", "a%2Fb", "a%2fb", "é",
    "%c3%a9", "%zz",
];

const KEYS: &[&str] =
    &["ip", "header:x-a", "cookie:c", "query:q", "route", "method", "host", "user", "attribute:t"];

/// Some of `all` in any order, more often none.
fn some(all: &'static [&'static str], most: usize) -> BoxedStrategy<Vec<&'static str>> {
    prop_oneof![3 => Just(Vec::new()), 1 => subsequence(all, 1..=most).prop_shuffle()].boxed()
}

fn key() -> impl Strategy<Value = Vec<&'static str>> {
    prop_oneof![1 => Just(Vec::new()), 4 => subsequence(KEYS, 1..=3).prop_shuffle()]
}

fn path() -> impl Strategy<Value = String> {
    vec(select(STEPS), 0..5).prop_map(|steps| format!("/{}", steps.join("/")))
}

fn paths() -> impl Strategy<Value = Vec<String>> {
    prop_oneof![1 => vec(path(), 0..2), 2 => vec(path(), 2..5)].prop_map(|mut paths| {
        paths.sort();
        paths.dedup();
        paths
    })
}

fn cost() -> impl Strategy<Value = CostSpec> {
    let told = (select(&["header:x-cost", "attribute:t"][..]), 0_u64..5, 5_u64..50);
    let told = told.prop_flat_map(|(by, min, max)| {
        (min..=max).prop_map(move |default| CostSpec::Told { by, min, max, default })
    });
    prop_oneof![(1_u64..9).prop_map(CostSpec::Fixed), told]
}

pub(crate) fn rule() -> impl Strategy<Value = RuleSpec> {
    let headers = prop_oneof![
        8 => Just(vec![]),
        1 => Just(vec![("x-a", "1")]),
        1 => Just(vec![("x-a", "*")]),
        1 => Just(vec![("x-a", "*"), ("x-b", "2")]),
    ];
    let hosts = some(&["a.test", "b.test", "*.test", "*.A.test", "c.b.a.test"], 3);
    let tiers = select(&["attribute:t", "header:x-b"][..])
        .prop_flat_map(|by| subsequence(&["1", "2", "pro"][..], 1..=3).prop_map(move |t| (by, t)));
    let exempt = subsequence(&["1", "alice", "global", "<anonymous>", "1|2"][..], 0..=3)
        .prop_map(|keys| keys.into_iter().map(str::to_owned).collect());
    (
        (paths(), some(&["GET", "POST", "PUT"], 2), hosts, headers),
        (key(), select(&["skip", "deny", "anonymous"][..])),
        (cost(), option::of(tiers), any::<bool>(), exempt, any::<bool>()),
    )
        .prop_map(|(matching, (key, when_missing), rest)| {
            let (paths, methods, hosts, headers) = matching;
            let (cost, tiers, exempt_tens, exempt_keys, shadow) = rest;
            RuleSpec {
                paths,
                methods,
                hosts,
                headers,
                key,
                when_missing,
                cost,
                tiers,
                exempt_tens,
                exempt_keys,
                shadow,
            }
        })
}

fn maybe(all: &'static [&'static str]) -> impl Strategy<Value = Option<String>> {
    option::weighted(0.8, select(all).prop_map(str::to_owned))
}

pub(crate) fn request() -> impl Strategy<Value = Told> {
    let few = vec(select(SEGMENTS), 0..6);
    let many = vec(select(SEGMENTS), 60..75);
    let path =
        prop_oneof![9 => few, 1 => many].prop_map(|segments| format!("/{}", segments.join("/")));
    let path = (path, select(&["", "/", "?a=/b", "#b"][..])).prop_map(|(path, end)| path + end);
    let header = |name: &'static str, values: &'static [&'static str]| {
        option::weighted(0.7, select(values).prop_map(move |value| (name, value)))
    };
    let headers = (
        header("x-a", &["1", "2", "a|b", " 1 ", "", "sha256:x"]),
        header("x-b", &["2", "pro", "<anonymous>"]),
        header("x-cost", &["3", " 7", "0", "-1", "99999999999999999999999", "1e3", ""]),
        header("cookie", &["c=1", "c=\"1\"; c=2", "d=1;c=%7c", "c=", "c"]),
    )
        .prop_map(|(a, b, c, d)| [a, b, c, d].into_iter().flatten().collect());
    let attributes = (
        header("user", &["alice", "al|ice", "\\", "", "<anonymous>", "sha256:00"]),
        header("t", &["1", "2", "pro", "77"]),
    )
        .prop_map(|(user, t)| [user, t].into_iter().flatten().collect());
    let ip = select(
        &["1.2.3.4", "::ffff:1.2.3.4", "10.1.1.1", "2001:db8:a:b:c:d:e:f", "::ffff:10.0.0.1"][..],
    );
    let ip =
        option::weighted(0.8, ip.prop_map(|text| text.parse().unwrap_or(IpAddr::from([0; 4]))));
    (
        (maybe(&["GET", "POST", "get", "PATCH"]), option::weighted(0.95, path)),
        (
            maybe(&["q=1", "q=a%7Cb&q=2", "q=", "x=1", "%71=7+8", "q", "q=%ff"]),
            maybe(&["a.test", "A.TEST:80", "x.a.test.", "c.b.a.test", "test", ".test", "zz:1", ""]),
        ),
        (headers, attributes, ip, maybe(&["/r", ""]), any::<bool>()),
    )
        .prop_map(|((method, path), (query, host), rest)| {
            let (headers, attributes, ip, route, trusted) = rest;
            Told { method, path, query, host, headers, ip, attributes, route, trusted }
        })
}
