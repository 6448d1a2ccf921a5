//! Whatever a client writes, it stays in its own bucket.

use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use tollkeeper_policy::{ClientIp, Networks};
use tollkeeper_tower::client_ip::client;

fn trusting(networks: &[&str]) -> ClientIp {
    let trusted_proxies = Networks::parse(networks.iter().copied()).unwrap();
    ClientIp { trusted_proxies, ..ClientIp::default() }
}

fn proxies() -> ClientIp {
    trusting(&["10.0.0.0/8"])
}

fn stranger() -> impl Strategy<Value = IpAddr> {
    any::<[u8; 4]>().prop_map(|mut octets| {
        octets[0] = 100 + octets[0] % 100;
        IpAddr::V4(Ipv4Addr::from(octets))
    })
}

fn proxy() -> impl Strategy<Value = IpAddr> {
    any::<[u8; 3]>().prop_map(|rest| IpAddr::V4(Ipv4Addr::new(10, rest[0], rest[1], rest[2])))
}

/// What a client may write itself: anything, and things that look right.
fn forged() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        "([0-9a-f.:,\\[\\]%\" ;=]|for=|10\\.0\\.0\\.1|unknown){0,40}".prop_map(String::into_bytes),
    ]
}

fn append(headers: &mut HeaderMap, line: Vec<u8>) {
    if let Ok(value) = HeaderValue::from_bytes(&line) {
        headers.append("x-forwarded-for", value);
    }
}

proptest! {
    /// The client sends what it likes; each proxy appends whom it got the request from.
    #[test]
    fn a_forged_header_never_changes_who_it_is(
        sender in stranger(),
        way in proptest::collection::vec(proxy(), 1..5),
        forgeries in proptest::collection::vec(forged(), 0..4),
        forged_forwarded in forged(),
        on_a_line_of_its_own in any::<bool>(),
    ) {
        let mut headers = HeaderMap::new();
        for forgery in &forgeries {
            append(&mut headers, forgery.clone());
        }
        if let Ok(value) = HeaderValue::from_bytes(&forged_forwarded) {
            headers.insert("forwarded", value);
        }
        let mut from = sender;
        for hop in &way {
            // Some proxies add to the last line, some write one of their own.
            let lines: Vec<HeaderValue> =
                headers.get_all("x-forwarded-for").iter().cloned().collect();
            match lines.split_last() {
                Some((last, before)) if !on_a_line_of_its_own => {
                    headers.remove("x-forwarded-for");
                    before.iter().for_each(|line| _ = headers.append("x-forwarded-for", line.clone()));
                    append(&mut headers, [last.as_bytes(), b", ", from.to_string().as_bytes()].concat());
                }
                _ => append(&mut headers, from.to_string().into_bytes()),
            }
            from = *hop;
        }
        prop_assert_eq!(client(&proxies(), from, &headers).ip, sender);
    }

    #[test]
    fn who_comes_directly_is_itself(sender in stranger(), line in forged()) {
        let mut headers = HeaderMap::new();
        append(&mut headers, line);
        prop_assert_eq!(client(&proxies(), sender, &headers).ip, sender);
    }

    #[test]
    fn nothing_panics(peer in any::<[u8; 16]>(), lines in proptest::collection::vec(forged(), 0..5)) {
        let mut headers = HeaderMap::new();
        for line in lines {
            if let Ok(value) = HeaderValue::from_bytes(&line) {
                headers.append("forwarded", value.clone());
                headers.append("x-forwarded-for", value);
            }
        }
        let _ = client(&trusting(&["::/0", "0.0.0.0/0"]), IpAddr::from(peer), &headers);
    }
}
