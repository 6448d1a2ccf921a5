//! Owns [`View`]: who holds which slots, as one node says.

use std::collections::BTreeSet;

use tollkeeper_core::HostPort;

use crate::driver::Reply;
use crate::slot::SLOTS;

/// Nodes that are taken from an answer; a cluster is not made for more.
const MOST_NODES: usize = 1000;

/// What a node says of its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    /// First and last slot, and who holds them.
    pub(super) ranges: Vec<(u16, u16, HostPort)>,
    /// Nodes that hold nothing themselves and can be asked.
    pub(super) replicas: BTreeSet<HostPort>,
    /// Whether the node thinks that the cluster is well.
    pub(super) is_ok: bool,
    /// The number of the latest election that it has heard of.
    pub(super) epoch: u64,
}

impl View {
    /// Reads the answers to CLUSTER SLOTS and CLUSTER INFO of the node at `from`. Without the
    /// second it is taken to be well.
    pub(super) fn read(slots: &Reply, info: Option<&str>, from: &HostPort) -> Option<Self> {
        let field = |name: &str| {
            let line = info?.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(str::trim)
        };
        let mut view = Self {
            ranges: Vec::new(),
            replicas: BTreeSet::new(),
            is_ok: field("cluster_state").is_none_or(|state| state == "ok"),
            epoch: field("cluster_current_epoch").and_then(|text| text.parse().ok()).unwrap_or(0),
        };
        let mut masters = BTreeSet::new();
        for range in slots.list()? {
            let [first, last, master, replicas @ ..] = range.list()? else { return None };
            let (first, last) = (slot(first)?, slot(last)?);
            let Some(master) = place_of(master, from) else { continue };
            masters.insert(master.clone());
            if first > last || masters.len() > MOST_NODES {
                return None;
            }
            view.ranges.push((first, last, master));
            let room = MOST_NODES.saturating_sub(view.replicas.len());
            let replicas = replicas.iter().filter_map(|replica| place_of(replica, from));
            view.replicas.extend(replicas.take(room));
        }
        Some(view)
    }

    /// Whether every slot is held by somebody.
    pub(super) fn is_whole(&self) -> bool {
        let held = self.ranges.iter().map(|(first, last, _)| usize::from(last - first) + 1);
        held.sum::<usize>() >= usize::from(SLOTS)
    }
}

fn slot(reply: &Reply) -> Option<u16> {
    u16::try_from(reply.whole()?).ok().filter(|slot| *slot < SLOTS)
}

/// Host, port, id, and further names. Without a host it is the one that was asked; `?` stands for
/// a name that is not known, and the address is then among the further names.
fn place_of(node: &Reply, from: &HostPort) -> Option<HostPort> {
    let [host, port, rest @ ..] = node.list()? else { return None };
    let port = u16::try_from(port.whole()?).ok().filter(|port| *port != 0)?;
    let told = match (host, host.text()) {
        (Reply::Nothing, _) => String::new(),
        (_, Some("?")) => {
            let names = rest.get(1)?.texts()?;
            names.chunks_exact(2).find(|pair| pair[0] == "ip").map(|pair| pair[1].clone())?
        }
        (_, host) => host?.to_owned(),
    };
    let host = if told.is_empty() { from.host.clone() } else { told };
    Some(HostPort { host, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(host: &str, port: u16) -> HostPort {
        HostPort { host: host.to_owned(), port }
    }

    fn text(text: &str) -> Reply {
        Reply::Text(text.as_bytes().to_vec())
    }

    fn node(host: Reply, port: i64, names: &[&str]) -> Reply {
        let names = Reply::List(names.iter().map(|name| text(name)).collect());
        Reply::List(vec![host, Reply::Whole(port), text("id"), names])
    }

    fn range(first: i64, last: i64, nodes: Vec<Reply>) -> Reply {
        Reply::List([Reply::Whole(first), Reply::Whole(last)].into_iter().chain(nodes).collect())
    }

    fn read(ranges: Vec<Reply>, info: Option<&str>) -> Option<View> {
        View::read(&Reply::List(ranges), info, &place("asked", 1))
    }

    #[test]
    fn hosts_are_read_in_all_their_forms() {
        let ranges = vec![
            range(0, 99, vec![node(text("10.0.0.1"), 1, &[]), node(text("10.0.0.2"), 2, &[])]),
            range(100, 199, vec![node(Reply::Nothing, 3, &[])]),
            range(200, 299, vec![node(text(""), 4, &[])]),
            range(300, 399, vec![node(text("?"), 5, &["ip", "10.0.0.5"])]),
            range(400, 449, vec![node(text("a.example"), 6, &["ip", "10.0.0.6"])]),
            range(450, 499, vec![node(text("?"), 9, &["ip", ""])]),
            // Nobody can be reached there.
            range(500, 599, vec![node(text("?"), 7, &[])]),
            range(600, 16383, vec![node(text("::1"), 8, &[])]),
        ];
        let view = read(ranges, None).unwrap();
        let held: Vec<(u16, HostPort)> =
            view.ranges.iter().map(|(first, _, place)| (*first, place.clone())).collect();
        assert_eq!(
            held,
            [
                (0, place("10.0.0.1", 1)),
                (100, place("asked", 3)),
                (200, place("asked", 4)),
                (300, place("10.0.0.5", 5)),
                (400, place("a.example", 6)),
                (450, place("asked", 9)),
                (600, place("::1", 8)),
            ]
        );
        assert_eq!(view.replicas.iter().collect::<Vec<_>>(), [&place("10.0.0.2", 2)]);
        assert!(!view.is_whole() && view.is_ok);
    }

    #[test]
    fn how_well_it_is_and_how_much_it_knows() {
        let all = || vec![range(0, 16383, vec![node(text("h"), 1, &[])])];
        let info = "cluster_state:fail\r\ncluster_current_epoch:7\r\n";
        let view = read(all(), Some(info)).unwrap();
        assert_eq!((view.is_ok, view.epoch, view.is_whole()), (false, 7, true));
        let view = read(all(), Some("cluster_state:ok\r\ncluster_current_epoch:x\r\n")).unwrap();
        assert_eq!((view.is_ok, view.epoch), (true, 0));
    }

    #[test]
    fn what_is_no_answer_is_none() {
        let h = || node(text("h"), 1, &[]);
        for ranges in [
            vec![range(0, 16384, vec![h()])],
            vec![range(9, 1, vec![h()])],
            vec![range(-1, 1, vec![h()])],
            vec![range(0, 1, vec![])],
            vec![Reply::Whole(1)],
        ] {
            assert_eq!(read(ranges.clone(), None), None, "{ranges:?}");
        }
        assert_eq!(View::read(&Reply::Nothing, None, &place("h", 1)), None);
        assert_eq!(read(vec![], None).unwrap().ranges, []);
        let port = |nth: usize| i64::try_from(nth + 1).unwrap();
        let many = |count: usize| {
            let ranges = (0..count).map(|nth| range(0, 0, vec![node(text("h"), port(nth), &[])]));
            read(ranges.collect(), None)
        };
        assert!(many(MOST_NODES).is_some() && many(MOST_NODES + 1).is_none());
    }
}
