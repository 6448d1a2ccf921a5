//! A second walker, written from the documentation alone: all lines as one text, cut at commas,
//! put into a list, and walked.

use std::net::IpAddr;

use http::HeaderMap;

/// Hops that are looked at.
const MAX_HOPS: usize = 64;

pub(super) struct Found {
    pub(super) ip: IpAddr,
    pub(super) via_trusted: bool,
    /// Whether nothing that stands farther left can change it.
    pub(super) ends_there: bool,
}

/// The first from the right that is no proxy.
pub(super) fn client(trusts: &dyn Fn(IpAddr) -> bool, peer: IpAddr, headers: &HeaderMap) -> Found {
    let peer = peer.to_canonical();
    if !trusts(peer) {
        return Found { ip: peer, via_trusted: false, ends_there: true };
    }
    let xff = hops(headers, "x-forwarded-for");
    let is_xff = headers.contains_key("x-forwarded-for");
    let hops = if is_xff { xff } else { hops(headers, "forwarded") };
    let mut ip = peer;
    for (nth, hop) in hops.iter().rev().enumerate() {
        let read = match is_xff {
            true => std::str::from_utf8(hop).ok().and_then(|hop| address(hop.trim())),
            false => std::str::from_utf8(hop).ok().and_then(node),
        };
        let ends = Found { ip: read.unwrap_or(ip), via_trusted: true, ends_there: true };
        if nth == MAX_HOPS {
            return Found { ip, ..ends };
        }
        match read {
            Some(next) if trusts(next) => ip = next,
            _ => return ends,
        }
    }
    Found { ip, via_trusted: true, ends_there: hops.len() >= MAX_HOPS }
}

fn hops(headers: &HeaderMap, name: &str) -> Vec<Vec<u8>> {
    let lines: Vec<&[u8]> = headers.get_all(name).iter().map(|line| line.as_bytes()).collect();
    match lines.is_empty() {
        true => Vec::new(),
        false => lines.join(&b',').split(|byte| *byte == b',').map(<[u8]>::to_vec).collect(),
    }
}

/// The address in the `for` of an element of `Forwarded`.
fn node(element: &str) -> Option<IpAddr> {
    for pair in element.split(';') {
        let Some(equals) = pair.find('=') else { continue };
        if pair[..equals].trim().eq_ignore_ascii_case("for") {
            return address(pair[equals + 1..].trim().trim_matches('"'));
        }
    }
    None
}

/// What is left of an address without brackets, port and zone.
fn address(text: &str) -> Option<IpAddr> {
    let colons = text.bytes().filter(|byte| *byte == b':').count();
    let bare = if text.starts_with('[') {
        &text[1..text.find(']')?]
    } else if colons == 1 {
        &text[..text.find(':')?]
    } else {
        text
    };
    let bare = &bare[..bare.find('%').unwrap_or(bare.len())];
    match bare.parse().ok()? {
        IpAddr::V6(six) => Some(six.to_ipv4_mapped().map_or(IpAddr::V6(six), IpAddr::V4)),
        four @ IpAddr::V4(_) => Some(four),
    }
}
