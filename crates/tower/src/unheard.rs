//! `TK001`: notices once that requests come through a proxy, where no proxy is trusted.
//!
//! It is advice and no more: a client on the open internet can send such a header itself. So it is
//! told once in the life of a process, with the network that the request came from, and with nothing
//! that stood in the header.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use http::HeaderMap;
use tollkeeper_policy::{AdviceCode, IpNet};

use crate::client_ip::{FORWARDED, X_FORWARDED_FOR};

/// How much of an address is told: about one rack, or one network.
const TOLD_BITS_V4: u8 = 24;
const TOLD_BITS_V6: u8 = 64;

static TOLD: AtomicBool = AtomicBool::new(false);

/// How a request came to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It came itself.
    Itself,
    /// A proxy asks about it, as with forward-auth.
    AskedAbout,
}

/// Tells it if `peer` is a proxy, or if `headers` say so. Once that is done there is only a flag to
/// look at.
pub(crate) fn notice(peer: IpAddr, headers: &HeaderMap, seen: Seen) {
    if TOLD.load(Ordering::Relaxed) {
        return;
    }
    let is_forwarded = || headers.contains_key(X_FORWARDED_FOR) || headers.contains_key(FORWARDED);
    let is_proxy = seen == Seen::AskedAbout || is_forwarded();
    if is_proxy && !TOLD.swap(true, Ordering::Relaxed) {
        tracing::warn!("{}", told(&network(peer), seen));
    }
}

fn told(network: &str, seen: Seen) -> String {
    let code = AdviceCode::UntrustedProxy;
    let what = match seen {
        Seen::Itself => format!(
            "a request from {network} has a header X-Forwarded-For or Forwarded, and no proxy is \
             trusted: whoever comes through there is counted by that one address and shares one \
             counter; if that is your proxy, trust it: client_ip.trusted_proxies"
        ),
        Seen::AskedAbout => format!(
            "a proxy in {network} asks about its requests, and no proxy is trusted: all its \
             clients are counted by its address and share one counter; trust it: \
             client_ip.trusted_proxies, and let it send X-Forwarded-For"
        ),
    };
    format!("{code}: {what} ({})", code.page())
}

/// The network that an address is in.
fn network(ip: IpAddr) -> String {
    let bits = if ip.is_ipv4() { TOLD_BITS_V4 } else { TOLD_BITS_V6 };
    IpNet::new(ip, bits).map(|net| net.trunc().to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_network_is_told() {
        for (ip, told) in [("10.1.2.3", "10.1.2.0/24"), ("2001:db8:1:2:3::4", "2001:db8:1:2::/64")]
        {
            assert_eq!(network(ip.parse().unwrap()), told);
        }
    }
}
