//! The text of a key: what it looks like, and that different keys never have the same.

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use tollkeeper_core::Quota;
use tollkeeper_core::limits::MAX_KEY_BYTES;
use tollkeeper_policy::limits::{MAX_KEY_PART_BYTES, MAX_KEY_PARTS};
use tollkeeper_policy::{Attributes, Policy, RequestView, Rule, WhenMissing};

const NAMES: [&str; MAX_KEY_PARTS] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// The values of the first few attributes.
struct Values<'v>(&'v [Option<String>]);

impl RequestView for Values<'_> {
    fn attribute(&self, name: &str) -> Option<&str> {
        let place = NAMES.iter().position(|known| *known == name)?;
        self.0.get(place)?.as_deref()
    }
}

fn policy(parts: usize) -> Policy {
    let parts: Vec<String> = NAMES[..parts].iter().map(|n| format!("attribute:{n}")).collect();
    let rule = Rule::new("r", [Quota::fixed_window(1, 1).unwrap()]).unwrap();
    let rule = rule.keyed_by(parts.iter().map(String::as_str)).unwrap();
    Policy::from_rules([rule.when_missing(WhenMissing::Anonymous)]).unwrap()
}

fn key(values: &[Option<String>]) -> String {
    policy(values.len()).meet(&Values(values)).met[0].key.to_string()
}

fn of(values: &[&str]) -> String {
    key(&values.iter().map(|value| Some((*value).to_owned())).collect::<Vec<_>>())
}

#[test]
fn one_part_is_its_value() {
    for value in ["alice", "a|b", "a\\b", "global", "ä", " ", "sha256", "anonymous"] {
        assert_eq!(of(&[value]), value);
    }
    assert_eq!(key(&[None]), "<anonymous>");
    assert_eq!(of(&[""]), "<anonymous>", "an empty value is missing");
    let long = "x".repeat(MAX_KEY_PART_BYTES);
    assert_eq!(of(&[&long]), long);
    let hash = "sha256:2fa2f92fcfa87d88ebbb4c1f9dbf78ad23fb4a1e9d0b68eb7bc2bf3f9ac7d0ec";
    for value in [format!("{long}x"), hash.to_owned(), "<anonymous>".to_owned(), "sha256:".into()] {
        let key = of(&[&value]);
        assert!(key.starts_with("sha256:") && key.len() == hash.len() && key != value, "{key}");
    }
}

#[test]
fn several_parts_are_joined() {
    assert_eq!(of(&["a", "b_c"]), "a|b_c");
    assert_eq!(of(&["a|b", "c"]), "a\\|b|c");
    assert_eq!(of(&["a", "b|c"]), "a|b\\|c");
    assert_eq!(of(&["a\\", "b"]), "a\\\\|b");
    assert_eq!(of(&["a", "\\|b"]), "a|\\\\\\|b");
    assert_eq!(key(&[None, Some("<anonymous>".into())]).matches("<anonymous>").count(), 1);
}

#[test]
fn a_long_key_is_hashed_as_a_whole() {
    let parts = |length: usize| {
        vec![
            "x".repeat(MAX_KEY_PART_BYTES),
            "y".repeat(length),
            "z".repeat(MAX_KEY_PART_BYTES),
            "w".repeat(MAX_KEY_PART_BYTES),
        ]
    };
    let edge = MAX_KEY_PART_BYTES - 3;
    let text = |length| of(&parts(length).iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(text(edge).len(), MAX_KEY_BYTES);
    assert!(text(edge + 1).starts_with("sha256:"));
    assert_ne!(text(edge + 1), text(edge + 2));
}

#[test]
fn addresses_are_canonical() {
    let key = |ip: &str, prefix: u8| {
        let text = format!(
            "{{ client_ip: {{ ipv6_prefix: {prefix} }}, rules: {{ r: {{ key: ip, limit: 1/s }} }} }}"
        );
        let policy = Policy::parse(&text, &|_| None).unwrap();
        let request = Attributes::from_pairs([("ip", ip)]).unwrap();
        policy.meet(&request).met[0].key.to_string()
    };
    for (ip, prefix, text) in [
        ("192.0.2.7", 64, "192.0.2.7"),
        ("::ffff:192.0.2.7", 64, "192.0.2.7"),
        ("::ffff:c000:207", 1, "192.0.2.7"),
        ("2001:db8::1", 64, "2001:db8::/64"),
        ("2001:DB8:0:0:1::", 64, "2001:db8::/64"),
        ("2001:db8:1:2:3:4:5:6", 64, "2001:db8:1:2::/64"),
        ("2001:db8:1:2:3:4:5:6", 56, "2001:db8:1::/56"),
        ("2001:db8:1:2:3:4:5:6", 128, "2001:db8:1:2:3:4:5:6/128"),
        ("ffff::", 1, "8000::/1"),
        ("::1", 64, "::/64"),
    ] {
        assert_eq!(key(ip, prefix), text);
    }
}

#[test]
fn a_value_that_is_no_text_is_hashed() {
    let policy = Policy::parse("rules: { r: { key: query:k, limit: 1/s } }", &|_| None).unwrap();
    let key = |query: &str| {
        let request = Attributes::from_pairs([("path", format!("/x?k={query}"))]).unwrap();
        policy.meet(&request).met[0].key.to_string()
    };
    assert_eq!(key("%c3%a4"), "ä");
    assert!(key("%ff").starts_with("sha256:"));
    assert_ne!(key("%ff"), key("%fe"));
    assert_ne!(key("%ff"), key("%EF%BF%BD"), "no two become one");
}

/// A request that has only an address.
struct From(IpAddr);

impl RequestView for From {
    fn ip(&self) -> Option<IpAddr> {
        Some(self.0)
    }
}

const PIECES: &[&str] = &["a", "b", "|", "\\", "||", "\\|", "<anonymous>", "sha256:", "", "ä"];

fn value() -> impl Strategy<Value = Option<String>> {
    let short = vec(select(PIECES), 0..4).prop_map(|pieces| pieces.concat());
    let long = (select(PIECES), 250_usize..260).prop_map(|(piece, count)| piece.repeat(count));
    let hash = short.clone().prop_map(|text| of(&[&format!("sha256:{text}")]));
    option::weighted(0.9, prop_oneof![6 => short, 1 => long, 1 => hash])
}

/// Two keys of as many parts, which often differ in little.
fn pair() -> impl Strategy<Value = (Vec<Option<String>>, Vec<Option<String>>)> {
    (1..=MAX_KEY_PARTS).prop_flat_map(|parts| {
        (vec(value(), parts), vec(option::weighted(0.5, value()), parts)).prop_map(
            |(first, other)| {
                let second =
                    first.iter().zip(other).map(|(first, other)| other.unwrap_or(first.clone()));
                (first.clone(), second.collect())
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn different_keys_have_different_texts((first, second) in pair()) {
        // An empty value is a missing one.
        let meant = |values: &[Option<String>]| -> Vec<Option<String>> {
            values.iter().map(|value| value.clone().filter(|text| !text.is_empty())).collect()
        };
        let same = meant(&first) == meant(&second);
        prop_assert_eq!(key(&first) == key(&second), same, "{:?} {:?}", first, second);
        prop_assert!((1..=MAX_KEY_BYTES).contains(&key(&first).len()));
    }

    #[test]
    fn addresses_of_one_network_share_a_key(first in any::<u128>(), second in any::<u128>(), bits in 0_u32..129) {
        // The second shares its first bits with the first.
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        let second = (first & mask) | (second & !mask);
        let rule = Rule::new("r", [Quota::fixed_window(1, 1).unwrap()]).unwrap();
        let policy = Policy::from_rules([rule.keyed_by(["ip"]).unwrap()]).unwrap();
        let key = |bits: u128| policy.meet(&From(IpAddr::V6(bits.into()))).met[0].key.clone();
        let is_v4 = |bits: u128| bits >> 32 == 0xffff;
        prop_assume!(!is_v4(first) && !is_v4(second));
        prop_assert_eq!(key(first) == key(second), first >> 64 == second >> 64);
    }
}
