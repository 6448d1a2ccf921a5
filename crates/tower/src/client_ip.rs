//! Who is at the other end: the peer, or what trusted proxies say about it.
//!
//! A header is only as good as whoever wrote it. So the addresses that proxies appended are walked
//! from the right, where the nearest proxy wrote, and the walk ends at the first one that is not a
//! trusted proxy: what stands left of it is that client's own word, and counts for nothing.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName};
use tollkeeper_policy::ClientIp;

pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(crate) const FORWARDED: HeaderName = http::header::FORWARDED;

/// Hops that are looked at; the rest of a longer way is not.
const MAX_HOPS: usize = 64;

/// Who was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its address; one of IPv4 in an IPv6 dress is without it.
    pub ip: IpAddr,
    /// Whether the peer itself is a trusted proxy, so that its other headers count, too.
    pub via_trusted: bool,
}

/// Who sent a request that came from `peer` with `headers`, by what `settings` trust.
///
/// Proxies are taken to write `X-Forwarded-For`, as nearly all do, and `Forwarded` only where the
/// other is absent: behind proxies that write `Forwarded` alone, let them take away
/// `X-Forwarded-For`.
#[must_use]
pub fn client(settings: &ClientIp, peer: IpAddr, headers: &HeaderMap) -> Client {
    let peer = peer.to_canonical();
    if !settings.trusts(peer) {
        return Client { ip: peer, via_trusted: false };
    }
    let ip = match headers.contains_key(X_FORWARDED_FOR) {
        true => walk(settings, peer, x_forwarded_for(headers)),
        false => walk(settings, peer, forwarded(headers)),
    };
    Client { ip, via_trusted: true }
}

/// The first hop from the right that is no trusted proxy. One that cannot be read ends the walk at
/// the proxy that wrote it; where all are trusted it is the farthest.
fn walk(settings: &ClientIp, peer: IpAddr, hops: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
    let mut known = peer;
    for hop in hops.take(MAX_HOPS) {
        let Some(ip) = hop else { break };
        known = ip;
        if !settings.trusts(ip) {
            break;
        }
    }
    known
}

/// The parts of a header between commas, the last first; nothing for one that is no text. Quotes
/// do not count: a client could leave one open, and so hide what proxies wrote behind it.
fn from_the_right<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = Option<&'a str>> + use<'a> {
    let lines = headers.get_all(name).iter().rev();
    let parts = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
    parts.map(|part| std::str::from_utf8(part).ok().map(str::trim))
}

fn x_forwarded_for(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> + use<'_> {
    from_the_right(headers, &X_FORWARDED_FOR).map(|hop| address(hop?))
}

fn forwarded(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> + use<'_> {
    from_the_right(headers, &FORWARDED).map(|hop| {
        let mut pairs = hop?.split(';').filter_map(|pair| pair.split_once('='));
        let (_, node) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
        address(node.trim().trim_matches('"'))
    })
}

/// An address without its port, brackets and zone.
fn address(text: &str) -> Option<IpAddr> {
    let bare = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        // One colon is a port, more of them are an address.
        None if text.matches(':').count() == 1 => text.split_once(':')?.0,
        None => text,
    };
    let bare = bare.split_once('%').map_or(bare, |(address, _zone)| address);
    bare.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use tollkeeper_policy::Networks;

    use super::*;

    fn proxies() -> ClientIp {
        let trusted_proxies = Networks::parse(["10.0.0.0/8", "fd00::/8"]).unwrap();
        ClientIp { trusted_proxies, ..ClientIp::default() }
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    fn found(peer: &str, pairs: &[(&str, &str)]) -> String {
        client(&proxies(), peer.parse().unwrap(), &headers(pairs)).ip.to_string()
    }

    #[test]
    fn a_stranger_is_itself_whatever_it_says() {
        for pairs in [
            [("x-forwarded-for", "1.2.3.4")].as_slice(),
            &[("forwarded", "for=1.2.3.4")],
            &[("x-forwarded-for", "10.0.0.1, 10.0.0.2"), ("forwarded", "for=\"[::1]\"")],
        ] {
            assert_eq!(found("203.0.113.9", pairs), "203.0.113.9");
        }
        let said = headers(&[("x-forwarded-for", "1.1.1.1")]);
        let stranger = client(&proxies(), "203.0.113.9".parse().unwrap(), &said);
        assert!(!stranger.via_trusted);
    }

    #[test]
    fn behind_proxies_it_is_the_first_that_is_none() {
        let xff = |value| found("10.0.0.1", &[("x-forwarded-for", value)]);
        assert_eq!(xff("203.0.113.9"), "203.0.113.9");
        assert_eq!(xff("1.1.1.1, 203.0.113.9, 10.2.0.1"), "203.0.113.9");
        assert_eq!(xff("10.3.0.1, 10.2.0.1"), "10.3.0.1");
        assert_eq!(xff(" 203.0.113.9 ,10.0.0.7"), "203.0.113.9");
        let twice = [("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "203.0.113.9")];
        assert_eq!(found("10.0.0.1", &twice), "203.0.113.9");
        assert_eq!(found("10.0.0.1", &[]), "10.0.0.1");
    }

    #[test]
    fn ports_brackets_zones_and_dresses_are_taken_off() {
        for (written, meant) in [
            ("203.0.113.9:4711", "203.0.113.9"),
            ("[2001:db8::1]:4711", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("[fe80::1%25eth0]:80", "fe80::1"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
            ("[::ffff:203.0.113.9]:80", "203.0.113.9"),
        ] {
            assert_eq!(found("10.0.0.1", &[("x-forwarded-for", written)]), meant);
        }
        assert_eq!(found("::ffff:10.0.0.1", &[("x-forwarded-for", "1.1.1.1")]), "1.1.1.1");
        assert_eq!(found("fd00::1", &[("x-forwarded-for", "1.1.1.1")]), "1.1.1.1");
    }

    #[test]
    fn forwarded_is_read_as_its_standard_writes_it() {
        for (written, meant) in [
            ("for=203.0.113.9", "203.0.113.9"),
            ("for=1.1.1.1, for=203.0.113.9;proto=https, for=10.0.0.2", "203.0.113.9"),
            ("proto=http; For=\"[2001:db8::1]:4711\"; by=10.0.0.1", "2001:db8::1"),
            ("for=\"203.0.113.9:80\"", "203.0.113.9"),
        ] {
            assert_eq!(found("10.0.0.1", &[("forwarded", written)]), meant);
        }
    }

    #[test]
    fn who_hides_ends_the_walk_at_the_proxy_that_says_so() {
        for hidden in ["unknown", "_secret", "", "1.2.3", "evil, ", "\u{e9}"] {
            let value = format!("8.8.8.8, {hidden}, 10.0.0.2");
            assert_eq!(found("10.0.0.1", &[("x-forwarded-for", &value)]), "10.0.0.2", "{hidden}");
            let value = format!("for=8.8.8.8, for={hidden}, for=10.0.0.2");
            assert_eq!(found("10.0.0.1", &[("forwarded", &value)]), "10.0.0.2", "{hidden}");
        }
        assert_eq!(found("10.0.0.1", &[("forwarded", "by=10.0.0.9")]), "10.0.0.1");
    }

    #[test]
    fn forwarded_counts_only_where_the_other_is_absent() {
        let both = [("x-forwarded-for", "1.1.1.1"), ("forwarded", "for=2.2.2.2")];
        assert_eq!(found("10.0.0.1", &both), "1.1.1.1");
        assert_eq!(found("10.0.0.1", &both[1..]), "2.2.2.2");
    }
}
