//! Owns [`Redirect`]: where a node sends a call that it has not run.

use tollkeeper_core::HostPort;

use crate::driver::Fault;
use crate::slot::SLOTS;

/// Why a node has not run a call, and who would.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// The slot is held by another node.
    Moved { slot: u16, place: HostPort },
    /// The key is with the node that takes over the slot, or would be created there.
    Ask { place: HostPort },
    /// Some of the keys are there and some are here.
    TryAgain,
}

impl Redirect {
    /// What a node at `from` has said; `None` where it is something else.
    pub(super) fn read(fault: &Fault, from: &HostPort) -> Option<Self> {
        let Fault::Refused(refusal) = fault else { return None };
        let mut words = refusal.text().split(' ').skip(1);
        match refusal.code() {
            "TRYAGAIN" => Some(Self::TryAgain),
            "MOVED" => {
                let slot = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
                Some(Self::Moved { slot, place: place_of(words.next()?, from)? })
            }
            "ASK" => Some(Self::Ask { place: place_of(words.nth(1)?, from)? }),
            _ => None,
        }
    }
}

/// `host:port`, where an address of the sixth version has no brackets. A node that does not know
/// its own host means the one that was asked.
fn place_of(text: &str, from: &HostPort) -> Option<HostPort> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let host = match host.trim_start_matches('[').trim_end_matches(']') {
        "" => from.host.as_str(),
        "?" => return None,
        host => host,
    };
    Some(HostPort { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(host: &str, port: u16) -> HostPort {
        HostPort { host: host.to_owned(), port }
    }

    #[test]
    fn whoever_is_named_is_found() {
        let read = |text: &str| Redirect::read(&Fault::refused(text), &place("asked", 1));
        let moved = |slot, place| Some(Redirect::Moved { slot, place });
        let ask = |place| Some(Redirect::Ask { place });
        assert_eq!(read("MOVED 3999 10.0.0.1:6381"), moved(3999, place("10.0.0.1", 6381)));
        assert_eq!(read("MOVED 16383 node.local:7"), moved(16383, place("node.local", 7)));
        assert_eq!(read("MOVED 0 :6381"), moved(0, place("asked", 6381)));
        assert_eq!(read("MOVED 0 ::1:6381"), moved(0, place("::1", 6381)));
        assert_eq!(read("ASK 3999 10.0.0.1:6381"), ask(place("10.0.0.1", 6381)));
        assert_eq!(read("ASK 3999 :6381"), ask(place("asked", 6381)));
        assert_eq!(read("TRYAGAIN Multiple keys request"), Some(Redirect::TryAgain));
        for text in [
            "MOVED",
            "MOVED 1",
            "MOVED 16384 h:1",
            "MOVED -1 h:1",
            "MOVED 1 h",
            "MOVED 1 h:0",
            "MOVED 1 h:70000",
            "MOVED 1 ?:6381",
            "ASK 1",
            "CLUSTERDOWN Hash slot not served",
            "ERR MOVED 1 h:1",
            "",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let unsent = Fault::refused("MOVED 1 h:1").unsent();
        assert_eq!(Redirect::read(&unsent, &place("asked", 1)), None);
    }
}
