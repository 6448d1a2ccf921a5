//! The settings of the store: their defaults, their spellings and their edges.

use std::path::Path;

use tollkeeper_core::{Colocate, Quota, WhenFull};
use tollkeeper_policy::{OnFailure, Policy, RedisUrl, Rule, StoreSettings, StoreUrl};

const RULES: &str = "\nrules: { r: { limit: 1/s } }\n";

fn settings(store: &str) -> StoreSettings {
    let text = format!("store: {{ {store} }}{RULES}");
    match Policy::parse(&text, &|_| None) {
        Ok(policy) => policy.store().clone(),
        Err(errors) => panic!("{}", errors.render("-", &text)),
    }
}

fn refused(store: &str) -> String {
    let text = format!("store: {{ {store} }}{RULES}");
    let errors = Policy::parse(&text, &|_| None).expect_err(store);
    let told = errors.iter().map(|error| {
        let expected = error.expected.iter().map(|text| format!("; expected {text}"));
        let help = error.help.iter().map(|text| format!("; {text}"));
        format!("{error}{}", expected.chain(help).collect::<String>())
    });
    told.collect::<Vec<_>>().join("\n")
}

#[test]
fn what_the_file_does_not_say() {
    let store = settings("");
    assert_eq!(store, StoreSettings::default());
    assert_eq!((store.url, store.max_keys, store.names), (StoreUrl::Memory, 1_000_000, true));
    assert_eq!((store.timeout_us, store.on_failure), (20_000, OnFailure::Static));
    assert_eq!((store.connections, store.nodes, store.merge), (2, 1, true));
    assert_eq!((store.prefix.as_str(), store.ca), ("rl", None));
}

#[test]
fn what_the_file_says() {
    let store = settings(
        "url: \"rediss://127.0.0.1\", timeout: 5ms, on_failure: closed, connections: 8, nodes: 3, \
         merge: false, prefix: \"my-app_1.x:\", ca: certs/ca.pem, max_keys: 9, when_full: allow, \
         names: false",
    );
    let StoreUrl::Redis(server) = &store.url else { panic!("a server") };
    assert_eq!((server.place(), server.is_tls()), ("127.0.0.1:6379".to_owned(), true));
    assert_eq!((store.timeout_us, store.on_failure), (5_000, OnFailure::Closed));
    assert_eq!((store.connections, store.nodes, store.merge), (8, 3, false));
    assert_eq!(store.prefix, "my-app_1.x:");
    assert_eq!(store.ca.as_deref(), Some(Path::new("certs/ca.pem")));
    assert_eq!((store.max_keys, store.when_full, store.names), (9, WhenFull::Allow, false));
}

#[test]
fn the_grown_file_of_the_manual() {
    let store = "url: redis://127.0.0.1:6379\n  timeout: 20ms\n  on_failure: static";
    let text = format!("store:\n  {store}   # the default\n{RULES}");
    let policy = Policy::parse(&text, &|_| None).unwrap();
    assert_eq!(policy.store().url, StoreUrl::Redis(RedisUrl::default()));
    assert_eq!(policy.store().timeout_us, 20_000);
}

#[test]
fn a_variable_chooses_between_memory_and_a_server() {
    let text = format!(
        "store:\n  url: ${{REDIS_URL:-memory://}}\n  timeout: 50ms\n  on_failure: open\n  \
         connections: 4\n  nodes: 2\n  prefix: app\n  ca: ca.pem\n  max_keys: 5\n{RULES}"
    );
    let parse = |url: Option<&str>| Policy::parse(&text, &|_| url.map(str::to_owned));
    let store = parse(None).unwrap().store().clone();
    assert_eq!((store.url, store.timeout_us, store.nodes), (StoreUrl::Memory, 50_000, 2));
    let store = parse(Some("rediss://:pw@h")).unwrap().store().clone();
    let StoreUrl::Redis(server) = store.url else { panic!("a server") };
    assert_eq!(server.password.unwrap().expose(), "pw");
    assert_eq!(
        parse(Some("redis://:pw@h")).unwrap_err().to_string(),
        "8:3: `ca` is given, and the store's URL does not begin with `rediss://`"
    );
}

#[test]
fn an_authority_needs_tls() {
    for url in ["redis://h", "redis+unix:///r"] {
        assert_eq!(
            refused(&format!("ca: ca.pem, url: \"{url}\"")),
            "1:10: `ca` is given, and the store's URL does not begin with `rediss://`; \
             write `rediss://` for a connection with TLS, or remove `ca`"
        );
    }
    assert_eq!(settings("ca: ca.pem").ca.unwrap(), Path::new("ca.pem"));
    // What is wrong with the URL is enough.
    assert!(!refused("ca: ca.pem, url: \"redis://\"").contains("`ca`"));
    assert!(refused("ca: \"\"").starts_with("1:14: `ca` is ``, which cannot be used here"));
}

#[test]
fn times_at_their_edges() {
    for (text, us) in [("1ms", 1_000), ("10s", 10_000_000), ("0.02", 20_000), ("1500us", 1_500)] {
        assert_eq!(settings(&format!("timeout: {text}")).timeout_us, us, "{text}");
    }
    let expected = "expected a time from 1ms to 10s";
    for text in ["999us", "0", "10001ms", "11", "1m"] {
        let told = refused(&format!("timeout: {text}"));
        let out = format!("1:19: `timeout` is `{text}`, which is out of range; {expected}");
        assert!(told.starts_with(&out), "{told}");
    }
    assert!(refused("timeout: 20").ends_with("; a bare number is seconds: write `20ms`"));
    assert!(!refused("timeout: 0").contains("bare"));
    assert!(refused("timeout: soon").ends_with(expected));
    assert!(refused("timeout: -1s").ends_with(expected));
}

#[test]
fn counts_at_their_edges() {
    assert_eq!(settings("connections: 1").connections, 1);
    assert_eq!(settings("connections: 64").connections, 64);
    assert_eq!(settings("nodes: 1").nodes, 1);
    assert_eq!(settings("nodes: 100000").nodes, 100_000);
    for (field, max) in [("connections", 64_u64), ("nodes", 100_000), ("max_keys", 1_000_000_000)] {
        for wrong in [0, max + 1] {
            let told = refused(&format!("{field}: {wrong}"));
            let message = format!("`{field}` is `{wrong}`, which is out of range");
            assert!(told.contains(&message), "{told}");
            assert!(told.ends_with(&format!("expected a whole number from 1 to {max}")), "{told}");
        }
        assert!(refused(&format!("{field}: many")).contains("is not a whole number in digits"));
    }
}

#[test]
fn prefixes_at_their_edges() {
    let long = "p".repeat(32);
    for text in ["r", "0", ":", "a.b:c_d-E9", &long] {
        assert_eq!(settings(&format!("prefix: \"{text}\"")).prefix, text);
    }
    for text in ["", "a b", "ä", "a{b", "a*", &"p".repeat(33)] {
        assert_eq!(
            refused(&format!("prefix: \"{text}\"")),
            format!(
                "1:18: `prefix` is `{text}`, which cannot be used here; \
                 expected 1 to 32 letters, digits, `-`, `_`, `.` or `:`"
            )
        );
    }
}

#[test]
fn failures_of_the_store_and_of_a_rule() {
    let text = "store: { on_failure: open }\nrules:\n  a: { limit: 1/s }\n  \
                b: { limit: 1/s, on_failure: closed, shadow: true }\n  \
                c: { limit: 1/s, on_failure: static }\n";
    let policy = Policy::parse(text, &|_| None).unwrap();
    assert_eq!(policy.store().on_failure, OnFailure::Open);
    let of_rules: Vec<_> = policy.rules().iter().map(Rule::on_failure).collect();
    assert_eq!(of_rules, [None, Some(OnFailure::Closed), Some(OnFailure::Static)]);
    assert!(policy.rules()[1].is_shadow());

    for on_failure in OnFailure::ALL {
        let read = settings(&format!("on_failure: {}", on_failure.name())).on_failure;
        assert_eq!(read, on_failure);
        let rule = Rule::new("r", [Quota::fixed_window(1, 1).unwrap()]).unwrap();
        assert_eq!(rule.on_failure(), None);
        assert_eq!(rule.with_on_failure(on_failure).on_failure(), Some(on_failure));
    }
    assert_eq!(
        refused("on_failure: opened"),
        "1:22: `on_failure` is `opened`, which is not known; \
         expected one of `open`, `closed`, `static`; did you mean `open`?"
    );
}

#[test]
fn a_list_of_servers_at_its_edges() {
    let list = |urls: &[String]| format!("url: [{}]", urls.join(", "));
    let hosts = |count: usize| -> Vec<String> {
        (0..count).map(|nth| format!("\"redis://h{nth}\"")).collect()
    };
    let StoreUrl::Shards(servers) = settings(&list(&hosts(64))).url else { panic!("a list") };
    assert_eq!((servers.len(), servers[63].place().as_str()), (64, "h63:6379"));
    // A list of one is that one.
    assert!(matches!(settings(&list(&hosts(1))).url, StoreUrl::Redis(_)));
    for (count, said) in [(0, "`url` is an empty list"), (65, "`url` is too long a list")] {
        assert_eq!(
            refused(&list(&hosts(count))),
            format!("1:10: {said}; expected 1 to 64 servers")
        );
    }
    // The same server by another name is found only if it is written alike.
    for twin in ["redis://a:6379", "redis://:pw@a", "rediss://a", "redis://a/0"] {
        let told = refused(&format!("url: [redis://b, redis://a, \"{twin}\"]"));
        assert!(told.starts_with("1:38: `url` names a server that the list has before"), "{told}");
        assert!(!told.contains("pw"), "{told}");
    }
    assert!(matches!(settings("url: [redis://a, redis://a/1]").url, StoreUrl::Shards(_)));
    let told = refused("url: [redis://a, memory://]");
    assert!(told.starts_with("1:27: `url` is `memory://`, which cannot stand in a list"), "{told}");
    let told = refused("url: [redis://a, reddis://b]");
    assert!(told.contains("1:27:") && told.ends_with("did you mean `redis://`?"), "{told}");
    let told = refused("url: [redis://a, [redis://b]]");
    assert!(told.starts_with("1:27: `url` has an entry that is not a text"), "{told}");
}

#[test]
fn which_limits_lie_together() {
    for colocate in Colocate::ALL {
        assert_eq!(settings(&format!("colocate: {}", colocate.name())).colocate, colocate);
    }
    assert_eq!(settings("nodes: 1").colocate, Colocate::Key);
    assert_eq!(
        refused("colocate: frist"),
        "1:20: `colocate` is `frist`, which is not known; \
         expected one of `key`, `first`, `all`; did you mean `first`?"
    );
}

#[test]
fn stores_of_several_servers() {
    let url = |text: &str| match settings(&format!("url: \"{text}\"")).url {
        StoreUrl::Redis(url) => url.place(),
        other => panic!("{other:?}"),
    };
    assert_eq!(url("redis+sentinel://:pw@h1,h2/mymaster/0"), "mymaster of h1:26379,h2:26379");
    assert_eq!(url("redis+cluster://:pw@h1,h2"), "the cluster of h1:6379,h2:6379");
    for (url, scheme) in [
        ("redis+sentinel://h1/mymaster", "rediss+sentinel://"),
        ("redis+cluster://h1", "rediss+cluster://"),
    ] {
        let told = refused(&format!("url: \"{url}\", ca: /ca.pem"));
        let help = format!("write `{scheme}` for a connection with TLS, or remove `ca`");
        assert!(told.ends_with(&help), "{told}");
        let with_tls = format!("url: \"{}\", ca: /ca.pem", url.replace("redis+", "rediss+"));
        assert!(settings(&with_tls).ca.is_some());
    }
    // Sentinels can stand in a list, a cluster cannot: it spreads keys by itself.
    let list = settings("url: [\"redis+sentinel://h2,h1/one\", \"redis+sentinel://h1,h2/two\"]");
    assert_eq!(list.url.place(), "one of h1:26379,h2:26379, two of h1:26379,h2:26379");
    let told = refused("url: [\"redis://a\", \"redis+cluster://b\"]");
    assert!(told.contains("is a cluster, which cannot be one of several"), "{told}");
    let told = refused("url: [\"redis+sentinel://h2,h1/one\", \"redis+sentinel://h1,h2/one\"]");
    assert!(told.contains("names a server that the list has before"), "{told}");
}
