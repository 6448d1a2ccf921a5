//! Owns [`Networks`]: a list of addresses and networks, and whether an address is in one of them.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::refused::{FieldError, Refused};

/// What an entry looks like.
pub(crate) const EXPECTED: &str = "an address or a network such as `10.0.0.0/8`";

/// Addresses and networks.
///
/// An IPv4 address that is written as an IPv6 one (`::ffff:10.1.2.3`) counts as what it is.
///
/// ```
/// use tollkeeper_policy::Networks;
///
/// let networks = Networks::parse(["10.0.0.0/8", "2001:db8::/32", "192.0.2.7"])?;
/// assert!(networks.contains("10.1.2.3".parse().unwrap()));
/// assert!(networks.contains("::ffff:10.1.2.3".parse().unwrap()));
/// assert!(!networks.contains("192.0.2.8".parse().unwrap()));
/// # Ok::<(), tollkeeper_policy::FieldError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    list: Vec<IpNet>,
    /// First and last of each, in order, none touching the next.
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl Networks {
    /// No network.
    #[must_use]
    pub const fn none() -> Self {
        Self { list: Vec::new(), v4: Vec::new(), v6: Vec::new() }
    }

    /// The networks of these texts.
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, FieldError> {
        let read = |text: &'t str| read(text).map_err(|refused| refused.of("ips", text));
        Ok(Self::new(texts.into_iter().map(read).collect::<Result<_, _>>()?))
    }

    /// These networks.
    #[must_use]
    pub fn new(list: Vec<IpNet>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for net in &list {
            match net {
                IpNet::V4(net) => v4.push((net.network().to_bits(), net.broadcast().to_bits())),
                IpNet::V6(net) => v6.push((net.network().to_bits(), net.broadcast().to_bits())),
            }
        }
        Self { list, v4: apart(v4), v6: apart(v6) }
    }

    /// The networks, as they were given.
    #[must_use]
    pub fn list(&self) -> &[IpNet] {
        &self.list
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether every IPv4 address is in one of them.
    pub(crate) fn has_every_v4(&self) -> bool {
        let ranges = self.v4.iter().map(|(first, last)| (u128::from(*first), u128::from(*last)));
        is_whole(ranges, u128::from(u32::MAX))
    }

    /// Whether every IPv6 address is in one of them.
    pub(crate) fn has_every_v6(&self) -> bool {
        is_whole(self.v6.iter().copied(), u128::MAX)
    }

    /// Whether one of them has this address.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        match ip.to_canonical() {
            IpAddr::V4(ip) => within(&self.v4, ip.to_bits()),
            IpAddr::V6(ip) => within(&self.v6, ip.to_bits()),
        }
    }
}

/// The same ranges in order, with those that meet made one.
fn apart<T: Copy + Ord>(mut ranges: Vec<(T, T)>) -> Vec<(T, T)> {
    ranges.sort_unstable();
    let mut apart: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match apart.last_mut() {
            Some(before) if first <= before.1 => before.1 = before.1.max(last),
            _ => apart.push((first, last)),
        }
    }
    apart
}

/// Whether ranges in order leave nothing out, from 0 to `most`.
fn is_whole(ranges: impl Iterator<Item = (u128, u128)>, most: u128) -> bool {
    let mut covered: Option<u128> = None;
    for (first, last) in ranges {
        let next = covered.map_or(Some(0), |covered| covered.checked_add(1));
        if next.is_none_or(|next| first > next) {
            return false;
        }
        covered = Some(last);
    }
    covered == Some(most)
}

fn within<T: Copy + Ord>(ranges: &[(T, T)], value: T) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= value);
    after.checked_sub(1).and_then(|at| ranges.get(at)).is_some_and(|(_, last)| value <= *last)
}

/// An address, or a network without bits behind its prefix.
pub(crate) fn read(text: &str) -> Result<IpNet, Refused> {
    let refuse = |reason: &str| Refused::new(reason, EXPECTED);
    if let Ok(ip) = text.parse::<IpAddr>() {
        return match ip.to_canonical() {
            canonical if canonical == ip => Ok(ip.into()),
            v4 => Err(refuse(", which is an IPv4 address").help(format!("write `{v4}`"))),
        };
    }
    let Ok(net) = text.parse::<IpNet>() else {
        let refused = refuse(", which is neither an address nor a network");
        return Err(match text.split_once(':') {
            Some((host, port)) if host.parse::<IpAddr>().is_ok() && port.parse::<u16>().is_ok() => {
                refused.help(format!("write `{host}`, without the port"))
            }
            _ => refused,
        });
    };
    if net.trunc() != net {
        let refused = refuse(", which has bits behind its prefix");
        let (ip, near) = (net.addr(), net.trunc());
        return Err(
            refused.help(format!("write `{near}` for the network, or `{ip}` for the address"))
        );
    }
    if let IpNet::V6(v6) = net
        && v6.prefix_len() >= 96
        && let Some(v4) = v6.network().to_ipv4_mapped()
    {
        let near = format!("{v4}/{}", v6.prefix_len() - 96);
        return Err(refuse(", which is an IPv4 network").help(format!("write `{near}`")));
    }
    Ok(net)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_that_overlap_and_touch() {
        let networks = Networks::parse([
            "10.0.0.0/8",
            "10.1.0.0/16",
            "11.0.0.0/8",
            "0.0.0.0",
            "255.255.255.255",
            "2001:db8::/32",
            "::1",
        ])
        .unwrap();
        assert_eq!(networks.list().len(), 7);
        for (ip, is_in) in [
            ("10.0.0.0", true),
            ("9.255.255.255", false),
            ("11.255.255.255", true),
            ("12.0.0.0", false),
            ("0.0.0.0", true),
            ("0.0.0.1", false),
            ("255.255.255.255", true),
            ("::1", true),
            ("::2", false),
            ("::ffff:10.0.0.1", true),
            ("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", true),
            ("2001:db9::", false),
        ] {
            assert_eq!(networks.contains(ip.parse().unwrap()), is_in, "{ip}");
        }
        assert!(!Networks::default().contains("10.0.0.1".parse().unwrap()));
        let every = Networks::parse(["::/0"]).unwrap();
        assert!(!every.contains("10.0.0.1".parse().unwrap()), "that is every IPv6 address");
    }

    #[test]
    fn networks_that_leave_nobody_out() {
        for (texts, v4, v6) in [
            (vec!["0.0.0.0/0"], true, false),
            (vec!["128.0.0.0/1", "0.0.0.0/1", "10.0.0.0/8"], true, false),
            (vec!["128.0.0.0/1", "0.0.0.0/2"], false, false),
            (vec!["::/0", "0.0.0.0/0"], true, true),
            (vec!["::/1", "8000::/1"], false, true),
            (vec!["1.0.0.0/8", "0.0.0.0/8"], false, false),
            (vec![], false, false),
        ] {
            let networks = Networks::parse(texts.iter().copied()).unwrap();
            assert_eq!((networks.has_every_v4(), networks.has_every_v6()), (v4, v6), "{texts:?}");
        }
    }

    #[test]
    fn what_is_no_network() {
        for (text, help) in [
            ("10.0.0.1/8", "write `10.0.0.0/8` for the network, or `10.0.0.1` for the address"),
            ("::ffff:10.0.0.1", "write `10.0.0.1`"),
            ("::ffff:10.0.0.0/104", "write `10.0.0.0/8`"),
            ("10.0.0.1:80", "write `10.0.0.1`, without the port"),
        ] {
            assert_eq!(read(text).unwrap_err().help.as_deref(), Some(help), "{text}");
        }
        for text in ["", "10.0.0", "10.0.0.0/33", "localhost", "fe80::1%eth0", "10.0.0.0/ 8"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
