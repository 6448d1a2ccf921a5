//! Who is behind proxies: the walker and a naive one agree, and what strangers wrote is worth
//! nothing.

mod naive;

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};
use tollkeeper_policy::{ClientIp, Networks};
use tollkeeper_tower::client_ip::client;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Takes the bytes as lines: `p` and the peer's address, `x` and a line of `X-Forwarded-For`, `f`
/// and one of `Forwarded`, `g` and what a stranger makes up.
pub fn forwarded(bytes: &[u8]) {
    let proxies = Networks::parse(["10.0.0.0/8", "fd00::/8"]).unwrap();
    let settings = ClientIp { trusted_proxies: proxies, ..ClientIp::default() };
    let mut peer: IpAddr = "10.0.0.1".parse().unwrap();
    let mut headers = HeaderMap::new();
    let mut made_up = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some((kind, value)) = line.split_first() else { continue };
        if *kind == b'p' {
            let text = std::str::from_utf8(value).unwrap_or_default();
            peer = text.trim().parse().unwrap_or(peer);
        }
        let Ok(value) = HeaderValue::from_bytes(value) else { continue };
        match kind {
            b'x' => drop(headers.append(X_FORWARDED_FOR, value)),
            b'f' => drop(headers.append(http::header::FORWARDED, value)),
            b'g' => made_up.push(value),
            _ => {}
        }
    }
    check(&settings, peer, &headers, &made_up);
}

fn check(settings: &ClientIp, peer: IpAddr, headers: &HeaderMap, made_up: &[HeaderValue]) {
    let found = client(settings, peer, headers);
    let naive = naive::client(&|ip| settings.trusts(ip), peer, headers);
    assert_eq!((found.ip, found.via_trusted), (naive.ip, naive.via_trusted), "{peer} {headers:?}");
    assert_eq!(found.ip, found.ip.to_canonical());
    if !naive.ends_there {
        // Only proxies wrote so far: what stands left of it would be told by one of them.
        return;
    }
    let name = match headers.contains_key(X_FORWARDED_FOR) {
        true => X_FORWARDED_FOR,
        false => http::header::FORWARDED,
    };
    for value in made_up {
        for stranger in [before_all(headers, &name, value), joined(headers, &name, value)] {
            let told = client(settings, peer, &stranger);
            assert_eq!(told, found, "{peer} {stranger:?}");
        }
    }
}

/// The headers behind a line that a stranger sent.
fn before_all(headers: &HeaderMap, name: &HeaderName, value: &HeaderValue) -> HeaderMap {
    let mut stranger = HeaderMap::new();
    stranger.append(name, value.clone());
    stranger.extend(headers.iter().map(|(name, value)| (name.clone(), value.clone())));
    stranger
}

/// The headers with what a stranger sent in the same line, as proxies that append leave it.
fn joined(headers: &HeaderMap, name: &HeaderName, value: &HeaderValue) -> HeaderMap {
    let mut stranger = headers.clone();
    if let Some(first) = stranger.get_mut(name) {
        let bytes = [value.as_bytes(), b",", first.as_bytes()].concat();
        *first = HeaderValue::from_bytes(&bytes).unwrap();
    }
    stranger
}
